//! What a table of samples measures, and how its values were obtained.
//!
//! All code that treats metrics differently (errors, quality, default views, text) checks these fields. Names
//! are only labels. [`Metric::of_name`] is the only place that draws conclusions from a name: recorders,
//! importers and the reader of version 1 files create metrics with it.

use crate::heap;
use crate::ids::StringId;
use crate::tables::Unit;

coded_enum! {
    /// The resource that a metric measures.
    Subject {
        /// Unknown, or not listed here.
        #[default] Other = 0 / "other",
        /// Time on a CPU.
        Cpu = 1 / "cpu",
        /// Memory that the program allocates.
        Heap = 2 / "heap",
        /// Time that threads waited.
        Wait = 3 / "wait",
        /// Wall time, running or waiting.
        Wall = 4 / "wall",
        /// An event in the machine or the kernel: a cache miss, a page fault, a system call.
        Event = 5 / "event",
        /// No resource: the number of samples, which other tools add up per stack.
        Samples = 6 / "samples",
    }
}

coded_enum! {
    /// How the values of different times combine.
    OverTime {
        /// They add up: CPU time, allocations.
        #[default] Sum = 0 / "sum",
        /// They describe one point in time: memory that was live then.
        Level = 1 / "level",
    }
}

coded_enum! {
    /// What triggers a sample.
    Trigger {
        /// Unknown: another tool's recording, or one that was cut off.
        #[default] Unknown = 0 / "unknown",
        /// The hardware's cycle counter.
        Cycles = 1 / "cycles",
        /// The kernel's CPU clock: a timer that runs while the thread runs.
        CpuClock = 2 / "cpu-clock",
        /// A timer in the program itself, on the CPU clock of each thread.
        Timer = 3 / "timer",
        /// A ptrace stop of a running thread.
        Ptrace = 4 / "look",
        /// The measured event itself, every N occurrences.
        Event = 5 / "event",
    }
}

/// How samples were triggered.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    /// The trigger.
    pub trigger: Trigger,
    /// Requested samples per second of what is measured; 0 if unknown.
    pub rate_hz: u32,
}

/// How the values of a metric were obtained.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Unknown; treated as sampled, which claims less.
    #[default]
    Unknown,
    /// Each row is a sample that stands for the time around it: shares have a sampling error.
    Sampled(Sampler),
    /// Every occurrence was recorded: there is no sampling error.
    Counted,
    /// Scaled up from a part of the occurrences; the error is known row by row.
    Estimated,
    /// Counted in a simulated machine.
    Simulated,
}

impl Origin {
    /// The number in the file.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Sampled(_) => 1,
            Self::Counted => 2,
            Self::Estimated => 3,
            Self::Simulated => 4,
        }
    }

    /// The origin for a number from a file.
    pub(crate) fn from_code(code: u64, sampler: Sampler) -> Self {
        match code {
            1 => Self::Sampled(sampler),
            2 => Self::Counted,
            3 => Self::Estimated,
            4 => Self::Simulated,
            _ => Self::Unknown,
        }
    }

    /// The word used in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Sampled(_) => "sampled",
            Self::Counted => "counted",
            Self::Estimated => "estimated",
            Self::Simulated => "simulated",
        }
    }

    /// The sampler; unknown if the values are not sampled.
    pub fn sampler(self) -> Sampler {
        if let Self::Sampled(sampler) = self { sampler } else { Sampler::default() }
    }

    /// True if every row is exactly one sample, so that errors follow from their number.
    pub fn is_sampled(self) -> bool {
        matches!(self, Self::Unknown | Self::Sampled(_))
    }
}

/// What one table of samples measures. Its name is a string id, or the text itself before it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric<Name = StringId> {
    /// A short name such as `cpu-time`.
    pub name: Name,
    /// The unit of its values.
    pub unit: Unit,
    /// The resource that it measures.
    pub of: Subject,
    /// How its values were obtained.
    pub origin: Origin,
    /// Whether they add up over time.
    pub over_time: OverTime,
}

impl Metric {
    /// The name of the metric of CPU samples, in nanoseconds.
    pub const CPU_TIME: &'static str = "cpu-time";
    /// The name of off-CPU time.
    pub const OFF_CPU_TIME: &'static str = "off-cpu-time";
    /// The name of a thread's wall time.
    pub const WALL_TIME: &'static str = "wall-time";
    /// The name of the number of system calls.
    pub const SYSCALLS: &'static str = "syscalls";
    /// The name of the time in system calls, including waiting.
    pub const SYSCALL_TIME: &'static str = "syscall-time";
    /// The name of the bytes that system calls read or wrote.
    pub const SYSCALL_BYTES: &'static str = "syscall-bytes";
}

impl Metric<&'static str> {
    /// CPU time, sampled.
    pub fn cpu_time(sampler: Sampler) -> Self {
        Self {
            name: Metric::CPU_TIME,
            unit: Unit::Nanoseconds,
            of: Subject::Cpu,
            origin: Origin::Sampled(sampler),
            over_time: OverTime::Sum,
        }
    }

    /// Off-CPU time of threads, with every wait counted.
    pub fn off_cpu_time() -> Self {
        Self {
            name: Metric::OFF_CPU_TIME,
            unit: Unit::Nanoseconds,
            of: Subject::Wait,
            origin: Origin::Counted,
            over_time: OverTime::Sum,
        }
    }

    /// System calls, every one counted: their number, time and bytes.
    pub fn of_syscalls() -> [Self; 3] {
        let counted = |name, unit| Self {
            name,
            unit,
            of: Subject::Event,
            origin: Origin::Counted,
            over_time: OverTime::Sum,
        };
        [
            counted(Metric::SYSCALLS, Unit::Count),
            counted(Metric::SYSCALL_TIME, Unit::Nanoseconds),
            counted(Metric::SYSCALL_BYTES, Unit::Bytes),
        ]
    }
}

impl<'a> Metric<&'a str> {
    /// An event of the machine or the kernel: every occurrence, or one in many that stands for the others.
    pub fn event(name: &'a str, unit: Unit, origin: Origin) -> Self {
        Self { name, unit, of: Subject::Event, origin, over_time: OverTime::Sum }
    }
}

impl<Name> Metric<Name> {
    /// A metric of which only the unit is known.
    pub fn unknown(name: Name, unit: Unit) -> Self {
        Self { name, unit, of: Subject::Other, origin: Origin::Unknown, over_time: OverTime::Sum }
    }

    /// The same metric under another name.
    pub fn renamed<Other>(self, name: Other) -> Metric<Other> {
        let Self { unit, of, origin, over_time, .. } = self;
        Metric { name, unit, of, origin, over_time }
    }

    /// The same metric, with values of another origin.
    pub fn with_origin(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }
}

impl<'a> Metric<&'a str> {
    /// The metric that a name implies: for whyslow's own names, and no others.
    pub fn of_name(name: &'a str, unit: Unit) -> Self {
        use heap::metric::{LIVE, LIVE_AT_EXIT, LIVE_AT_PEAK, UNUSED};
        let unknown = Self::unknown(name, unit);
        match name {
            Metric::CPU_TIME => {
                Self { of: Subject::Cpu, origin: Origin::Sampled(Sampler::default()), ..unknown }
            }
            "samples" if unit == Unit::Count => {
                Self { of: Subject::Samples, origin: Origin::Sampled(Sampler::default()), ..unknown }
            }
            Metric::OFF_CPU_TIME => Self { of: Subject::Wait, origin: Origin::Counted, ..unknown },
            Metric::WALL_TIME => Self { of: Subject::Wall, ..unknown },
            Metric::SYSCALLS | Metric::SYSCALL_TIME | Metric::SYSCALL_BYTES => {
                Self { of: Subject::Event, origin: Origin::Counted, ..unknown }
            }
            LIVE | LIVE_AT_PEAK | LIVE_AT_EXIT | UNUSED => {
                Self { of: Subject::Heap, origin: Origin::Counted, over_time: OverTime::Level, ..unknown }
            }
            name if heap::metric::ALL.contains(&name) => {
                Self { of: Subject::Heap, origin: Origin::Counted, ..unknown }
            }
            _ => unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whyslows_own_names_imply_a_metric() {
        let of = |name| {
            let metric = Metric::of_name(name, Unit::Bytes);
            (metric.of, metric.origin.label(), metric.over_time)
        };
        assert_eq!(of("cpu-time"), (Subject::Cpu, "sampled", OverTime::Sum));
        assert_eq!(of("bytes-allocated"), (Subject::Heap, "counted", OverTime::Sum));
        assert_eq!(of("live-at-peak"), (Subject::Heap, "counted", OverTime::Level));
        assert_eq!(of("cache-misses"), (Subject::Other, "unknown", OverTime::Sum));
    }

    #[test]
    fn an_unknown_origin_counts_as_sampled() {
        assert!(Origin::Unknown.is_sampled() && Origin::Sampled(Sampler::default()).is_sampled());
        assert!(![Origin::Counted, Origin::Estimated, Origin::Simulated].into_iter().any(Origin::is_sampled));
    }
}
