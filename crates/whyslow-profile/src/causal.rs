//! Experiments of causal profiling: while one runs, everything else is slowed down, as if a target were faster.

use crate::ids::{ExperimentId, PointId, StringId, TargetId};

coded_enum! {
    /// What progress is.
    PointKind {
        /// Something happens again and again: more often per second is better.
        #[default]
        Throughput = 0 / "throughput",
        /// Something begins and ends: a shorter time between is better.
        Latency = 1 / "latency",
        /// The whole run: one visit per run.
        WholeRun = 2 / "whole-run",
    }
}

coded_enum! {
    /// What is sped up.
    TargetKind {
        /// A line of source code, wherever it is inlined.
        #[default]
        Line = 0 / "line",
        /// A function: all of its code, and what is inlined into it.
        Function = 1 / "function",
        /// Code that never runs: its effect must come out at zero.
        Placebo = 2 / "placebo",
        /// A function with all that it calls: the time while it is on the stack.
        WithCallees = 3 / "with-callees",
    }
}

/// Where progress is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CausalPoint {
    /// What progress is.
    pub kind: PointKind,
    /// Its name: a function, a mark, or the name given in the program's source.
    pub name: StringId,
    /// Its source file.
    pub file: Option<StringId>,
    /// Its line; 0 if unknown.
    pub line: u32,
}

/// What experiments speed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CausalTarget {
    /// A line, a function or the placebo.
    pub kind: TargetKind,
    /// The function: that of the line, or the target itself.
    pub function: StringId,
    /// Its source file.
    pub file: Option<StringId>,
    /// Its line; 0 if unknown.
    pub line: u32,
    /// The share of the program's CPU samples that hit it, 0 to 1.
    pub share: f64,
    /// How many samples hit it, in the whole recording.
    pub samples: u64,
}

/// One experiment: the stretch that was measured, without its warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experiment {
    /// Its start, in nanoseconds since the recording began.
    pub start_ns: u64,
    /// Its length, in the same time.
    pub length_ns: u64,
    /// What was sped up; `None` for a baseline.
    pub target: Option<TargetId>,
    /// By how much, as a share: 0.25 means that it takes a quarter less time. 0 is a baseline, too.
    pub speedup: f64,
    /// The delay that everything else got. Virtual length = length - delay.
    pub delay_ns: u64,
    /// The CPU samples that hit the target.
    pub hits: u64,
    /// All CPU samples.
    pub samples: u64,
    /// How long the program's threads queued for a CPU that other programs used, as a share of the length. Exceeds 1 if
    /// several do.
    pub queued: f64,
    /// How many threads were busy.
    pub busy_threads: u32,
    /// How often threads were woken by other threads.
    pub waits: u64,
    /// The number of the run, from 0: a program that ends early is started again.
    pub run: u32,
}

impl Experiment {
    /// True if nothing was sped up.
    pub fn is_baseline(&self) -> bool {
        self.target.is_none() || self.speedup == 0.0
    }

    /// Its length without the delays.
    pub fn virtual_ns(&self) -> u64 {
        self.length_ns.saturating_sub(self.delay_ns)
    }
}

/// The visits of a progress point during an experiment. Times are virtual: without the delays of the thread
/// that visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visits {
    /// The experiment.
    pub experiment: ExperimentId,
    /// The point.
    pub point: PointId,
    /// How often it was visited. Latency: how many ended.
    pub count: u64,
    /// The first visit, in nanoseconds since the experiment's start. Latency: the first end.
    pub first_ns: u64,
    /// The last one. Equal to `first_ns` if only the number is known.
    pub last_ns: u64,
    /// Latency: how many began.
    pub arrivals: u64,
    /// Latency: the sum of the times in flight during the experiment, over all that were in flight.
    pub in_flight_ns: u64,
}

/// The tables of causal profiling.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Causal {
    /// Where progress is counted.
    pub points: Vec<CausalPoint>,
    /// What experiments speed up.
    pub targets: Vec<CausalTarget>,
    /// The experiments, in the order in which they ran.
    pub experiments: Vec<Experiment>,
    /// The visits of each point during each experiment. A point without a row was not visited.
    pub visits: Vec<Visits>,
}

impl Causal {
    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
