//! How long the program's threads ran, and how long they queued for a CPU.

use rustc_hash::FxHashMap;
use whyslow_proc::accounts::QueuedTime;
use whyslow_proc::process;

/// The accounts of a process's threads.
#[derive(Debug, Default)]
pub(super) struct Load {
    threads: FxHashMap<u32, Thread>,
}

#[derive(Debug)]
struct Thread {
    times: QueuedTime,
    ran_ns: u64,
    queued_ns: u64,
}

/// What the threads did since the last reading.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// The time that they queued, added up.
    pub(super) queued_ns: u64,
    /// The time that each ran.
    pub(super) ran_ns: Vec<u64>,
}

impl Load {
    /// Reads the accounts. A thread that is new has queued and run since its start.
    pub(super) fn read(&mut self, pid: u32) -> Change {
        let mut change = Change::default();
        for tid in process::threads(pid).unwrap_or_default() {
            if !self.threads.contains_key(&tid)
                && let Some(times) = QueuedTime::open(pid, tid)
            {
                self.threads.insert(tid, Thread { times, ran_ns: 0, queued_ns: 0 });
            }
        }
        self.threads.retain(|_, thread| {
            let Some((ran_ns, queued_ns)) = thread.times.read_both_ns() else { return false };
            change.queued_ns += queued_ns.saturating_sub(thread.queued_ns);
            change.ran_ns.push(ran_ns.saturating_sub(thread.ran_ns));
            (thread.ran_ns, thread.queued_ns) = (ran_ns, queued_ns);
            true
        });
        change
    }
}

impl Change {
    /// How many threads ran for more than half of this time.
    pub(super) fn busy(&self, length_ns: u64) -> u32 {
        self.ran_ns.iter().filter(|ran| **ran > length_ns / 2).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_busy_if_it_runs_for_more_than_half_of_the_time() {
        let change = Change { queued_ns: 0, ran_ns: vec![10, 51, 100] };
        assert_eq!(change.busy(100), 2);
    }
}
