//! The command line of whyslow: arguments in, answers and exit codes out. The only crate that prints or
//! exits.
//!
//! Each command has three steps. clap parses its arguments; the command's file resolves them (defaults,
//! paths, what this machine allows); then the command runs.

mod allowed;
mod answers;
mod cli;
mod commands;
#[cfg(test)]
mod documents;
mod events;
mod exit;
mod failure;
mod filters;
mod importing;
mod metric;
mod open;
mod other_kind;
mod output;
mod profile_file;
mod recording;
mod refusals;
#[cfg(test)]
mod remark_ids;
mod serve;
mod shell;
mod sides;
mod suppress;
mod targets;
mod terminal;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use exit::Exit;
use failure::Result;

/// Runs `whyslow` with these arguments; the first is the program's name.
pub fn whyslow(args: Vec<OsString>) -> ExitCode {
    end(commands::lab::program(&args).unwrap_or_else(|| cli::parse(args).and_then(cli::run)))
}

/// Runs `cargo whyslow` with these arguments; the first is the program's name.
pub fn cargo_whyslow(args: Vec<OsString>) -> ExitCode {
    end(commands::lab::program(&args).unwrap_or_else(|| cli::parse_cargo(args).and_then(cli::run)))
}

fn end(result: Result<Exit>) -> ExitCode {
    let exit = result.unwrap_or_else(|failure| {
        failure.show();
        failure.exit()
    });
    exit.into()
}
