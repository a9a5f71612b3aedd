//! What all threads of a program do together: at each moment one runs, or one could run, or all are blocked.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{MetricId, Profile};

use super::Reason;
use super::kinds::TimeKind;
use super::reason::Reasons;

/// The elapsed time of a program, by what its threads do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Together {
    /// The time in which a thread existed.
    pub elapsed_ns: u64,
    /// At least one thread ran.
    pub ran_ns: u64,
    /// No thread ran, and at least one was queued for a CPU.
    pub queued_ns: u64,
    /// All threads were blocked.
    pub blocked_ns: u64,
    /// What for, most first. If threads wait for each other, the reason is that of the others.
    pub reasons: Vec<(Reason, u64)>,
    /// How many threads there were.
    pub threads: usize,
}

/// The state of a thread. At the same time, ends come before starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Running,
    Waiting(Reason),
    Gone,
}

impl Together {
    /// From the recorded waits of all threads.
    pub fn of(profile: &Profile, metric: MetricId) -> Self {
        let Some(waits) = profile.samples.get(metric.index()) else { return Self::default() };
        let life = |thread: usize| {
            let thread = &profile.threads[thread];
            (thread.start_ns, thread.end_ns.unwrap_or(profile.meta.duration_ns).max(thread.start_ns))
        };
        let mut changes: Vec<(u64, State, usize)> = Vec::with_capacity(waits.len() * 2);
        for thread in 0..profile.threads.len() {
            let (start, end) = life(thread);
            changes.extend([(start, State::Running, thread), (end, State::Gone, thread)]);
        }
        let mut reasons = Reasons::new(profile);
        for row in 0..waits.len() {
            let thread = waits.thread[row].index();
            if thread >= profile.threads.len() {
                continue;
            }
            let (born, died) = life(thread);
            let end = waits.time_ns[row].min(died);
            let start = waits.time_ns[row].saturating_sub(waits.value[row]).max(born);
            if start < end {
                let reason = reasons.of_thread(waits.thread[row], waits.stack[row]);
                changes.extend([(start, State::Waiting(reason), thread), (end, State::Running, thread)]);
            }
        }
        changes.sort_unstable();
        let mut together = Self { threads: profile.threads.len(), ..Self::default() };
        let mut now = Moment { states: vec![State::Gone; profile.threads.len()], ..Moment::default() };
        let mut blocked: FxHashMap<Reason, u64> = FxHashMap::default();
        let mut before = 0;
        for (time, state, thread) in changes {
            let length = time - before;
            if length > 0 && now.alive > 0 {
                together.elapsed_ns += length;
                match now.blocked_for() {
                    _ if now.running > 0 => together.ran_ns += length,
                    None => together.queued_ns += length,
                    Some(reason) => {
                        together.blocked_ns += length;
                        *blocked.entry(reason).or_default() += length;
                    }
                }
            }
            before = time;
            now.set(thread, state);
        }
        together.reasons = blocked.into_iter().collect();
        together.reasons.sort_by_key(|(reason, ns)| (Reverse(*ns), *reason));
        together
    }
}

/// What each thread does at a moment.
#[derive(Debug, Default)]
struct Moment {
    states: Vec<State>,
    alive: usize,
    running: usize,
    /// How many threads wait, by reason.
    waiting: FxHashMap<Reason, usize>,
}

impl Moment {
    fn set(&mut self, thread: usize, state: State) {
        match std::mem::replace(&mut self.states[thread], state) {
            State::Gone => self.alive += 1,
            State::Running => self.running -= 1,
            State::Waiting(reason) => {
                if let Some(count) = self.waiting.get_mut(&reason) {
                    *count -= 1;
                }
            }
        }
        match state {
            State::Gone => self.alive -= 1,
            State::Running => self.running += 1,
            State::Waiting(reason) => *self.waiting.entry(reason).or_default() += 1,
        }
    }

    /// Why nothing happens, if all threads are blocked: a reason outside of the program before waits for
    /// other threads and processes, and those before idle threads.
    fn blocked_for(&self) -> Option<Reason> {
        let rank = |reason: Reason| match TimeKind::of(reason) {
            _ if reason == Reason::Child => 1,
            TimeKind::Io | TimeKind::Other => 0,
            TimeKind::Threads => 1,
            _ => 2,
        };
        let present = || self.waiting.iter().filter(|(_, count)| **count > 0).map(|(reason, _)| *reason);
        if present().any(|reason| reason == Reason::Cpu) {
            return None;
        }
        // A thread that waits for another says less than what that one waits for, whichever is the first.
        present().min_by_key(|reason| (rank(*reason), *reason))
    }
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Metric, Module, Samples, SpecialFrame, ThreadId, WaitFrame};

    use super::*;
    use crate::testing::profile;

    /// The main thread joins a worker that runs for 4, is queued for 1, and sleeps for 2.
    #[test]
    fn a_thread_that_joins_busy_workers_does_not_block_the_program() {
        let mut profile = profile(
            "main: main;std::thread::JoinHandle::join;__pthread_clockjoin_ex;sys_futex_wait 1
             worker: main;std::thread::sleep;sys_hrtimer_nanosleep 1
             worker: [libqueue] 1",
        );
        let stacks = profile.samples[0].stack.clone();
        let queue = SpecialFrame::Waiting(WaitFrame::Queued);
        let name = profile.strings.push(queue.text());
        if let Some(module) = profile.modules.last_mut() {
            *module = Module::special(queue, name);
        }
        for thread in &mut profile.threads {
            (thread.start_ns, thread.end_ns) = (0, Some(7));
        }
        let mut waits = Samples::default();
        waits.push(7, ThreadId(0), stacks[0], 7);
        waits.push(5, ThreadId(1), stacks[2], 1);
        waits.push(7, ThreadId(1), stacks[1], 2);
        let metric = profile.set_metric(Metric::off_cpu_time(), waits);
        let together = Together::of(&profile, metric);
        assert_eq!((together.elapsed_ns, together.threads), (7, 2));
        assert_eq!((together.ran_ns, together.queued_ns, together.blocked_ns), (4, 1, 2));
        assert_eq!(together.reasons, [(Reason::Sleep, 2)]);
    }
}
