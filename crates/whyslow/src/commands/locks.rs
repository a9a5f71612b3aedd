//! `whyslow locks`: the locks that threads wait for, how long, and who holds them.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use whyslow_capture::Options;
use whyslow_heap::leaks::suppressions::Suppressions;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::note;
use crate::recording::{self, KeepOptions};
use crate::targets::TargetArgs;
use crate::{answers, values};

/// Find the locks that threads wait for, how long, and who holds them
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow locks [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow locks [OPTIONS] -p PID|NAME",
    after_help = "\
Examples:
  whyslow locks -- ./server              until it exits
  whyslow locks -p 4711 --duration 10s   a running process
  whyslow locks --min-wait 1ms -- ./app  without shorter waits

Covers Mutex, RwLock and Once of Rust's std and of parking_lot, and pthread
locks. Threads that are parked or idle, or that wait for a condition variable, a
message or another thread's exit, do not wait for a lock: see `report FILE
waits`. Spinning before a wait is CPU time. Only root sees who held a lock."
)]
pub(crate) struct LocksArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Leave out shorter waits, such as 1ms
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration, help_heading = None)]
    min_wait: Option<Duration>,
    #[command(flatten)]
    keep: KeepOptions,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    program: Vec<OsString>,
}

/// Records waits and prints the locks among them.
pub(crate) fn run(args: &LocksArgs, volume: Volume) -> Result<Exit> {
    let (program, keep) = args.target.until(&args.program, &args.keep)?;
    let Some((target, name)) = args.target.target(program, volume)? else {
        return Err(Failure::new("nothing to record")
            .next("whyslow locks -- PROGRAM, or -p PID for a running process"));
    };
    let how = Options { off_cpu: true, wakers: true, ..Options::default() };
    let recorded = recording::run(&target, &name, how, &keep, volume, &Suppressions::default())?;
    if volume > Volume::Quiet {
        note(&answers::locks(&recorded.profile, recorded.saved(), args.min_wait.unwrap_or_default()));
    }
    recorded.draw(&keep, volume)?;
    recorded.exit()
}
