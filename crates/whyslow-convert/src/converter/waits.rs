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
//! while they wait ([`Waits::candidates`], [`Waits::add_snapshot`]). Records arrive later than snapshots are taken, so they decide which wait a snapshot belongs to: the one that it was taken
//! in, from its first to its last reading. A wait without a stack gets that of one that is alike.

mod alike;
mod ended;
mod losses;
mod queues;
mod rows;

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;
use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_profile::{SpecialFrame, StackId, ThreadId, ThreadTimes, WaitFrame, WokenBy};

use self::alike::Place;
use self::ended::Ended;
use self::losses::Losses;
use self::queues::Unsplit;
use self::rows::Rows;
pub use self::rows::WaitStacks;
use super::mappings::Mappings;
use super::parked::Parked;
use super::setup::{WaitSetup, WaitStackSource};
use super::tables::Tables;
use super::tasks::LiveThread;
use crate::input::Task;

/// A thread whose waits were missed is a candidate for snapshots this long, also while it is not known to
/// wait: records of its next wait may come too late.
const MISSED_NS: u64 = 100_000_000;
/// A thread that is about to leave its CPU can be woken this long before it has left.
const WOKEN_ON_LEAVING_NS: u64 = 50_000;

/// The waits of all threads.
#[derive(Debug)]
pub(super) struct Waits {
    /// What waits that become rows need.
    rows: Option<Rows>,
    losses: Losses,
    threads: FxHashMap<ThreadId, Waiting>,
    /// Threads that may need a snapshot. They take turns.
    candidates: VecDeque<ThreadId>,
    /// Threads with waits since the last reading of their run-queue delay, and threads with readings.
    unread: VecDeque<ThreadId>,
    read: Vec<ThreadId>,
}

/// The state of one thread.
#[derive(Debug)]
struct Waiting {
    task: Task,
    away: Away,
    snapshots: Snapshots,
    /// Its waits until its run-queue delay is read.
    unsplit: Unsplit,
    /// Its time off CPUs so far.
    times: ThreadTimes,
    /// Its run-queue delay by the kernel's account: at the start of the recording, and at the last reading.
    queue: (u64, u64),
}

impl Waiting {
    fn new(task: Task) -> Self {
        let (away, snapshots, unsplit) = Default::default();
        Self { task, away, snapshots, unsplit, times: ThreadTimes::default(), queue: (0, 0) }
    }
}

/// A thread that leaves its CPU, or has left it.
#[derive(Debug, Default)]
struct Away {
    /// The stack at which it leaves its CPU.
    stack: Option<StackId>,
    /// The first argument of the system call that it waits in; 0 if unknown.
    argument: u64,
    /// The lock that it is queued for, if it waits on its own futex.
    parked: Option<Parked>,
    /// Since when it is off its CPU, and whether it is only queued for one.
    since: Option<(ClockNs, bool)>,
    /// The CPU that it left.
    cpu: Option<u32>,
    /// The wakeup that ended its wait.
    woken: Option<Wakeup>,
}

/// The snapshots of one thread.
#[derive(Debug, Default)]
struct Snapshots {
    /// Those that no record has placed yet, with the time that each took.
    taken: Vec<(Range<ClockNs>, Place)>,
    /// The end of the last wait without one.
    missed_ns: Option<ClockNs>,
    /// Whether the thread is a candidate.
    listed: bool,
}

impl Snapshots {
    /// The snapshot that was taken in a wait. Drops those of earlier times.
    fn of_wait(&mut self, wait: Range<ClockNs>) -> Option<Place> {
        let inside = |taken: &Range<ClockNs>| wait.start <= taken.start && taken.end <= wait.end;
        let place = self.taken.iter().find(|(taken, _)| inside(taken)).map(|(_, place)| *place);
        self.taken.retain(|(taken, _)| taken.start >= wait.end);
        place
    }
}

/// A thread that is about to leave its CPU.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) stack: Option<StackId>,
    /// The first argument of the system call that it waits in; 0 if unknown.
    pub(super) argument: u64,
    pub(super) parked: Option<Parked>,
}

/// A wakeup, and who did it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wakeup {
    pub(super) time: ClockNs,
    pub(super) by: WokenBy,
    pub(super) thread: Option<ThreadId>,
    pub(super) stack: Option<StackId>,
}

/// The snapshot of a waiting thread.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Its stack in the program.
    pub(super) stack: Option<StackId>,
    pub(super) argument: u64,
    pub(super) parked: Option<Parked>,
    pub(super) frame: WaitFrame,
    pub(super) taken: Range<ClockNs>,
}

impl Waits {
    /// No waits yet.
    pub(super) fn new(setup: Option<WaitSetup>) -> Self {
        Self {
            rows: setup.map(Rows::new),
            losses: Losses::default(),
            threads: FxHashMap::default(),
            candidates: VecDeque::new(),
            unread: VecDeque::new(),
            read: Vec::new(),
        }
    }

    fn thread(&mut self, thread: LiveThread) -> &mut Waiting {
        self.threads.entry(thread.id).or_insert_with(|| Waiting::new(thread.task))
    }

    /// Drops the state of a thread.
    pub(super) fn forget(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// Whether waits become rows.
    pub(super) fn are_recorded(&self) -> bool {
        self.rows.is_some()
    }

    /// How many waits have a stack, of their own or of another wait.
    pub(super) fn stacks(&self) -> WaitStacks {
        self.rows.as_ref().map(Rows::stacks).unwrap_or_default()
    }

    /// The number of waits that may be too long because records were lost during them, and their total
    /// length.
    pub(super) fn doubtful(&self) -> (u64, u64) {
        self.losses.doubtful()
    }

    /// Records were lost.
    pub(super) fn lost(&mut self, cpu: Option<u32>, time: ClockNs) {
        self.losses.add(cpu, time);
    }

    /// A thread is about to leave its CPU.
    pub(super) fn leaves(&mut self, thread: LiveThread, leaving: Leaving) {
        let away = &mut self.thread(thread).away;
        let Leaving { stack, argument, parked } = leaving;
        (away.stack, away.argument, away.parked) = (stack, argument, parked);
    }

    /// A waiting thread is woken.
    pub(super) fn wakes(&mut self, thread: LiveThread, wakeup: Wakeup) {
        match &mut self.thread(thread).away.woken {
            woken @ None => *woken = Some(wakeup),
            // The same wakeup is recorded once without the stack and once with it.
            Some(known) if known.thread == wakeup.thread => known.stack = known.stack.or(wakeup.stack),
            Some(_) => {}
        }
    }

    /// At most this many threads that need a snapshot: those that wait without one as far as is known, and
    /// those whose waits were too short for the records to arrive in time. They take turns.
    pub(super) fn candidates(&mut self, most: usize, now: ClockNs) -> Vec<Task> {
        let mut tasks = Vec::new();
        for _ in 0..self.candidates.len() {
            if tasks.len() == most {
                break;
            }
            let Some(id) = self.candidates.pop_front() else { break };
            let Some(thread) = self.threads.get_mut(&id) else { continue };
            let last = thread.snapshots.taken.last().map(|(taken, _)| taken.start);
            let waits_unseen = match thread.away.since {
                Some((since, false)) => thread.away.stack.is_none() && last.is_none_or(|last| last < since),
                _ => false,
            };
            let missed = thread.snapshots.missed_ns.is_some_and(|missed| now < missed.plus(MISSED_NS));
            let waits_known = matches!(thread.away.since, Some((_, false)));
            if waits_unseen || missed && !waits_known {
                tasks.push(thread.task);
            }
            if waits_unseen || missed {
                self.candidates.push_back(id);
            } else {
                thread.snapshots.listed = false;
            }
        }
        tasks
    }

    /// Adds the snapshot of a waiting thread.
    pub(super) fn add_snapshot(
        &mut self,
        tables: &mut Tables,
        code: &Mappings,
        thread: LiveThread,
        snapshot: Snapshot,
    ) {
        let Snapshot { stack, argument, parked, frame, taken } = snapshot;
        let frame = tables.builder.special(SpecialFrame::Waiting(frame));
        let stack = tables.builder.stack(stack, frame);
        let read_ns = parked.and_then(|parked| parked.read_ns).unwrap_or(taken.end);
        let place = place_of(code, thread.task.pid, stack, argument, parked);
        let taken = taken.start..taken.end.max(read_ns);
        self.thread(thread).snapshots.taken.push((taken, place));
    }

    /// A thread has left its CPU.
    pub(super) fn begins(&mut self, thread: LiveThread, preempted: bool, cpu: Option<u32>, time: ClockNs) {
        let away = &mut self.thread(thread).away;
        (away.since, away.cpu) = (Some((time, preempted)), cpu);
        // An earlier wakeup was for a wait that never started.
        away.woken = away.woken.filter(|woken| !preempted && woken.time.plus(WOKEN_ON_LEAVING_NS) >= time);
        if !preempted
            && self.rows.as_ref().is_some_and(|rows| rows.stacks_from() == WaitStackSource::Snapshots)
        {
            self.list(thread);
        }
    }

    /// A thread already waits when its recording starts, and needs a snapshot: no record shows where it left
    /// its CPU.
    pub(super) fn waits_already(&mut self, thread: LiveThread) {
        if self.rows.is_some() {
            self.list(thread);
        }
    }

    /// Makes a thread a candidate for snapshots.
    fn list(&mut self, thread: LiveThread) {
        if !std::mem::replace(&mut self.thread(thread).snapshots.listed, true) {
            self.candidates.push_back(thread.id);
        }
    }

    /// A thread is on a CPU again, or the recording ends.
    pub(super) fn ends(&mut self, code: &Mappings, thread: LiveThread, on: Option<u32>, time: ClockNs) {
        let Some(state) = self.threads.get_mut(&thread.id) else { return };
        let Away { stack, argument, parked, since, cpu, woken } = std::mem::take(&mut state.away);
        let Some((since, preempted)) = since else { return };
        self.losses.judge([cpu, on], since, time.since(since));
        let woken = woken.filter(|woken| !preempted && woken.time <= time);
        // Before the wakeup it was blocked, and after it queued for a CPU.
        let ready = match woken {
            Some(woken) => woken.time.max(since),
            None if preempted => since,
            None => time,
        };
        let times = &mut state.times;
        times.blocked_ns += ready.since(since);
        times.queued_ns += time.since(ready);
        times.waits += u64::from(!preempted);
        times.preemptions += u64::from(preempted);
        let snapshot = state.snapshots.of_wait(since..time).filter(|_| !preempted);
        if !preempted && stack.is_none() {
            state.snapshots.missed_ns = snapshot.is_none().then_some(time);
        }
        let Some(rows) = &mut self.rows else { return };
        // What was read after the end of the wait belongs to another.
        let parked = parked.filter(|parked| parked.read_ns.is_none_or(|read| read <= time));
        let place = stack.map(|stack| place_of(code, thread.task.pid, stack, argument, parked));
        let place = place.or(snapshot);
        let ended = Ended { thread: thread.id, since, ready, end: time, preempted, cpu, woken, place };
        rows.count(&ended);
        if !rows.estimates_queues() {
            return rows.add(ended);
        }
        if state.unsplit.is_empty() {
            self.unread.push_back(thread.id);
        }
        state.unsplit.add(ended);
    }

    /// Stores the times of a thread up to its exit or the end of the recording. `ran_ns` is its time on CPUs.
    pub(super) fn store_times(&mut self, tables: &mut Tables, thread: LiveThread, ran_ns: u64) {
        self.split(thread.id, ClockNs::MAX);
        let (times, (before, now)) = match self.threads.get_mut(&thread.id) {
            Some(state) => {
                if let Some(rows) = &mut self.rows {
                    rows.add_all(state.unsplit.take());
                }
                (state.times, state.queue)
            }
            None => Default::default(),
        };
        let mut times = ThreadTimes { ran_ns, ..times };
        // Any further delay that the kernel counted was between a wakeup and running.
        let woken_ns = (now - before).saturating_sub(times.queued_ns).min(times.blocked_ns);
        times.queued_ns += woken_ns;
        times.queued_estimated_ns += woken_ns;
        times.blocked_ns -= woken_ns;
        if times != ThreadTimes::default() {
            tables.builder.update_thread(thread.id, |row| row.times = Some(times));
        }
    }

    /// Writes the rows of the waits that have ended. Those without a stack get one of a wait that is alike.
    /// If there is none, they are kept for the next call, unless this is the last one.
    pub(super) fn settle(&mut self, tables: &mut Tables, now: ClockNs, last: bool) {
        let Some(rows) = &mut self.rows else { return };
        for thread in self.threads.values_mut() {
            rows.add_all(thread.unsplit.take_unread(now));
        }
        rows.settle(tables, last);
    }
}

/// Where a thread waits.
fn place_of(code: &Mappings, pid: u32, stack: StackId, argument: u64, parked: Option<Parked>) -> Place {
    let parked_on = parked.map_or(0, |parked| parked.key);
    let data = code.data_at(pid, RunTimeAddress(if parked_on > 0 { parked_on } else { argument }));
    Place { stack, argument, parked_on, data }
}

#[cfg(test)]
mod tests;
