//! Where threads wait, for what, and how long: a table of the recorded waits.

mod critical;
mod idle;
mod kinds;
mod locks;
mod reason;
mod single;
mod spent;
mod split;
mod together;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, StringId, Subject, ThreadId, ThreadTimes};

pub use self::critical::{CriticalPath, Did, PathRow, PathStep, has_wakers};
pub use self::kinds::{TimeKind, row_reasons};
pub use self::locks::{LockName, LockRow, LockSite, LockTable, Site, WaitEdge};
pub use self::reason::Reason;
pub(crate) use self::reason::Reasons;
pub use self::spent::Spent;
pub use self::split::TimeSplit;
pub use self::together::Together;
use crate::labels::{Label, Labels};
use crate::overview::Overview;
use crate::own::Charges;
use crate::selection::{Pattern, Selection};

/// The waits of one line for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitRow {
    /// The reason.
    pub reason: Reason,
    /// The function of your code that waits.
    pub label: Label,
    /// The file of its line.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_ns: u64,
    /// The longest wait.
    pub max_ns: u64,
    /// The median wait.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// All waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitTable {
    /// Most time first; idle pool threads last.
    pub rows: Vec<WaitRow>,
    /// The total time per reason, most first.
    pub reasons: Vec<(Reason, u64)>,
    /// How long in all.
    pub total_ns: u64,
    /// How often in all.
    pub count: u64,
}

/// How long a program waited, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// Its waits were recorded.
    Recorded {
        /// Those of its first thread.
        first: WaitTable,
        /// The lifetime of that thread.
        life_ns: u64,
        /// What all threads did together.
        together: Together,
    },
    /// Its waits were not recorded, but no thread ran or was queued for a CPU for most of the time.
    Mostly {
        /// All threads were blocked for at least this long.
        idle_ns: u64,
        /// The wall time.
        wall_ns: u64,
        /// The times of its first thread, if that was blocked for most of the time, too.
        first: Option<ThreadTimes>,
    },
    /// Its waits were not recorded, but its threads were queued for a CPU for a large part of the time: the
    /// machine is busy, or the program has more busy threads than CPUs.
    Queued {
        /// The run-queue delay of all threads together.
        queued_ns: u64,
        /// The time in which they ran.
        ran_ns: u64,
    },
}

impl Waited {
    /// Below this, CPU time is more informative.
    const MOSTLY: f64 = 0.5;
    /// The same for run-queue delay, as a share of the time in which threads were runnable.
    const QUEUED: f64 = 0.2;
    /// Process start takes some time in every program.
    const MIN_NS: u64 = 50_000_000;

    /// The waiting of a profile, if it is worth reporting.
    pub fn of(profile: &Profile, charges: &Charges) -> Option<Self> {
        if let (Some(metric), Some(first)) = (wait_metric(profile), profile.threads.first()) {
            let threads = vec![Pattern::Number(first.tid)];
            let selection = Selection { metric, threads, ..Selection::default() };
            let table = WaitTable::build(profile, &selection, charges, 0);
            let end_ns = first.end_ns.unwrap_or(profile.meta.duration_ns);
            let life_ns = end_ns.saturating_sub(first.start_ns);
            return Some(Self::Recorded { first: table, life_ns, together: Together::of(profile, metric) });
        }
        let Overview { duration_ns, all_blocked_ns, .. } = Overview::of(profile);
        let is_most = |part: u64| part >= Self::MIN_NS && part as f64 >= Self::MOSTLY * duration_ns as f64;
        if let Some(idle_ns) = all_blocked_ns.filter(|idle| is_most(*idle)) {
            let first = profile.threads.first().and_then(|thread| thread.times);
            let first = first.filter(|times| is_most(times.blocked_ns));
            return Some(Self::Mostly { idle_ns, wall_ns: duration_ns, first });
        }
        let times = profile.threads.iter().filter_map(|thread| thread.times);
        let (queued_ns, ran_ns) = times.fold((0u64, 0u64), |(queued, ran), times| {
            (queued.saturating_add(times.queued_ns), ran.saturating_add(times.ran_ns))
        });
        let ready_ns = queued_ns.saturating_add(ran_ns);
        let much = queued_ns >= Self::MIN_NS && queued_ns as f64 >= Self::QUEUED * ready_ns as f64;
        much.then_some(Self::Queued { queued_ns, ran_ns })
    }
}

/// The metric of waits, if they were recorded.
pub fn wait_metric(profile: &Profile) -> Option<usize> {
    profile.metrics.iter().position(|metric| metric.of == Subject::Wait)
}

impl WaitTable {
    /// Adds up the selected waits per reason and line, without waits shorter than `min_ns`.
    pub fn build(profile: &Profile, selection: &Selection, charges: &Charges, min_ns: u64) -> Self {
        let labels = Labels::new(profile);
        let mut reasons = Reasons::new(profile);
        let mut rows: FxHashMap<_, (Label, Vec<u64>)> = FxHashMap::default();
        selection.each_selected(profile, |thread, stack, value| {
            if value < min_ns {
                return;
            }
            let reason = reasons.of_thread(ThreadId::from(thread), stack);
            let frame = charges.of(stack).frame;
            let code = labels.code(frame.label);
            let key = (reason, code, frame.file, frame.line);
            rows.entry(key).or_insert_with(|| (labels.label(code), Vec::new())).1.push(value);
        });
        let mut rows: Vec<WaitRow> = rows
            .into_iter()
            .map(|((reason, _, file, line), (label, mut lengths))| {
                lengths.sort_unstable();
                WaitRow {
                    reason,
                    label,
                    file,
                    line,
                    count: lengths.len() as u64,
                    total_ns: lengths.iter().sum(),
                    max_ns: lengths.last().copied().unwrap_or(0),
                    p50_ns: quantile(&lengths, 50),
                    p99_ns: quantile(&lengths, 99),
                }
            })
            .collect();
        rows.sort_by_key(|row| {
            (row.reason == Reason::Idle, Reverse(row.total_ns), row.reason, row.file, row.line)
        });
        let mut reasons: Vec<(Reason, u64)> = Vec::new();
        for row in &rows {
            match reasons.iter_mut().find(|(reason, _)| *reason == row.reason) {
                Some((_, total)) => *total += row.total_ns,
                None => reasons.push((row.reason, row.total_ns)),
            }
        }
        reasons.sort_by_key(|(reason, total)| (Reverse(*total), *reason));
        let total_ns = rows.iter().map(|row| row.total_ns).sum();
        let count = rows.iter().map(|row| row.count).sum();
        Self { rows, reasons, total_ns, count }
    }
}

/// A percentile of sorted lengths, by nearest rank.
fn quantile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SAMPLE_NS, profile};

    #[test]
    fn waits_are_summed_by_reason_and_line_with_idle_ones_last() {
        let profile = profile(
            "main@app.rs:3;std::thread::sleep;sys_hrtimer_nanosleep 3
             main@app.rs:9;std::lock_contended;sys_futex_wait 5
             worker: main@app.rs:20;rayon_core::sleep::sleep;sys_futex_wait 50",
        );
        let charges = Charges::new(&profile, true);
        let build = |min| WaitTable::build(&profile, &Selection::default(), &charges, min);
        let table = build(0);
        let rows: Vec<_> = table.rows.iter().map(|row| (row.reason, row.line, row.count)).collect();
        assert_eq!(rows, [(Reason::Lock, 9, 5), (Reason::Sleep, 3, 3), (Reason::Idle, 20, 50)]);
        assert_eq!((table.count, table.total_ns), (58, 58 * SAMPLE_NS));
        assert_eq!(table.reasons[0], (Reason::Idle, 50 * SAMPLE_NS));
        assert_eq!(table.rows[0].max_ns, SAMPLE_NS);
        assert!(build(SAMPLE_NS + 1).rows.is_empty());
    }

    #[test]
    fn run_queue_delay_is_separate_from_blocking() {
        const S: u64 = 1_000_000_000;
        let mut profile = profile("main@app.rs:3;compute 1");
        profile.meta.duration_ns = 10 * S;
        profile.meta.user_time_ns = 2 * S;
        profile.meta.exit = Some(whyslow_profile::ExitStatus::Code(0));
        let charges = Charges::new(&profile, true);
        let mut waited = |times: Option<(u64, u64, u64)>| {
            profile.threads[0].times = times.map(|(ran_ns, queued_ns, blocked_ns)| ThreadTimes {
                ran_ns,
                queued_ns,
                blocked_ns,
                ..ThreadTimes::default()
            });
            Waited::of(&profile, &charges)
        };
        assert_eq!(waited(None), Some(Waited::Mostly { idle_ns: 8 * S, wall_ns: 10 * S, first: None }));
        let blocked = waited(Some((2 * S, S, 7 * S)));
        assert!(matches!(blocked, Some(Waited::Mostly { first: Some(_), .. })), "{blocked:?}");
        let queued = waited(Some((2 * S, 7 * S, S)));
        assert_eq!(queued, Some(Waited::Queued { queued_ns: 7 * S, ran_ns: 2 * S }));
        profile.meta.user_time_ns = 9 * S;
        profile.threads[0].times =
            Some(ThreadTimes { ran_ns: 9 * S, queued_ns: S, ..ThreadTimes::default() });
        assert_eq!(Waited::of(&profile, &charges), None);
    }

    /// The first thread joins four workers that share too few CPUs: the program is starved, and does not wait.
    #[test]
    fn starved_workers_are_not_waiting() {
        const S: u64 = 1_000_000_000;
        let mut profile = profile(
            "main: main@app.rs:3;std::thread::JoinHandle<T>::join 1\na: app::work 1\nb: app::work 1\nc: app::work 1\nd: app::work 1",
        );
        profile.meta.duration_ns = 10 * S;
        profile.meta.user_time_ns = 4 * S;
        profile.meta.exit = Some(whyslow_profile::ExitStatus::Code(0));
        for (row, thread) in profile.threads.iter_mut().enumerate() {
            thread.times = Some(match row {
                0 => ThreadTimes { blocked_ns: 10 * S, waits: 1, ..ThreadTimes::default() },
                _ => ThreadTimes { ran_ns: S, queued_ns: 9 * S, ..ThreadTimes::default() },
            });
        }
        let charges = Charges::new(&profile, true);
        let waited = Waited::of(&profile, &charges);
        assert_eq!(waited, Some(Waited::Queued { queued_ns: 36 * S, ran_ns: 4 * S }));
    }

    #[test]
    fn quantiles_are_recorded_lengths() {
        let lengths: Vec<u64> = (1..=200).collect();
        assert_eq!((quantile(&lengths, 50), quantile(&lengths, 99)), (100, 198));
        assert_eq!((quantile(&[7], 50), quantile(&[7], 99), quantile(&[], 99)), (7, 7, 0));
    }
}
