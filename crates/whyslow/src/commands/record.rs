//! `whyslow PROGRAM` and `whyslow record`: run, attach, or watch the whole machine.

use std::ffi::{OsStr, OsString};

use clap::Args;
use whyslow_capture::{Command, Target};

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::note;
use crate::recording::{self, AnswerOptions, RecordOptions};
use crate::targets::TargetArgs;

/// Record a program, running processes, or everything, to a file
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow record [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow record [OPTIONS] -p PID|NAME\n       whyslow record [OPTIONS] -a [--] [PROGRAM [ARGS]...]",
    after_help = "\
Examples:
  whyslow record -o run.whyslow -- ./app input.txt
  whyslow record -p 4711 --duration 10s
  whyslow record -p nginx --duration 10s    all processes of that name
  whyslow record -a --duration 5s           everything on the machine (needs privileges)
  whyslow record -a -- ./load-test          the same while a program runs"
)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    options: RecordOptions,
    /// The program to record, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true, conflicts_with = "pid")]
    program: Vec<OsString>,
}

/// Recording with an answer at the end.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(crate) options: AnswerOptions,
    /// The program to record, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true, conflicts_with = "pid")]
    pub(crate) program: Vec<OsString>,
}

/// `whyslow record`: one line at the end says where the profile is.
pub(crate) fn run(args: &RecordArgs, volume: Volume) -> Result<Exit> {
    let Some((target, name)) = args.target.target(&args.program, volume)? else {
        return Err(
            Failure::new("there is nothing to record").next("whyslow record -- PROGRAM, -p PID, or -a")
        );
    };
    let recorded = recording::make(&target, &name, &args.options, volume)?;
    if volume > Volume::Quiet
        && let Some(path) = recorded.saved()
    {
        let file = path.display();
        let heap = if recorded.profile.meta.heap.is_some() {
            format!("   whyslow report {file} heap")
        } else {
            String::new()
        };
        note(&format!("whyslow: recorded {file}; next: whyslow report {file}{heap}\n"));
        note(&super::report::verdict(&recorded.profile));
    }
    recorded.draw(&args.options.keep, volume)?;
    recorded.end()
}

/// `whyslow PROGRAM`, `whyslow -p PID`, `whyslow -a`: the answer at the end.
pub(crate) fn run_and_answer(args: &RunArgs, volume: Volume) -> Result<Exit> {
    let Some((target, name)) = args.target.target(&args.program, volume)? else {
        return Err(Failure::new("there is no program to record")
            .next("whyslow [OPTIONS] PROGRAM [ARGS]..., or -p PID for one that runs"));
    };
    record_and_answer(&target, &name, &args.options, volume)
}

/// Records and prints the one-screen answer.
pub(crate) fn record_and_answer(
    target: &Target,
    name: &OsStr,
    options: &AnswerOptions,
    volume: Volume,
) -> Result<Exit> {
    let recorded = recording::make(target, name, &options.record, volume)?;
    if volume > Volume::Quiet {
        note(&super::report::summary(&recorded.profile, recorded.saved(), options.by.into()));
    }
    recorded.draw(&options.record.keep, volume)?;
    recorded.end()
}

pub(crate) fn command(words: &[OsString]) -> Target {
    let (program, args) =
        words.split_first().map_or((OsString::new(), &[][..]), |(first, rest)| (first.clone(), rest));
    Target::Command(Command { program, args: args.to_vec(), ..Command::default() })
}
