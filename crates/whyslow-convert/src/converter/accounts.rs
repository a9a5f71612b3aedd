//! Accounts for CPU time: how long each thread was on a CPU, and what of it has no sample. An event bound to a thread
//! produces its first sample after a whole period, and none in kernel mode without permission for it. The missing
//! time follows from how long the thread was on a CPU.

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;
use whyslow_profile::{MetricId, SpecialFrame, ThreadId};

use super::setup::AccountSetup;
use super::tables::Tables;

/// Time without a sample becomes a row when it is this many periods long, so that the row is near where the
/// time was spent. The rest becomes a row when the thread exits.
const PERIODS_OF_ROW: u64 = 10;

/// The accounts of all threads.
#[derive(Debug)]
pub(super) struct Accounts {
    /// How time without a sample becomes rows, if it does.
    rows: Option<Missing>,
    threads: FxHashMap<ThreadId, CpuTime>,
    /// Sum of the raw sample values of each metric.
    totals: Vec<u64>,
}

/// Time without a sample.
#[derive(Debug)]
struct Missing {
    metric: MetricId,
    /// Nanoseconds of CPU time between two samples.
    period_ns: u64,
    by_clock: bool,
    /// The time that all samples stand for.
    sampled_ns: u64,
}

/// The account of one thread.
#[derive(Debug, Default)]
struct CpuTime {
    /// Since when it is on a CPU.
    since: Option<ClockNs>,
    /// Time on CPUs before that.
    ns: u64,
    /// The part of it that samples or earlier rows stand for.
    covered_ns: u64,
    has_sample: bool,
}

impl CpuTime {
    /// Time on CPUs up to now.
    fn until(&self, time: ClockNs) -> u64 {
        self.ns + self.since.map_or(0, |since| time.since(since))
    }

    /// The time that neither samples nor rows stand for.
    fn missing(&self, time: ClockNs) -> u64 {
        self.until(time).saturating_sub(self.covered_ns)
    }

    /// It leaves its CPU.
    fn stop(&mut self, time: ClockNs) {
        self.ns = self.until(time);
        self.since = None;
    }
}

impl Accounts {
    /// No accounts yet.
    pub(super) fn new(setup: Option<AccountSetup>) -> Self {
        let rows = setup.map(|AccountSetup { metric, frequency_hz, by_clock }| {
            let period_ns = 1_000_000_000 / u64::from(frequency_hz.max(1));
            Missing { metric, period_ns, by_clock, sampled_ns: 0 }
        });
        Self { rows, threads: FxHashMap::default(), totals: Vec::new() }
    }

    /// The sum of all sample values of a metric.
    pub(super) fn total(&self, metric: MetricId) -> u64 {
        self.totals.get(metric.index()).copied().unwrap_or(0)
    }

    /// How long a thread was on CPUs.
    pub(super) fn ran_ns(&self, thread: ThreadId, time: ClockNs) -> u64 {
        self.threads.get(&thread).map_or(0, |cpu| cpu.until(time))
    }

    /// Drops the account of a thread.
    pub(super) fn forget(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// A thread is on a CPU, at the latest since this time: it executes a program, or runs already.
    pub(super) fn runs(&mut self, thread: ThreadId, time: ClockNs) {
        self.threads.entry(thread).or_default().since.get_or_insert(time);
    }

    /// A thread was switched onto a CPU or off it.
    pub(super) fn switched(&mut self, tables: &mut Tables, thread: ThreadId, runs: bool, time: ClockNs) {
        let cpu = self.threads.entry(thread).or_default();
        if runs {
            cpu.since = Some(time);
        } else {
            cpu.stop(time);
            self.add_missing(tables, thread, time, PERIODS_OF_ROW);
        }
    }

    /// Counts a sample. Returns its weight: a period, but no more than its thread has run.
    ///
    /// Threads with the same inherited events swap them at a context switch: a period that starts in one
    /// thread can end in another that has just started. The first thread's part of it belongs to its own
    /// account.
    pub(super) fn weigh(&mut self, metric: MetricId, thread: ThreadId, time: ClockNs, value: u64) -> u64 {
        let value = self.weight(metric, thread, time, value);
        if self.totals.len() <= metric.index() {
            self.totals.resize(metric.index() + 1, 0);
        }
        let total = &mut self.totals[metric.index()];
        *total = total.saturating_add(value);
        value
    }

    fn weight(&mut self, metric: MetricId, thread: ThreadId, time: ClockNs, value: u64) -> u64 {
        let Some(rows) = self.rows.as_mut().filter(|rows| rows.metric == metric) else { return value };
        let (cpu, period_ns) = (self.threads.entry(thread).or_default(), rows.period_ns);
        // An attached thread may have been on its CPU before its events were open, and records can be lost.
        let stands_for_ns = match cpu.since {
            Some(_) if rows.by_clock => cpu.missing(time).min(period_ns),
            _ => period_ns,
        };
        cpu.since.get_or_insert(time);
        cpu.covered_ns += stands_for_ns;
        cpu.has_sample = true;
        // Clocks are not exact.
        let is_whole = stands_for_ns >= period_ns - period_ns / 10;
        rows.sampled_ns += stands_for_ns;
        if is_whole { value } else { (value as f64 * stands_for_ns as f64 / period_ns as f64) as u64 }
    }

    /// Adds a row for the time without a sample before a sample, if it is long.
    pub(super) fn add_gap(&mut self, tables: &mut Tables, metric: MetricId, thread: ThreadId, time: ClockNs) {
        if self.rows.as_ref().is_some_and(|rows| rows.metric == metric) {
            self.add_missing(tables, thread, time, PERIODS_OF_ROW);
        }
    }

    /// A thread exits, or the recording ends.
    pub(super) fn end(&mut self, tables: &mut Tables, thread: ThreadId, time: ClockNs) {
        let (Some(_), Some(cpu)) = (&self.rows, self.threads.get_mut(&thread)) else { return };
        cpu.stop(time);
        if !cpu.has_sample && cpu.ns > 0 {
            tables.counters.unsampled_threads += 1;
        }
        self.add_missing(tables, thread, time, 0);
    }

    /// Closes the account of a thread until it runs again.
    pub(super) fn close(&mut self, tables: &mut Tables, thread: ThreadId, time: ClockNs) {
        if let Some(cpu) = self.threads.get_mut(&thread) {
            cpu.stop(time);
            self.add_missing(tables, thread, time, 0);
        }
    }

    /// Adds a row for time without a sample if it is at least this many periods.
    fn add_missing(&mut self, tables: &mut Tables, thread: ThreadId, time: ClockNs, periods: u64) {
        let (Some(rows), Some(cpu)) = (&self.rows, self.threads.get_mut(&thread)) else { return };
        let missing = cpu.missing(time);
        if missing == 0 || missing < periods * rows.period_ns {
            return;
        }
        cpu.covered_ns += missing;
        // Sample values are nanoseconds or cycles, so use the average value of a period so far.
        let (metric, sampled_ns) = (rows.metric, rows.sampled_ns.max(1));
        let value = match self.total(metric) {
            0 => missing,
            total => (missing as f64 * total as f64 / sampled_ns as f64) as u64,
        };
        add_row(tables, metric, thread, time, value);
    }
}

/// Adds a row that is no sample.
pub(super) fn add_row(tables: &mut Tables, metric: MetricId, thread: ThreadId, time: ClockNs, value: u64) {
    let location = tables.builder.special(SpecialFrame::NotSampled);
    let stack = tables.builder.stack(None, location);
    tables.builder.sample(metric, tables.since_start(time), thread, stack, value);
}

#[cfg(test)]
mod tests;
