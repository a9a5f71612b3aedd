//! Kinds of time: running, queued for a CPU, blocked (three kinds), idle. Pictures of waits have one colour
//! for each.

use rustc_hash::FxHashSet;
use whyslow_profile::{MetricId, Profile, Samples, Subject};

use super::reason::Reasons;
use super::{Reason, wait_metric};

/// A kind of a thread's time, coarse enough for a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeKind {
    /// On a CPU.
    Running,
    /// Runnable, without a CPU.
    Queued,
    /// Blocked until another thread does something.
    Threads,
    /// Blocked by a file, a socket, a pipe, or memory that has to be read.
    Io,
    /// Blocked by anything else.
    Other,
    /// Without work.
    Idle,
}

impl TimeKind {
    /// All kinds, in the order of pictures and legends.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Queued, Self::Threads, Self::Io, Self::Other, Self::Idle];

    /// The text of a legend.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Queued => "queued for a CPU",
            Self::Threads => "blocked: threads",
            Self::Io => "blocked: I/O",
            Self::Other => "blocked: other",
            Self::Idle => "idle",
        }
    }

    /// The state of the thread: `running`, `queued`, `blocked` or `idle`.
    pub fn state(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Queued => "queued",
            Self::Threads | Self::Io | Self::Other => "blocked",
            Self::Idle => "idle",
        }
    }

    /// The kind of a wait.
    pub fn of(reason: Reason) -> Self {
        match reason {
            Reason::Cpu => Self::Queued,
            Reason::Lock
            | Reason::Condition
            | Reason::Park
            | Reason::Join
            | Reason::Channel
            | Reason::KernelLock => Self::Threads,
            Reason::File
            | Reason::Network
            | Reason::Pipe
            | Reason::PageFault
            | Reason::Events
            | Reason::Terminal => Self::Io,
            Reason::Sleep
            | Reason::Child
            | Reason::Signal
            | Reason::Stopped
            | Reason::Short
            | Reason::NotSampled
            | Reason::Other => Self::Other,
            Reason::Idle => Self::Idle,
        }
    }
}

/// For each row of a metric's samples the wait reason, `None` where the thread ran. `None` altogether for
/// metrics without waits.
pub fn row_reasons(profile: &Profile, metric: MetricId) -> Option<Vec<Option<Reason>>> {
    reasons_of(profile, metric, profile.samples.get(metric.index())?)
}

/// The same for some of the metric's rows.
pub(super) fn reasons_of(
    profile: &Profile,
    metric: MetricId,
    samples: &Samples,
) -> Option<Vec<Option<Reason>>> {
    let of = profile.metrics.get(metric.index())?.of;
    let key = |row: usize| (samples.time_ns[row], samples.thread[row], samples.stack[row]);
    let waits: FxHashSet<_> = match of {
        Subject::Wait => FxHashSet::default(),
        // A thread can both wait and run at the same stack: only the rows distinguish them.
        Subject::Wall => {
            let waits = profile.samples.get(wait_metric(profile)?.index())?;
            (0..waits.len()).map(|row| (waits.time_ns[row], waits.thread[row], waits.stack[row])).collect()
        }
        _ => return None,
    };
    let mut reasons = Reasons::new(profile);
    let reason = |row| {
        let is_wait = of == Subject::Wait || waits.contains(&key(row));
        is_wait.then(|| reasons.of_thread(samples.thread[row], samples.stack[row]))
    };
    Some((0..samples.len()).map(reason).collect())
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Metric, ThreadId};

    use super::*;
    use crate::testing::profile;

    #[test]
    fn wall_time_rows_are_waits_only_where_a_thread_waited() {
        let mut profile = profile("main;std::lock_contended;sys_futex_wait 1\nmain;f 1");
        let (lock, f) = (profile.samples[0].stack[0], profile.samples[0].stack[1]);
        let name = profile.strings.push(Metric::off_cpu_time().name);
        profile.metrics.push(Metric::off_cpu_time().renamed(name));
        let mut waits = Samples::default();
        waits.push(1_500_000, ThreadId(0), lock, 700);
        profile.samples.push(waits);
        profile.add_wall_time();
        assert_eq!(row_reasons(&profile, MetricId(0)), None, "CPU time has no waits");
        assert_eq!(row_reasons(&profile, MetricId(1)), Some(vec![Some(Reason::Lock)]));
        let wall = row_reasons(&profile, MetricId(2)).expect("there is wall time");
        let rows: Vec<_> = profile.samples[2].stack.iter().copied().zip(wall).collect();
        // The same stack once as a sample of CPU time and once as a wait.
        assert_eq!(rows.iter().filter(|row| **row == (lock, None)).count(), 1);
        assert_eq!(rows.iter().filter(|row| **row == (lock, Some(Reason::Lock))).count(), 1);
        assert_eq!(rows.iter().filter(|row| **row == (f, None)).count(), 1);
    }

    #[test]
    fn every_kind_has_a_word_and_every_reason_a_kind() {
        let words: Vec<_> = TimeKind::ALL.iter().map(|kind| (kind.word(), kind.state())).collect();
        assert_eq!(words[1], ("queued for a CPU", "queued"));
        assert!(
            words
                .iter()
                .filter(|(_, state)| *state == "blocked")
                .all(|(word, _)| word.starts_with("blocked"))
        );
        assert_eq!(TimeKind::of(Reason::Idle), TimeKind::Idle);
        assert_eq!(TimeKind::of(Reason::Cpu), TimeKind::Queued);
    }
}
