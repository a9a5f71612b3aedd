//! `whyslow size`: what takes the space in a program's file, what changed, and whether it is within its budgets.

use std::path::{Path, PathBuf};

use clap::Args;
use whyslow_analyze::size::SizeChange;
use whyslow_profile::file;
use whyslow_render::json;
use whyslow_render::text::{self, SizeChangeView, SizeTable};
use whyslow_render::treemap;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{Output, note, print};
use crate::sizes::{Budget, Program};
use crate::{open, shell, terminal};

/// Show what takes the space in a program's file
#[derive(Debug, Args)]
#[command(after_help = "\
Every byte of the file is in exactly one row, so each table adds up to the file's
size. A function has its machine code, its unwind tables and its relocations;
all instances of a generic function are one row.

Examples:
  whyslow size target/release/app
  whyslow size target/release/app --by functions -n 50
  whyslow size --diff old/app target/release/app      what changed
  whyslow size app --map app.svg --open               a tree map
  whyslow size app -o app.whyslow                     for `view`, `flame`, `report tree`
  whyslow size app --budget 5M --budget serde_json=300k

Exit codes: 0; 2 if a budget is exceeded; 125 if whyslow fails.")]
pub(crate) struct SizeArgs {
    /// The program, library or object file
    #[arg(value_name = "BINARY")]
    binary: PathBuf,
    #[command(flatten)]
    how: ShowArgs,
}

/// How to show sizes.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Show one table instead of the overview
    #[arg(long, value_enum, value_name = "TABLE", conflicts_with = "diff")]
    by: Option<By>,
    /// Show what changed since this file; functions are matched by name
    #[arg(long, value_name = "BEFORE")]
    diff: Option<PathBuf>,
    /// Exit with 2 if the file, or a crate in it, is larger, such as 5M or serde_json=300k
    #[arg(long, value_name = "[CRATE=]SIZE")]
    budget: Vec<Budget>,
    /// Draw a tree map
    #[arg(long, value_name = "SVG")]
    map: Option<PathBuf>,
    /// Open the tree map in a browser
    #[arg(long, requires = "map")]
    open: bool,
    /// Write a profile of the file, for other commands
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows per table; 0 shows all [default: 10; with --by: 40; CSV, JSON: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Output format; csv and markdown need --by
    #[arg(long, value_enum, default_value_t)]
    format: SizeFormat,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Code, data, unwind tables, debug information
    Parts,
    /// Sections of the file
    Sections,
    /// Crates, Go packages, C++ namespaces, folders of C
    #[value(alias = "crate")]
    Crates,
    /// Functions, generic ones over all instances
    #[value(alias = "function")]
    Functions,
    /// Variables and constants with a name
    #[value(alias = "tables")]
    Variables,
    /// Source files, also where their code is inlined
    #[value(alias = "file")]
    Files,
    /// Functions with the same machine code
    Duplicates,
    /// Long texts in read-only data
    #[value(alias = "strings")]
    Texts,
}

impl By {
    fn table(self) -> SizeTable {
        match self {
            Self::Parts => SizeTable::Parts,
            Self::Sections => SizeTable::Sections,
            Self::Crates => SizeTable::Crates,
            Self::Functions => SizeTable::Functions,
            Self::Variables => SizeTable::Variables,
            Self::Files => SizeTable::Files,
            Self::Duplicates => SizeTable::Duplicates,
            Self::Texts => SizeTable::Texts,
        }
    }
}

/// How to print sizes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SizeFormat {
    #[default]
    Text,
    Json,
    Csv,
    Markdown,
}

/// Measures and prints.
pub(crate) fn run(args: &SizeArgs, volume: Volume) -> Result<Exit> {
    run_binary(&args.binary, &args.how, volume)
}

/// The same for a program that whyslow built.
pub(crate) fn run_built(binary: &Path, how: &ShowArgs, volume: Volume) -> Result<Exit> {
    let mut program = Program::open(binary)?;
    program.built_by_whyslow();
    run_program(&program, how, volume)
}

/// Measures a program and prints its sizes.
fn run_binary(binary: &Path, how: &ShowArgs, volume: Volume) -> Result<Exit> {
    run_program(&Program::open(binary)?, how, volume)
}

/// Prints the sizes of a program, and whether they are within their budgets.
fn run_program(program: &Program, how: &ShowArgs, volume: Volume) -> Result<Exit> {
    how.write_files(program, volume)?;
    print(&match &how.diff {
        Some(before) => how.changes(&Program::open(before)?, program)?,
        None => how.tables(program)?,
    })?;
    let mut exit = Exit::Success;
    for budget in &how.budget {
        let verdict = budget.judge(program);
        if verdict.is_exceeded {
            exit = Exit::Worse;
        }
        if verdict.is_exceeded || volume > Volume::Quiet {
            note(&format!("whyslow: {}\n", verdict.words));
        }
    }
    Ok(exit)
}

impl ShowArgs {
    fn write_files(&self, program: &Program, volume: Volume) -> Result {
        if let Some(path) = &self.map {
            let picture = Output::from(path.clone());
            let svg = treemap::of_sizes(&program.name, &program.sizes);
            picture.write(|out| out.write_all(svg.as_bytes()))?;
            if let Output::File(path) = &picture {
                if volume > Volume::Quiet {
                    note(&format!("whyslow: tree map: {}\n", path.display()));
                }
                if self.open {
                    open::in_browser(path);
                }
            }
        }
        if let Some(path) = &self.output {
            file::write(path, &program.measured.profile).map_err(|error| {
                Failure::new(format!("{}: cannot be written: {error}", path.display()))
                    .next("-o with a file in a writable folder")
            })?;
            if volume > Volume::Quiet {
                let shown = shell::file(path);
                note(&format!("whyslow: profile: {shown}; whyslow view {shown} shows it in a browser\n"));
            }
        }
        Ok(())
    }

    fn limit(&self) -> Option<usize> {
        self.limit.map(|rows| if rows == 0 { usize::MAX } else { rows })
    }

    fn changes(&self, before: &Program, after: &Program) -> Result<String> {
        let change = SizeChange::of(&before.sizes, &after.sizes);
        let files = [before.name.as_str(), after.name.as_str()];
        let view = SizeChangeView { files, change: &change, sizes: &after.sizes };
        match self.format {
            SizeFormat::Text => {
                Ok(text::size_change(&view, self.limit(), terminal::width(std::io::stdout())))
            }
            SizeFormat::Json => json::to_string(&json::size_change(&view))
                .map_err(|error| Failure::new(format!("{}: {error}", after.name))),
            SizeFormat::Csv | SizeFormat::Markdown => {
                Err(Failure::new("--diff has several tables, and csv and markdown are formats of one")
                    .next("--format json"))
            }
        }
    }

    fn tables(&self, program: &Program) -> Result<String> {
        const ROWS: usize = 40;
        let view = program.view();
        let table = |rows: usize| {
            let by = self.by.ok_or_else(|| {
                Failure::new("csv and markdown are formats of one table")
                    .next("--by crates, or --by functions")
            })?;
            Ok::<_, Failure>(text::size_table(&view, by.table(), self.limit().unwrap_or(rows)))
        };
        let width = terminal::width(std::io::stdout());
        Ok(match self.format {
            SizeFormat::Text => match self.by {
                Some(by) => text::size_rows(&view, by.table(), self.limit().unwrap_or(ROWS), width),
                None => text::size(&view, self.limit(), width),
            },
            SizeFormat::Json => json::to_string(&json::size(&view))
                .map_err(|error| Failure::new(format!("{}: {error}", program.name)))?,
            SizeFormat::Csv => table(usize::MAX)?.csv(),
            SizeFormat::Markdown => table(ROWS)?.markdown(),
        })
    }
}
