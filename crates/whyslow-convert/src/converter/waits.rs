//! Time that threads are off their CPUs: from where each left its CPU until it was given one again.
//!
//! ```text
//! Leaves   the stack of a thread that is about to leave its CPU
//! Switched it has left, of its own will (it waits for something) or not (it waits for a CPU); it is back
//! ```
//! A row stands for one wait and is made at its end. Whoever was taken off its CPU has a last frame that says so.

use whyslow_profile::{
    LocationId, MetricId, Module, ModuleKind, Optimised, RelativeAddress, StackId, SymbolState,
};

use super::Converter;
use crate::input::{Sample, Task};
use crate::world::World;

/// What holds for all threads.
#[derive(Debug)]
pub(super) struct Waits {
    metric: MetricId,
    /// `[waiting for a CPU]`, once it is needed.
    queued: Option<LocationId>,
}

/// What is known of one thread.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// Where it leaves its CPU.
    stack: Option<StackId>,
    /// Since when it is away, and whether only a CPU is missing.
    since: Option<(u64, bool)>,
}

impl<W: World> Converter<W> {
    /// Makes rows of waits.
    pub fn record_waits(&mut self, metric: MetricId) {
        self.waits = Some(Waits { metric, queued: None });
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

    /// A thread has left its CPU.
    pub(super) fn wait_begins(&mut self, tid: u32, preempted: bool, time: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.away.since = Some((time, preempted));
        }
    }

    /// A thread has begun and waits for its first CPU.
    pub(super) fn first_wait_begins(&mut self, tid: u32, time: u64) {
        if self.waits.is_some() {
            self.wait_begins(tid, true, time);
        }
    }

    /// A thread is on a CPU again, or the recording ends.
    pub(super) fn wait_ends(&mut self, tid: u32, time: u64) {
        let (Some(waits), Some(thread)) = (&self.waits, self.threads.get_mut(&tid)) else { return };
        let (metric, id) = (waits.metric, thread.id);
        let Away { stack, since } = std::mem::take(&mut thread.away);
        let Some((since, preempted)) = since else { return };
        let stack = match (preempted, stack) {
            (true, stack) => {
                let queued = self.queued_location();
                self.builder.stack(stack, queued)
            }
            (false, Some(stack)) => stack,
            (false, None) => return,
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

    /// The place of threads that wait for nothing but a CPU.
    fn queued_location(&mut self) -> LocationId {
        if let Some(known) = self.waits.as_ref().and_then(|waits| waits.queued) {
            return known;
        }
        let path = self.builder.string("[waiting for a CPU]");
        let module = self.builder.module(Module {
            path,
            build_id: None,
            kind: ModuleKind::Waiting,
            symbols: SymbolState::NotLoaded,
            optimised: Optimised::Unknown,
        });
        let location = self.builder.location(Some(module), RelativeAddress(0));
        if let Some(waits) = &mut self.waits {
            waits.queued = Some(location);
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
        let mut recorded = Recorded::new();
        let metric = recorded.converter.builder.metric(Metric::off_cpu_time());
        recorded.converter.record_waits(metric);
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
    fn records_that_are_missing_make_no_waits() {
        let mut recorded = recorded();
        come_back(&mut recorded, PID, 4 * MS);
        come_back(&mut recorded, PID, 5 * MS);
        leave(&mut recorded, 999, false, 5 * MS);
        assert_eq!(rows(recorded, 4 * MS).iter().map(|(ms, _)| ms).sum::<u64>(), 0);
    }
}
