//! `whyslow PROGRAM` and `whyslow record`: run a program, attach to processes, or record the whole machine.

use std::ffi::OsString;

use clap::Args;
use whyslow_analyze::wait_metric;
use whyslow_heap::leaks::suppressions::Suppressions;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::note;
use crate::recording::{self, AnswerOptions, RecordOptions, record_and_answer, warn_about_missing_events};
use crate::targets::TargetArgs;
use crate::{answers, shell};

/// Record a program, running processes or the whole machine
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow record [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow record [OPTIONS] -p PID|NAME\n       whyslow record [OPTIONS] -a [--] [PROGRAM [ARGS]...]",
    after_help = "\
Examples:
  whyslow record -o run.whyslow -- ./app input.txt
  whyslow record --faults -e uprobe:parse -- ./app
  whyslow record -p 4711 --duration 10s
  whyslow record -p nginx --duration 10s    all processes called nginx
  whyslow record -a --duration 5s           the whole machine (privileged)
  whyslow record -a -- ./load-test          the same, while a program runs

`record` prints no answer: use `whyslow report FILE` or `whyslow explain FILE`."
)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    options: RecordOptions,
    /// The program to record, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    program: Vec<OsString>,
}

/// `whyslow PROGRAM`: record, then print the answer.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(crate) options: AnswerOptions,
    /// The program to record, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    pub(crate) program: Vec<OsString>,
}

/// `whyslow record`: prints one line with the file of the profile.
pub(crate) fn run(args: &RecordArgs, volume: Volume) -> Result<Exit> {
    let (program, keep) = args.target.until(&args.program, &args.options.keep)?;
    let Some((target, name)) = args.target.target(program, volume)? else {
        return Err(Failure::new("nothing to record").next("whyslow record -- PROGRAM, -p PID, or -a"));
    };
    let how = args.options.resolved(&target)?;
    let recorded = recording::run(&target, &name, how, &keep, volume, &Suppressions::default())?;
    if volume > Volume::Quiet
        && let Some(path) = recorded.saved()
    {
        let file = shell::file(path);
        let totals = recorded.profile.heap.totals();
        let views = [
            ("heap", recorded.profile.meta.heap.is_some()),
            ("leaks", totals.definitely_lost_blocks + totals.possibly_lost_blocks > 0),
            ("waits", wait_metric(&recorded.profile).is_some()),
        ];
        let views = views.iter().filter(|(_, is_recorded)| *is_recorded);
        let views: String = views.map(|(view, _)| format!("   whyslow report {file} {view}")).collect();
        note(&format!(
            "whyslow: recorded {file}; next: whyslow report {file}{views}   whyslow view {file}\n"
        ));
        note(&answers::costliest_syscall(&recorded.profile, path));
        note(&answers::verdict(&recorded.profile));
    }
    warn_about_missing_events(&recorded.profile, volume);
    recorded.draw(&keep, volume)?;
    recorded.exit()
}

/// `whyslow PROGRAM`, `whyslow -p PID`, `whyslow -a`: prints the answer.
pub(crate) fn run_and_answer(args: &RunArgs, volume: Volume) -> Result<Exit> {
    let (program, keep) = args.target.until(&args.program, &args.options.record.keep)?;
    let Some((target, name)) = args.target.target(program, volume)? else {
        return Err(Failure::new("no program to record")
            .next("whyslow [OPTIONS] PROGRAM [ARGS]..., or -p PID for a running process"));
    };
    let how = args.options.record.resolved(&target)?;
    record_and_answer(&target, &name, how, &keep, args.options.resolved(), volume)
}
