//! Counted values: raw values, how long each was really counted, and the kernel's own accounting.
//!
//! ```text
//! count of the whole time = value · enabled / running        running < enabled: other events shared the counter
//! ```

use crate::machine::Event;

/// A counter's value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// The raw count.
    pub value: u64,
    /// How long it should have been counted: CPU time of the threads, not wall time.
    pub enabled_ns: u64,
    /// How long it was really counted.
    pub running_ns: u64,
}

impl Count {
    /// Adds counts of the same event on other threads or CPUs: all fields add up.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            value: self.value.saturating_add(other.value),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }

    /// Adds counts of the same event on the other kind of CPU. A thread is on one kind at a time: both are
    /// enabled all the time, and one of them runs.
    #[must_use]
    pub fn plus_other_cpu_kind(self, other: Self) -> Self {
        Self { enabled_ns: self.enabled_ns.max(other.enabled_ns), ..self.plus(other) }
    }

    /// The count since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            value: self.value.saturating_sub(earlier.value),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }

    /// The share of the enabled time in which it was counted; `None` if it was never enabled.
    pub fn running_share(self) -> Option<f64> {
        (self.enabled_ns > 0).then(|| (self.running_ns as f64 / self.enabled_ns as f64).min(1.0))
    }

    /// The count scaled to the whole time; `None` if it never ran.
    pub fn estimate(self) -> Option<f64> {
        match self.running_share() {
            None => Some(self.value as f64),
            Some(0.0) => None,
            Some(share) => Some(self.value as f64 / share),
        }
    }
}

/// The kernel's own accounting of a process and its exited children. Unknown values are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: Option<u64>,
    /// CPU time in the kernel.
    pub system_ns: Option<u64>,
    /// The peak physical memory of a single process.
    pub max_resident_bytes: Option<u64>,
    /// An upper bound of the peak: the exact value is unknown because a new process starts with the memory of
    /// its parent.
    pub resident_below_bytes: Option<u64>,
    /// Page faults without reading from disk.
    pub minor_faults: Option<u64>,
    /// Page faults that read from disk.
    pub major_faults: Option<u64>,
    /// Times a thread gave up its CPU to wait.
    pub voluntary_switches: Option<u64>,
    /// Times the scheduler took a thread off its CPU.
    pub involuntary_switches: Option<u64>,
    /// Context switches of either kind, if they are not counted separately.
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
    /// The machine does not have it.
    NotThere,
    /// No permission.
    Refused,
    /// It happens in the kernel, and there is no permission to observe the kernel.
    NeedsKernel,
    /// It belongs to the whole machine, not to a program.
    WholeMachine,
    /// All counters are taken.
    Busy,
    /// Too many open files.
    TooManyFiles,
    /// Functions cannot be counted.
    Function,
    /// All events are blocked, although the kernel's settings would allow them.
    Filtered,
    /// It can be counted but not sampled.
    NoSamples,
    /// Only root may read the list of tracepoints.
    Hidden,
    /// There is no list of tracepoints.
    NoTracefs,
    /// Something else.
    Other,
}

impl WhyNot {
    /// The reason for an errno.
    pub fn of_error(number: i32) -> Self {
        match number {
            libc::EACCES | libc::EPERM | libc::ENOSYS => Self::Refused,
            libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP | libc::EINVAL => Self::NotThere,
            libc::EBUSY | libc::ENOSPC => Self::Busy,
            libc::EMFILE | libc::ENFILE => Self::TooManyFiles,
            _ => Self::Other,
        }
    }

    /// The reason with a label; unknown labels are [`WhyNot::Other`].
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

/// An event that was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotCounted {
    /// The reason.
    pub why: WhyNot,
    /// The errno; 0 if the kernel was not asked.
    pub error: i32,
}

/// A requested event, and whether it is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedEvent {
    /// The event.
    pub event: Event,
    /// `Ok(true)` if it is counted in user mode only, without permission for the kernel.
    pub state: Result<bool, NotCounted>,
}

/// All values up to a point in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// The time since the start.
    pub at_ns: u64,
    /// The kernel's own accounting.
    pub usage: Usage,
    /// The counters, in the order of [`Measured::events`]; `None` for events that are not counted.
    pub counts: Vec<Option<Count>>,
}

/// The values of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadReading {
    /// Its process.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// The counters, in the order of [`Measured::events`].
    pub counts: Vec<Option<Count>>,
}

/// One run, or one observation of running processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// From start to end.
    pub duration_ns: u64,
    /// The requested events.
    pub events: Vec<CountedEvent>,
    /// The values of the whole run.
    pub total: Reading,
    /// The values up to the end of each interval, if there are any.
    pub series: Vec<Reading>,
    /// The values of each thread, if requested.
    pub threads: Vec<ThreadReading>,
    /// Number of usable CPUs.
    pub cpus: u32,
    /// Whether CPUs were counted instead of programs: their clocks run even when they are idle.
    pub whole_machine: bool,
    /// CPU time that the kernel accounts but the counters missed: the kernel removes counters from programs
    /// that may not be observed (set-uid programs, and those that the user may not read). 0 if nothing is
    /// missing.
    pub uncounted_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_counter_is_scaled() {
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
        let both = big.plus_other_cpu_kind(small);
        assert_eq!((both.estimate(), both.running_share()), (Some(150.0), Some(1.0)));
        assert_eq!(big.plus(small).running_share(), Some(0.5), "two threads are another matter");
    }

    #[test]
    fn every_errno_for_missing_is_recognised() {
        for number in [libc::ENOENT, libc::ENXIO, libc::ENODEV, libc::EOPNOTSUPP] {
            assert_eq!(WhyNot::of_error(number), WhyNot::NotThere);
        }
        for number in [libc::EACCES, libc::EPERM, libc::ENOSYS] {
            assert_eq!(WhyNot::of_error(number), WhyNot::Refused);
        }
        assert_eq!(WhyNot::of_error(libc::EMFILE), WhyNot::TooManyFiles);
    }
}
