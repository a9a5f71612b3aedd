//! Schedules the ends of timeline buckets and the emission of rows, and holds the rows until they are taken.

use whyslow_numbers::ClockNs;

use crate::ids::{ProcessRow, Tick};
use crate::outcome::{CounterRow, TimelineRow};
use crate::tally::peak::live_row;
use crate::timeline::Timeline;
use whyslow_agent_host::Clock;

/// Minimum mean time per timeline row.
const ROW_NS: u64 = 10_000;

/// The current bucket, and the rows so far.
#[derive(Debug)]
pub(super) struct Calendar {
    bucket: Timeline,
    /// The start of the next rows.
    rows_from: Tick,
    /// The earliest time at which they are emitted.
    rows_until: Tick,
    rows: Vec<TimelineRow>,
    counters: Vec<CounterRow>,
}

impl Calendar {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            bucket: Timeline::new(clock),
            rows_from: clock.first_tick(),
            rows_until: Tick(0),
            rows: Vec::new(),
            counters: Vec::new(),
        }
    }

    /// Whether the current bucket is over at this tick.
    #[inline]
    pub(super) fn is_over(&self, tick: Tick) -> bool {
        tick >= self.bucket.end
    }

    /// Starts the bucket that contains this tick.
    pub(super) fn bucket_begun(&mut self, tick: Tick, clock: &Clock) {
        self.bucket.next(tick, clock);
    }

    /// The start and end of the current bucket, in nanoseconds.
    pub(super) fn bucket_ns(&self, clock: &Clock) -> (ClockNs, ClockNs) {
        (clock.time(self.bucket.start), clock.time(self.bucket.end))
    }

    /// Whether rows are due when the current bucket ends.
    pub(super) fn rows_are_due(&self) -> bool {
        self.bucket.end >= self.rows_until
    }

    /// Prepares to emit this many rows. Returns their time. With many stacks, rows are emitted less often
    /// than buckets end, so that there is never more than one per [`ROW_NS`].
    pub(super) fn rows_begun(&mut self, rows: usize, clock: &Clock) -> ClockNs {
        let time_ns = clock.time(self.rows_from);
        self.rows_from = self.bucket.end;
        self.rows_until = self.rows_from.plus(clock.span_ticks(rows as u64 * ROW_NS));
        time_ns
    }

    /// Sets the start of the next rows.
    pub(super) fn rows_start_at(&mut self, tick: Tick) {
        self.rows_from = tick;
    }

    /// The rows that have not been taken yet.
    pub(super) fn rows(&mut self) -> &mut Vec<TimelineRow> {
        &mut self.rows
    }

    /// The counter values that have not been taken yet.
    pub(super) fn counters(&mut self) -> &mut Vec<CounterRow> {
        &mut self.counters
    }

    /// Adds a value of a process's live bytes.
    pub(super) fn measured(&mut self, process: ProcessRow, time_ns: ClockNs, bytes: u64) {
        self.counters.push(live_row(process, time_ns, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rows_delay_the_next_ones() {
        let clock = Clock::start();
        let mut calendar = Calendar::new(&clock);
        let mut next = |rows| {
            let end = calendar.bucket.end;
            assert!(calendar.is_over(end) && calendar.rows_are_due());
            calendar.rows_begun(rows, &clock);
            calendar.bucket_begun(end, &clock);
            calendar.rows_are_due()
        };
        // A bucket is 10 ms: 100 rows correspond to 1 ms, 100,000 rows to 1 s.
        assert!(next(100));
        assert!(!next(100_000));
    }
}
