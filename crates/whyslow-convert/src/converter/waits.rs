//! Off-CPU time of threads: from leaving a CPU until running on one again.
//!
//! ```text
//! Leaves   the stack of a thread that is about to leave its CPU
//! Switched it has left, voluntarily (blocked) or not (queued for a CPU); or it runs again
//! Wakes    its wait is over: from now on it is queued for a CPU
//! ```
//! The time in each state is added up per thread. If waits are recorded, each wait becomes a row when it
//! ends. A thread that is only queued for a CPU has an innermost frame that says so.
//!
//! If the kernel does not provide the stacks of threads that leave, the recorder takes snapshots of them
//! while they wait ([`Converter::threads_to_snapshot`], [`Converter::add_wait_snapshot`]). Records arrive
//! later than snapshots are taken, so they decide which wait a snapshot belongs to: the one that it was taken
//! in, from its first to its last reading. A wait without a stack gets that of one that is alike.

mod alike;
mod ended;

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;
use whyslow_profile::{MetricId, SpecialFrame, StackId, ThreadId, ThreadTimes, WaitFrame, WokenBy};

use self::alike::{Alike, Place};
use self::ended::Ended;
pub(super) use self::ended::Unsplit;
pub use self::ended::WaitStacks;

use super::Converter;
use super::parked::Parked;
use super::tasks::ThreadState;
use crate::arch::system_call_argument;
use crate::input::{Sample, Task, UserStack, Wakes};
use crate::world::World;

/// A thread whose waits were missed is a candidate for snapshots this long, also while it is not known to
/// wait: records of its next wait may come too late.
const MISSED_NS: u64 = 100_000_000;
/// A thread that is about to leave its CPU can be woken this long before it has left.
const WOKEN_ON_LEAVING_NS: u64 = 50_000;

/// When records were lost, and which waits are doubtful because of it: a thread that runs and leaves again
/// without a record seems to have waited all the time.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The last loss of each CPU.
    of_cpu: FxHashMap<u32, u64>,
    /// The last loss without a CPU.
    anywhere: Option<u64>,
    /// The number of waits that may be too long, and their total length.
    waits: u64,
    total_ns: u64,
}

impl Losses {
    pub(super) fn add(&mut self, cpu: Option<u32>, time: u64) {
        match cpu {
            Some(cpu) => _ = self.of_cpu.insert(cpu, time),
            None => self.anywhere = Some(time),
        }
    }

    /// Counts a wait if records of one of these CPUs were lost while it lasted.
    fn judge(&mut self, cpus: [Option<u32>; 2], since: u64, length_ns: u64) {
        let of_cpus = cpus.into_iter().flatten().filter_map(|cpu| self.of_cpu.get(&cpu).copied());
        if of_cpus.chain(self.anywhere).any(|lost| lost > since) {
            self.waits += 1;
            self.total_ns = self.total_ns.saturating_add(length_ns);
        }
    }
}

/// The state shared by all threads.
#[derive(Debug)]
pub(super) struct Waits {
    metric: MetricId,
    /// Whether the recorder takes snapshots of waiting threads. Otherwise samples provide their stacks.
    snapshots: bool,
    /// Threads that may need a snapshot. They take turns.
    candidates: VecDeque<u32>,
    /// Whether run-queue delay after waits is known from the kernel's account alone.
    splits: bool,
    /// Threads with waits since the last reading of that account, and threads with readings.
    unread: VecDeque<u32>,
    read: Vec<u32>,
    /// Waits that are not rows yet.
    unsettled: Vec<Ended>,
    alike: Alike,
    stacks: WaitStacks,
}

/// The state of one thread.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// The stack at which it leaves its CPU.
    stack: Option<StackId>,
    /// The first argument of the system call that it waits in; 0 if unknown.
    argument: u64,
    /// The lock that it is queued for, if it waits on its own futex.
    parked: Option<Parked>,
    /// Since when it is off its CPU, and whether it is only queued for one.
    since: Option<(u64, bool)>,
    /// The CPU that it left.
    cpu: Option<u32>,
    /// The wakeup that ended its wait.
    woken: Option<Woken>,
}

/// The snapshots of one thread.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// Those that no record has placed yet, with the time that each took.
    taken: Vec<(Range<u64>, Place)>,
    /// The end of the last wait without one.
    missed_ns: Option<u64>,
    /// Whether the thread is a candidate.
    listed: bool,
}

impl Snapshots {
    /// The snapshot that was taken in a wait. Drops those of earlier times.
    fn of_wait(&mut self, wait: Range<u64>) -> Option<Place> {
        let inside = |taken: &Range<u64>| wait.start <= taken.start && taken.end <= wait.end;
        let place = self.taken.iter().find(|(taken, _)| inside(taken)).map(|(_, place)| *place);
        self.taken.retain(|(taken, _)| taken.start >= wait.end);
        place
    }
}

/// The end of a wait, after which the thread is queued for a CPU.
#[derive(Debug, Clone, Copy)]
struct Woken {
    time: u64,
    by: WokenBy,
    thread: Option<ThreadId>,
    stack: Option<StackId>,
}

impl<W: World> Converter<W> {
    /// Declares that context switches are recorded, so that the times of threads can be computed.
    pub fn expect_switches(&mut self) {
        self.has_switches = true;
    }

    /// Records waits. `snapshots` says that their stacks come from snapshots and not from samples.
    pub fn record_waits(&mut self, metric: MetricId, snapshots: bool) {
        self.waits = Some(Waits {
            metric,
            snapshots,
            candidates: VecDeque::new(),
            splits: false,
            unread: VecDeque::new(),
            read: Vec::new(),
            unsettled: Vec::new(),
            alike: Alike::default(),
            stacks: WaitStacks::default(),
        });
    }

    /// How many waits have a stack, of their own or of another wait.
    pub fn wait_stacks(&self) -> WaitStacks {
        self.waits.as_ref().map(|waits| waits.stacks).unwrap_or_default()
    }

    /// The number of waits that may be too long because records were lost during them, and their total
    /// length.
    pub fn doubtful_waits(&self) -> (u64, u64) {
        (self.losses.waits, self.losses.total_ns)
    }

    /// A thread is about to leave its CPU.
    pub(super) fn leaves(&mut self, sample: &Sample<'_>) {
        let Sample { time_ns, task: Task { pid, tid }, .. } = *sample;
        if self.waits.is_none() || pid == 0 || tid == u32::MAX {
            return;
        }
        self.ensure_thread(pid, tid, time_ns);
        let user = self.user_stack(Task { pid, tid }, &sample.user);
        let stack = self.kernel_stack(sample.kernel, user);
        let (argument, parked) = match &sample.user {
            UserStack::Dump(registers, dump) => {
                let argument = system_call_argument(registers).unwrap_or(0);
                (argument, self.parked_on(pid, argument, Some(dump)))
            }
            _ => (0, None),
        };
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.away.stack = stack;
            (thread.away.argument, thread.away.parked) = (argument, parked);
        }
    }

    /// A waiting thread is woken.
    pub(super) fn wakes(&mut self, Wakes { tid, by, in_interrupt }: &Wakes<'_>) {
        if !self.threads.contains_key(tid) {
            return;
        }
        let waker = self.threads.get(&by.task.tid).filter(|thread| thread.pid == by.task.pid);
        let mut woken = Woken { time: by.time_ns, by: WokenBy::OtherProgram, thread: None, stack: None };
        if *in_interrupt {
            woken.by = WokenBy::Interrupt;
        } else if let Some(waker) = waker {
            (woken.by, woken.thread) = (WokenBy::Thread, Some(waker.id));
            if !matches!(by.user, UserStack::None | UserStack::Address(_)) {
                let user = self.user_stack(by.task, &by.user);
                woken.stack = self.kernel_stack(by.kernel, user);
            }
        }
        let Some(thread) = self.threads.get_mut(tid) else { return };
        match &mut thread.away.woken {
            None => thread.away.woken = Some(woken),
            // The same wakeup is recorded once without the stack and once with it.
            Some(known) if known.thread == woken.thread => known.stack = known.stack.or(woken.stack),
            Some(_) => {}
        }
    }

    /// At most this many threads that need a snapshot: those that wait without one as far as is known, and
    /// those whose waits were too short for the records to arrive in time. They take turns.
    pub fn threads_to_snapshot(&mut self, most: usize, now: u64) -> Vec<Task> {
        let Some(waits) = &mut self.waits else { return Vec::new() };
        let mut tasks = Vec::new();
        for _ in 0..waits.candidates.len() {
            if tasks.len() == most {
                break;
            }
            let Some(tid) = waits.candidates.pop_front() else { break };
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            let last = thread.snapshots.taken.last().map(|(taken, _)| taken.start);
            let waits_unseen = match thread.away.since {
                Some((since, false)) => thread.away.stack.is_none() && last.is_none_or(|last| last < since),
                _ => false,
            };
            let missed = thread.snapshots.missed_ns.is_some_and(|missed| now < missed + MISSED_NS);
            let waits_known = matches!(thread.away.since, Some((_, false)));
            if waits_unseen || missed && !waits_known {
                tasks.push(Task { pid: thread.pid, tid });
            }
            if waits_unseen || missed {
                waits.candidates.push_back(tid);
            } else {
                thread.snapshots.listed = false;
            }
        }
        tasks
    }

    /// Adds the snapshot of a waiting thread: its stack, the first argument of its system call, what it waits
    /// for according to the system, and the time that it took.
    pub fn add_wait_snapshot(
        &mut self,
        task: Task,
        user: &UserStack<'_>,
        argument: u64,
        place: WaitFrame,
        taken: Range<u64>,
    ) {
        let stack = self.user_stack(task, user);
        let place = self.builder.special(SpecialFrame::Waiting(place));
        let stack = self.builder.stack(stack, place);
        let dump = match user {
            UserStack::Dump(_, dump) => Some(dump),
            _ => None,
        };
        let parked = self.parked_on(task.pid, argument, dump);
        let read_ns = parked.and_then(|parked| parked.read_ns).unwrap_or(taken.end);
        let parked_on = parked.map_or(0, |parked| parked.key);
        let data = self.data_at(task.pid, if parked_on > 0 { parked_on } else { argument });
        if let Some(thread) = self.threads.get_mut(&task.tid) {
            let taken = taken.start..taken.end.max(read_ns);
            thread.snapshots.taken.push((taken, Place { stack, argument, parked_on, data }));
        }
    }

    /// A thread has left its CPU.
    pub(super) fn wait_begins(&mut self, tid: u32, preempted: bool, cpu: Option<u32>, time: u64) {
        if time < self.taken_from_ns {
            return;
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let away = &mut thread.away;
        (away.since, away.cpu) = (Some((time, preempted)), cpu);
        // An earlier wakeup was for a wait that never started.
        away.woken = away.woken.filter(|woken| !preempted && woken.time + WOKEN_ON_LEAVING_NS >= time);
        if let Some(waits) = &mut self.waits
            && !preempted
            && waits.snapshots
            && !std::mem::replace(&mut thread.snapshots.listed, true)
        {
            waits.candidates.push_back(tid);
        }
    }

    /// A thread already waits when its recording starts, and needs a snapshot: no record shows where it left
    /// its CPU.
    pub fn waits_already(&mut self, tid: u32, time: u64) {
        self.wait_begins(tid, false, None, time);
        if let (Some(waits), Some(thread)) = (&mut self.waits, self.threads.get_mut(&tid))
            && !std::mem::replace(&mut thread.snapshots.listed, true)
        {
            waits.candidates.push_back(tid);
        }
    }

    /// A thread already runs when its recording starts.
    pub fn runs_already(&mut self, tid: u32, time: u64) {
        self.account_exec(tid, time);
    }

    /// A thread has started and is queued for its first CPU.
    pub(super) fn first_wait_begins(&mut self, tid: u32, time: u64) {
        self.wait_begins(tid, true, None, time);
    }

    /// A thread is on a CPU again, or the recording ends.
    pub(super) fn wait_ends(&mut self, tid: u32, on: Option<u32>, time: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let (id, pid) = (thread.id, thread.pid);
        let Away { stack, argument, parked, since, cpu, woken } = std::mem::take(&mut thread.away);
        let Some((since, preempted)) = since else { return };
        self.losses.judge([cpu, on], since, time.saturating_sub(since));
        let woken = woken.filter(|woken| !preempted && woken.time <= time);
        // Before the wakeup it was blocked, and after it queued for a CPU.
        let ready = match woken {
            Some(woken) => woken.time.max(since),
            None if preempted => since,
            None => time,
        };
        let times = &mut thread.times;
        times.blocked_ns += ready.saturating_sub(since);
        times.queued_ns += time.saturating_sub(ready);
        times.waits += u64::from(!preempted);
        times.preemptions += u64::from(preempted);
        let snapshot = thread.snapshots.of_wait(since..time).filter(|_| !preempted);
        if !preempted && stack.is_none() {
            thread.snapshots.missed_ns = snapshot.is_none().then_some(time);
        }
        if self.waits.is_none() {
            return;
        }
        // What was read after the end of the wait belongs to another.
        let parked = parked.filter(|parked| parked.read_ns.is_none_or(|read| read <= time));
        let parked_on = parked.map_or(0, |parked| parked.key);
        let data = |address| self.data_at(pid, address);
        let place = stack.map(|stack| Place {
            stack,
            argument,
            parked_on,
            data: data(if parked_on > 0 { parked_on } else { argument }),
        });
        let place = place.or(snapshot);
        self.add_ended(tid, Ended { thread: id, since, ready, end: time, preempted, cpu, woken, place });
    }

    /// Ends the waits of all threads that have not exited.
    pub fn end_waits(&mut self, time: u64) {
        let mut tids: Vec<u32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            let ended = self.threads.get(&tid).and_then(|thread| self.builder.thread_row(thread.id).end_ns);
            if ended.is_none() {
                self.store_times(tid, time);
            }
        }
        self.settle_waits(time, true);
    }

    /// When a thread started.
    pub fn thread_start_ns(&self, tid: u32) -> Option<u64> {
        let thread = self.threads.get(&tid)?;
        Some(self.start_ns + self.builder.thread_row(thread.id).start_ns)
    }

    /// The threads that have not exited.
    pub fn living(&self) -> Vec<Task> {
        let lives = |thread: &ThreadState| self.builder.thread_row(thread.id).end_ns.is_none();
        let living = self.threads.iter().filter(|(_, thread)| lives(thread));
        let mut tasks: Vec<Task> = living.map(|(tid, thread)| Task { pid: thread.pid, tid: *tid }).collect();
        tasks.sort_unstable_by_key(|task| task.tid);
        tasks
    }

    /// Stores the times of a thread up to its exit or the end of the recording.
    pub(super) fn store_times(&mut self, tid: u32, time: u64) {
        if !self.has_switches {
            return;
        }
        self.wait_ends(tid, None, time);
        self.split_all_waits(tid);
        let Some(thread) = self.threads.get(&tid) else { return };
        let mut times = ThreadTimes { ran_ns: thread.cpu_time.until(time), ..thread.times };
        // Any further delay that the kernel counted was between a wakeup and running.
        let (before, now) = thread.queue;
        let woken_ns = (now - before).saturating_sub(times.queued_ns).min(times.blocked_ns);
        times.queued_ns += woken_ns;
        times.queued_estimated_ns += woken_ns;
        times.blocked_ns -= woken_ns;
        if times != ThreadTimes::default() {
            self.builder.update_thread(thread.id, |row| row.times = Some(times));
        }
    }
}

#[cfg(test)]
mod tests;
