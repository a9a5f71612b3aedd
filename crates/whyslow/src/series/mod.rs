//! Series of runs: commands that are started in turn, with hooks, input and output. What `bench`, `gate` and
//! `cargo whyslow bench` share.

mod exact;
mod execute;
mod git;
mod progress;
mod runnable;
mod watched;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use whyslow_bench::{Ended, Ignored, Plan, Rounds, Series};
use whyslow_capture::{Input, Written};
use whyslow_stats::interim::{CHECKPOINTS, Question};

pub(crate) use self::exact::{Exact, counted};
pub(crate) use self::execute::{Runner, stderr_tail};
pub(crate) use self::git::{Trees, WORKING_TREE};
pub(crate) use self::progress::Line;
pub(crate) use self::runnable::{Runnable, words};
pub(crate) use self::watched::Watched;
use crate::cli::Volume;
use crate::failure::Result;

/// The value of `--input` and `--output` for /dev/null.
pub(crate) const NULL: &str = "null";

/// The standard input that a user names.
pub(crate) fn input(name: &str) -> Input {
    if name == NULL { Input::Null } else { Input::File(name.into()) }
}

/// How to run commands: hooks, input and output.
#[derive(Debug, Clone, Default)]
pub(crate) struct How {
    /// Shell commands before each run; one for all, or one per command.
    pub(crate) prepare: Vec<String>,
    /// The same after each run.
    pub(crate) conclude: Vec<String>,
    /// A shell command once before all runs of a command.
    pub(crate) setup: Option<String>,
    /// The same after all runs.
    pub(crate) cleanup: Option<String>,
    pub(crate) input: Input,
    pub(crate) output: Written,
    /// A run that takes longer is killed.
    pub(crate) timeout: Option<Duration>,
    /// Whether runs that fail count, too.
    pub(crate) failures_count: bool,
}

/// Runs rounds of base and head: a fixed number, or until decided. `None` if interrupted before the first
/// round was complete.
pub(crate) fn run_series(
    runnables: &[Runnable],
    how: &How,
    margin: f64,
    runs: u32,
    until_decided: bool,
    volume: Volume,
) -> Result<Option<Series>> {
    let rounds = match until_decided && runnables.len() > 1 {
        true => Rounds::UntilDecided { max: CHECKPOINTS[CHECKPOINTS.len() - 1] },
        false => Rounds::Fixed(runs as usize),
    };
    let plan = Plan {
        commands: runnables.len(),
        reference: 0,
        warmup: 1,
        rounds,
        max_time: None,
        ignored: Ignored::None,
        margin,
        question: Question::Exceeds,
        witness: None,
        seed: seed(),
    };
    let mut runner = Runner::new(runnables, how, &plan, volume)?;
    runner.set_up()?;
    let series = Series::run(&plan, &mut runner);
    runner.clean_up()?;
    Ok(Some(series?).filter(|series| !series.rounds.is_empty() && series.ended != Ended::Interrupted))
}

/// A different seed for each call.
pub(crate) fn seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
}
