//! CPU time that no sample fell into. An event that is bound to a thread gives its first sample after a whole period, and none in
//! kernel mode where that may not be observed: what is missing is known from the time the thread was on a CPU.

use linux_perf_event_reader::ContextSwitchRecord;
use whyslow_profile::{LocationId, Module, ModuleKind, Optimised, RelativeAddress, SymbolState, ThreadId};

use super::{Converter, Record};

/// Time without a sample becomes a row when it is this many periods long, so that it lies near where it was spent; what is left
/// becomes one when the thread ends.
const PERIODS_OF_ROW: u64 = 10;

/// What holds for all threads.
#[derive(Debug)]
pub(super) struct Accounting {
    /// Nanoseconds of CPU time between two samples.
    period_ns: u64,
    samples: u64,
    /// `[not sampled]`, once it is needed.
    location: Option<LocationId>,
}

/// What is known of one thread.
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
    fn until(&self, time: u64) -> u64 {
        self.ns + self.since.map_or(0, |since| time.saturating_sub(since))
    }

    /// The time for which nothing stands.
    fn missing(&self, time: u64) -> u64 {
        self.until(time).saturating_sub(self.covered_ns)
    }
}

impl Accounting {
    pub(super) fn new(frequency_hz: u32) -> Self {
        Self { period_ns: 1_000_000_000 / u64::from(frequency_hz.max(1)), samples: 0, location: None }
    }
}

impl Converter {
    /// Accounts for the CPU time of every thread: for events that are bound to threads.
    pub(crate) fn account(&mut self, frequency_hz: u32) {
        self.accounting = Some(Accounting::new(frequency_hz));
    }

    pub(super) fn switched(&mut self, record: &Record<'_>, switch: &ContextSwitchRecord) {
        let Ok(common) = record.common_data() else { return };
        let (Some(tid), Some(time)) = (common.tid, common.timestamp) else { return };
        let tid = tid.cast_unsigned();
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let cpu = &mut thread.cpu_time;
        match switch {
            ContextSwitchRecord::In { .. } => cpu.since = Some(time),
            ContextSwitchRecord::Out { .. } => {
                cpu.ns = cpu.until(time);
                cpu.since = None;
                self.add_not_sampled(tid, time, PERIODS_OF_ROW);
            }
        }
    }

    /// A sample stands for a period.
    pub(super) fn account_sample(&mut self, tid: u32, time: u64) {
        let Some(accounting) = &mut self.accounting else { return };
        accounting.samples += 1;
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let cpu = &mut thread.cpu_time;
        // An attached thread may have been on its CPU before its events were; records can be lost.
        cpu.since.get_or_insert(time);
        cpu.covered_ns += accounting.period_ns;
        cpu.has_sample = true;
        self.add_not_sampled(tid, time, PERIODS_OF_ROW);
    }

    /// A thread executes a program, and so is on a CPU. The first one does so before its events have begun.
    pub(super) fn account_exec(&mut self, tid: u32, time: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.cpu_time.since.get_or_insert(time);
        }
    }

    /// A thread ends, or the recording does.
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

    /// Ends the account of all threads that are still there.
    pub(crate) fn account_all(&mut self, time: u64) {
        let mut running: Vec<(ThreadId, u32)> =
            self.threads.iter().map(|(tid, thread)| (thread.id, *tid)).collect();
        running.sort_unstable();
        for (id, tid) in running {
            if self.builder.thread_row(id).end_ns.is_none() {
                self.account_end(tid, time);
            }
        }
    }

    /// Adds a row for time without a sample when that is at least so many periods.
    fn add_not_sampled(&mut self, tid: u32, time: u64, periods: u64) {
        let Some(accounting) = &mut self.accounting else { return };
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let missing = thread.cpu_time.missing(time);
        if missing == 0 || missing < periods * accounting.period_ns {
            return;
        }
        thread.cpu_time.covered_ns += missing;
        let location = *accounting.location.get_or_insert_with(|| {
            let path = self.builder.string("[not sampled]");
            let module = self.builder.module(Module {
                path,
                build_id: None,
                kind: ModuleKind::NotSampled,
                symbols: SymbolState::NotLoaded,
                optimised: Optimised::Unknown,
            });
            self.builder.location(Some(module), RelativeAddress(0))
        });
        // Values of samples are nanoseconds or cycles: what a period of them was worth so far.
        let sampled_ns = accounting.samples * accounting.period_ns;
        let value = match self.total_value {
            0 => missing,
            total => (missing as f64 * total as f64 / sampled_ns as f64) as u64,
        };
        let stack = self.builder.stack(None, location);
        let time = time.saturating_sub(self.start_ns);
        self.builder.sample(self.metric, time, thread.id, stack, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::testing::Made;

    const MS: u64 = 1_000_000;
    const PID: u32 = 100;

    /// The values of the rows, in milliseconds, and whether each is a sample.
    fn rows(made: &[Made], end: u64) -> (Vec<(u64, u32, bool)>, u64) {
        let mut converter = Converter::new(0, 0, Some(whyslow_profile::Sampler::default()));
        converter.account(1000);
        converter.add_process(PID, "app");
        for made in made {
            converter.record(&made.record());
        }
        converter.account_all(end);
        let unsampled = converter.counters.unsampled_threads;
        let profile = converter.builder.into_profile(whyslow_profile::Meta::default()).unwrap();
        let samples = &profile.samples[0];
        let row = |row: usize| {
            let thread = &profile.threads[samples.thread[row].index()];
            (samples.value[row] / MS, thread.tid, !profile.is_not_sampled(samples.stack[row]))
        };
        ((0..samples.len()).map(row).collect(), unsampled)
    }

    #[test]
    fn a_thread_that_ends_before_its_first_sample_has_its_time_all_the_same() {
        let made = [
            Made::exec(PID, PID, 0),
            Made::fork(PID, PID, 101, 2 * MS),
            Made::switch_out(PID, PID, 3 * MS),
            Made::switch_in(PID, 101, 3 * MS),
            Made::exit(PID, 101, 7 * MS),
            Made::switch_in(PID, PID, 7 * MS),
            Made::exit(PID, PID, 8 * MS),
        ];
        assert_eq!(rows(&made, 9 * MS), (vec![(4, 101, false), (4, PID, false)], 2));
    }

    #[test]
    fn samples_stand_for_their_period_and_only_the_rest_is_added() {
        let made = [
            Made::exec(PID, PID, 0),
            Made::sample(PID, PID, MS, MS),
            Made::switch_out(PID, PID, 2 * MS),
            // Waiting is no CPU time.
            Made::switch_in(PID, PID, 50 * MS),
            Made::sample(PID, PID, 51 * MS, MS),
            Made::exit(PID, PID, 53 * MS),
        ];
        let (rows, unsampled) = rows(&made, 60 * MS);
        let not_sampled = rows.iter().filter(|(_, _, sampled)| !sampled).collect::<Vec<_>>();
        assert_eq!(not_sampled, [&(3, PID, false)]);
        assert_eq!(unsampled, 0);
    }

    /// At the end of a recording the time of a thread that goes on is complete.
    #[test]
    fn who_runs_on_is_accounted_for_up_to_the_end() {
        let made = [Made::exec(PID, PID, 0)];
        assert_eq!(rows(&made, 5 * MS).0, [(5, PID, false)]);
    }

    /// Time that may not be observed lies near where it was spent, not in one lump at the end.
    #[test]
    fn long_stretches_without_samples_have_rows_of_their_own() {
        let switches = (0..10).flat_map(|at| {
            [Made::switch_in(PID, PID, at * 20 * MS), Made::switch_out(PID, PID, (at * 20 + 10) * MS)]
        });
        let rows = rows(&switches.collect::<Vec<_>>(), 300 * MS).0;
        assert_eq!(rows, [(10, PID, false); 10]);
    }

    /// The number of a thread that executed a program under another one is not left running for ever.
    #[test]
    fn an_exec_ends_all_other_threads() {
        let made = [
            Made::exec(PID, PID, 0),
            Made::fork(PID, PID, 101, MS),
            Made::switch_in(PID, 101, MS),
            Made::exit(PID, PID, 2 * MS),
            Made::exec(PID, PID, 3 * MS),
            Made::exit(PID, PID, 4 * MS),
        ];
        let rows = rows(&made, 1000 * MS).0;
        assert_eq!(rows.iter().map(|(value, ..)| value).sum::<u64>(), 2 + 2 + 1, "{rows:?}");
    }
}
