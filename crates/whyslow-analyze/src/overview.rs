//! The key facts of a recording.

use whyslow_profile::{Profile, Unit};

use crate::counting::sample_counts;

/// How long a program ran and how much of it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overview {
    /// From start to end; to the last sample when the recording is incomplete.
    pub duration_ns: u64,
    /// CPU time from the kernel's accounting; the sum of the samples if that is unknown and they are times.
    pub cpu_time_ns: u64,
    /// No thread of the program ran or was queued for a CPU for at least this long; `None` if unknown.
    pub all_blocked_ns: Option<u64>,
    /// Samples of the main metric.
    pub samples: u64,
    /// Threads that ran.
    pub threads: u64,
    /// Processes that ran.
    pub processes: u64,
}

impl Overview {
    /// Summarises a whole profile.
    pub fn of(profile: &Profile) -> Self {
        let meta = &profile.meta;
        let main = profile.main_samples();
        let samples = main.map(|(_, samples)| samples);
        let last = samples.and_then(|samples| samples.time_ns.iter().max().copied()).unwrap_or(0);
        let seen =
            samples.map_or(0, |samples| samples.value.iter().fold(0, |sum: u64, v| sum.saturating_add(*v)));
        let counts = sample_counts(profile).map(|metric| &profile.samples[metric.index()].value);
        let counted = counts.map_or(0, |counts| counts.iter().fold(0, |sum: u64, v| sum.saturating_add(*v)));
        let timed = main.is_none_or(|(metric, _)| metric.unit == Unit::Nanoseconds);
        let accounted = meta.user_time_ns.saturating_add(meta.system_time_ns);
        let queued = profile.threads.iter().filter_map(|thread| thread.times).map(|times| times.queued_ns);
        let ready = queued.fold(accounted, u64::saturating_add);
        Self {
            duration_ns: if meta.duration_ns > 0 { meta.duration_ns } else { last },
            cpu_time_ns: if accounted > 0 || !timed { accounted } else { seen },
            // CPU time and run-queue delay together are at least the time in which any thread was ready, however
            // threads overlap.
            all_blocked_ns: (meta.exit.is_some() && meta.duration_ns > 0)
                .then(|| meta.duration_ns.saturating_sub(ready)),
            samples: counted.max(samples.map_or(0, |samples| {
                samples.stack.iter().filter(|stack| !profile.is_not_sampled(**stack)).count() as u64
            })),
            threads: profile.threads.len() as u64,
            processes: profile.processes.len() as u64,
        }
    }
}
