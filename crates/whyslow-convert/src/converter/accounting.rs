//! Accounts for CPU time without a sample. An event bound to a thread produces its first sample after a whole
//! period, and none in kernel mode without permission for it. The missing time follows from how long the
//! thread was on a CPU.

use whyslow_profile::{MetricId, SpecialFrame, ThreadId};

use super::Converter;
use crate::input::Task;
use crate::world::World;

/// Time without a sample becomes a row when it is this many periods long, so that the row is near where the
/// time was spent. The rest becomes a row when the thread exits.
const PERIODS_OF_ROW: u64 = 10;

/// The state shared by all threads.
#[derive(Debug)]
pub(super) struct Accounting {
    /// The CPU time metric.
    metric: MetricId,
    /// Nanoseconds of CPU time between two samples.
    period_ns: u64,
    /// The time that all samples stand for.
    sampled_ns: u64,
    /// Whether the clock triggers samples. Otherwise cycles do, and each sample says how many it stands for.
    by_clock: bool,
}

/// The account of one thread.
#[derive(Debug, Default)]
pub(super) struct CpuTime {
    /// Since when it is on a CPU.
    since: Option<u64>,
    /// Time on CPUs before that.
    ns: u64,
    /// The part of it that samples or earlier rows stand for.
    covered_ns: u64,
    has_sample: bool,
}

impl CpuTime {
    /// Time on CPUs up to now.
    pub(super) fn until(&self, time: u64) -> u64 {
        self.ns + self.since.map_or(0, |since| time.saturating_sub(since))
    }

    /// The time that neither samples nor rows stand for.
    fn missing(&self, time: u64) -> u64 {
        self.until(time).saturating_sub(self.covered_ns)
    }
}

impl Accounting {
    pub(super) fn new(metric: MetricId, frequency_hz: u32, by_clock: bool) -> Self {
        let period_ns = 1_000_000_000 / u64::from(frequency_hz.max(1));
        Self { metric, period_ns, sampled_ns: 0, by_clock }
    }
}

impl<W: World> Converter<W> {
    /// Adds CPU time of a thread that no sample stands for, for sources that compute it themselves.
    pub fn add_unsampled_time(&mut self, metric: MetricId, Task { pid, tid }: Task, time: u64, value: u64) {
        self.ensure_thread(pid, tid, time);
        if let Some(thread) = self.threads.get(&tid).map(|thread| thread.id) {
            self.add_row_without_sample(metric, thread, time, value);
        }
    }

    fn add_row_without_sample(&mut self, metric: MetricId, thread: ThreadId, time: u64, value: u64) {
        let location = self.builder.special(SpecialFrame::NotSampled);
        let stack = self.builder.stack(None, location);
        self.builder.sample(metric, self.since_start(time), thread, stack, value);
    }

    /// Accounts for the CPU time of every thread: for events that are bound to threads and triggered by the
    /// clock or by cycles.
    pub fn account(&mut self, metric: MetricId, frequency_hz: u32, by_clock: bool) {
        self.accounting = Some(Accounting::new(metric, frequency_hz, by_clock));
    }

    pub(super) fn switched(&mut self, tid: u32, runs: bool, preempted: bool, cpu: Option<u32>, time: u64) {
        if runs {
            self.wait_ends(tid, cpu, time);
        } else {
            self.wait_begins(tid, preempted, cpu, time);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let cpu = &mut thread.cpu_time;
        if runs {
            cpu.since = Some(time);
        } else {
            cpu.ns = cpu.until(time);
            cpu.since = None;
            self.add_not_sampled(tid, time, PERIODS_OF_ROW);
        }
    }

    /// Returns the weight of a sample: a period, but no more than its thread has run.
    ///
    /// Threads with the same inherited events swap them at a context switch: a period that starts in one
    /// thread can end in another that has just started. The first thread's part of it belongs to its own
    /// account.
    pub(super) fn account_sample(&mut self, metric: MetricId, tid: u32, time: u64, value: u64) -> u64 {
        let Some(accounting) = self.accounting.as_mut().filter(|accounting| accounting.metric == metric)
        else {
            return value;
        };
        let Some(thread) = self.threads.get_mut(&tid) else { return value };
        let (cpu, period_ns) = (&mut thread.cpu_time, accounting.period_ns);
        // An attached thread may have been on its CPU before its events were open, and records can be lost.
        let stands_for_ns = match cpu.since {
            Some(_) if accounting.by_clock => cpu.missing(time).min(period_ns),
            _ => period_ns,
        };
        cpu.since.get_or_insert(time);
        cpu.covered_ns += stands_for_ns;
        cpu.has_sample = true;
        // Clocks are not exact.
        let is_whole = stands_for_ns >= period_ns - period_ns / 10;
        accounting.sampled_ns += stands_for_ns;
        if is_whole { value } else { (value as f64 * stands_for_ns as f64 / period_ns as f64) as u64 }
    }

    /// Adds a row for the time without a sample before a sample, if it is long.
    pub(super) fn account_gap(&mut self, metric: MetricId, tid: u32, time: u64) {
        if self.accounting.as_ref().is_some_and(|accounting| accounting.metric == metric) {
            self.add_not_sampled(tid, time, PERIODS_OF_ROW);
        }
    }

    /// A thread executes a program, so it is on a CPU. The first thread does so before its events start.
    pub(super) fn account_exec(&mut self, tid: u32, time: u64) {
        if time < self.taken_from_ns {
            return;
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.cpu_time.since.get_or_insert(time);
        }
    }

    /// A thread exits, or the recording ends.
    pub(super) fn account_end(&mut self, tid: u32, time: u64) {
        let (Some(_), Some(thread)) = (&self.accounting, self.threads.get_mut(&tid)) else { return };
        let cpu = &mut thread.cpu_time;
        cpu.ns = cpu.until(time);
        cpu.since = None;
        if !cpu.has_sample && cpu.ns > 0 {
            self.counters.unsampled_threads += 1;
        }
        self.add_not_sampled(tid, time, 0);
    }

    /// Closes the accounts of all threads until they run again.
    pub(super) fn close_accounts(&mut self, time: u64) {
        let mut tids: Vec<u32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            let cpu = &mut thread.cpu_time;
            cpu.ns = cpu.until(time);
            cpu.since = None;
            self.add_not_sampled(tid, time, 0);
        }
    }

    /// Closes the accounts of all threads that still run.
    pub fn account_all(&mut self, time: u64) {
        let mut running: Vec<(ThreadId, u32)> =
            self.threads.iter().map(|(tid, thread)| (thread.id, *tid)).collect();
        running.sort_unstable();
        for (id, tid) in running {
            if self.builder.thread_row(id).end_ns.is_none() {
                self.account_end(tid, time);
            }
        }
    }

    /// Adds a row for time without a sample if it is at least this many periods.
    fn add_not_sampled(&mut self, tid: u32, time: u64, periods: u64) {
        let Some(accounting) = &mut self.accounting else { return };
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let missing = thread.cpu_time.missing(time);
        if missing == 0 || missing < periods * accounting.period_ns {
            return;
        }
        thread.cpu_time.covered_ns += missing;
        // Sample values are nanoseconds or cycles, so use the average value of a period so far.
        let (metric, sampled_ns) = (accounting.metric, accounting.sampled_ns.max(1));
        let value = match self.totals.get(metric.index()).copied().unwrap_or(0) {
            0 => missing,
            total => (missing as f64 * total as f64 / sampled_ns as f64) as u64,
        };
        let thread = thread.id;
        self.add_row_without_sample(metric, thread, time, value);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Recorded;
    use crate::{Input, Sample, Task, UserStack};

    const MS: u64 = 1_000_000;
    const PID: u32 = 100;
    const MAIN: (u32, u32) = (PID, PID);

    /// A recording that accounts for its threads' time.
    fn recorded() -> Recorded {
        let mut recorded = Recorded::new();
        recorded.converter.account(recorded.metric, 1000, true);
        recorded.converter.add_process(PID, "app");
        recorded
    }

    fn switch(recorded: &mut Recorded, tid: u32, runs: bool, time_ns: u64) {
        recorded.converter.take(&Input::Switched { tid, runs, preempted: false, cpu: None, time_ns });
    }

    /// A sample that stands for a millisecond.
    fn sample(recorded: &mut Recorded, time_ns: u64) {
        let (metric, task) = (recorded.metric, Task { pid: PID, tid: PID });
        let user = UserStack::Frames(&[0x1000]);
        recorded.converter.take(&Input::Sample(Sample {
            metric,
            time_ns,
            task,
            value: MS,
            user,
            kernel: &[],
        }));
    }

    /// The values of the rows, in milliseconds, and whether each is a sample; then the number of threads
    /// without one.
    fn rows(mut recorded: Recorded, end: u64) -> (Vec<(u64, u32, bool)>, u64) {
        recorded.converter.account_all(end);
        let unsampled = recorded.converter.counters.unsampled_threads;
        let profile = recorded.profile();
        let samples = &profile.samples[0];
        let row = |row: usize| {
            let thread = &profile.threads[samples.thread[row].index()];
            (samples.value[row] / MS, thread.tid, !profile.is_not_sampled(samples.stack[row]))
        };
        ((0..samples.len()).map(row).collect(), unsampled)
    }

    #[test]
    fn a_thread_that_exits_before_its_first_sample_keeps_its_time() {
        let mut recorded = recorded();
        recorded.exec(MAIN, "app", 0);
        recorded.fork(PID, (PID, 101), 2 * MS);
        switch(&mut recorded, PID, false, 3 * MS);
        switch(&mut recorded, 101, true, 3 * MS);
        recorded.exit((PID, 101), 7 * MS);
        switch(&mut recorded, PID, true, 7 * MS);
        recorded.exit(MAIN, 8 * MS);
        assert_eq!(rows(recorded, 9 * MS), (vec![(4, 101, false), (4, PID, false)], 2));
    }

    #[test]
    fn samples_stand_for_their_period_and_only_the_remainder_is_added() {
        let mut recorded = recorded();
        recorded.exec(MAIN, "app", 0);
        sample(&mut recorded, MS);
        switch(&mut recorded, PID, false, 2 * MS);
        // Waiting is not CPU time.
        switch(&mut recorded, PID, true, 50 * MS);
        sample(&mut recorded, 51 * MS);
        recorded.exit(MAIN, 53 * MS);
        let (rows, unsampled) = rows(recorded, 60 * MS);
        let not_sampled = rows.iter().filter(|(_, _, sampled)| !sampled).collect::<Vec<_>>();
        assert_eq!(not_sampled, [&(3, PID, false)]);
        assert_eq!(unsampled, 0);
    }

    /// A period that started in one thread ends in another that has just started.
    #[test]
    fn a_sample_weighs_no_more_than_its_thread_ran() {
        let mut recorded = recorded();
        recorded.exec(MAIN, "app", 0);
        sample(&mut recorded, 3 * MS / 10);
        sample(&mut recorded, 13 * MS / 10);
        recorded.exit(MAIN, 17 * MS / 10);
        let profile = recorded.profile();
        let values: Vec<u64> = profile.samples[0].value.iter().map(|value| value / (MS / 10)).collect();
        assert_eq!(values, [3, 10, 4], "the remainder has no sample");
    }

    /// A second event samples the same thread. It says nothing about the time between samples of the first.
    #[test]
    fn samples_of_another_event_cover_no_cpu_time() {
        let mut recorded = recorded();
        let misses = whyslow_profile::Metric::unknown("cache-misses", whyslow_profile::Unit::Count);
        let misses = recorded.converter.builder.metric(misses);
        recorded.exec(MAIN, "app", 0);
        let cpu_time = std::mem::replace(&mut recorded.metric, misses);
        sample(&mut recorded, MS);
        recorded.metric = cpu_time;
        recorded.exit(MAIN, 4 * MS);
        assert_eq!(rows(recorded, 5 * MS), (vec![(4, PID, false)], 1));
    }

    /// At the end of a recording, the time of a thread that still runs is complete.
    #[test]
    fn a_running_thread_is_accounted_for_up_to_the_end() {
        let mut recorded = recorded();
        recorded.exec(MAIN, "app", 0);
        assert_eq!(rows(recorded, 5 * MS).0, [(5, PID, false)]);
    }

    #[test]
    fn a_pause_leaves_out_the_time_of_running_threads() {
        let mut recorded = recorded();
        recorded.exec(MAIN, "app", 0);
        sample(&mut recorded, MS);
        recorded.converter.pause(3 * MS);
        sample(&mut recorded, 5 * MS);
        recorded.fork(PID, (PID, 101), 6 * MS);
        switch(&mut recorded, 101, true, 7 * MS);
        recorded.converter.resume(10 * MS);
        // Its record arrives late.
        sample(&mut recorded, 9 * MS);
        recorded.converter.runs_already(PID, 10 * MS);
        sample(&mut recorded, 11 * MS);
        let before = [(1, PID, true), (2, PID, false)];
        let after = [(1, PID, true), (1, PID, false)];
        assert_eq!(rows(recorded, 12 * MS).0, [before, after].concat());
    }

    /// Unobservable time appears near where it was spent, not as one block at the end.
    #[test]
    fn long_stretches_without_samples_get_their_own_rows() {
        let mut recorded = recorded();
        for at in 0..10 {
            switch(&mut recorded, PID, true, at * 20 * MS);
            switch(&mut recorded, PID, false, (at * 20 + 10) * MS);
        }
        assert_eq!(rows(recorded, 300 * MS).0, [(10, PID, false); 10]);
    }

    /// A thread that executes a program takes another number. Its old number must not count as running
    /// forever.
    #[test]
    fn an_exec_ends_all_other_threads() {
        let mut recorded = recorded();
        recorded.exec(MAIN, "app", 0);
        recorded.fork(PID, (PID, 101), MS);
        switch(&mut recorded, 101, true, MS);
        recorded.exit(MAIN, 2 * MS);
        recorded.exec(MAIN, "app", 3 * MS);
        recorded.exit(MAIN, 4 * MS);
        let rows = rows(recorded, 1000 * MS).0;
        assert_eq!(rows.iter().map(|(value, ..)| value).sum::<u64>(), 2 + 2 + 1, "{rows:?}");
    }
}
