//! The command line of whyslow: arguments in, answers and exit codes out. The only crate that prints or
//! exits.
//!
//! Each command has three steps. clap parses its arguments; the command's file resolves them (defaults,
//! paths, what this machine allows); then the command runs.

mod allowed;
mod answers;
mod causal;
mod cli;
mod commands;
#[cfg(test)]
mod documents;
mod events;
mod exit;
mod exports;
mod failure;
mod filters;
mod importing;
mod input;
mod memcheck;
mod metric;
mod open;
mod other_kind;
mod output;
mod pages;
mod pictures;
mod profile_file;
mod recording;
mod refusals;
#[cfg(test)]
mod remark_ids;
mod series;
mod serve;
mod shell;
mod sides;
mod sizes;
mod source_paths;
mod suppress;
mod targets;
mod terminal;
mod valgrind;
mod values;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use exit::Exit;
use failure::Result;

/// Runs `whyslow` with these arguments; the first is the program's name. As `cargo-whyslow`, which is a launcher or a
/// link, it is `cargo whyslow`.
pub fn whyslow(args: Vec<OsString>) -> ExitCode {
    let is_cargo =
        args.first().and_then(|name| Path::new(name).file_name()) == Some("cargo-whyslow".as_ref());
    let parse = if is_cargo { cli::parse_cargo } else { cli::parse };
    end(commands::lab::program(&args).unwrap_or_else(|| parse(args).and_then(cli::run)))
}

fn end(result: Result<Exit>) -> ExitCode {
    let exit = result.unwrap_or_else(|failure| {
        failure.show();
        failure.exit()
    });
    exit.into()
}
