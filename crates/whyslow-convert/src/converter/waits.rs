//! Time that threads are off their CPUs: from where each left its CPU until it was given one again.
//!
//! ```text
//! Leaves   the stack of a thread that is about to leave its CPU
//! Switched it has left, of its own will (it waits for something) or not (it waits for a CPU); it is back
//! Wakes    what it waits for has come: from now on only a CPU is missing
//! ```
//! How long it was in which state is added up for each thread. Where waits are recorded, a row stands for one wait and is made at its
//! end. Whoever only misses a CPU has a last frame that says so.
//!
//! Where the kernel does not give stacks of threads that leave, they are looked at while they wait ([`Converter::not_looked_at`],
//! [`Converter::looked_at`]). A look is of a wait only if it did not end before; waits that were over too soon have a frame that says so.

use rustc_hash::FxHashMap;
use whyslow_profile::{
    LocationId, MetricId, ModuleKind, StackId, ThreadId, ThreadTimes, WaitDetail, WokenBy,
};

use super::Converter;
use super::tasks::ThreadState;
use crate::arch::system_call_argument;
use crate::input::{Sample, Task, UserStack, Wakes};
use crate::world::World;

/// The last frame of a thread that waits for its turn.
const FOR_CPU: &str = "[waiting for a CPU]";
/// The only frame of a wait that nobody has seen.
const NOT_SEEN: &str = "[wait too short to be looked at]";
/// The same, where the kernel gives stacks, but not of all waits.
const NO_STACK: &str = "[wait without a stack]";

/// A thread that is on its way off its CPU can be woken this long before it has left.
const WOKEN_ON_LEAVING_NS: u64 = 50_000;

/// When records were lost, and the waits that this makes doubtful: a thread that comes back and leaves again while nobody can tell seems to
/// have waited all the time.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The last time, of each CPU.
    of_cpu: FxHashMap<u32, u64>,
    /// The last time of those that name no CPU.
    anywhere: Option<u64>,
    /// Waits that may be too long, and how long they are in all.
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

/// What holds for all threads.
#[derive(Debug)]
pub(super) struct Waits {
    metric: MetricId,
    /// Frames that are no code, by their names.
    places: FxHashMap<&'static str, LocationId>,
    /// Whether threads are looked at when they begin to wait; else their stacks come by themselves.
    looks: bool,
    /// Threads that are to be looked at.
    begun: Vec<u32>,
    /// How many waits for something there were, and of how many the stack is known.
    ended: u64,
    with_stack: u64,
}

/// What is known of one thread.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// Where it leaves its CPU.
    stack: Option<StackId>,
    /// The first argument of the system call that it waits in; 0 when not known.
    argument: u64,
    /// When it was looked at, if that is how its stack is known.
    looked_ns: Option<u64>,
    /// Since when it is away, and whether only a CPU is missing.
    since: Option<(u64, bool)>,
    /// The CPU that it has left.
    cpu: Option<u32>,
    /// What ended its wait.
    woken: Option<Woken>,
}

/// The end of a wait, after which only a CPU is missing.
#[derive(Debug, Clone, Copy)]
struct Woken {
    time: u64,
    by: WokenBy,
    thread: Option<ThreadId>,
    stack: Option<StackId>,
}

impl<W: World> Converter<W> {
    /// It is told who comes onto a CPU and leaves it, so that what threads did with their time can be told.
    pub fn expect_switches(&mut self) {
        self.switches_told = true;
    }

    /// Makes rows of waits. Threads are to be looked at unless their stacks come by themselves.
    pub fn record_waits(&mut self, metric: MetricId, looks: bool) {
        self.waits = Some(Waits {
            metric,
            places: FxHashMap::default(),
            looks,
            begun: Vec::new(),
            ended: 0,
            with_stack: 0,
        });
    }

    /// Of how many waits for something the stack is known, and how many there were.
    pub fn waits_with_stacks(&self) -> (u64, u64) {
        self.waits.as_ref().map_or((0, 0), |waits| (waits.with_stack, waits.ended))
    }

    /// How many waits may be too long because records were lost while they lasted, and how long they are in all.
    pub fn doubtful_waits(&self) -> (u64, u64) {
        (self.losses.waits, self.losses.total_ns)
    }

    /// A thread is about to leave its CPU.
    pub(super) fn leaves(&mut self, sample: &Sample<'_>) {
        let Sample { time_ns, task: Task { pid, tid }, .. } = *sample;
        if self.waits.is_none() || pid == 0 || tid == u32::MAX {
            return;
        }
        self.know_thread(pid, tid, time_ns);
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

    /// A thread that waits can go on.
    pub(super) fn wakes(&mut self, Wakes { tid, by, in_interrupt }: &Wakes<'_>) {
        if !self.threads.contains_key(tid) {
            return;
        }
        let waker = self.threads.get(&by.task.tid).filter(|thread| thread.pid == by.task.pid);
        let mut woken = Woken { time: by.time_ns, by: WokenBy::Stranger, thread: None, stack: None };
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
            // The same is told once without the stack and once with it.
            Some(known) if known.thread == woken.thread => known.stack = known.stack.or(woken.stack),
            Some(_) => {}
        }
    }

    /// The threads that have begun to wait since the last time, and still do as far as is known.
    pub fn not_looked_at(&mut self) -> Vec<Task> {
        let begun = self.waits.as_mut().map(|waits| std::mem::take(&mut waits.begun));
        let mut tids = begun.unwrap_or_default();
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

    /// What a look at a thread shows that waits: its stack, the first argument of its system call, and for what it waits as the system tells
    /// it.
    pub fn looked_at(
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
            (thread.away.stack, thread.away.looked_ns) = (Some(stack), Some(time));
            thread.away.argument = argument;
        }
    }

    /// A thread has left its CPU.
    pub(super) fn wait_begins(&mut self, tid: u32, preempted: bool, cpu: Option<u32>, time: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let away = &mut thread.away;
        (away.since, away.cpu) = (Some((time, preempted)), cpu);
        // Anything earlier was about a wait that never began.
        away.woken = away.woken.filter(|woken| !preempted && woken.time + WOKEN_ON_LEAVING_NS >= time);
        if let Some(waits) = &mut self.waits
            && !preempted
            && waits.looks
        {
            waits.begun.push(tid);
        }
    }

    /// A thread waits already when its recording begins, and is to be looked at: nobody tells where it left its CPU.
    pub fn waits_already(&mut self, tid: u32, time: u64) {
        self.wait_begins(tid, false, None, time);
        if let Some(waits) = &mut self.waits {
            waits.begun.push(tid);
        }
    }

    /// A thread runs already when its recording begins.
    pub fn runs_already(&mut self, tid: u32, time: u64) {
        self.account_exec(tid, time);
    }

    /// A thread has begun and waits for its first CPU.
    pub(super) fn first_wait_begins(&mut self, tid: u32, time: u64) {
        self.wait_begins(tid, true, None, time);
    }

    /// A thread is on a CPU again, or the recording ends.
    pub(super) fn wait_ends(&mut self, tid: u32, on: Option<u32>, time: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let (id, pid) = (thread.id, thread.pid);
        let Away { stack, argument, looked_ns, since, cpu, woken } = std::mem::take(&mut thread.away);
        let Some((since, preempted)) = since else { return };
        self.losses.judge([cpu, on], since, time.saturating_sub(since));
        let woken = woken.filter(|woken| !preempted && woken.time <= time);
        // Until then it waited for something, and after that for a CPU.
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
        let Some(Waits { metric, looks, ended, with_stack, .. }) = &mut self.waits else { return };
        let (metric, not_seen) = (*metric, if *looks { NOT_SEEN } else { NO_STACK });
        *ended += u64::from(!preempted);
        *with_stack += u64::from(!preempted && stack.is_some());
        // A look that came after the end saw something else.
        let stack = stack.filter(|_| looked_ns.is_none_or(|looked| looked <= time));
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
                let not_seen = self.place(not_seen);
                self.builder.stack(None, not_seen)
            });
            self.builder.sample(metric, ready_ns, id, stack, blocked_ns);
        }
        if preempted || queued_ns > 0 {
            let queued = self.place(FOR_CPU);
            let stack = self.builder.stack(stack, queued);
            self.builder.sample(metric, end_ns, id, stack, queued_ns);
        }
    }

    /// Ends the waits of all threads that are still there.
    pub fn end_waits(&mut self, time: u64) {
        let mut tids: Vec<u32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            let ended = self.threads.get(&tid).and_then(|thread| self.builder.thread_row(thread.id).end_ns);
            if ended.is_none() {
                self.tell_times(tid, time);
            }
        }
    }

    /// The threads that have not ended.
    pub fn living(&self) -> Vec<Task> {
        let lives = |thread: &ThreadState| self.builder.thread_row(thread.id).end_ns.is_none();
        let living = self.threads.iter().filter(|(_, thread)| lives(thread));
        let mut tasks: Vec<Task> = living.map(|(tid, thread)| Task { pid: thread.pid, tid: *tid }).collect();
        tasks.sort_unstable_by_key(|task| task.tid);
        tasks
    }

    /// For how long a thread has missed only a CPU, by the kernel's account, when its recording begins.
    pub fn queue_begins(&mut self, tid: u32, queued_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.queue = (queued_ns, queued_ns);
        }
    }

    /// The same now.
    pub fn queue_told(&mut self, tid: u32, queued_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.queue.1 = queued_ns.max(thread.queue.1);
        }
    }

    /// Says what a thread did with its time until it ends, or the recording does.
    pub(super) fn tell_times(&mut self, tid: u32, time: u64) {
        if !self.switches_told {
            return;
        }
        self.wait_ends(tid, None, time);
        let Some(thread) = self.threads.get(&tid) else { return };
        let mut times = ThreadTimes { ran_ns: thread.cpu_time.until(time), ..thread.times };
        // What the kernel has counted beyond that was between being woken and being given a CPU.
        let (before, now) = thread.queue;
        let woken_ns = (now - before).saturating_sub(times.queued_ns).min(times.blocked_ns);
        times.queued_ns += woken_ns;
        times.queued_estimated_ns = woken_ns;
        times.blocked_ns -= woken_ns;
        if times != ThreadTimes::default() {
            self.builder.update_thread(thread.id, |row| row.times = Some(times));
        }
    }

    /// A frame that is no code.
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

    fn recorded_by(looks: bool) -> Recorded {
        let mut recorded = Recorded::new();
        let metric = recorded.converter.builder.metric(Metric::off_cpu_time());
        recorded.converter.record_waits(metric, looks);
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

    /// Milliseconds of each wait, and whether it was for a CPU.
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
    fn a_wait_lasts_until_the_thread_is_back_and_one_for_a_cpu_is_told_apart() {
        let mut recorded = recorded();
        leave(&mut recorded, PID, false, 2 * MS);
        come_back(&mut recorded, PID, 7 * MS);
        leave(&mut recorded, PID, true, 8 * MS);
        come_back(&mut recorded, PID, 11 * MS);
        assert_eq!(rows(recorded, 20 * MS), [(5, false), (3, true)]);
    }

    #[test]
    fn a_thread_waits_for_its_first_cpu_and_at_the_end_for_what_never_came() {
        let mut recorded = recorded();
        recorded.fork(PID, (PID, 101), 2 * MS);
        come_back(&mut recorded, 101, 4 * MS);
        leave(&mut recorded, 101, false, 5 * MS);
        assert_eq!(rows(recorded, 15 * MS), [(2, true), (10, false)]);
    }

    #[test]
    fn a_look_is_of_a_wait_only_if_it_did_not_end_before() {
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
        let look = |recorded: &mut Recorded, time| {
            let [task] = recorded.converter.not_looked_at()[..] else { panic!("one waits") };
            recorded.converter.looked_at(task, &UserStack::Frames(&[0x1000]), 7, "[sleep]", time);
            assert!(recorded.converter.not_looked_at().is_empty(), "once is enough");
        };
        out(&mut recorded, 2 * MS);
        look(&mut recorded, 3 * MS);
        come_back(&mut recorded, PID, 7 * MS);
        // This one is over when it is looked at, which only later records tell.
        out(&mut recorded, 8 * MS);
        look(&mut recorded, 10 * MS);
        come_back(&mut recorded, PID, 9 * MS);
        let profile = recorded.profile();
        let samples = &profile.samples[1];
        let innermost = |row: usize| {
            let module = profile.locations.module[profile.stacks.location(samples.stack[row]).index()];
            profile.text(profile.modules[module.unwrap().index()].path)
        };
        assert_eq!((innermost(0), innermost(1)), ("[sleep]", super::NOT_SEEN));
        assert_eq!(profile.wait_details.argument, [7, 0], "what was seen of the one is not the other's");
    }

    #[test]
    fn records_that_are_missing_make_no_waits() {
        let mut recorded = recorded();
        come_back(&mut recorded, PID, 4 * MS);
        come_back(&mut recorded, PID, 5 * MS);
        leave(&mut recorded, 999, false, 5 * MS);
        assert_eq!(rows(recorded, 4 * MS).iter().map(|(ms, _)| ms).sum::<u64>(), 0);
    }

    /// Of the waits from 2 to 7 ms, from 8 to 9 and from 10 to 20.
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
    fn a_wait_during_which_records_of_its_cpu_were_lost_may_be_too_long() {
        assert_eq!(doubtful_after(&[]), (0, 0));
        assert_eq!(doubtful_after(&[(Some(3), 5)]), (1, 5));
        assert_eq!(doubtful_after(&[(Some(3), 1)]), (0, 0), "before it");
        assert_eq!(doubtful_after(&[(Some(2), 5)]), (0, 0), "of a CPU that it was not on");
        assert_eq!(doubtful_after(&[(None, 5), (Some(3), 12)]), (2, 15), "anywhere, and until the end");
    }

    fn wake(recorded: &mut Recorded, tid: u32, by: u32, in_interrupt: bool, time_ns: u64) {
        let (metric, user) = (recorded.metric, UserStack::Frames(&[0x2000]));
        let by = Sample { metric, time_ns, task: Task { pid: PID, tid: by }, value: 1, user, kernel: &[] };
        recorded.converter.take(&Input::Wakes(Wakes { tid, by, in_interrupt }));
    }

    #[test]
    fn who_is_woken_misses_only_a_cpu() {
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
        let told: Vec<_> =
            details.iter().map(|row| (row.end_ns / MS, row.cpu, row.woken_by, row.waker)).collect();
        let second = profile.threads.iter().position(|row| row.tid == 101).map(ThreadId::from);
        assert_eq!(
            told,
            [(5, Some(3), WokenBy::Thread, second), (9, Some(3), WokenBy::Interrupt, None)],
            "the first waker counts"
        );
        assert!(details[0].waker_stack.is_some() && details[1].waker_stack.is_none());
        let samples = &profile.samples[1];
        assert_eq!(samples.value.iter().map(|ns| ns / MS).collect::<Vec<_>>(), [0, 3, 2, 1]);
    }

    #[test]
    fn a_wake_counts_for_the_wait_that_it_ends_only() {
        let mut recorded = recorded();
        // Before it has left for good, and long before a wait of which it is not the end.
        wake(&mut recorded, PID, 0, true, 2 * MS - 1000);
        leave(&mut recorded, PID, false, 2 * MS);
        come_back(&mut recorded, PID, 5 * MS);
        wake(&mut recorded, PID, 0, true, 6 * MS);
        leave(&mut recorded, PID, false, 8 * MS);
        come_back(&mut recorded, PID, 10 * MS);
        assert_eq!(rows(recorded, 10 * MS), [(0, false), (3, true), (2, false)]);
    }

    /// It was queued for 3 ms before the recording, is preempted for 2, and blocked for 10 of which the kernel counts 4 as queued.
    #[test]
    fn where_nobody_tells_of_the_waking_the_kernels_account_does() {
        let mut recorded = recorded();
        let times = |told: &[u64]| {
            let mut recorded = self::recorded();
            recorded.converter.queue_begins(PID, 3 * MS);
            leave(&mut recorded, PID, true, 2 * MS);
            come_back(&mut recorded, PID, 4 * MS);
            leave(&mut recorded, PID, false, 5 * MS);
            told.iter().for_each(|ms| recorded.converter.queue_told(PID, ms * MS));
            come_back(&mut recorded, PID, 15 * MS);
            recorded.converter.end_waits(20 * MS);
            let times = recorded.profile().threads[0].times.unwrap();
            assert_eq!(times.ran_ns + times.queued_ns + times.blocked_ns, 20 * MS, "{times:?}");
            [times.queued_ns, times.queued_estimated_ns, times.blocked_ns].map(|ns| ns / MS)
        };
        assert_eq!(times(&[]), [2, 0, 10], "nobody told");
        assert_eq!(times(&[6, 9]), [6, 4, 6]);
        assert_eq!(times(&[4]), [2, 0, 10], "told before the last time that it was preempted");
        assert_eq!(times(&[900]), [12, 10, 0], "no more than it was blocked");
        recorded.fork(PID, (PID, 101), MS);
        recorded.exit((PID, 101), 2 * MS);
        assert_eq!(recorded.converter.living(), [Task { pid: PID, tid: PID }]);
    }

    #[test]
    fn running_queued_and_blocked_time_are_the_life_of_a_thread() {
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
        assert_eq!((second.waits, second.preemptions), (1, 1), "the first CPU is waited for, too");
    }
}
