//! `whyslow memcheck`: memory errors and leaks, found by Valgrind's memcheck.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use whyslow_memcheck::{Answer, Kind, Severity};
use whyslow_render::json::{self, MemcheckHead};
use whyslow_render::text::{self, MemcheckPage};
use whyslow_words::number_of;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::memcheck::{Checked, Lists, Sources, checked, read};
use crate::output::{self, Output, note};
use crate::{source_paths, targets, terminal};

/// Find memory errors: invalid accesses, uninitialised values, leaks
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow memcheck [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow memcheck [OPTIONS] --read FILE",
    after_help = "\
Examples:
  whyslow memcheck -- ./app input.txt           what is wrong, with your lines
  whyslow memcheck --thorough -- ./app          also where uninitialised values
                                                are from (slower)
  whyslow memcheck --fail-on errors -- ./tests  exit with 2 in CI
  whyslow memcheck --print-suppressions -o app.supp -- ./app
  whyslow memcheck --suppressions app.supp -- ./app
  whyslow memcheck --format sarif -o app.sarif -- ./app

It runs the program in Valgrind, 20 to 50 times slower than natively, and
follows processes that it starts. The answer goes to stderr; json, sarif,
github and suppressions go to stdout, or with -o to a file.

For leaks alone, `whyslow heap` is much faster and needs no Valgrind.

Exit codes: the program's own; 125 if whyslow or Valgrind fails. With --fail-on,
if the program exits with 0: 2 if it finds something, 3 if not everything was
checked."
)]
pub(crate) struct MemcheckArgs {
    /// Also find where uninitialised values are from (slower)
    #[arg(long)]
    thorough: bool,
    /// Do not check programs that the program starts
    #[arg(long, conflicts_with = "read")]
    no_children: bool,
    /// Valgrind or LeakSanitizer suppressions (repeatable)
    #[arg(long, value_name = "FILE")]
    suppressions: Vec<PathBuf>,
    /// Do not suppress reports that are known to be harmless
    #[arg(long)]
    no_known: bool,
    /// Print a suppression for each finding
    #[arg(long, conflicts_with = "format")]
    print_suppressions: bool,
    /// Exit with 2 on `errors` (memory errors and lost memory), `leaks`, or an ID (repeatable)
    #[arg(long, value_name = "WHAT", value_parser = fail_on)]
    fail_on: Vec<FailOn>,
    /// Also show memory still in use and descriptors open at exit
    #[arg(long)]
    all: bool,
    /// Show at most this many findings; 0 shows all
    #[arg(short = 'n', long, value_name = "ROWS", default_value_t = 20)]
    limit: usize,
    /// Write the answer to FILE, `-` for stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: MemcheckFormat,
    /// Read the XML of an earlier run of memcheck instead (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "thorough"])]
    read: Vec<PathBuf>,
    /// memcheck's options: leaks are always checked
    #[arg(long, value_name = "HOW", hide = true, num_args = 0..=1, require_equals = true)]
    leak_check: Option<Option<String>>,
    /// memcheck's option: --thorough
    #[arg(long, value_name = "HOW", hide = true, num_args = 0..=1, require_equals = true)]
    track_origins: Option<Option<String>>,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    program: Vec<OsString>,
}

/// How to print the answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MemcheckFormat {
    #[default]
    Text,
    Json,
    Sarif,
    Github,
}

/// What fails a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailOn {
    Errors,
    Leaks,
    Kind(Kind),
}

fn fail_on(text: &str) -> std::result::Result<FailOn, String> {
    match text {
        "errors" => Ok(FailOn::Errors),
        "leaks" => Ok(FailOn::Leaks),
        id => Kind::of_id(id).map(FailOn::Kind).ok_or_else(|| {
            let ids: Vec<&str> = Kind::ALL.iter().map(|kind| kind.id()).collect();
            format!("expected errors, leaks, or one of {}", ids.join(", "))
        }),
    }
}

impl FailOn {
    fn is_about(self, kind: Kind) -> bool {
        match self {
            Self::Errors => kind.severity() == Severity::Error,
            Self::Leaks => kind == Kind::LeakDefinite || kind == Kind::LeakPossible,
            Self::Kind(wanted) => kind == wanted,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Leaks => "leaks",
            Self::Kind(kind) => kind.id(),
        }
    }
}

/// Runs the program, or reads an earlier run, and prints the answer.
pub(crate) fn run(args: &MemcheckArgs, volume: Volume) -> Result<Exit> {
    let output = args.output.clone().map(Output::from);
    if let Some(output) = &output {
        output.check()?;
    }
    let lists = Lists::read(&args.suppressions, !args.no_known)?;
    let checked = if args.read.is_empty() {
        if args.program.is_empty() {
            return Err(
                Failure::new("no program to run").next("whyslow memcheck [OPTIONS] -- PROGRAM [ARGS]...")
            );
        }
        let is_on =
            |how: &Option<Option<String>>| how.as_ref().is_some_and(|how| how.as_deref() != Some("no"));
        let thorough = args.thorough || is_on(&args.track_origins);
        checked(targets::program(&args.program), thorough, !args.no_children, &lists, volume)?
    } else {
        read(&args.read, &lists)?
    };
    print(args, output.as_ref(), &checked, volume)?;
    for missing in &checked.missing {
        warn(missing);
    }
    verdict(args, &checked)
}

fn print(args: &MemcheckArgs, output: Option<&Output>, checked: &Checked, volume: Volume) -> Result {
    let answer = &checked.answer;
    let failed = |error: serde_json::Error| Failure::new(error.to_string());
    let document = match args.format {
        _ if args.print_suppressions => Some(text::memcheck_suppressions(answer, args.all)),
        MemcheckFormat::Text => None,
        MemcheckFormat::Json => {
            let command = answer.processes.first().map_or(&[][..], |process| &process.command[..]);
            let head = MemcheckHead {
                command,
                valgrind: &checked.version,
                thorough: checked.thorough,
                elapsed_ns: checked.elapsed.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
                is_complete: checked.is_complete(),
            };
            Some(json::to_string(&json::memcheck(answer, head)).map_err(failed)?)
        }
        MemcheckFormat::Sarif => Some(
            json::to_string(&json::memcheck_sarif(answer, args.all, source_paths::relative))
                .map_err(failed)?,
        ),
        MemcheckFormat::Github => Some(text::memcheck_annotations(answer, args.all, source_paths::relative)),
    };
    let write = |output: &Output, text: &str| output.write(|out| out.write_all(text.as_bytes()));
    match (&document, output) {
        (Some(document), Some(output)) => write(output, document)?,
        (Some(document), None) => return output::print(document),
        (None, Some(output)) => {
            return write(
                output,
                &anstream::adapter::strip_str(&words(args, checked, volume, 100)).to_string(),
            );
        }
        (None, None) => {}
    }
    if volume > Volume::Quiet {
        note(&words(args, checked, volume, terminal::width(std::io::stderr())));
    }
    Ok(())
}

/// The answer as text.
fn words(args: &MemcheckArgs, checked: &Checked, volume: Volume, width: usize) -> String {
    let sources = Sources::default();
    let page = MemcheckPage {
        width,
        limit: if args.limit == 0 { usize::MAX } else { args.limit },
        all: args.all,
        full_stacks: volume == Volume::Verbose,
        thorough: checked.thorough.unwrap_or(true),
        source: &|file, line| sources.line(Path::new(file), line),
    };
    text::memcheck(&checked.answer, &page)
}

/// Applies `--fail-on` to a program that exits with 0.
fn verdict(args: &MemcheckArgs, checked: &Checked) -> Result<Exit> {
    let exit = checked.exit.map_or(Exit::Success, Exit::from);
    if args.fail_on.is_empty() || !matches!(exit, Exit::Success | Exit::Program(0)) {
        return Ok(exit);
    }
    let found = |answer: &Answer, what: FailOn| {
        answer.findings.iter().filter(|finding| what.is_about(finding.kind)).count() as u64
    };
    for what in &args.fail_on {
        let count = found(&checked.answer, *what);
        if count > 0 {
            let findings = number_of(count, "finding", "findings");
            return Err(
                Failure::new(format!("--fail-on {}: {findings}", what.label())).exit_with(Exit::Found)
            );
        }
    }
    if !checked.is_complete() {
        let what = args.fail_on.iter().map(|what| what.label()).collect::<Vec<_>>().join(", ");
        let failure =
            Failure::new(format!("--fail-on {what}: nothing was found, but not everything was checked"))
                .next("the lines above: they name what is missing");
        return Err(failure.exit_with(Exit::NotEverythingSeen));
    }
    Ok(exit)
}
