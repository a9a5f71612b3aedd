//! `whyslow export`: other tools' formats.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use whyslow_formats::{FoldedOptions, FoldedRoot, write_folded};

use crate::cli::{ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::Result;
use crate::filters::Filters;
use crate::output::{Output, note};
use crate::profile_file;

/// Write a profile in another tool's format
#[derive(Debug, Args)]
#[command(after_help = "\
Formats:
  folded   one line per stack for flame graph tools: main;parse;read 42

Examples:
  whyslow export app.whyslow --to folded | head
  whyslow export app.whyslow --to folded --thread main -o main.folded")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    profile: ProfileArg,
    /// The format
    #[arg(long, value_enum)]
    to: Kind,
    /// Write here instead of to stdout
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// What stands before the outermost frame of each stack
    #[arg(long, value_enum, default_value_t)]
    root: Root,
    #[command(flatten)]
    filters: Filters,
}

/// What stands before the outermost frame.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Root {
    #[default]
    None,
    Process,
    Thread,
}

impl From<Root> for FoldedRoot {
    fn from(root: Root) -> Self {
        match root {
            Root::None => Self::None,
            Root::Process => Self::Process,
            Root::Thread => Self::Thread,
        }
    }
}

/// Formats that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Folded,
}

/// Writes the export.
pub(crate) fn run(args: &ExportArgs, volume: Volume) -> Result<Exit> {
    let file = &args.profile.file;
    let profile = profile_file::open(file)?;
    let selection = args.filters.resolve(file, &profile)?;
    let output = Output::from(args.output.clone());
    match args.to {
        Kind::Folded => {
            let options = FoldedOptions {
                root: args.root.into(),
                inline: !args.filters.no_inline,
                mark_inlined: false,
            };
            output.write(|mut out| write_folded(&profile, &selection, &options, &mut out))?;
        }
    }
    if let Output::File(path) = &output
        && volume > Volume::Quiet
    {
        note(&format!("whyslow: wrote {}\n", path.display()));
    }
    Ok(Exit::Success)
}
