//! Compares the CPU time of exited threads with the time that their samples stand for.
//!
//! A sample of a thread that lives shorter than a tick stands for a whole tick, and so for similar threads
//! without a sample. Threads are therefore grouped: those of one process whose names differ only in digits.
//! Time that is missing beyond noise was spent where no tick fell, for example by threads that take turns in
//! step with the ticks.

use rustc_hash::FxHashMap;
use whyslow_convert::Task;
use whyslow_numbers::ClockNs;

/// The accounts of each group of threads.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// The time that samples of running threads stand for.
    living: FxHashMap<Task, u64>,
    kinds: FxHashMap<(u32, String), Kind>,
}

#[derive(Debug)]
struct Kind {
    /// Total CPU time of the exited threads.
    cpu_ns: u64,
    /// The time that their samples stand for.
    sampled_ns: u64,
    /// The thread that exited last, and when.
    last: (Task, ClockNs),
}

/// CPU time that no sample stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// A thread of the group.
    pub(super) task: Task,
    pub(super) cpu_ns: u64,
    pub(super) time_ns: ClockNs,
}

impl Accounts {
    /// Adds the time that a thread's sample stands for.
    pub(super) fn sampled(&mut self, task: Task, value_ns: u64) {
        // The program itself writes these numbers, so they may be arbitrary.
        let sum = self.living.entry(task).or_default();
        *sum = sum.saturating_add(value_ns);
    }

    /// Adds the total CPU time of a thread that has exited.
    pub(super) fn ended(&mut self, task: Task, name: &str, cpu_ns: u64, time_ns: ClockNs) {
        let sampled_ns = self.living.remove(&task).unwrap_or(0);
        let key = (task.pid, name.chars().filter(|c| !c.is_ascii_digit()).collect());
        let kind = self.kinds.entry(key).or_insert(Kind { cpu_ns: 0, sampled_ns: 0, last: (task, time_ns) });
        kind.cpu_ns = kind.cpu_ns.saturating_add(cpu_ns);
        kind.sampled_ns = kind.sampled_ns.saturating_add(sampled_ns);
        kind.last = (task, time_ns);
    }

    /// The time that each group lacks beyond noise, for samples this far apart.
    pub(super) fn missing(&self, period_ns: u64) -> Vec<Missing> {
        let missing = self.kinds.values().filter_map(|kind| {
            let Kind { cpu_ns, sampled_ns, last: (task, time_ns) } = *kind;
            let expected = cpu_ns as f64 / period_ns.max(1) as f64;
            let by_chance = 3.0 * expected.max(1.0).sqrt() * period_ns as f64;
            let missing = cpu_ns.saturating_sub(sampled_ns);
            (missing as f64 > by_chance).then_some(Missing { task, cpu_ns: missing, time_ns })
        });
        let mut missing: Vec<Missing> = missing.collect();
        missing.sort_by_key(|missing| (missing.time_ns, missing.task.tid));
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn thread(tid: u32) -> Task {
        Task { pid: 1, tid }
    }

    #[test]
    fn reports_the_time_of_threads_that_ticks_never_hit() {
        let mut accounts = Accounts::default();
        for tid in 0..400 {
            let (name, cpu) = if tid % 2 == 0 { ("even", 6 * MS) } else { ("odd", 2 * MS) };
            // Each long thread is sampled as often as it should be, and one in ten of the short ones.
            if tid % 2 == 0 {
                accounts.sampled(thread(tid), if tid % 4 == 0 { 8 * MS } else { 4 * MS });
            } else if tid % 20 == 1 {
                accounts.sampled(thread(tid), 4 * MS);
            }
            accounts.ended(thread(tid), &format!("{name}-{tid}"), cpu, ClockNs::new(u64::from(tid)));
        }
        let missing = accounts.missing(4 * MS);
        assert_eq!(
            missing,
            [Missing { task: thread(399), cpu_ns: 200 * 2 * MS - 20 * 4 * MS, time_ns: ClockNs::new(399) }]
        );
    }

    #[test]
    fn does_not_report_differences_within_noise() {
        let mut accounts = Accounts::default();
        // A quarter of them is sampled, each for a whole tick.
        for tid in 0..1000 {
            if tid % 4 == 0 {
                accounts.sampled(thread(tid), 4 * MS);
            }
            accounts.ended(thread(tid), "worker", MS, ClockNs::MIN);
        }
        accounts.ended(thread(2000), "alone", 11 * MS, ClockNs::MIN);
        assert_eq!(accounts.missing(4 * MS), []);
    }
}
