//! Experiments with the recorded program. A [`Director`] chooses them, a thread of the recorder carries them out:
//! it writes the target into the memory that it shares with the program, waits, and reads what happened.
//!
//! ```text
//! controller   the thread: warm-up, samples, one experiment after the other
//! modules      addresses of the running program ↔ addresses in its files
//! load         how long the program's threads ran and queued
//! part         the rows and notes at the end
//! ```

mod controller;
mod load;
mod modules;
mod part;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use whyslow_inject::PointEntry;
use whyslow_numbers::{ClockNs, FileAddress, Start};
use whyslow_profile::{Builder, Note};

pub(crate) use self::controller::Controller;
pub(crate) use self::part::CausalPart;

/// Who chooses experiments, shared with the one who asks for the recording.
pub type SharedDirector = Arc<Mutex<dyn Director>>;

/// How to experiment.
#[derive(Debug, Clone)]
pub struct CausalOptions {
    /// CPU time between two samples of a thread.
    pub period: Duration,
    /// Chooses the experiments.
    pub director: SharedDirector,
    /// Functions whose entry is a progress point. Several may have one name: then they are one point.
    pub entries: Vec<EntryPoint>,
    /// Whether to end the program when there are no more experiments.
    pub ends_program: bool,
}

impl CausalOptions {
    /// The names of the entry points, each once.
    pub(crate) fn point_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for entry in &self.entries {
            if !names.contains(&entry.name) {
                names.push(entry.name.clone());
            }
        }
        names
    }

    /// The functions to patch, with the numbers of their points.
    pub(crate) fn point_entries(&self) -> Vec<PointEntry> {
        let names = self.point_names();
        let number = |name: &String| names.iter().position(|known| known == name).unwrap_or_default() as u32;
        let entry = |entry: &EntryPoint| PointEntry {
            program: entry.program.clone(),
            address: entry.address,
            point: number(&entry.name),
        };
        self.entries.iter().map(entry).collect()
    }
}

/// A function of the program whose entry is a progress point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name.
    pub name: String,
    /// The program's file.
    pub program: PathBuf,
    /// Its address in that file.
    pub address: FileAddress,
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

/// What became of the agent in the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Whether the agent got into the program.
    pub has_begun: bool,
    /// Threads that could not be sampled, and the errno of one of them.
    pub unsampled: (u32, i32),
    /// Processes that the program forked: none is experimented on.
    pub forks: u32,
    /// Other programs that it started.
    pub others: u64,
    /// How often a thread looked for the target among the callers of its code, and how often it could not see all of them.
    pub looks: (u64, u64),
    /// Whether it has forbidden itself system calls.
    pub confined: bool,
}

/// Chooses experiments. Called by a thread of the recorder.
pub trait Director: Debug + Send {
    /// New samples of the program, by module. Later calls keep the order of the modules.
    fn sampled(&mut self, modules: &[ModuleSamples]);

    /// What to do next.
    fn next(&mut self) -> Step;

    /// An experiment has ended: the last one that was chosen. `None` if it cannot be used, because the program ended.
    fn ended(&mut self, outcome: Option<Outcome>);

    /// The recording is over: adds its rows, and returns notes.
    fn finish(&mut self, conditions: &Conditions, start: Start, rows: &mut Builder) -> Vec<Note>;
}
