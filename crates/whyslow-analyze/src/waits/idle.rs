//! Idle threads, by their behaviour: whatever the language, a thread that spends nearly all of its life in one
//! kind of wait, woken rarely, waits for work.
//!
//! ```text
//! helper  not the first thread of its program, or a forked worker: the first thread of a process that still runs its parent's program
//! idle    a helper that lives for MIN_LIFE_NS, MIN_SHARE of it (without time in the run queue) in waits of one reason, with at most MAX_WAKES a second
//! ```
//! A program's first thread does what the user waits for, so its waits keep their reason. So do waits that
//! name what is slow: locks, files, sockets, channels, sleeps, children.

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::{Profile, StackId, Thread, ThreadId};

use super::reason::{Reason, Reasons};
use super::wait_metric;
use crate::parallelism::Parallelism;

const MIN_LIFE_NS: u64 = 1_000_000_000;
const MIN_SHARE: f64 = 0.95;
const MAX_WAKES: f64 = 100.0;

/// The waits of one thread for one reason.
#[derive(Default)]
struct Sum {
    total_ns: u64,
    count: u64,
    stacks: FxHashSet<StackId>,
}

/// Whether a wait for this can be a wait for work.
pub(super) fn can_be_idle(reason: Reason) -> bool {
    matches!(reason, Reason::Condition | Reason::Park | Reason::Events | Reason::Signal | Reason::Other)
}

/// The waits of idle threads: the thread and the stack.
pub(super) fn idle_waits(profile: &Profile, reasons: &mut Reasons<'_>) -> FxHashSet<(ThreadId, StackId)> {
    let Some(waits) = wait_metric(profile).and_then(|metric| profile.samples.get(metric.index())) else {
        return FxHashSet::default();
    };
    let helpers: Vec<bool> = profile.threads.iter().map(|thread| is_helper(profile, thread)).collect();
    let mut queued = vec![0u64; profile.threads.len()];
    let mut sums: FxHashMap<(ThreadId, Reason), Sum> = FxHashMap::default();
    for row in (0..waits.len()).filter(|row| helpers[waits.thread[*row].index()]) {
        let (thread, stack, value) = (waits.thread[row], waits.stack[row], waits.value[row]);
        let reason = reasons.of(stack);
        if reason == Reason::Cpu {
            queued[thread.index()] += value;
        }
        if can_be_idle(reason) {
            let sum = sums.entry((thread, reason)).or_default();
            sum.total_ns += value;
            sum.count += 1;
            sum.stacks.insert(stack);
        }
    }
    let end_ns = Parallelism::end_ns(profile);
    let idle = sums.into_iter().filter(|((thread, _), sum)| {
        let row = &profile.threads[thread.index()];
        let life_ns = row.end_ns.unwrap_or(end_ns).saturating_sub(row.start_ns);
        let unqueued_ns = life_ns.saturating_sub(queued[thread.index()]);
        life_ns >= MIN_LIFE_NS
            && sum.total_ns as f64 >= MIN_SHARE * unqueued_ns as f64
            && sum.count as f64 <= MAX_WAKES * life_ns as f64 / 1e9
    });
    idle.flat_map(|((thread, _), sum)| sum.stacks.into_iter().map(move |stack| (thread, stack))).collect()
}

/// Whether a thread serves the program, instead of being what the user started.
fn is_helper(profile: &Profile, thread: &Thread) -> bool {
    let process = &profile.processes[thread.process.index()];
    let parent = process.parent.map(|parent| profile.processes[parent.index()].name);
    thread.tid != process.pid || parent.is_some_and(|name| profile.text(name) == profile.text(process.name))
}

#[cfg(test)]
mod tests {
    use whyslow_profile::Subject;

    use super::*;
    use crate::testing::profile;

    const MS: u64 = 1_000_000;

    /// Threads with one wait each, of so many milliseconds in a life of 2 s; the first is the program's first.
    fn reasons(waits: &[(&str, u64)]) -> Vec<Reason> {
        let lines: Vec<String> =
            waits.iter().enumerate().map(|(at, (stack, _))| format!("t{at}: {stack} 1")).collect();
        let mut profile = profile(&lines.join("\n"));
        profile.meta.duration_ns = 2000 * MS;
        profile.metrics[0].of = Subject::Wait;
        for (row, (_, length)) in waits.iter().enumerate() {
            (profile.samples[0].time_ns[row], profile.samples[0].value[row]) = (2000 * MS, length * MS);
        }
        let process = profile.threads[0].process;
        profile.threads[0].tid = profile.processes[process.index()].pid;
        for (row, thread) in profile.threads.iter_mut().enumerate().skip(1) {
            thread.tid = 1000 + row as u32;
        }
        let mut reasons = Reasons::new(&profile);
        let samples = &profile.samples[0];
        (0..samples.len()).map(|row| reasons.of_thread(samples.thread[row], samples.stack[row])).collect()
    }

    #[test]
    fn helper_that_waits_for_its_whole_life_is_idle() {
        let job = "bioProcessBackgroundJobs;pthread_cond_wait;sys_futex_wait";
        let unnamed = "GC_worker;syscall;sys_futex_wait";
        let reasons = reasons(&[
            (job, 1990),
            (job, 1990),
            (unnamed, 1990),
            ("worker;epoll_wait;sys_ep_poll", 1990),
            (job, 1000),
            ("worker;std::lock_contended;sys_futex_wait", 1990),
            ("worker;std::thread::sleep;sys_nanosleep", 1990),
            ("worker;recv;sys_tcp_recvmsg", 1990),
        ]);
        assert_eq!(
            reasons,
            [
                Reason::Condition,
                Reason::Idle,
                Reason::Idle,
                Reason::Idle,
                Reason::Condition,
                Reason::Lock,
                Reason::Sleep,
                Reason::Network
            ],
            "the first thread, three helpers, a busy one, and waits that say what is slow"
        );
    }

    #[test]
    fn forked_worker_is_a_helper_and_another_program_is_not() {
        let mut profile = profile("main 1");
        let process = profile.processes[0].clone();
        let thread = profile.threads[0].clone();
        let other = profile.strings.push("curl");
        for (at, name) in [(1u32, process.name), (2, other)] {
            let pid = process.pid + at;
            profile.processes.push(whyslow_profile::Process {
                pid,
                parent: Some(whyslow_profile::ProcessId(0)),
                name,
                ..process.clone()
            });
            profile.threads.push(Thread {
                tid: pid,
                process: whyslow_profile::ProcessId(at),
                ..thread.clone()
            });
        }
        profile.threads[0].tid = process.pid;
        let helpers: Vec<bool> = profile.threads.iter().map(|thread| is_helper(&profile, thread)).collect();
        assert_eq!(helpers, [false, true, false]);
    }
}
