//! The progress line, on a terminal only.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use whyslow_bench::rounds::{Plan, Round, Rounds, Series, paired_values};
use whyslow_bench::{Metric, judge};
use whyslow_render::units::duration;
use whyslow_stats::pairs::{ALPHA, Walsh, log_ratios};

use super::Runnable;
use crate::cli::Volume;
use crate::terminal;

/// A line that the next one overwrites; on a terminal only.
pub(crate) struct Line {
    shown: bool,
    is_there: Cell<bool>,
}

impl Line {
    pub(crate) fn new(volume: Volume) -> Self {
        Self { shown: volume > Volume::Quiet && std::io::stderr().is_terminal(), is_there: Cell::new(false) }
    }

    pub(crate) fn show(&self, line: &str) {
        self.write(line, "");
    }

    /// The same while a program may write to the terminal, too: what it writes starts at the left.
    pub(crate) fn show_beside_output(&self, line: &str) {
        self.write(line, "\r");
    }

    fn write(&self, line: &str, end: &str) {
        if self.shown {
            let width = terminal::width(std::io::stderr()).saturating_sub(1);
            let line = whyslow_render::sanitize::clean(line).chars().take(width).collect::<String>();
            // If stderr is closed, there is no place left to print to.
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}{end}");
            self.is_there.set(true);
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if self.is_there.take() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The progress of the rounds.
pub(super) struct Progress<'a> {
    runnables: &'a [Runnable],
    plan: &'a Plan,
    line: Line,
    /// The result so far.
    so_far: String,
}

impl<'a> Progress<'a> {
    pub(super) fn new(runnables: &'a [Runnable], plan: &'a Plan, volume: Volume) -> Self {
        Self { runnables, plan, line: Line::new(volume), so_far: String::new() }
    }

    /// Shows the command that runs.
    pub(super) fn running(&self, command: usize, of: Round, elapsed: Duration) {
        if !self.line.shown {
            return;
        }
        let most = match self.plan.rounds {
            Rounds::Fixed(count) => format!(" of {count}"),
            Rounds::ForTime { min, .. } => format!(" of {min} or more"),
            Rounds::UntilDecided { max } => format!(" of at most {max}"),
        };
        let round = match of {
            Round::Warmup(_) => "warming up".to_owned(),
            Round::Counted(round) => format!("round {}{most}", round + 1),
        };
        let name = &self.runnables[command].contender.name;
        let time = duration(elapsed.as_secs() * 1_000_000_000);
        self.line.show(&format!("{round}, {time}: {name}{}", self.so_far));
    }

    /// Updates the first comparison and its interval.
    pub(super) fn round_is_over(&mut self, series: &Series) {
        if !self.line.shown || series.rounds.len() < judge::MIN_PAIRS || self.runnables.len() < 2 {
            return;
        }
        let metric = series.witness.map_or(Metric::Wall, |(witness, _)| witness.into());
        let other = usize::from(self.plan.reference == 0);
        let differences = paired_values(&series.rounds, [self.plan.reference, other], &metric)
            .and_then(|(first, second)| log_ratios(&first, &second));
        let interval = differences.and_then(|differences| Walsh::new(&differences).interval(ALPHA));
        self.so_far = interval.map_or(String::new(), |interval| {
            let percent = |logarithm: f64| logarithm.exp_m1() * 100.0;
            format!(
                "  {:+.1} % ({:+.1} to {:+.1})",
                percent(interval.estimate),
                percent(interval.low),
                percent(interval.high)
            )
        });
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        self.line.clear();
    }
}
