//! `whyslow PROGRAM` and `whyslow record`: run, attach, or watch the whole machine.

use std::ffi::{OsStr, OsString};

use clap::Args;
use whyslow_capture::{Command, Target};

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::note;
use crate::recording::{self, AnswerOptions, RecordOptions, name_of};

/// Record a program, a running process, or everything, to a file
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow record [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow record [OPTIONS] -p PID\n       whyslow record [OPTIONS] -a",
    after_help = "\
Examples:
  whyslow record -o run.whyslow -- ./app input.txt
  whyslow record -p 4711 --duration 10s
  whyslow record -a --duration 5s        everything on the machine (needs privileges)"
)]
pub(crate) struct RecordArgs {
    /// Record this running process until it ends, the time is over, or Ctrl-C
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Record every process until the time is over or Ctrl-C
    #[arg(short, long, conflicts_with = "pid")]
    all: bool,
    #[command(flatten)]
    options: RecordOptions,
    /// The program to record, and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        hide = true,
        conflicts_with_all = ["pid", "all"]
    )]
    program: Vec<OsString>,
}

/// `whyslow record`: one line at the end says where the profile is.
pub(crate) fn run(args: RecordArgs, volume: Volume) -> Result<Exit> {
    let (target, name) = match (args.pid, args.all) {
        (Some(pid), _) => {
            (Target::Process(pid), OsString::from(process_name(pid).unwrap_or_else(|| format!("pid-{pid}"))))
        }
        (None, true) => (Target::System, OsString::from("system")),
        (None, false) if args.program.is_empty() => {
            return Err(
                Failure::new("there is nothing to record").next("whyslow record -- PROGRAM, -p PID, or -a")
            );
        }
        (None, false) => (command(&args.program), name_of(&args.program[0]).to_owned()),
    };
    let recorded = recording::make(&target, &name, &args.options, volume)?;
    if volume > Volume::Quiet {
        let file = recorded.path.display();
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

/// `whyslow PROGRAM`: the answer at the end.
pub(crate) fn run_program(program: Vec<OsString>, options: &AnswerOptions, volume: Volume) -> Result<Exit> {
    record_and_answer(&command(&program), name_of(&program[0]), options, volume)
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
        note(&super::report::summary(&recorded.profile, &recorded.path, options.by.into()));
    }
    recorded.draw(&options.record.keep, volume)?;
    recorded.end()
}

pub(crate) fn command(words: &[OsString]) -> Target {
    let (program, args) =
        words.split_first().map_or((OsString::new(), &[][..]), |(first, rest)| (first.clone(), rest));
    Target::Command(Command { program, args: args.to_vec(), ..Command::default() })
}

fn process_name(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let plain = |c: char| c.is_alphanumeric() || "._-+".contains(c);
    let name = name.trim().replace(|c: char| !plain(c), "-");
    (!name.is_empty()).then_some(name)
}
