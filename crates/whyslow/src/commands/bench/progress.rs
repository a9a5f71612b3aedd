//! One line that says where it is, on a terminal only.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use whyslow_bench::course::{Course, Plan, Round, Rounds, values};
use whyslow_bench::{Metric, judge};
use whyslow_render::units::duration;
use whyslow_stats::pairs::{ALPHA, Walsh, log_ratios};

use super::contenders::Runnable;
use crate::cli::Volume;
use crate::terminal;

/// A line that is written over by the next; on a terminal only.
pub(in crate::commands) struct Line {
    shown: bool,
    is_there: Cell<bool>,
}

impl Line {
    pub(in crate::commands) fn new(volume: Volume) -> Self {
        Self { shown: volume > Volume::Quiet && std::io::stderr().is_terminal(), is_there: Cell::new(false) }
    }

    pub(in crate::commands) fn show(&self, line: &str) {
        if self.shown {
            let width = terminal::width(std::io::stderr()).saturating_sub(1);
            let line = whyslow_render::sanitize::clean(line).chars().take(width).collect::<String>();
            // Without a reader there is nobody to tell.
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
            self.is_there.set(true);
        }
    }

    /// Takes the line away.
    pub(in crate::commands) fn clear(&self) {
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

/// Where the rounds are.
pub(super) struct Progress<'a> {
    runnables: &'a [Runnable],
    plan: &'a Plan,
    line: Line,
    /// What the rounds say by now.
    so_far: String,
}

impl<'a> Progress<'a> {
    pub(super) fn new(runnables: &'a [Runnable], plan: &'a Plan, volume: Volume) -> Self {
        Self { runnables, plan, line: Line::new(volume), so_far: String::new() }
    }

    /// A command runs.
    pub(super) fn running(&self, command: usize, of: Round, elapsed: Duration) {
        if !self.line.shown {
            return;
        }
        let most = match self.plan.rounds {
            Rounds::Fixed(count) => format!(" of {count}"),
            Rounds::ForTime { least, .. } => format!(" of {least} or more"),
            Rounds::UntilDecided { most } => format!(" of at most {most}"),
        };
        let round = match of {
            Round::Warmup(_) => "warming up".to_owned(),
            Round::Counted(round) => format!("round {}{most}", round + 1),
        };
        let name = &self.runnables[command].contender.name;
        let time = duration(elapsed.as_secs() * 1_000_000_000);
        self.line.show(&format!("{round}, {time}: {name}{}", self.so_far));
    }

    /// The first comparison, with the interval as it narrows.
    pub(super) fn round_is_over(&mut self, course: &Course) {
        if !self.line.shown || course.rounds.len() < judge::LEAST_PAIRS || self.runnables.len() < 2 {
            return;
        }
        let metric = course.witness.map_or(Metric::Wall, |(witness, _)| witness.into());
        let of = |command| values(&course.rounds, command, &metric);
        let other = usize::from(self.plan.reference == 0);
        let differences = of(self.plan.reference).zip(of(other)).and_then(|(first, second)| log_ratios(&first, &second));
        let interval = differences.and_then(|differences| Walsh::new(&differences).interval(ALPHA));
        self.so_far = interval.map_or(String::new(), |interval| {
            let percent = |logarithm: f64| logarithm.exp_m1() * 100.0;
            format!("  {:+.1} % ({:+.1} to {:+.1})", percent(interval.estimate), percent(interval.low), percent(interval.high))
        });
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        self.line.clear();
    }
}
