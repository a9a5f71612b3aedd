//! How long the program's threads ran, and how long they queued for a CPU that others used.
//!
//! ```text
//! queued behind others = min(time that the threads queued, CPU time of other programs)
//! ```
//! Threads of a program with more of them than CPUs queue for each other, which experiments understand.

use rustc_hash::FxHashMap;
use whyslow_proc::accounts::{MachineAccount, QueuedTime};
use whyslow_proc::process;

/// The accounts of a process's threads.
#[derive(Debug, Default)]
pub(super) struct Load {
    threads: FxHashMap<u32, Thread>,
    /// The CPU time of the whole machine.
    machine_ns: Option<u64>,
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
    /// The CPU time of the whole machine, if the kernel shows it.
    pub(super) machine_ns: Option<u64>,
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
        let machine_ns =
            MachineAccount::now().map(|machine| machine.account.user_ns + machine.account.system_ns);
        change.machine_ns = machine_ns.zip(self.machine_ns).map(|(now, before)| now.saturating_sub(before));
        self.machine_ns = machine_ns;
        change
    }
}

impl Change {
    /// Adds a later change. The threads are not told apart any more.
    pub(super) fn add(&mut self, later: &Self) {
        self.queued_ns += later.queued_ns;
        self.machine_ns = match self.ran_ns.is_empty() {
            true => later.machine_ns,
            false => self.machine_ns.zip(later.machine_ns).map(|(sum, more)| sum + more),
        };
        self.ran_ns.extend(&later.ran_ns);
    }

    /// How long the threads queued for a CPU that other programs used.
    pub(super) fn queued_behind_others_ns(&self) -> u64 {
        let Some(machine_ns) = self.machine_ns else { return self.queued_ns };
        self.queued_ns.min(machine_ns.saturating_sub(self.ran_ns.iter().sum()))
    }

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
        let change = Change { ran_ns: vec![10, 51, 100], ..Change::default() };
        assert_eq!(change.busy(100), 2);
    }

    #[test]
    fn changes_add_up() {
        let mut all = Change::default();
        for (queued_ns, machine_ns) in [(150, Some(210)), (150, Some(190)), (10, None)] {
            all.add(&Change { queued_ns, ran_ns: vec![100, 100], machine_ns });
        }
        assert_eq!((all.queued_ns, all.ran_ns.iter().sum::<u64>(), all.machine_ns), (310, 600, None));
        let mut alone = Change::default();
        alone.add(&Change { queued_ns: 150, ran_ns: vec![200], machine_ns: Some(205) });
        assert_eq!(alone.queued_behind_others_ns(), 5);
    }

    #[test]
    fn threads_that_queue_for_each_other_do_not_queue_behind_others() {
        let change = |queued_ns, machine_ns| Change { queued_ns, ran_ns: vec![50, 50, 50, 50], machine_ns };
        assert_eq!(
            change(150, Some(205)).queued_behind_others_ns(),
            5,
            "alone, with four threads on two CPUs"
        );
        assert_eq!(
            change(150, Some(270)).queued_behind_others_ns(),
            70,
            "other programs had the CPUs for 70"
        );
        assert_eq!(
            change(10, Some(290)).queued_behind_others_ns(),
            10,
            "others run, and there are enough CPUs"
        );
        assert_eq!(change(150, None).queued_behind_others_ns(), 150);
        assert_eq!(change(150, Some(190)).queued_behind_others_ns(), 0, "ticks are coarse");
    }
}
