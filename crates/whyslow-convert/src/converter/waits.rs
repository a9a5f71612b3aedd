//! Time that threads are off their CPUs: from where each left its CPU until it was given one again.
//!
//! ```text
//! Leaves   the stack of a thread that is about to leave its CPU
//! Switched it has left, of its own will (it waits for something) or not (it waits for a CPU); it is back
//! ```
//! A row stands for one wait and is made at its end. Whoever was taken off its CPU has a last frame that says so.
//!
//! Where the kernel does not give stacks of threads that leave, they are looked at while they wait ([`Converter::not_looked_at`],
//! [`Converter::looked_at`]). A look is of a wait only if it did not end before; waits that were over too soon have a frame that says so.

use rustc_hash::FxHashMap;
use whyslow_profile::{LocationId, MetricId, ModuleKind, StackId};

use super::Converter;
use crate::input::{Sample, Task, UserStack};
use crate::world::World;

/// The last frame of a thread that waits for its turn.
const FOR_CPU: &str = "[waiting for a CPU]";
/// The only frame of a wait that nobody has seen.
const NOT_SEEN: &str = "[wait too short to be looked at]";

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
}

/// What is known of one thread.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// Where it leaves its CPU.
    stack: Option<StackId>,
    /// When it was looked at, if that is how its stack is known.
    looked_ns: Option<u64>,
    /// Since when it is away, and whether only a CPU is missing.
    since: Option<(u64, bool)>,
}

impl<W: World> Converter<W> {
    /// Makes rows of waits. Threads are to be looked at unless their stacks come by themselves.
    pub fn record_waits(&mut self, metric: MetricId, looks: bool) {
        self.waits = Some(Waits { metric, places: FxHashMap::default(), looks, begun: Vec::new() });
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

    /// What a look at a thread shows that waits: its stack, and for what it waits as the system tells it.
    pub fn looked_at(&mut self, task: Task, user: &UserStack<'_>, place: &'static str, time: u64) {
        let stack = self.user_stack(task, user);
        let place = self.place(place);
        let stack = self.builder.stack(stack, place);
        if let Some(thread) = self.threads.get_mut(&task.tid)
            && matches!(thread.away.since, Some((since, false)) if since <= time)
        {
            (thread.away.stack, thread.away.looked_ns) = (Some(stack), Some(time));
        }
    }

    /// A thread has left its CPU.
    pub(super) fn wait_begins(&mut self, tid: u32, preempted: bool, time: u64) {
        let Some(waits) = &mut self.waits else { return };
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.away.since = Some((time, preempted));
            if !preempted && waits.looks {
                waits.begun.push(tid);
            }
        }
    }

    /// A thread waits already when its recording begins, and is to be looked at: nobody tells where it left its CPU.
    pub fn waits_already(&mut self, tid: u32, time: u64) {
        self.wait_begins(tid, false, time);
        if let Some(waits) = &mut self.waits {
            waits.begun.push(tid);
        }
    }

    /// A thread has begun and waits for its first CPU.
    pub(super) fn first_wait_begins(&mut self, tid: u32, time: u64) {
        self.wait_begins(tid, true, time);
    }

    /// A thread is on a CPU again, or the recording ends.
    pub(super) fn wait_ends(&mut self, tid: u32, time: u64) {
        let (Some(waits), Some(thread)) = (&self.waits, self.threads.get_mut(&tid)) else { return };
        let (metric, id) = (waits.metric, thread.id);
        let Away { stack, looked_ns, since } = std::mem::take(&mut thread.away);
        let Some((since, preempted)) = since else { return };
        // A look that came after the end saw something else.
        let stack = stack.filter(|_| looked_ns.is_none_or(|looked| looked <= time));
        let stack = match (preempted, stack) {
            (true, stack) => {
                let queued = self.place(FOR_CPU);
                self.builder.stack(stack, queued)
            }
            (false, Some(stack)) => stack,
            (false, None) => {
                let not_seen = self.place(NOT_SEEN);
                self.builder.stack(None, not_seen)
            }
        };
        self.builder.sample(metric, self.since_start(time), id, stack, time.saturating_sub(since));
    }

    /// Ends the waits of all threads that are still there.
    pub fn end_waits(&mut self, time: u64) {
        let mut tids: Vec<u32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            let ended = self.threads.get(&tid).and_then(|thread| self.builder.thread_row(thread.id).end_ns);
            if ended.is_none() {
                self.wait_ends(tid, time);
            }
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
    use whyslow_profile::{Metric, ModuleKind};

    use crate::testing::Recorded;
    use crate::{Input, Sample, Task, UserStack};

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
        recorded.converter.take(&Input::Switched { tid, runs: false, preempted, time_ns });
    }

    fn come_back(recorded: &mut Recorded, tid: u32, time_ns: u64) {
        recorded.converter.take(&Input::Switched { tid, runs: true, preempted: false, time_ns });
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
            recorded.converter.take(&Input::Switched { tid: PID, runs: false, preempted: false, time_ns });
        };
        let look = |recorded: &mut Recorded, time| {
            let [task] = recorded.converter.not_looked_at()[..] else { panic!("one waits") };
            recorded.converter.looked_at(task, &UserStack::Frames(&[0x1000]), "[sleep]", time);
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
    }

    #[test]
    fn records_that_are_missing_make_no_waits() {
        let mut recorded = recorded();
        come_back(&mut recorded, PID, 4 * MS);
        come_back(&mut recorded, PID, 5 * MS);
        leave(&mut recorded, 999, false, 5 * MS);
        assert_eq!(rows(recorded, 4 * MS).iter().map(|(ms, _)| ms).sum::<u64>(), 0);
    }
}
