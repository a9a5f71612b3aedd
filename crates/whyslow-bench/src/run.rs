//! One run of a command, and its metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use whyslow_profile::ExitStatus;
use whyslow_stats::witness::{Times, Witness};

/// One run of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its position in its round, from 0.
    pub place: u32,
    /// From start to end.
    pub wall_ns: u64,
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// How long its first thread ran; `None` where the kernel does not report it.
    #[serde(default)]
    pub first_thread_ns: Option<u64>,
    /// Run-queue delay of its first thread; `None` where the kernel does not report it.
    pub queued_ns: Option<u64>,
    /// Peak physical memory of its largest process; `None` if that is less than whyslow itself has.
    pub max_resident_bytes: Option<u64>,
    /// Page faults without reading from disk.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// How often a thread blocked.
    pub voluntary_switches: u64,
    /// How often the scheduler preempted a thread.
    pub involuntary_switches: u64,
    /// Counts of other events, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, f64>,
    /// How it ended.
    pub exit: ExitStatus,
}

impl Run {
    /// User and system time together. Each alone depends on where the clock ticks fall.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// The times that decide between wall time and CPU time.
    pub fn times(&self) -> Times {
        let seconds = |ns: u64| ns as f64 / 1e9;
        Times {
            wall: seconds(self.wall_ns),
            cpu: seconds(self.cpu_ns()),
            first_thread: self.first_thread_ns.map(seconds),
            queued: self.queued_ns.map(seconds),
            voluntary_switches: self.voluntary_switches,
        }
    }
}

/// The values of a metric in the runs that have it; `None` if most runs lack it.
pub fn known<'r>(runs: impl ExactSizeIterator<Item = &'r Run>, metric: &Metric) -> Option<Vec<f64>> {
    let all = runs.len();
    let values = runs.filter_map(|run| metric.of(run)).collect::<Vec<_>>();
    (2 * values.len() >= all).then_some(values)
}

/// The values of a metric in the pairs of which both runs have it; `None` if most pairs lack it.
pub fn known_pairs<'r>(
    pairs: impl ExactSizeIterator<Item = (&'r Run, &'r Run)>,
    metric: &Metric,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let all = pairs.len();
    let values = pairs.filter_map(|(first, second)| Some((metric.of(first)?, metric.of(second)?)));
    let (first, second): (Vec<f64>, Vec<f64>) = values.unzip();
    (2 * first.len() >= all).then_some((first, second))
}

/// A number that can be compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// From start to end.
    Wall,
    /// User and system time together.
    Cpu,
    /// CPU time in user mode.
    User,
    /// CPU time in the kernel.
    System,
    /// Peak physical memory.
    MaxResident,
    /// Page faults without reading from disk.
    MinorFaults,
    /// Page faults that read from disk.
    MajorFaults,
    /// How often a thread blocked.
    VoluntarySwitches,
    /// How often the scheduler preempted a thread.
    InvoluntarySwitches,
    /// Another event, by name.
    Event(String),
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Occurrences.
    Count,
}

impl Metric {
    /// The metrics that every run has.
    pub const USUAL: [Self; 9] = [
        Self::Wall,
        Self::Cpu,
        Self::User,
        Self::System,
        Self::MaxResident,
        Self::MinorFaults,
        Self::MajorFaults,
        Self::VoluntarySwitches,
        Self::InvoluntarySwitches,
    ];

    /// The word used in text and JSON.
    pub fn label(&self) -> &str {
        match self {
            Self::Wall => "wall-time",
            Self::Cpu => "cpu-time",
            Self::User => "user-time",
            Self::System => "system-time",
            Self::MaxResident => "max-resident",
            Self::MinorFaults => "minor-faults",
            Self::MajorFaults => "major-faults",
            Self::VoluntarySwitches => "voluntary-switches",
            Self::InvoluntarySwitches => "involuntary-switches",
            Self::Event(name) => name,
        }
    }

    /// The metric with this label; any other label is an event.
    pub fn of_label(label: &str) -> Self {
        let usual = Self::USUAL.into_iter().find(|metric| metric.label() == label);
        usual.unwrap_or_else(|| Self::Event(label.to_owned()))
    }

    /// Its unit.
    pub fn unit(&self) -> MetricUnit {
        match self {
            Self::Wall | Self::Cpu | Self::User | Self::System => MetricUnit::Nanoseconds,
            Self::MaxResident => MetricUnit::Bytes,
            Self::Event(name) if name.ends_with("bytes") => MetricUnit::Bytes,
            _ => MetricUnit::Count,
        }
    }

    /// Whether it is the same in every run of a deterministic program: it has no noise.
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Event(name) if EXACT.contains(&name.as_str()))
    }

    /// The resolution of its clock, in its own unit.
    pub fn tick(&self) -> f64 {
        match self {
            Self::Wall => 1.0,
            // The kernel reports CPU time in microseconds.
            Self::Cpu | Self::User | Self::System => 1000.0,
            _ => 0.0,
        }
    }

    /// Its value in a run.
    pub fn of(&self, run: &Run) -> Option<f64> {
        Some(match self {
            Self::Wall => run.wall_ns as f64,
            Self::Cpu => run.cpu_ns() as f64,
            Self::User => run.user_ns as f64,
            Self::System => run.system_ns as f64,
            Self::MaxResident => run.max_resident_bytes? as f64,
            Self::MinorFaults => run.minor_faults as f64,
            Self::MajorFaults => run.major_faults as f64,
            Self::VoluntarySwitches => run.voluntary_switches as f64,
            Self::InvoluntarySwitches => run.involuntary_switches as f64,
            Self::Event(name) => *run.counts.get(name)?,
        })
    }
}

impl From<Witness> for Metric {
    fn from(witness: Witness) -> Self {
        match witness {
            Witness::Wall => Self::Wall,
            Witness::Cpu => Self::Cpu,
        }
    }
}

/// The exact number of allocations in a recorded run.
pub const ALLOCATIONS: &str = "allocations";
/// The exact number of allocated bytes in a recorded run.
pub const ALLOCATED: &str = "allocated-bytes";
/// Peak live bytes of a recorded run.
pub const PEAK: &str = "peak-live-bytes";
/// Instructions as counted by a simulator.
pub const SIMULATED_INSTRUCTIONS: &str = "simulated-instructions";
/// The size of the program's file.
pub const BINARY_SIZE: &str = "binary-bytes";

const EXACT: [&str; 5] = [ALLOCATIONS, ALLOCATED, PEAK, SIMULATED_INSTRUCTIONS, BINARY_SIZE];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run that computes all the time.
    pub(crate) fn computing(wall_ns: u64) -> Run {
        Run {
            place: 0,
            wall_ns,
            user_ns: wall_ns * 99 / 100,
            system_ns: 0,
            first_thread_ns: Some(wall_ns * 99 / 100),
            queued_ns: Some(0),
            max_resident_bytes: Some(20 << 20),
            minor_faults: 100,
            major_faults: 0,
            voluntary_switches: 0,
            involuntary_switches: 1,
            counts: BTreeMap::new(),
            exit: ExitStatus::Code(0),
        }
    }

    #[test]
    fn every_metric_has_its_own_label() {
        for metric in Metric::USUAL {
            assert_eq!(Metric::of_label(metric.label()), metric);
            assert!(metric.of(&computing(1000)).is_some());
        }
        assert_eq!(Metric::of_label("cycles"), Metric::Event("cycles".to_owned()));
        assert_eq!(Metric::Event("cycles".to_owned()).of(&computing(1)), None);
    }
}
