//! Waits where no record shows context switches: from the kernel's accounts of threads, read every few
//! milliseconds.
//!
//! At a moment when a thread is blocked, its accounts are exact: how long it ran, how long it was queued for
//! a CPU, how often it gave up its CPU. What is left of the time since the previous such moment was spent
//! blocked. The number of waits and their total are therefore right; how the total divides among the waits of
//! one interval is not known, and they get equal parts. While a thread stays blocked nothing changes, so long
//! waits are right to about an interval.

use std::collections::hash_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustc_hash::FxHashMap;
use whyslow_convert::{Input, Task};
use whyslow_numbers::ClockNs;
use whyslow_proc::process::Status;
use whyslow_profile::RecordingNote;

use crate::RecordError;
use crate::source::{Ending, LiveConverter, Source};
use crate::waiting::WaitSnapshots;

/// Threads read in a round, at about 5 µs each. If there are more, they take turns.
const MAX: usize = 100;
/// Threads whose file is kept open.
const MAX_FILES: usize = 256;

/// The kernel's accounts of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Accounts {
    ran_ns: u64,
    queued_ns: u64,
    /// How often it was given a CPU.
    turns: u64,
}

impl Accounts {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace().map(str::parse);
        let mut next = || words.next()?.ok();
        Some(Self { ran_ns: next()?, queued_ns: next()?, turns: next()? })
    }

    fn read(file: &File) -> Option<Self> {
        let mut text = [0; 96];
        let len = file.read_at(&mut text, 0).ok()?;
        Self::parse(std::str::from_utf8(&text[..len]).ok()?)
    }
}

/// A thread at the last moment when its accounts were exact.
#[derive(Debug, Clone, Copy)]
struct Known {
    time_ns: ClockNs,
    accounts: Accounts,
    /// How often it gave up its CPU.
    waits: u64,
    blocked: bool,
}

/// Off-CPU intervals of a thread between two moments, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    /// When it leaves its CPU; `None` if it had left it before.
    out_ns: Option<ClockNs>,
    /// When it runs again; `None` if it still waits at the end.
    in_ns: Option<ClockNs>,
}

/// Divides the time between two moments: the thread waits at the second one. It began `waits` waits since.
fn intervals(before: &Known, now_ns: ClockNs, accounts: &Accounts, waits: u64) -> Vec<Interval> {
    let elapsed_ns = now_ns.since(before.time_ns);
    let ran_ns = accounts.ran_ns.saturating_sub(before.accounts.ran_ns).min(elapsed_ns);
    let parts = waits + u64::from(before.blocked);
    let (off_ns, on_ns) = ((elapsed_ns - ran_ns) / parts.max(1), ran_ns / waits.max(1));
    let mut intervals = Vec::new();
    let mut time_ns = before.time_ns;
    if before.blocked {
        time_ns = time_ns.plus(off_ns);
        intervals.push(Interval { out_ns: None, in_ns: Some(time_ns) });
    }
    for wait in 0..waits {
        time_ns = time_ns.plus(on_ns);
        let out_ns = Some(time_ns);
        time_ns = time_ns.plus(off_ns);
        intervals.push(Interval { out_ns, in_ns: (wait + 1 < waits).then_some(time_ns) });
    }
    intervals
}

/// Reads the accounts of the recorded threads.
#[derive(Debug, Default)]
pub(crate) struct PolledSwitches {
    files: FxHashMap<u32, File>,
    known: FxHashMap<u32, Known>,
    /// The thread that was read last.
    last: u32,
    /// Whether the kernel keeps accounts.
    works: bool,
    snapshots: WaitSnapshots,
}

impl Source for PolledSwitches {
    /// Takes the accounts of threads, to compare later ones with.
    fn start(&mut self, converter: &mut LiveConverter) -> Result<(), RecordError> {
        self.known.clear();
        let time_ns = whyslow_proc::now();
        for task in converter.living() {
            if let Some(accounts) = self.accounts(task) {
                converter.take(&Input::QueuedAtStart { tid: task.tid, queued_ns: accounts.queued_ns });
                let waits = waits_of(task).unwrap_or(0);
                self.known.insert(task.tid, Known { time_ns, accounts, waits, blocked: false });
                converter.take(&Input::Runs { tid: task.tid, time_ns });
            }
        }
        Ok(())
    }

    fn interval(&mut self, _interval: Duration) -> Duration {
        self.snapshots.varied_pause()
    }

    /// Reads the accounts of threads, and takes snapshots of those that wait.
    fn look(&mut self, converter: &mut LiveConverter) {
        let mut tasks = converter.living();
        self.known.retain(|tid, _| tasks.binary_search_by_key(tid, |task| task.tid).is_ok());
        let behind = tasks.partition_point(|task| task.tid <= self.last);
        tasks.rotate_left(behind);
        tasks.truncate(MAX);
        self.last = tasks.last().map_or(0, |task| task.tid);
        for task in tasks {
            self.read_one(task, converter);
        }
        // All of them are read.
        converter.threads_to_read(usize::MAX);
    }

    fn finish(self: Box<Self>, ending: &mut Ending<'_>) {
        ending.note([if self.works {
            RecordingNote::WaitsFromAccounts
        } else {
            RecordingNote::WaitsNotRecorded
        }]);
    }
}

impl PolledSwitches {
    fn read_one(&mut self, task: Task, converter: &mut LiveConverter) -> Option<()> {
        let before_ns = whyslow_proc::now();
        let accounts = self.accounts(task)?;
        self.works = true;
        let start_ns = converter.thread_start_ns(task.tid)?;
        let started = Known { time_ns: start_ns, accounts: Accounts::default(), waits: 0, blocked: false };
        let before = self.known.get(&task.tid).copied();
        let is_new = before.is_none();
        let before = before.unwrap_or(started);
        if before.blocked && before.accounts.turns == accounts.turns {
            // It still waits.
            self.known.insert(task.tid, Known { time_ns: before_ns, ..before });
            return Some(());
        }
        if !self.snapshots.may_take() {
            return None;
        }
        let waits = waits_of(task)?;
        let now_ns = whyslow_proc::now();
        let (tid, cpu, preempted) = (task.tid, None, false);
        let snapshot = self.snapshots.read_one(task)?;
        if self.accounts(task)? != accounts {
            return None;
        }
        if is_new {
            converter.take(&Input::Switched { tid, runs: true, preempted, cpu, time_ns: start_ns });
        }
        let new_waits = waits.saturating_sub(before.waits).max(1);
        for Interval { out_ns, in_ns } in intervals(&before, now_ns, &accounts, new_waits) {
            if let Some(time_ns) = out_ns {
                converter.take(&Input::Switched { tid, runs: false, preempted, cpu, time_ns });
            }
            if let Some(time_ns) = in_ns {
                converter.take(&Input::Switched { tid, runs: true, preempted, cpu, time_ns });
            }
        }
        converter.take(&Input::Queued { tid, queued_ns: accounts.queued_ns, time_ns: now_ns });
        // The wait that goes on holds the snapshot, whatever its length will be.
        self.snapshots.add(task, snapshot, now_ns..now_ns, converter);
        self.known.insert(tid, Known { time_ns: now_ns, accounts, waits, blocked: true });
        Some(())
    }

    fn accounts(&mut self, Task { pid, tid }: Task) -> Option<Accounts> {
        if self.files.len() >= MAX_FILES && !self.files.contains_key(&tid) {
            self.files.clear();
        }
        let file = match self.files.entry(tid) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => new.insert(File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?),
        };
        let accounts = Accounts::read(file);
        if accounts.is_none() {
            // The number may belong to another thread by now.
            self.files.remove(&tid);
        }
        accounts
    }
}

/// How often a thread gave up its CPU.
fn waits_of(Task { pid, tid }: Task) -> Option<u64> {
    let path = format!("/proc/{pid}/task/{tid}/status");
    Status::read(path.as_ref())?.switches().map(|(voluntary, _)| voluntary)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> ClockNs {
        ClockNs::new(ms * MS)
    }

    fn known(blocked: bool) -> Known {
        Known { time_ns: at(100), accounts: Accounts::default(), waits: 0, blocked }
    }

    #[test]
    fn the_time_between_two_moments_is_divided_into_running_and_waiting() {
        let ran = |ms: u64| Accounts { ran_ns: ms * MS, ..Accounts::default() };
        let one = intervals(&known(false), at(110), &ran(3), 1);
        assert_eq!(one, [Interval { out_ns: Some(at(103)), in_ns: None }], "a wait that goes on is exact");
        let again = intervals(&known(true), at(110), &ran(4), 2);
        let expected = [
            Interval { out_ns: None, in_ns: Some(at(102)) },
            Interval { out_ns: Some(at(104)), in_ns: Some(at(106)) },
            Interval { out_ns: Some(at(108)), in_ns: None },
        ];
        assert_eq!(again, expected);
        let much = intervals(&known(false), at(110), &ran(50), 1);
        assert_eq!(much, [Interval { out_ns: Some(at(110)), in_ns: None }], "accounts of another moment");
    }

    #[test]
    fn parses_the_accounts_of_a_thread() {
        let parsed = Accounts::parse("1045670 83710 29\n");
        assert_eq!(parsed, Some(Accounts { ran_ns: 1_045_670, queued_ns: 83_710, turns: 29 }));
        assert_eq!(Accounts::parse("1045670 83710"), None);
    }
}
