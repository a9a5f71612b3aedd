//! `whyslow size`: what takes the space in a program's file.

use std::path::PathBuf;

use clap::Args;
use whyslow_render::json;
use whyslow_render::text::{self, SizeTable};

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::print;
use crate::sizes::Program;
use crate::terminal;

/// Show what takes the space in a program's file
#[derive(Debug, Args)]
#[command(after_help = "\
Every byte of the file is in exactly one row, so each table adds up to the file's
size. A function has its machine code, its unwind tables and its relocations;
all instances of a generic function are one row.

Examples:
  whyslow size target/release/app
  whyslow size target/release/app --by functions -n 50
  whyslow size /usr/bin/gdb --by crates           C++: namespaces, C: folders
  whyslow size app --format json > size.json")]
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
    #[arg(long, value_enum, value_name = "TABLE")]
    by: Option<By>,
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
pub(crate) fn run(args: &SizeArgs, _volume: Volume) -> Result<Exit> {
    run_binary(&args.binary, &args.how)
}

/// Measures a program and prints its sizes.
pub(crate) fn run_binary(binary: &std::path::Path, how: &ShowArgs) -> Result<Exit> {
    const ROWS: usize = 40;
    let program = Program::open(binary)?;
    let view = program.view();
    let limit = how.limit.map(|rows| if rows == 0 { usize::MAX } else { rows });
    let table = |rows: usize| {
        let by = how.by.ok_or_else(|| {
            Failure::new("csv and markdown are formats of one table").next("--by crates, or --by functions")
        })?;
        Ok::<_, Failure>(text::size_table(&view, by.table(), limit.unwrap_or(rows)))
    };
    let width = terminal::width(std::io::stdout());
    print(&match how.format {
        SizeFormat::Text => match how.by {
            Some(by) => text::size_rows(&view, by.table(), limit.unwrap_or(ROWS), width),
            None => text::size(&view, limit, width),
        },
        SizeFormat::Json => json::to_string(&json::size(&view))
            .map_err(|error| Failure::new(format!("{}: {error}", program.name)))?,
        SizeFormat::Csv => table(usize::MAX)?.csv(),
        SizeFormat::Markdown => table(ROWS)?.markdown(),
    })?;
    Ok(Exit::Success)
}
