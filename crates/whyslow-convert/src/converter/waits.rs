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
//! while they wait ([`Converter::threads_to_snapshot`], [`Converter::add_wait_snapshot`]). A snapshot belongs
//! to a wait only if the wait had not ended by then. Waits that ended too soon have a frame that says so.

use rustc_hash::FxHashMap;
use whyslow_profile::{
    LocationId, MetricId, ModuleKind, StackId, ThreadId, ThreadTimes, WaitDetail, WokenBy,
};

use super::Converter;
use super::tasks::ThreadState;
use crate::arch::system_call_argument;
use crate::input::{Sample, Task, UserStack, Wakes};
use crate::world::World;

/// The innermost frame of a thread that is queued for a CPU.
const FOR_CPU: &str = "[queued for a CPU]";
/// The only frame of a wait without a snapshot.
const NO_SNAPSHOT: &str = "[wait too short to sample]";
/// The same if the kernel provides stacks, but not for this wait.
const NO_STACK: &str = "[wait without a stack]";

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
    /// Frames that are not code, by name.
    places: FxHashMap<&'static str, LocationId>,
    /// Whether the recorder takes snapshots of waiting threads. Otherwise samples provide their stacks.
    snapshots: bool,
    /// Threads that need a snapshot.
    started: Vec<u32>,
    /// The number of blocking waits, and the number of those with a stack.
    ended: u64,
    with_stack: u64,
}

/// The state of one thread.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// The stack at which it leaves its CPU.
    stack: Option<StackId>,
    /// The first argument of the system call that it waits in; 0 if unknown.
    argument: u64,
    /// The time of the snapshot, if the stack is from one.
    snapshot_ns: Option<u64>,
    /// Since when it is off its CPU, and whether it is only queued for one.
    since: Option<(u64, bool)>,
    /// The CPU that it left.
    cpu: Option<u32>,
    /// The wakeup that ended its wait.
    woken: Option<Woken>,
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
            places: FxHashMap::default(),
            snapshots,
            started: Vec::new(),
            ended: 0,
            with_stack: 0,
        });
    }

    /// The number of blocking waits with a stack, and of all blocking waits.
    pub fn waits_with_stacks(&self) -> (u64, u64) {
        self.waits.as_ref().map_or((0, 0), |waits| (waits.with_stack, waits.ended))
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
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.away.stack = stack;
            thread.away.argument = match &sample.user {
                UserStack::Dump(registers, _) => system_call_argument(registers).unwrap_or(0),
                _ => 0,
            };
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

    /// The threads that have started to wait since the last call and still wait as far as is known.
    pub fn threads_to_snapshot(&mut self) -> Vec<Task> {
        let started = self.waits.as_mut().map(|waits| std::mem::take(&mut waits.started));
        let mut tids = started.unwrap_or_default();
        tids.sort_unstable();
        tids.dedup();
        let waits = |tid: u32| {
            let thread = self.threads.get(&tid)?;
            let away = &thread.away;
            let waits = matches!(away.since, Some((_, false))) && away.stack.is_none();
            waits.then_some(Task { pid: thread.pid, tid })
        };
        tids.into_iter().filter_map(waits).collect()
    }

    /// Adds the snapshot of a waiting thread: its stack, the first argument of its system call, and what it
    /// waits for according to the system.
    pub fn add_wait_snapshot(
        &mut self,
        task: Task,
        user: &UserStack<'_>,
        argument: u64,
        place: &'static str,
        time: u64,
    ) {
        let stack = self.user_stack(task, user);
        let place = self.place(place);
        let stack = self.builder.stack(stack, place);
        if let Some(thread) = self.threads.get_mut(&task.tid)
            && matches!(thread.away.since, Some((since, false)) if since <= time)
        {
            (thread.away.stack, thread.away.snapshot_ns) = (Some(stack), Some(time));
            thread.away.argument = argument;
        }
    }

    /// A thread has left its CPU.
    pub(super) fn wait_begins(&mut self, tid: u32, preempted: bool, cpu: Option<u32>, time: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let away = &mut thread.away;
        (away.since, away.cpu) = (Some((time, preempted)), cpu);
        // An earlier wakeup was for a wait that never started.
        away.woken = away.woken.filter(|woken| !preempted && woken.time + WOKEN_ON_LEAVING_NS >= time);
        if let Some(waits) = &mut self.waits
            && !preempted
            && waits.snapshots
        {
            waits.started.push(tid);
        }
    }

    /// A thread already waits when its recording starts, and needs a snapshot: no record shows where it left
    /// its CPU.
    pub fn waits_already(&mut self, tid: u32, time: u64) {
        self.wait_begins(tid, false, None, time);
        if let Some(waits) = &mut self.waits {
            waits.started.push(tid);
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
        let Away { stack, argument, snapshot_ns, since, cpu, woken } = std::mem::take(&mut thread.away);
        let Some((since, preempted)) = since else { return };
        self.losses.judge([cpu, on], since, time.saturating_sub(since));
        let woken = woken.filter(|woken| !preempted && woken.time <= time);
        // Before the wakeup it was blocked, and after it queued for a CPU.
        let ready = match woken {
            Some(woken) => woken.time.max(since),
            None if preempted => since,
            None => time,
        };
        let (blocked_ns, queued_ns) = (ready.saturating_sub(since), time.saturating_sub(ready));
        let times = &mut thread.times;
        times.blocked_ns += blocked_ns;
        times.queued_ns += queued_ns;
        times.waits += u64::from(!preempted);
        times.preemptions += u64::from(preempted);
        let Some(Waits { metric, snapshots, ended, with_stack, .. }) = &mut self.waits else { return };
        let (metric, no_stack) = (*metric, if *snapshots { NO_SNAPSHOT } else { NO_STACK });
        *ended += u64::from(!preempted);
        *with_stack += u64::from(!preempted && stack.is_some());
        // A snapshot after the end of the wait shows something else.
        let stack = stack.filter(|_| snapshot_ns.is_none_or(|taken| taken <= time));
        let (ready_ns, end_ns) = (self.since_start(ready), self.since_start(time));
        let argument = if stack.is_some() { argument } else { 0 };
        let detail = WaitDetail {
            thread: id,
            end_ns: if preempted { end_ns } else { ready_ns },
            cpu,
            argument,
            data: self.data_at(pid, argument),
            woken_by: woken.map_or(WokenBy::Unknown, |woken| woken.by),
            waker: woken.and_then(|woken| woken.thread),
            waker_stack: woken.and_then(|woken| woken.stack),
        };
        self.builder.wait_detail(detail);
        if !preempted {
            let stack = stack.unwrap_or_else(|| {
                let no_stack = self.place(no_stack);
                self.builder.stack(None, no_stack)
            });
            self.builder.sample(metric, ready_ns, id, stack, blocked_ns);
        }
        if preempted || queued_ns > 0 {
            let queued = self.place(FOR_CPU);
            let stack = self.builder.stack(stack, queued);
            self.builder.sample(metric, end_ns, id, stack, queued_ns);
        }
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
    }

    /// The threads that have not exited.
    pub fn living(&self) -> Vec<Task> {
        let lives = |thread: &ThreadState| self.builder.thread_row(thread.id).end_ns.is_none();
        let living = self.threads.iter().filter(|(_, thread)| lives(thread));
        let mut tasks: Vec<Task> = living.map(|(tid, thread)| Task { pid: thread.pid, tid: *tid }).collect();
        tasks.sort_unstable_by_key(|task| task.tid);
        tasks
    }

    /// Sets the run-queue delay of a thread, by the kernel's account, at the start of its recording.
    pub fn set_queued_at_start(&mut self, tid: u32, queued_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.queue = (queued_ns, queued_ns);
        }
    }

    /// Sets its current run-queue delay.
    pub fn set_queued(&mut self, tid: u32, queued_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.queue.1 = queued_ns.max(thread.queue.1);
        }
    }

    /// Stores the times of a thread up to its exit or the end of the recording.
    pub(super) fn store_times(&mut self, tid: u32, time: u64) {
        if !self.has_switches {
            return;
        }
        self.wait_ends(tid, None, time);
        let Some(thread) = self.threads.get(&tid) else { return };
        let mut times = ThreadTimes { ran_ns: thread.cpu_time.until(time), ..thread.times };
        // Any further delay that the kernel counted was between a wakeup and running.
        let (before, now) = thread.queue;
        let woken_ns = (now - before).saturating_sub(times.queued_ns).min(times.blocked_ns);
        times.queued_ns += woken_ns;
        times.queued_estimated_ns = woken_ns;
        times.blocked_ns -= woken_ns;
        if times != ThreadTimes::default() {
            self.builder.update_thread(thread.id, |row| row.times = Some(times));
        }
    }

    /// A frame that is not code.
    fn place(&mut self, name: &'static str) -> LocationId {
        if let Some(known) = self.waits.as_ref().and_then(|waits| waits.places.get(name)) {
            return *known;
        }
        let location = self.no_code(name, ModuleKind::Waiting);
        if let Some(waits) = &mut self.waits {
            waits.places.insert(name, location);
        }
        location
    }
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Metric, ModuleKind, ThreadId, WokenBy};

    use crate::testing::Recorded;
    use crate::{Input, Sample, Task, UserStack, Wakes};

    const MS: u64 = 1_000_000;
    const PID: u32 = 100;
    const MAIN: (u32, u32) = (PID, PID);

    fn recorded() -> Recorded {
        recorded_by(false)
    }

    fn recorded_by(snapshots: bool) -> Recorded {
        let mut recorded = Recorded::new();
        let metric = recorded.converter.builder.metric(Metric::off_cpu_time());
        recorded.converter.record_waits(metric, snapshots);
        recorded.converter.expect_switches();
        recorded.converter.add_process(PID, "app");
        recorded.exec(MAIN, "app", 0);
        recorded
    }

    fn leave(recorded: &mut Recorded, tid: u32, preempted: bool, time_ns: u64) {
        let task = Task { pid: PID, tid };
        let user = UserStack::Frames(&[0x1000]);
        let metric = recorded.metric;
        recorded.converter.take(&Input::Leaves(Sample {
            metric,
            time_ns,
            task,
            value: 1,
            user,
            kernel: &[],
        }));
        recorded.converter.take(&Input::Switched { tid, runs: false, preempted, cpu: Some(3), time_ns });
    }

    fn come_back(recorded: &mut Recorded, tid: u32, time_ns: u64) {
        recorded.converter.take(&Input::Switched {
            tid,
            runs: true,
            preempted: false,
            cpu: Some(3),
            time_ns,
        });
    }

    /// Milliseconds of each wait, and whether the thread was queued for a CPU.
    fn rows(mut recorded: Recorded, end: u64) -> Vec<(u64, bool)> {
        recorded.converter.end_waits(end);
        let profile = recorded.profile();
        let samples = &profile.samples[1];
        let for_cpu = |stack| {
            let location = profile.stacks.location(stack);
            let module = profile.locations.module[location.index()];
            module.is_some_and(|module| profile.modules[module.index()].kind == ModuleKind::Waiting)
        };
        (0..samples.len()).map(|row| (samples.value[row] / MS, for_cpu(samples.stack[row]))).collect()
    }

    #[test]
    fn a_wait_lasts_until_the_thread_runs_and_queued_time_is_separate() {
        let mut recorded = recorded();
        leave(&mut recorded, PID, false, 2 * MS);
        come_back(&mut recorded, PID, 7 * MS);
        leave(&mut recorded, PID, true, 8 * MS);
        come_back(&mut recorded, PID, 11 * MS);
        assert_eq!(rows(recorded, 20 * MS), [(5, false), (3, true)]);
    }

    #[test]
    fn a_thread_queues_for_its_first_cpu_and_may_still_be_blocked_at_the_end() {
        let mut recorded = recorded();
        recorded.fork(PID, (PID, 101), 2 * MS);
        come_back(&mut recorded, 101, 4 * MS);
        leave(&mut recorded, 101, false, 5 * MS);
        assert_eq!(rows(recorded, 15 * MS), [(2, true), (10, false)]);
    }

    #[test]
    fn a_snapshot_after_the_end_of_a_wait_does_not_count() {
        let mut recorded = recorded_by(true);
        let out = |recorded: &mut Recorded, time_ns| {
            recorded.converter.take(&Input::Switched {
                tid: PID,
                runs: false,
                preempted: false,
                cpu: Some(3),
                time_ns,
            });
        };
        let snapshot = |recorded: &mut Recorded, time| {
            let [task] = recorded.converter.threads_to_snapshot()[..] else { panic!("one thread waits") };
            recorded.converter.add_wait_snapshot(task, &UserStack::Frames(&[0x1000]), 7, "[sleep]", time);
            assert!(recorded.converter.threads_to_snapshot().is_empty(), "once is enough");
        };
        out(&mut recorded, 2 * MS);
        snapshot(&mut recorded, 3 * MS);
        come_back(&mut recorded, PID, 7 * MS);
        // This wait has ended before its snapshot, which only later records show.
        out(&mut recorded, 8 * MS);
        snapshot(&mut recorded, 10 * MS);
        come_back(&mut recorded, PID, 9 * MS);
        let profile = recorded.profile();
        let samples = &profile.samples[1];
        let innermost = |row: usize| {
            let module = profile.locations.module[profile.stacks.location(samples.stack[row]).index()];
            profile.text(profile.modules[module.unwrap().index()].path)
        };
        assert_eq!((innermost(0), innermost(1)), ("[sleep]", super::NO_SNAPSHOT));
        assert_eq!(profile.wait_details.argument, [7, 0], "a snapshot belongs to one wait only");
    }

    #[test]
    fn missing_records_do_not_create_waits() {
        let mut recorded = recorded();
        come_back(&mut recorded, PID, 4 * MS);
        come_back(&mut recorded, PID, 5 * MS);
        leave(&mut recorded, 999, false, 5 * MS);
        assert_eq!(rows(recorded, 4 * MS).iter().map(|(ms, _)| ms).sum::<u64>(), 0);
    }

    /// The doubtful ones of the waits from 2 to 7 ms, from 8 to 9 and from 10 to 20.
    fn doubtful_after(losses: &[(Option<u32>, u64)]) -> (u64, u64) {
        let mut recorded = recorded();
        let mut losses = losses.iter().peekable();
        let mut lose = |recorded: &mut Recorded, until_ms: u64| {
            while let Some((cpu, ms)) = losses.next_if(|(_, ms)| *ms < until_ms) {
                recorded.converter.take(&Input::Lost { records: 5, cpu: *cpu, time_ns: ms * MS });
            }
        };
        for (begin, end) in [(2, 7), (8, 9)] {
            lose(&mut recorded, begin);
            leave(&mut recorded, PID, false, begin * MS);
            lose(&mut recorded, end);
            come_back(&mut recorded, PID, end * MS);
        }
        leave(&mut recorded, PID, false, 10 * MS);
        lose(&mut recorded, 20);
        recorded.converter.end_waits(20 * MS);
        let (waits, ns) = recorded.converter.doubtful_waits();
        (waits, ns / MS)
    }

    #[test]
    fn a_wait_with_lost_records_on_its_cpu_is_doubtful() {
        assert_eq!(doubtful_after(&[]), (0, 0));
        assert_eq!(doubtful_after(&[(Some(3), 5)]), (1, 5));
        assert_eq!(doubtful_after(&[(Some(3), 1)]), (0, 0), "before it");
        assert_eq!(doubtful_after(&[(Some(2), 5)]), (0, 0), "on another CPU");
        assert_eq!(doubtful_after(&[(None, 5), (Some(3), 12)]), (2, 15), "anywhere, and until the end");
    }

    fn wake(recorded: &mut Recorded, tid: u32, by: u32, in_interrupt: bool, time_ns: u64) {
        let (metric, user) = (recorded.metric, UserStack::Frames(&[0x2000]));
        let by = Sample { metric, time_ns, task: Task { pid: PID, tid: by }, value: 1, user, kernel: &[] };
        recorded.converter.take(&Input::Wakes(Wakes { tid, by, in_interrupt }));
    }

    #[test]
    fn a_woken_thread_is_queued_for_a_cpu() {
        let mut recorded = recorded();
        recorded.fork(PID, (PID, 101), MS);
        come_back(&mut recorded, 101, MS);
        leave(&mut recorded, PID, false, 2 * MS);
        wake(&mut recorded, PID, 101, false, 5 * MS);
        wake(&mut recorded, PID, 999, true, 6 * MS);
        come_back(&mut recorded, PID, 7 * MS);
        leave(&mut recorded, PID, false, 8 * MS);
        wake(&mut recorded, PID, 0, true, 9 * MS);
        come_back(&mut recorded, PID, 9 * MS);
        recorded.converter.end_waits(10 * MS);
        let profile = recorded.profile();
        let details: Vec<_> = profile.wait_details.rows().skip(1).collect();
        let wakeups: Vec<_> =
            details.iter().map(|row| (row.end_ns / MS, row.cpu, row.woken_by, row.waker)).collect();
        let second = profile.threads.iter().position(|row| row.tid == 101).map(ThreadId::from);
        assert_eq!(
            wakeups,
            [(5, Some(3), WokenBy::Thread, second), (9, Some(3), WokenBy::Interrupt, None)],
            "the first waker counts"
        );
        assert!(details[0].waker_stack.is_some() && details[1].waker_stack.is_none());
        let samples = &profile.samples[1];
        assert_eq!(samples.value.iter().map(|ns| ns / MS).collect::<Vec<_>>(), [0, 3, 2, 1]);
    }

    #[test]
    fn a_wakeup_counts_only_for_the_wait_that_it_ends() {
        let mut recorded = recorded();
        // One before it has left its CPU, and one long before a wait that it does not end.
        wake(&mut recorded, PID, 0, true, 2 * MS - 1000);
        leave(&mut recorded, PID, false, 2 * MS);
        come_back(&mut recorded, PID, 5 * MS);
        wake(&mut recorded, PID, 0, true, 6 * MS);
        leave(&mut recorded, PID, false, 8 * MS);
        come_back(&mut recorded, PID, 10 * MS);
        assert_eq!(rows(recorded, 10 * MS), [(0, false), (3, true), (2, false)]);
    }

    /// It was queued for 3 ms before the recording, is preempted for 2 ms, and is off its CPU for 10 ms, of
    /// which the kernel counts 4 as queued.
    #[test]
    fn uses_the_kernels_run_queue_delay_without_wakeup_records() {
        let mut recorded = recorded();
        let times = |queued: &[u64]| {
            let mut recorded = self::recorded();
            recorded.converter.set_queued_at_start(PID, 3 * MS);
            leave(&mut recorded, PID, true, 2 * MS);
            come_back(&mut recorded, PID, 4 * MS);
            leave(&mut recorded, PID, false, 5 * MS);
            queued.iter().for_each(|ms| recorded.converter.set_queued(PID, ms * MS));
            come_back(&mut recorded, PID, 15 * MS);
            recorded.converter.end_waits(20 * MS);
            let times = recorded.profile().threads[0].times.unwrap();
            assert_eq!(times.ran_ns + times.queued_ns + times.blocked_ns, 20 * MS, "{times:?}");
            [times.queued_ns, times.queued_estimated_ns, times.blocked_ns].map(|ns| ns / MS)
        };
        assert_eq!(times(&[]), [2, 0, 10], "no reading");
        assert_eq!(times(&[6, 9]), [6, 4, 6]);
        assert_eq!(times(&[4]), [2, 0, 10], "read before the last preemption");
        assert_eq!(times(&[900]), [12, 10, 0], "at most the blocked time");
        recorded.fork(PID, (PID, 101), MS);
        recorded.exit((PID, 101), 2 * MS);
        assert_eq!(recorded.converter.living(), [Task { pid: PID, tid: PID }]);
    }

    #[test]
    fn running_queued_and_blocked_time_add_up_to_the_life_of_a_thread() {
        let mut recorded = Recorded::new();
        recorded.converter.expect_switches();
        recorded.converter.add_process(PID, "app");
        recorded.exec(MAIN, "app", 0);
        recorded.fork(PID, (PID, 101), 2 * MS);
        come_back(&mut recorded, 101, 4 * MS);
        leave(&mut recorded, 101, false, 5 * MS);
        wake(&mut recorded, 101, PID, false, 8 * MS);
        come_back(&mut recorded, 101, 9 * MS);
        leave(&mut recorded, PID, true, 12 * MS);
        recorded.exit((PID, 101), 14 * MS);
        recorded.converter.end_waits(20 * MS);
        let profile = recorded.profile();
        assert_eq!(profile.samples[0].len(), 0, "waits themselves are not recorded");
        let times = |tid: u32| profile.threads.iter().find(|row| row.tid == tid).unwrap().times.unwrap();
        let (first, second) = (times(PID), times(101));
        assert_eq!((first.ran_ns, first.queued_ns, first.blocked_ns), (12 * MS, 8 * MS, 0));
        assert_eq!((first.waits, first.preemptions), (0, 1));
        assert_eq!((second.ran_ns, second.queued_ns, second.blocked_ns), (6 * MS, 3 * MS, 3 * MS));
        assert_eq!((second.waits, second.preemptions), (1, 1), "queueing for the first CPU counts too");
    }
}
