//! Experiments with the recorded program. A [`Director`] chooses them, a thread of the recorder carries them out:
//! it writes the target into the memory that it shares with the program, waits, and reads what happened.
//!
//! ```text
//! controller   the thread: warm-up, samples, one experiment after the other
//! run          a whole run as one experiment
//! modules      addresses of the running program ↔ addresses in its files
//! load         how long the program's threads ran and queued
//! part         the rows and notes at the end
//! ```

mod controller;
mod load;
mod modules;
mod part;
mod run;
mod shared;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use whyslow_agent_host::PointName;
pub use whyslow_agent_wire::causal::MOST_POINTS;
use whyslow_agent_wire::causal::{kind, reach};
use whyslow_inject::PointPlace;
use whyslow_numbers::{ClockNs, Start};
use whyslow_profile::{Builder, ExitStatus, Note};

pub(crate) use self::controller::Controller;
pub(crate) use self::part::CausalPart;
pub(crate) use self::run::RunSlot;
pub use self::shared::{CausalShared, HeldSignals};

/// Who chooses experiments, shared with the one who asks for the recording.
pub type SharedDirector = Arc<Mutex<dyn Director>>;

/// How to experiment.
#[derive(Debug, Clone)]
pub struct CausalOptions {
    /// CPU time between two samples of a thread.
    pub period: Duration,
    /// Chooses the experiments.
    pub director: SharedDirector,
    /// Progress points that are code of the program, the first ones by their number.
    pub points: Vec<CodePoint>,
    /// Whether to end the program when there are no more experiments.
    pub ends_program: bool,
    /// What the recordings of a program that is started again share.
    pub shared: CausalShared,
}

impl CausalOptions {
    /// The points, as the program gets them.
    pub(crate) fn point_names(&self) -> Vec<PointName> {
        let name = |point: &CodePoint| PointName {
            kind: match point.role {
                PointRole::Visit => kind::CODE,
                PointRole::Begin => kind::BEGIN,
                PointRole::End => kind::END,
            },
            name: point.name.clone(),
            count: 0,
        };
        self.points.iter().map(name).collect()
    }

    /// The code to watch, with the numbers of its points.
    pub(crate) fn point_places(&self) -> Vec<PointPlace> {
        let numbered = |(number, point): (usize, &CodePoint)| {
            let number = number as u32;
            point
                .places
                .iter()
                .map(move |place| PointPlace { point: number, ..place.clone() })
                .collect::<Vec<_>>()
        };
        self.points.iter().enumerate().flat_map(numbered).collect()
    }
}

/// Code whose runs are progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodePoint {
    /// Its name.
    pub name: String,
    /// What a run of the code means.
    pub role: PointRole,
    /// Its code: the numbers of the point in it do not matter.
    pub places: Vec<PointPlace>,
}

/// What a visit of a progress point means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointRole {
    /// One unit of progress.
    Visit,
    /// Something begins that another point with this name ends.
    Begin,
    /// Something ends.
    End,
}

/// A code range of a module, relative to its image base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeRange {
    /// The module: its index in the samples that the director got.
    pub module: usize,
    /// Its first address.
    pub start: u64,
    /// One past its last address.
    pub end: u64,
}

/// Samples of the program's threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleSamples {
    /// The module's file.
    pub path: PathBuf,
    /// Sampled addresses, relative to the image base, and how often each was sampled.
    pub samples: Vec<(u64, u64)>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Let the program run so long, then ask again, with the samples so far.
    Watch(Duration),
    /// An experiment.
    Try(PlannedExperiment),
    /// Nothing more. The program runs on at full speed.
    Stop,
}

/// What belongs to a target besides its own code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nothing.
    #[default]
    Own,
    /// What its code calls.
    Callees,
    /// Nothing, at the cost of [`Self::Callees`], so that experiments with both can be compared.
    OwnAtCost,
}

impl Reach {
    /// Its number on the wire.
    pub(crate) fn on_wire(self) -> u32 {
        match self {
            Self::Own => reach::OWN,
            Self::Callees => reach::CALLEES,
            Self::OwnAtCost => reach::OWN_AT_COST,
        }
    }
}

/// An experiment to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedExperiment {
    /// The target's code: sorted, without overlap.
    pub ranges: Vec<CodeRange>,
    /// What else belongs to it.
    pub reach: Reach,
    /// The share of its time by which it is faster.
    pub speedup: f64,
    /// Its length, with the part that is not measured.
    pub length: Duration,
    /// CPU time between two samples of a thread.
    pub period: Duration,
}

/// A whole run as one experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeRun {
    /// The target's code: sorted, without overlap.
    pub ranges: Vec<CodeRange>,
    /// What else belongs to it.
    pub reach: Reach,
    /// The share of its time by which it is faster.
    pub speedup: f64,
    /// CPU time between two samples of a thread.
    pub period: Duration,
    /// When it takes longer, it is ended.
    pub longest: Duration,
}

/// What happened in an experiment, after its warm-up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// When it started.
    pub start: ClockNs,
    /// Its length.
    pub length_ns: u64,
    /// The common delay that was added.
    pub delay_ns: u64,
    /// Samples in the target.
    pub hits: u64,
    /// All samples.
    pub samples: u64,
    /// How long the program's threads queued for a CPU that other programs used, as a share of the length.
    pub queued: f64,
    /// How many threads were busy.
    pub busy_threads: u32,
    /// How often threads were woken by other threads.
    pub waits: u64,
    /// The progress points that were visited.
    pub visits: Vec<PointVisits>,
}

/// The visits of a progress point during an experiment, in virtual time since its start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PointVisits {
    /// The point.
    pub point: SeenPoint,
    /// How many visits. Of a latency point: how many ended.
    pub count: u64,
    /// The first one.
    pub first_ns: u64,
    /// The last one.
    pub last_ns: u64,
    /// Of a latency point: how many began.
    pub arrivals: u64,
    /// Of a latency point: the sum of the times in flight.
    pub in_flight_ns: u64,
}

/// A progress point of the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SeenPoint {
    /// Its name.
    pub name: String,
    /// Whether it begins and ends.
    pub is_latency: bool,
}

/// How often a progress point was visited since the program started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointCount {
    /// Its name.
    pub name: String,
    /// The number of visits.
    pub count: u64,
}

/// What became of the program, and of the agent in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Whether the agent got into the program.
    pub has_begun: bool,
    /// Threads that could not be sampled, and the errno of one of them.
    pub unsampled: (u32, i32),
    /// Threads in which code that is a point could not be watched, and the errno of one of them.
    pub unwatched: (u32, i32),
    /// Processes that the program forked: none is experimented on.
    pub forks: u32,
    /// Other programs that it started.
    pub others: u64,
    /// How often a thread looked for the target among the callers of its code, and how often it could not see all of them.
    pub looks: (u64, u64),
    /// Whether it has forbidden itself system calls.
    pub confined: bool,
    /// How it ended; `None` if it still runs.
    pub exit: Option<ExitStatus>,
}

/// Chooses experiments. Called by a thread of the recorder.
pub trait Director: Debug + Send {
    /// New samples of the program, by module. Later calls keep the order of the modules.
    fn sampled(&mut self, modules: &[ModuleSamples]);

    /// The progress points so far, after each step.
    fn visited(&mut self, points: &[PointCount]);

    /// A program has been loaded, and none of its own code has run: the experiment, if its whole run is one. Asked again
    /// when it executes another program. There are no other steps in such a run, and `ended` tells what happened.
    fn whole_run(&mut self) -> Option<WholeRun>;

    /// What to do next.
    fn next(&mut self) -> Step;

    /// An experiment has ended: the last one that was chosen. `None` if it cannot be used, because the program ended.
    fn ended(&mut self, outcome: Option<Outcome>);

    /// The recording is over: adds its rows, and returns notes.
    fn finish(&mut self, conditions: &Conditions, start: Start, rows: &mut Builder) -> Vec<Note>;
}
