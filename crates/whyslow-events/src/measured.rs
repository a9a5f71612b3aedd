//! What counting gave: raw values, how long each was really counted, and what the kernel accounts by itself.
//!
//! ```text
//! count of the whole time = value · enabled / running        running < enabled: other events had the counter meanwhile
//! ```

use crate::machine::Event;

/// A counter's value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// What was counted.
    pub value: u64,
    /// How long it should have been counted: CPU time of the threads, not of the wall.
    pub enabled_ns: u64,
    /// How long it was.
    pub running_ns: u64,
}

impl Count {
    /// Counts of the same event on other threads or CPUs: everything adds up.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            value: self.value.saturating_add(other.value),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }

    /// Counts of the same event on the other kind of CPUs. A thread is on one of them at a time: both are enabled all the time, and
    /// one of them runs.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        Self { enabled_ns: self.enabled_ns.max(other.enabled_ns), ..self.plus(other) }
    }

    /// What was counted since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            value: self.value.saturating_sub(earlier.value),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }

    /// The share of the time in which it was counted; `None` when it never should have been.
    pub fn running_share(self) -> Option<f64> {
        (self.enabled_ns > 0).then(|| (self.running_ns as f64 / self.enabled_ns as f64).min(1.0))
    }

    /// The count of the whole time; `None` when nothing of it was counted.
    pub fn estimate(self) -> Option<f64> {
        match self.running_share() {
            None => Some(self.value as f64),
            Some(0.0) => None,
            Some(share) => Some(self.value as f64 / share),
        }
    }
}

/// What the kernel accounts by itself, of a process with the children that have ended. What is not known is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: Option<u64>,
    /// CPU time in the kernel.
    pub system_ns: Option<u64>,
    /// The most physical memory that one process had.
    pub max_resident_bytes: Option<u64>,
    /// It is not more than this, and how much less is not known: a new process begins with the memory of the one that made it.
    pub resident_below_bytes: Option<u64>,
    /// Page faults without reading from disk.
    pub minor_faults: Option<u64>,
    /// Page faults that read from disk.
    pub major_faults: Option<u64>,
    /// Times a thread gave up its CPU to wait.
    pub voluntary_switches: Option<u64>,
    /// Times a thread was taken off its CPU.
    pub involuntary_switches: Option<u64>,
    /// Times a thread left a CPU, for either reason, where they are not told apart.
    pub switches: Option<u64>,
    /// Bytes read through system calls such as `read`: files, pipes, terminals.
    pub bytes_read: Option<u64>,
    /// Bytes written through system calls such as `write`.
    pub bytes_written: Option<u64>,
    /// Bytes read from disks.
    pub disk_bytes_read: Option<u64>,
    /// Bytes written to disks, now or later.
    pub disk_bytes_written: Option<u64>,
}

/// Why an event was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WhyNot {
    /// This machine does not have it.
    NotThere,
    /// It is not allowed.
    Refused,
    /// It happens in the kernel, and the kernel may not be watched.
    NeedsKernel,
    /// It belongs to the whole machine, not to a program.
    WholeMachine,
    /// All counters are taken.
    Busy,
    /// Too many open files.
    TooManyFiles,
    /// Functions are not counted.
    Function,
    /// No event is allowed, although the kernel's settings would allow it.
    Filtered,
    /// It can be counted, but tells nobody when it happens.
    NoSamples,
    /// The list of tracepoints may be read by root only.
    Hidden,
    /// There is no list of tracepoints.
    NoTracefs,
    /// Something else.
    Other,
}

impl WhyNot {
    /// What the system's number for an error means here.
    pub fn of_error(number: i32) -> Self {
        match number {
            libc::EACCES | libc::EPERM | libc::ENOSYS => Self::Refused,
            libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP | libc::EINVAL => Self::NotThere,
            libc::EBUSY | libc::ENOSPC => Self::Busy,
            libc::EMFILE | libc::ENFILE => Self::TooManyFiles,
            _ => Self::Other,
        }
    }

    /// What a word stands for; one that is not known says nothing.
    pub fn from_label(word: &str) -> Self {
        let all = [
            Self::NotThere,
            Self::Refused,
            Self::NeedsKernel,
            Self::WholeMachine,
            Self::Busy,
            Self::TooManyFiles,
            Self::Function,
            Self::Filtered,
            Self::NoSamples,
            Self::Hidden,
            Self::NoTracefs,
        ];
        all.into_iter().find(|why| why.label() == word).unwrap_or(Self::Other)
    }

    /// The word used in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::NotThere => "not-there",
            Self::Refused => "refused",
            Self::NeedsKernel => "needs-kernel",
            Self::WholeMachine => "whole-machine",
            Self::Busy => "busy",
            Self::TooManyFiles => "too-many-files",
            Self::Function => "function",
            Self::Filtered => "filtered",
            Self::NoSamples => "no-samples",
            Self::Hidden => "hidden",
            Self::NoTracefs => "no-tracefs",
            Self::Other => "other",
        }
    }
}

/// That an event was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotCounted {
    /// Why.
    pub why: WhyNot,
    /// The system's number for it; 0 when nobody asked.
    pub error: i32,
}

/// An event that was asked for, and whether it is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedEvent {
    /// The event.
    pub event: Event,
    /// `Ok(true)` when it is counted in user mode only because the kernel may not be watched.
    pub state: Result<bool, NotCounted>,
}

/// Everything up to a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// When, since the start.
    pub at_ns: u64,
    /// What the kernel accounts.
    pub usage: Usage,
    /// The counters, in the order of [`Measured::events`]; `None` where an event is not counted.
    pub counts: Vec<Option<Count>>,
}

/// A thread's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadReading {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// What it was called last.
    pub name: String,
    /// The counters, in the order of [`Measured::events`].
    pub counts: Vec<Option<Count>>,
}

/// One run, or one time of watching.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// From start to end.
    pub duration_ns: u64,
    /// What was asked for.
    pub events: Vec<CountedEvent>,
    /// All of it.
    pub total: Reading,
    /// Up to the end of each interval, if there are any.
    pub series: Vec<Reading>,
    /// Each thread, if that was asked for.
    pub threads: Vec<ThreadReading>,
    /// CPUs that could be used.
    pub cpus: u32,
    /// Whether CPUs were counted and not programs: their clocks go on when they are idle.
    pub whole_machine: bool,
    /// CPU time that the counters did not see although the kernel accounts it: it takes them from programs that may not be observed
    /// (set-uid ones, and those that the user may not read). 0 when they saw all of it.
    pub unseen_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_shared_is_scaled() {
        let count = Count { value: 300, enabled_ns: 1000, running_ns: 250 };
        assert_eq!((count.running_share(), count.estimate()), (Some(0.25), Some(1200.0)));
        let never = Count { value: 0, enabled_ns: 1000, running_ns: 0 };
        assert_eq!((never.running_share(), never.estimate()), (Some(0.0), None), "it is not 0");
        assert_eq!(Count::default().estimate(), Some(0.0), "nothing ran: nothing was missed");
        let interval = Count { value: 400, enabled_ns: 1600, running_ns: 550 }.since(count);
        assert_eq!(interval, Count { value: 100, enabled_ns: 600, running_ns: 300 });
        assert_eq!(interval.estimate(), Some(200.0));
    }

    /// A thread spent a quarter of its time on one kind of CPU: nothing was missed, so nothing is scaled.
    #[test]
    fn two_kinds_of_cpus_together_count_all_the_time() {
        let big = Count { value: 100, enabled_ns: 1000, running_ns: 250 };
        let small = Count { value: 50, enabled_ns: 1000, running_ns: 750 };
        let both = big.beside(small);
        assert_eq!((both.estimate(), both.running_share()), (Some(150.0), Some(1.0)));
        assert_eq!(big.plus(small).running_share(), Some(0.5), "two threads are another matter");
    }

    #[test]
    fn the_many_words_for_missing_are_understood() {
        for number in [libc::ENOENT, libc::ENXIO, libc::ENODEV, libc::EOPNOTSUPP] {
            assert_eq!(WhyNot::of_error(number), WhyNot::NotThere);
        }
        for number in [libc::EACCES, libc::EPERM, libc::ENOSYS] {
            assert_eq!(WhyNot::of_error(number), WhyNot::Refused);
        }
        assert_eq!(WhyNot::of_error(libc::EMFILE), WhyNot::TooManyFiles);
    }
}
