//! System calls per line of the user's code: how many, how long, how much, on what, and with what errors.

mod advice;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{Lengths, Profile, StringId, Syscalls};

pub use self::advice::SyscallAdvice;
use crate::labels::{Label, Labels};
use crate::own::Charges;
use crate::selection::Selection;

/// The calls of one kind that a line makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallRow {
    /// The name of the call.
    pub call: StringId,
    /// The function of the user's code that makes it.
    pub label: Label,
    /// The file of its line.
    pub file: Option<StringId>,
    /// The line; 0 when not known.
    pub line: u32,
    /// What they cost.
    pub cost: SyscallCost,
    /// Errors by name, most frequent first.
    pub errors: Vec<(StringId, u64)>,
    /// What they are about, by name, where they have a descriptor: most time first.
    pub targets: Vec<(StringId, SyscallCost)>,
}

/// What some calls cost.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SyscallCost {
    /// How many.
    pub count: u64,
    /// How many of them returned an error.
    pub failed: u64,
    /// How many came without a stack and are counted where others of their kind are.
    pub spread: u64,
    /// How long in all, waiting included.
    pub total_ns: u64,
    /// The longest.
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

    /// The length that so many of a hundred do not exceed, rounded up by at most an eighth.
    pub fn quantile_ns(&self, percent: u64) -> u64 {
        self.lengths.quantile(percent).min(self.max_ns)
    }

    /// Bytes of a call that went well, on average.
    pub fn bytes_each(&self) -> Option<u64> {
        (self.bytes > 0).then(|| self.bytes.checked_div(self.count - self.failed))?
    }
}

/// All system calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallTable {
    /// Most time first.
    pub rows: Vec<SyscallRow>,
    /// What all cost.
    pub all: SyscallCost,
    /// How long those took that do nothing but wait.
    pub waiting_ns: u64,
}

/// Whether system calls were recorded.
pub fn has_syscalls(profile: &Profile) -> bool {
    profile.metric_named(whyslow_profile::Metric::SYSCALLS).is_some()
}

impl SyscallTable {
    /// Adds the selected calls up per call and line.
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

    /// The line and call that takes most of the time, those that only wait left out.
    pub fn most_costly(&self, profile: &Profile) -> Option<&SyscallRow> {
        self.rows.iter().find(|row| !row.only_waits(profile))
    }
}

impl SyscallRow {
    /// Whether the call does nothing but wait: for a time, another thread, a child, a connection, news of descriptors.
    pub fn only_waits(&self, profile: &Profile) -> bool {
        WAITING.contains(&profile.text(self.call))
    }
}

/// Calls that do nothing but wait.
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
