//! `whyslow locks`: which locks threads wait for, how long, and who holds them.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use whyslow_capture::Options;
use whyslow_heap::leaks::suppressions::Suppressions;

use super::report;
use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::note;
use crate::recording::{self, KeepOptions};
use crate::targets::TargetArgs;
use crate::values;

/// Which locks threads wait for, how long, and who holds them
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow locks [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow locks [OPTIONS] -p PID|NAME",
    after_help = "\
Examples:
  whyslow locks -- ./server                 until it ends
  whyslow locks -p 4711 --duration 10s      of a process that runs
  whyslow locks --min-wait 1ms -- ./app     without shorter waits

Mutexes, RwLocks and Onces of Rust's std and of parking_lot, and those of pthread. Threads that are parked, idle, or wait for
a condition, a message or the end of another thread wait for no lock: `report FILE waits` has them. Spinning before a wait is CPU time.
Who held a lock is told by the kernel's tracepoints, which only root sees."
)]
pub(crate) struct LocksArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Leave out waits that are shorter, such as 1ms
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration)]
    min_wait: Option<Duration>,
    #[command(flatten)]
    keep: KeepOptions,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true, conflicts_with = "pid")]
    program: Vec<OsString>,
}

/// Records waits and prints the locks among them.
pub(crate) fn run(args: &LocksArgs, volume: Volume) -> Result<Exit> {
    let Some((target, name)) = args.target.target(&args.program, volume)? else {
        return Err(Failure::new("there is nothing to record")
            .next("whyslow locks -- PROGRAM, or -p PID for one that runs"));
    };
    let how = Options { off_cpu: true, wakers: true, ..Options::default() };
    let recorded =
        recording::make_as(&target, &name, how, &args.keep, volume, &Suppressions::default())?;
    if volume > Volume::Quiet {
        note(&report::locks_summary(&recorded.profile, recorded.saved(), args.min_wait.unwrap_or_default()));
    }
    recorded.draw(&args.keep, volume)?;
    recorded.end()
}
