//! Whether a program waits more than it runs, by what the kernel counts for its threads. It is known of every
//! recording, also of those without waits.

use whyslow_analyze::{Overview, wait_metric};
use whyslow_profile::{Profile, ThreadTimes};

/// Why CPU time is a small part of what passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// All threads were blocked for most of the time.
    Blocked {
        /// For at least this long.
        blocked_ns: u64,
        /// The wall time.
        wall_ns: u64,
        /// The times of the first thread, if that was blocked for most of the time, too.
        first: Option<ThreadTimes>,
        /// Whether the profile has the waits.
        recorded: bool,
    },
    /// Threads were queued for a CPU for a large part of the time that they could have run: the machine is
    /// busy, or the program has more busy threads than CPUs.
    Queued {
        /// The run-queue delay of all threads together.
        queued_ns: u64,
        /// The time in which they ran.
        ran_ns: u64,
    },
}

impl Waiting {
    /// Below this, CPU time is more informative.
    pub(crate) const MOSTLY: f64 = 0.5;
    /// The same for run-queue delay, as a share of the time in which threads were runnable.
    const QUEUED: f64 = 0.2;
    /// Process start takes some time in every program.
    const LEAST_NS: u64 = 50_000_000;

    /// What is worth a line.
    pub(crate) fn of(profile: &Profile) -> Option<Self> {
        let Overview { duration_ns: wall_ns, all_blocked_ns, .. } = Overview::of(profile);
        let is_most = |part: u64| part >= Self::LEAST_NS && part as f64 >= Self::MOSTLY * wall_ns as f64;
        if let Some(blocked_ns) = all_blocked_ns.filter(|blocked| is_most(*blocked)) {
            let first = profile.threads.first().and_then(|thread| thread.times);
            let first = first.filter(|times| is_most(times.blocked_ns));
            return Some(Self::Blocked {
                blocked_ns,
                wall_ns,
                first,
                recorded: wait_metric(profile).is_some(),
            });
        }
        let times = profile.threads.iter().filter_map(|thread| thread.times);
        let (queued_ns, ran_ns) = times.fold((0u64, 0u64), |(queued, ran), times| {
            (queued.saturating_add(times.queued_ns), ran.saturating_add(times.ran_ns))
        });
        let ready_ns = queued_ns.saturating_add(ran_ns);
        let much = queued_ns >= Self::LEAST_NS && queued_ns as f64 >= Self::QUEUED * ready_ns as f64;
        much.then_some(Self::Queued { queued_ns, ran_ns })
    }

    /// The share of the time in which all threads were blocked.
    pub(crate) fn blocked_share(&self) -> f64 {
        match self {
            Self::Blocked { blocked_ns, wall_ns, .. } => *blocked_ns as f64 / (*wall_ns).max(1) as f64,
            Self::Queued { .. } => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing::profile;
    use whyslow_profile::ExitStatus;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn lasting(folded: &str, cpu_s: u64) -> Profile {
        let mut profile = profile(folded);
        profile.meta.duration_ns = 10 * S;
        profile.meta.user_time_ns = cpu_s * S;
        profile.meta.exit = Some(ExitStatus::Code(0));
        profile
    }

    #[test]
    fn run_queue_delay_is_separate_from_blocking() {
        let mut profile = lasting("main@app.rs:3;compute 1", 2);
        let mut waiting = |times: Option<[u64; 3]>| {
            profile.threads[0].times = times.map(|[ran, queued, blocked]| ThreadTimes {
                ran_ns: ran * S,
                queued_ns: queued * S,
                blocked_ns: blocked * S,
                ..ThreadTimes::default()
            });
            Waiting::of(&profile)
        };
        let blocked = Waiting::Blocked { blocked_ns: 8 * S, wall_ns: 10 * S, first: None, recorded: false };
        assert_eq!(waiting(None), Some(blocked));
        let first = waiting(Some([2, 1, 7]));
        assert!(matches!(first, Some(Waiting::Blocked { first: Some(_), .. })), "{first:?}");
        assert_eq!(waiting(Some([2, 7, 1])), Some(Waiting::Queued { queued_ns: 7 * S, ran_ns: 2 * S }));
        let busy = ThreadTimes { ran_ns: 9 * S, queued_ns: S, ..ThreadTimes::default() };
        profile.meta.user_time_ns = 9 * S;
        profile.threads[0].times = Some(busy);
        assert_eq!(Waiting::of(&profile), None);
    }

    /// The first thread joins four workers that share too few CPUs: the program is starved, and does not wait.
    #[test]
    fn starved_workers_are_not_waiting() {
        let workers = "a: app::work 1\nb: app::work 1\nc: app::work 1\nd: app::work 1";
        let mut profile =
            lasting(&format!("main: main@app.rs:3;std::thread::JoinHandle<T>::join 1\n{workers}"), 4);
        for (row, thread) in profile.threads.iter_mut().enumerate() {
            thread.times = Some(match row {
                0 => ThreadTimes { blocked_ns: 10 * S, waits: 1, ..ThreadTimes::default() },
                _ => ThreadTimes { ran_ns: S, queued_ns: 9 * S, ..ThreadTimes::default() },
            });
        }
        assert_eq!(Waiting::of(&profile), Some(Waiting::Queued { queued_ns: 36 * S, ran_ns: 4 * S }));
    }
}
