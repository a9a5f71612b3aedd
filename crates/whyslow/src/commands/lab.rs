//! `whyslow lab`: records a bundled slow program and shows the answer.

use std::ffi::{OsStr, OsString};

use clap::Args;
use whyslow_capture::{Command, Target};
use whyslow_lab_demo::ANSWER;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::note;
use crate::recording::{AnswerOptions, record_and_answer};

/// The argument that makes whyslow run as the slow program.
const PROGRAM: &str = "--whyslow-lab-program";
/// Long enough for a few thousand samples.
const SECONDS: f64 = 3.0;

/// Record a bundled slow program and see the answer
#[derive(Debug, Args)]
#[command(after_help = "\
The bundled program prepares a shop's monthly report. It is slow for two reasons.
Try to find them before you read the last lines.")]
pub(crate) struct LabArgs {
    #[command(flatten)]
    options: AnswerOptions,
}

/// Runs as the slow program, if whyslow was started that way.
pub(crate) fn program(args: &[OsString]) -> Option<Result<Exit>> {
    (args.get(1).map(OsString::as_os_str) == Some(OsStr::new(PROGRAM))).then(|| {
        whyslow_lab_demo::run(SECONDS);
        Ok(Exit::Success)
    })
}

/// Records the slow program, then prints the solution.
pub(crate) fn run(args: &LabArgs, volume: Volume) -> Result<Exit> {
    // The link in /proc works even if the file was replaced after whyslow started.
    let itself = std::env::current_exe().ok().filter(|path| path.is_file());
    let target = Target::Command(Command {
        program: itself.map_or_else(|| "/proc/self/exe".into(), Into::into),
        args: vec![PROGRAM.into()],
        ..Command::default()
    });
    if volume > Volume::Quiet {
        note(&format!("whyslow: recording a slow program for {SECONDS} seconds…\n"));
    }
    let how = args.options.record.resolved(&target)?;
    let (keep, shown) = (args.options.record.keep.resolved(), args.options.resolved());
    let exit = record_and_answer(&target, OsStr::new("lab"), how, &keep, shown, volume)?;
    if volume > Volume::Quiet {
        note(&solution());
    }
    Ok(exit)
}

fn solution() -> String {
    format!(
        "\nWhat is wrong with it:\n\
         \x20 1. `{}` takes most of the time, {:.0} % or more ({}:{}): {}\n\
         \x20    fix: {}\n\
         \x20 2. `{}` and its callees take most of the rest, up to {:.0} %: {}\n\
         \x20    fix: {}\n",
        ANSWER.function,
        ANSWER.share * 100.0,
        ANSWER.file,
        ANSWER.line,
        ANSWER.cause,
        ANSWER.fix,
        ANSWER.second_function,
        ANSWER.second_share * 100.0,
        ANSWER.second_cause,
        ANSWER.second_fix,
    )
}
