//! `whyslow asm`: the machine code of a function with its samples, loops, source and hints.

mod choose;
mod diff;
mod listing;
mod lookup;
mod mca;
mod source;

use std::path::{Path, PathBuf};

use clap::Args;
use whyslow_analyze::{FunctionTable, SortBy};
use whyslow_asm::{Listing, Syntax};
use whyslow_profile::{MetricId, Profile};
use whyslow_render::json;
use whyslow_render::text::{AsmView, asm as asm_text};

use self::choose::{Asked, Chosen, choose};
use self::listing::Sampled;
use self::source::Binary;
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::output::print;
use crate::{profile_file, terminal};

/// Show a function's machine code with samples, loops, source and hints
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow asm [OPTIONS] FILE [FUNCTION] [INDEX]\n       whyslow asm --diff BEFORE FILE FUNCTION",
    after_help = "\
Examples:
  whyslow asm app.whyslow                      list functions, hottest first
  whyslow asm app.whyslow parse                the function that matches `parse`
  whyslow asm app.whyslow 1                    the first of the list
  whyslow asm ./target/release/app parse       from a program, without samples
  whyslow asm app.whyslow --list Reader        find functions by name
  whyslow asm app.whyslow --callers-of memcpy  functions whose code calls memcpy
  whyslow asm --diff before.whyslow after.whyslow parse

FILE is a profile, which has the code of its hot functions, or a program or
library with symbols. The left margin shows the share of samples, loops as
brackets, branches (up, down, out) and their targets (a dot).

Each innermost loop says whether the compiler vectorised it (SIMD). Hints name
bounds checks, divisions, calls through pointers and other avoidable costs."
)]
pub(crate) struct AsmArgs {
    /// A profile, a program or a library
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Part of the function's name, its number in the list, or an address such as 0x1a40
    #[arg(value_name = "FUNCTION")]
    wanted: Option<String>,
    /// Which one, if several match; 1 is the first
    #[arg(value_name = "INDEX")]
    index: Option<usize>,
    /// List functions with this text in their name
    #[arg(long, value_name = "PART", conflicts_with_all = ["wanted", "diff", "callers_of"])]
    list: Option<String>,
    /// List functions whose code calls this function
    #[arg(long, value_name = "NAME", conflicts_with_all = ["wanted", "diff"])]
    callers_of: Option<String>,
    /// Compare with the same function in this profile or program
    #[arg(long, value_name = "BEFORE")]
    diff: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    filters: Filters,
}

/// How to show code.
#[derive(Debug, Clone, Args)]
pub(crate) struct ViewArgs {
    /// Assembly syntax
    #[arg(long, value_enum, default_value_t)]
    syntax: SyntaxArg,
    /// Show all instructions, also those without samples
    #[arg(long)]
    all: bool,
    /// Leave out source lines
    #[arg(long)]
    no_source: bool,
    /// Run llvm-mca on the hottest loop, if it is installed
    #[arg(long)]
    mca: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Assembly syntax.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SyntaxArg {
    #[default]
    Intel,
    Att,
}

impl From<SyntaxArg> for Syntax {
    fn from(syntax: SyntaxArg) -> Self {
        match syntax {
            SyntaxArg::Intel => Self::Intel,
            SyntaxArg::Att => Self::Att,
        }
    }
}

/// A profile with the value of each stack, or a file with code.
enum Subject {
    Profile { profile: Box<Profile>, functions: FunctionTable, values: Vec<u64>, metric: MetricId },
    Binary(Binary),
}

impl Subject {
    fn open(path: &Path, filters: &Filters) -> Result<Self> {
        if is_elf(path) {
            return Ok(Self::Binary(Binary::open(path)?));
        }
        let mut profile = profile_file::open(path)?;
        let selection = filters.select(path, &mut profile)?;
        let weights = selection.weigh(&profile);
        let functions = FunctionTable::from_weights(&profile, &weights, true, SortBy::Total);
        let (values, metric) = (weights.value, selection.metric);
        Ok(Self::Profile { profile: Box::new(profile), functions, values, metric })
    }

    fn sampled(&self) -> Option<Sampled<'_>> {
        match self {
            Self::Profile { profile, values, metric, .. } => {
                Some(Sampled { profile, values, metric: *metric })
            }
            Self::Binary(_) => None,
        }
    }
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read as _;
    let mut start = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

/// Shows a function, or a list of functions.
pub(crate) fn run(args: &AsmArgs, _volume: Volume) -> Result<Exit> {
    let subject = Subject::open(&args.file, &args.filters)?;
    let (view, path) = (&args.view, &args.file);
    let text = if let Some(part) = &args.list {
        lookup::list(&subject, part, view.format)?
    } else if let Some(name) = &args.callers_of {
        lookup::callers_of(&subject, name, view.format)?
    } else if let Some(before) = &args.diff {
        let wanted = args.wanted.as_deref();
        let before_subject = Subject::open(before, &args.filters)?;
        let old = one(show(&Asked::file(before), &before_subject, wanted, args.index)?)?;
        let new = one(show(&Asked::file(path), &subject, wanted, args.index)?)?;
        diff::diff(&old.listing, &new.listing, view)?
    } else {
        match show(&Asked::file(path), &subject, args.wanted.as_deref(), args.index)? {
            Some(shown) => answer(view, &shown)?,
            None => lookup::hottest(&subject, view.format)?,
        }
    };
    print(&text)?;
    Ok(Exit::Success)
}

/// Shows a function of a target that was just built.
pub(super) fn run_built(
    name: &str,
    path: &Path,
    wanted: &str,
    index: Option<usize>,
    view: &ViewArgs,
) -> Result<Exit> {
    let subject = Subject::Binary(Binary::open(path)?);
    let shown = one(show(&Asked::built(name), &subject, Some(wanted), index)?)?;
    print(&answer(view, &shown)?)?;
    Ok(Exit::Success)
}

/// Whether a program that was just built has code of a function, its own or inlined.
pub(super) fn has_function(path: &Path, wanted: &str) -> bool {
    let has = |binary: Binary| !binary.functions(wanted).is_empty() || !binary.inlined(wanted).is_empty();
    Binary::open(path).is_ok_and(has)
}

/// Lists the functions of a program that was just built.
pub(super) fn list_built(path: &Path, view: &ViewArgs) -> Result<Exit> {
    let subject = Subject::Binary(Binary::open(path)?);
    print(&lookup::list(&subject, "", view.format)?)?;
    Ok(Exit::Success)
}

/// What a listing shows.
struct Shown {
    listing: Listing,
    /// The wanted function, if it is inlined into the listed one.
    inlined: Option<String>,
}

fn one(shown: Option<Shown>) -> Result<Shown> {
    shown.ok_or_else(|| Failure::new("no function given").next("whyslow asm --diff BEFORE AFTER FUNCTION"))
}

/// The listing of the chosen function; `None` if none was chosen.
fn show(
    asked: &Asked,
    subject: &Subject,
    wanted: Option<&str>,
    index: Option<usize>,
) -> Result<Option<Shown>> {
    let sampled = subject.sampled();
    let mut inlined = None;
    let listing = match (choose(asked, subject, wanted, index)?, subject, &sampled) {
        (Chosen::Nothing, ..) => return Ok(None),
        (Chosen::Kept { name, row }, _, Some(sampled)) => listing::of_kept(sampled, &name, row)?,
        (Chosen::Inlined { name, host, row, note }, _, Some(sampled)) => {
            let mut listing = listing::of_kept(sampled, &host, row)?;
            listing.notes.insert(0, note);
            inlined = Some(name);
            listing
        }
        (Chosen::InFile { binary, module, function }, _, sampled) => {
            listing::of_binary(&binary, &function, sampled.as_ref().map(|sampled| (sampled, module)))?
        }
        (Chosen::InSubject(function), Subject::Binary(binary), _) => {
            listing::of_binary(binary, &function, None)?
        }
        (Chosen::Kept { .. } | Chosen::Inlined { .. } | Chosen::InSubject(_), ..) => {
            return Err(Failure::new("the function has no code"));
        }
    };
    Ok(Some(Shown { listing, inlined }))
}

fn answer(view: &ViewArgs, Shown { listing, inlined }: &Shown) -> Result<String> {
    let mut text = match view.format {
        Format::Json => json::to_string(&json::asm(listing, view.syntax.into()))
            .map_err(|error| Failure::new(error.to_string()))?,
        Format::Text => {
            let width = terminal::width(std::io::stdout());
            let (syntax, whole, source) = (view.syntax.into(), view.all, !view.no_source);
            asm_text(listing, AsmView { width, syntax, whole, source, inlined: inlined.as_deref() })
        }
    };
    if view.mca && view.format == Format::Text {
        text.push_str(&mca::report(listing)?);
    }
    Ok(text)
}
