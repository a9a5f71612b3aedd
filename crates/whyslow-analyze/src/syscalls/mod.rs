//! System calls per line of your code: count, time, bytes, files and errors.

mod note;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{Lengths, Profile, StringId, Syscalls};

pub use self::note::SyscallNote;
use crate::labels::{Label, Labels};
use crate::own::Charges;
use crate::selection::Selection;

/// The calls of one kind from one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallRow {
    /// The name of the call.
    pub call: StringId,
    /// The function of your code that makes it.
    pub label: Label,
    /// The file of its line.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
    /// Their cost.
    pub cost: SyscallCost,
    /// Errors by name, most frequent first.
    pub errors: Vec<(StringId, u64)>,
    /// The files, sockets and other targets of calls with a descriptor, by name, most time first.
    pub targets: Vec<(StringId, SyscallCost)>,
}

/// The cost of some calls.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SyscallCost {
    /// How many.
    pub count: u64,
    /// How many of them returned an error.
    pub failed: u64,
    /// How many have no stack and are charged where others of their kind are.
    pub spread: u64,
    /// The total time, including waiting.
    pub total_ns: u64,
    /// The longest call.
    pub max_ns: u64,
    /// Bytes read or written.
    pub bytes: u64,
    lengths: Lengths,
}

impl SyscallCost {
    fn add(&mut self, row: &Syscalls) {
        self.count = self.count.saturating_add(row.count);
        self.failed = self.failed.saturating_add(if row.error.is_some() { row.count } else { 0 });
        self.spread = self.spread.saturating_add(row.spread);
        self.total_ns = self.total_ns.saturating_add(row.total_ns);
        self.max_ns = self.max_ns.max(row.max_ns);
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.lengths.add_all(&row.lengths);
    }

    /// The percentile of the call times, rounded up by at most an eighth.
    pub fn quantile_ns(&self, percent: u64) -> u64 {
        self.lengths.quantile(percent).min(self.max_ns)
    }

    /// Mean bytes of a successful call.
    pub fn bytes_each(&self) -> Option<u64> {
        (self.bytes > 0).then(|| self.bytes.checked_div(self.count - self.failed))?
    }
}

/// All system calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallTable {
    /// The rows, most time first.
    pub rows: Vec<SyscallRow>,
    /// The total cost.
    pub all: SyscallCost,
    /// The time of calls that only wait.
    pub waiting_ns: u64,
}

/// Whether system calls were recorded.
pub fn has_syscalls(profile: &Profile) -> bool {
    profile.metric_named(whyslow_profile::Metric::SYSCALLS).is_some()
}

impl SyscallTable {
    /// Adds up the selected calls per call and line.
    pub fn build(profile: &Profile, selection: &Selection, charges: &Charges) -> Self {
        #[derive(Default)]
        struct Sums {
            cost: SyscallCost,
            errors: FxHashMap<StringId, u64>,
            targets: FxHashMap<StringId, SyscallCost>,
        }
        let labels = Labels::new(profile);
        let passes = selection.passing(profile);
        let mut sums: FxHashMap<_, Sums> = FxHashMap::default();
        let mut all = SyscallCost::default();
        for row in profile.syscalls.iter().filter(|row| passes(row.thread, row.time_ns, row.stack)) {
            let frame = charges.of(row.stack).frame;
            let sum = sums.entry((row.call, labels.code(frame.label), frame.file, frame.line)).or_default();
            all.add(row);
            sum.cost.add(row);
            if let Some(error) = row.error {
                *sum.errors.entry(error).or_default() += row.count;
            }
            if let Some(target) = row.file {
                sum.targets.entry(target).or_default().add(row);
            }
        }
        let mut rows: Vec<SyscallRow> = sums
            .into_iter()
            .map(|((call, code, file, line), sums)| {
                let mut errors: Vec<(StringId, u64)> = sums.errors.into_iter().collect();
                errors.sort_by_key(|(error, count)| (Reverse(*count), *error));
                let mut targets: Vec<(StringId, SyscallCost)> = sums.targets.into_iter().collect();
                targets.sort_by_key(|(target, cost)| (Reverse(cost.total_ns), *target));
                SyscallRow { call, label: labels.label(code), file, line, cost: sums.cost, errors, targets }
            })
            .collect();
        rows.sort_by_key(|row| {
            (Reverse(row.cost.total_ns), Reverse(row.cost.count), row.call, row.file, row.line)
        });
        let waiting = rows.iter().filter(|row| row.only_waits(profile)).map(|row| row.cost.total_ns);
        let waiting_ns = waiting.sum();
        Self { rows, all, waiting_ns }
    }

    /// The line and call with the most time, except calls that only wait.
    pub fn most_costly(&self, profile: &Profile) -> Option<&SyscallRow> {
        self.rows.iter().find(|row| !row.only_waits(profile))
    }
}

impl SyscallRow {
    /// Whether the call [only waits](only_waits).
    pub fn only_waits(&self, profile: &Profile) -> bool {
        only_waits(profile.text(self.call))
    }
}

/// Whether a call only waits: for a time, a thread, a child, a connection or events on descriptors.
pub fn only_waits(call: &str) -> bool {
    WAITING.contains(&call)
}

/// Calls that only wait.
const WAITING: [&str; 22] = [
    "accept",
    "accept4",
    "clock_nanosleep",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "futex",
    "futex_wait",
    "futex_waitv",
    "io_getevents",
    "nanosleep",
    "pause",
    "poll",
    "ppoll",
    "pselect6",
    "restart_syscall",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "select",
    "sched_yield",
    "wait4",
    "waitid",
];

#[cfg(test)]
mod tests;
