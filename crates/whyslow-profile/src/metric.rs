//! What a table of samples measures, and how its values came about.
//!
//! Everything that treats metrics differently (errors, quality, default views, words) asks these fields. Names are only
//! labels: [`Metric::of_name`] is the one place that concludes from them, for files that know nothing else.

use crate::heap;
use crate::ids::StringId;
use crate::tables::Unit;

coded_enum! {
    /// What a metric is the cost of.
    Subject {
        /// Not known, or something that has no word here.
        #[default] Other = 0 / "other",
        /// Time on a CPU.
        Cpu = 1 / "cpu",
        /// Memory that the program asked for.
        Heap = 2 / "heap",
        /// Time that threads waited.
        Wait = 3 / "wait",
        /// Time that passed, running or waiting.
        Wall = 4 / "wall",
        /// Something that happened in the machine or the kernel: a cache miss, a page fault, a system call.
        Event = 5 / "event",
        /// Nothing: how many samples were taken, which other tools add up per stack.
        Samples = 6 / "samples",
    }
}

coded_enum! {
    /// What the values of different moments are to each other.
    OverTime {
        /// Their sum means something: CPU time, allocations.
        #[default] Sum = 0 / "sum",
        /// They describe one moment: memory that was live then.
        Level = 1 / "level",
    }
}

coded_enum! {
    /// What triggers a sample.
    Trigger {
        /// Not known: another tool's recording, or one that was cut off.
        #[default] Unknown = 0 / "unknown",
        /// The hardware's cycle counter.
        Cycles = 1 / "cycles",
        /// The kernel's CPU clock: a timer that runs while the thread runs.
        CpuClock = 2 / "cpu-clock",
        /// A timer in the program itself, on the CPU clock of each thread.
        Timer = 3 / "timer",
        /// A look from the outside at a thread that runs, which is stopped for that.
        Look = 4 / "look",
        /// The event itself that is measured, every so many times that it happens.
        Event = 5 / "event",
    }
}

/// What chose the moments of samples.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    /// What triggered them.
    pub trigger: Trigger,
    /// Samples asked for per second of what is measured; 0 when not known.
    pub rate_hz: u32,
}

/// How the values of a metric came about.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Not known; treated as samples, since those claim less.
    #[default]
    Unknown,
    /// Each row is a moment that stands for the time around it: shares have an error of chance.
    Sampled(Sampler),
    /// Everything was seen: there is no error of chance.
    Counted,
    /// Scaled up from a part of what happened; the error is known row by row.
    Estimated,
    /// Counted in a model of a machine.
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

    /// What chose the samples; nothing is known of it where there are none.
    pub fn sampler(self) -> Sampler {
        if let Self::Sampled(sampler) = self { sampler } else { Sampler::default() }
    }

    /// True when every row is exactly one sample, so that errors follow from how many there are.
    pub fn is_sampled(self) -> bool {
        matches!(self, Self::Unknown | Self::Sampled(_))
    }
}

/// What one table of samples measures. Its name is a row of the texts, or the text itself before it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric<Name = StringId> {
    /// A short name such as `cpu-time`.
    pub name: Name,
    /// What its values count.
    pub unit: Unit,
    /// What it is the cost of.
    pub of: Subject,
    /// How its values came about.
    pub origin: Origin,
    /// Whether they add up over time.
    pub over_time: OverTime,
}

impl Metric {
    /// The name of the metric of CPU samples, in nanoseconds.
    pub const CPU_TIME: &'static str = "cpu-time";
    /// The name of time that threads are off their CPUs.
    pub const OFF_CPU_TIME: &'static str = "off-cpu-time";
    /// The name of time that passed on a thread.
    pub const WALL_TIME: &'static str = "wall-time";
    /// The name of the number of system calls.
    pub const SYSCALLS: &'static str = "syscalls";
    /// The name of the time in system calls, waiting included.
    pub const SYSCALL_TIME: &'static str = "syscall-time";
    /// The name of the bytes that system calls read or wrote.
    pub const SYSCALL_BYTES: &'static str = "syscall-bytes";
}

impl Metric<&'static str> {
    /// CPU time, seen by samples.
    pub fn cpu_time(sampler: Sampler) -> Self {
        Self {
            name: Metric::CPU_TIME,
            unit: Unit::Nanoseconds,
            of: Subject::Cpu,
            origin: Origin::Sampled(sampler),
            over_time: OverTime::Sum,
        }
    }

    /// Time that threads wait, each wait counted.
    pub fn off_cpu_time() -> Self {
        Self {
            name: Metric::OFF_CPU_TIME,
            unit: Unit::Nanoseconds,
            of: Subject::Wait,
            origin: Origin::Counted,
            over_time: OverTime::Sum,
        }
    }

    /// System calls, each counted: how many, how long, how many bytes.
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
    /// An event of the machine or the kernel: every occurrence of it, or one in many that stands for the others.
    pub fn event(name: &'a str, unit: Unit, origin: Origin) -> Self {
        Self { name, unit, of: Subject::Event, origin, over_time: OverTime::Sum }
    }
}

impl<Name> Metric<Name> {
    /// A metric of which nothing but the unit is known.
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
    /// What can be concluded from a name: the names that whyslow itself uses, and nothing beyond.
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
    fn names_of_ours_say_what_they_are_and_others_nothing() {
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
    fn what_is_unknown_claims_no_more_than_samples() {
        assert!(Origin::Unknown.is_sampled() && Origin::Sampled(Sampler::default()).is_sampled());
        assert!(![Origin::Counted, Origin::Estimated, Origin::Simulated].into_iter().any(Origin::is_sampled));
    }
}
