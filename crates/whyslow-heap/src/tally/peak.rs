//! Live bytes of all processes and of each process, and their values at the peak.
//!
//! The peak costs a few instructions per event, regardless of the number of sites: whenever the total reaches
//! a new maximum, a number ([`Epoch`]) changes. Each [`Peaked`] keeps the value that it had before its first
//! change in the current epoch. So at the end, a value that has not changed in the last epoch is also its
//! value at the peak; otherwise the kept value is.

use whyslow_numbers::ClockNs;
use whyslow_profile::Growth;

use super::End;
use crate::ids::{ProcessRow, Tick};
use crate::live_curve::LiveCurve;
use crate::outcome::{CounterKind, CounterRow};
use crate::weight::{Weight, add};

/// The number of peaks so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(pub u64);

/// A number that keeps its value at the peak.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Peaked {
    now: Weight,
    kept: Weight,
    epoch: Epoch,
}

impl Peaked {
    /// Zero, now and at the last peak.
    pub(super) fn new(epoch: Epoch) -> Self {
        Self { epoch, ..Self::default() }
    }

    #[inline]
    fn keep(&mut self, epoch: Epoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.kept = self.now;
        }
    }

    #[inline]
    pub(super) fn add(&mut self, weight: Weight, epoch: Epoch) {
        self.keep(epoch);
        self.now += weight;
    }

    #[inline]
    pub(super) fn subtract(&mut self, weight: Weight, epoch: Epoch) {
        self.keep(epoch);
        self.now -= weight;
    }

    pub(super) fn at_peak(&self, epoch: Epoch) -> Weight {
        if self.epoch == epoch { self.kept } else { self.now }
    }
}

/// The live bytes of one process.
#[derive(Debug)]
struct Height {
    live: Peaked,
    /// The maximum of live bytes.
    most: u64,
    /// What was live at its exit.
    at_exit: Weight,
    ended: bool,
}

/// The maximum of live bytes, and when it was reached.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peak {
    pub bytes: u64,
    pub tick: Tick,
}

/// Live bytes of all processes and of each process.
#[derive(Debug, Default)]
pub(super) struct Heights {
    processes: Vec<Height>,
    bytes: u64,
    epoch: Epoch,
    peak: Peak,
    /// The peak changed in this bucket.
    peak_moved: bool,
    /// Live bytes of all processes over time.
    live_curve: LiveCurve,
}

impl Heights {
    pub(super) fn process_added(&mut self) -> ProcessRow {
        let live = Peaked::new(self.epoch);
        self.processes.push(Height { live, most: 0, at_exit: Weight::default(), ended: false });
        ProcessRow::from(self.processes.len() - 1)
    }

    #[inline]
    pub(super) fn allocated(&mut self, process: ProcessRow, weight: Weight) {
        let process = &mut self.processes[process.index()];
        process.live.add(weight, self.epoch);
        process.most = process.most.max(process.live.now.bytes);
        add(&mut self.bytes, weight.bytes);
    }

    #[inline]
    pub(super) fn freed(&mut self, process: ProcessRow, weight: Weight) {
        self.processes[process.index()].live.subtract(weight, self.epoch);
        self.bytes = self.bytes.wrapping_sub(weight.bytes);
    }

    /// Checks for a new maximum. Call it after the last change at a point in time.
    #[inline]
    pub(super) fn moment_ended(&mut self, tick: Tick) {
        if self.bytes > self.peak.bytes {
            self.peak = Peak { bytes: self.bytes, tick };
            self.epoch.0 += 1;
            self.peak_moved = true;
        }
    }

    /// Notes that a process has ended. Returns whether it had ended before.
    pub(super) fn process_ended(&mut self, process: ProcessRow) -> bool {
        std::mem::replace(&mut self.processes[process.index()].ended, true)
    }

    pub(super) fn has_ended(&self, process: ProcessRow) -> bool {
        self.processes[process.index()].ended
    }

    /// Subtracts a block that ends with its process.
    pub(super) fn ended_with_process(&mut self, process: ProcessRow, weight: Weight, end: End) {
        self.freed(process, weight);
        if end == End::Exit {
            self.processes[process.index()].at_exit += weight;
        }
    }

    /// Records the live bytes before a process ends: its end is not a free.
    pub(super) fn reached(&mut self, time_ns: ClockNs) {
        self.live_curve.add(time_ns, self.bytes);
    }

    /// Ends a timeline bucket: emits its counter values.
    pub(super) fn bucket_closed(
        &mut self,
        peak_ns: ClockNs,
        end_ns: ClockNs,
        counters: &mut Vec<CounterRow>,
    ) {
        for (row, process) in self.processes.iter().enumerate().filter(|(_, process)| !process.ended) {
            if self.peak_moved {
                counters.push(live_row(row.into(), peak_ns, process.live.at_peak(self.epoch).bytes));
            }
            counters.push(live_row(row.into(), end_ns, process.live.now.bytes));
        }
        self.live_curve.add(end_ns, self.bytes);
        self.peak_moved = false;
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn peak(&self) -> Peak {
        self.peak
    }

    /// Live bytes of all processes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Live bytes of a process.
    pub(super) fn bytes_of(&self, process: ProcessRow) -> u64 {
        self.processes[process.index()].live.now.bytes
    }

    /// The maximum of a process, and what was live at its exit.
    pub(super) fn most_and_exit(&self, process: ProcessRow) -> (u64, Weight) {
        let process = &self.processes[process.index()];
        (process.most, process.at_exit)
    }

    /// How the live bytes of all processes changed.
    pub(super) fn growth(&self) -> Growth {
        self.live_curve.growth()
    }

    /// Counter values now: the whole curve if there is one process, and the current value of each process.
    pub(super) fn counters_at(&self, now_ns: ClockNs) -> Vec<CounterRow> {
        let curve = self.live_curve.points().filter(|&(time_ns, _)| time_ns < now_ns);
        let curve = curve.filter(|_| self.processes.len() == 1);
        let mut rows: Vec<_> =
            curve.map(|(time_ns, value)| live_row(ProcessRow(0), time_ns, value)).collect();
        let living = self.processes.iter().enumerate().filter(|(_, process)| !process.ended);
        rows.extend(living.map(|(row, process)| live_row(row.into(), now_ns, process.live.now.bytes)));
        rows
    }
}

/// A value of the counter of live bytes.
pub(super) fn live_row(process: ProcessRow, time_ns: ClockNs, value: u64) -> CounterRow {
    CounterRow { process, kind: CounterKind::Live, time_ns, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: u64) -> Weight {
        Weight { blocks: 1, bytes }
    }

    #[test]
    fn a_number_keeps_its_value_at_the_peak() {
        let mut heights = Heights::default();
        let [one, two] = [heights.process_added(), heights.process_added()];
        let mut entry = Peaked::new(heights.epoch());
        for (process, size) in [(one, 100), (two, 50)] {
            entry.add(bytes(size), heights.epoch());
            heights.allocated(process, bytes(size));
            heights.moment_ended(Tick(size));
        }
        heights.freed(one, bytes(100));
        entry.subtract(bytes(100), heights.epoch());
        heights.allocated(two, bytes(20));
        heights.moment_ended(Tick(999));
        assert_eq!(heights.peak(), Peak { bytes: 150, tick: Tick(50) });
        assert_eq!((entry.at_peak(heights.epoch()).bytes, entry.now.bytes), (150, 50));
        assert_eq!((heights.most_and_exit(one).0, heights.most_and_exit(two).0), (100, 70));
        let mut counters = Vec::new();
        heights.bucket_closed(ClockNs::new(3), ClockNs::new(4), &mut counters);
        let values: Vec<_> = counters.iter().map(|row| (row.process, row.time_ns.raw(), row.value)).collect();
        assert_eq!(values, [(one, 3, 100), (one, 4, 0), (two, 3, 50), (two, 4, 70)]);
    }

    #[test]
    fn keeps_what_is_live_at_exit_but_not_at_an_exec() {
        let mut heights = Heights::default();
        let process = heights.process_added();
        heights.allocated(process, bytes(30));
        assert!(!heights.process_ended(process) && heights.process_ended(process));
        heights.ended_with_process(process, bytes(10), End::Exec);
        heights.ended_with_process(process, bytes(20), End::Exit);
        assert_eq!((heights.bytes(), heights.most_and_exit(process)), (0, (30, bytes(20))));
    }
}
