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
use whyslow_profile::{MetricId, Profile, StringId, Subject, ThreadId};

pub use self::critical::{CriticalPath, Did, PathRow, PathStep, has_wakers, starter_of};
pub use self::kinds::{TimeKind, row_reasons};
pub use self::locks::{LockName, LockRow, LockSite, LockTable, Site, WaitEdge};
pub use self::reason::Reason;
pub(crate) use self::reason::Reasons;
pub use self::spent::Spent;
pub use self::split::TimeSplit;
pub use self::together::Together;
use crate::labels::{Label, Labels};
use crate::own::Charges;
use crate::selection::Selection;

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

/// The metric of waits, if they were recorded.
pub fn wait_metric(profile: &Profile) -> Option<MetricId> {
    profile.metric_of(Subject::Wait)
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
    fn quantiles_are_recorded_lengths() {
        let lengths: Vec<u64> = (1..=200).collect();
        assert_eq!((quantile(&lengths, 50), quantile(&lengths, 99)), (100, 198));
        assert_eq!((quantile(&[7], 50), quantile(&[7], 99), quantile(&[], 99)), (7, 7, 0));
    }
}
