//! When buckets of the timeline end, when rows go out, and what is to be handed over.

use crate::clock::Clock;
use crate::ids::{ProcessRow, Tick};
use crate::outcome::{CounterRow, TimelineRow};
use crate::tally::peak::live_row;
use crate::timeline::Timeline;

/// Time that a row of the timeline stands for at least, on average.
const ROW_NS: u64 = 10_000;

/// The current bucket, and the rows that were made so far.
#[derive(Debug)]
pub(super) struct Calendar {
    bucket: Timeline,
    /// Where the next rows start.
    rows_from: Tick,
    /// Until when they are put off at least.
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

    /// Begins the bucket that this tick is in.
    pub(super) fn bucket_begun(&mut self, tick: Tick, clock: &Clock) {
        self.bucket.next(tick, clock);
    }

    /// The current bucket: from when until when, in nanoseconds.
    pub(super) fn bucket_ns(&self, clock: &Clock) -> (u64, u64) {
        (clock.ns(self.bucket.start), clock.ns(self.bucket.end))
    }

    /// Whether rows are due when the current bucket ends.
    pub(super) fn rows_are_due(&self) -> bool {
        self.bucket.end >= self.rows_until
    }

    /// So many rows are about to go out: the time that they have. With many stacks they come less often than buckets end, so that they are
    /// never more than one per [`ROW_NS`].
    pub(super) fn rows_begun(&mut self, rows: usize, clock: &Clock) -> u64 {
        let time_ns = clock.ns(self.rows_from);
        self.rows_from = self.bucket.end;
        self.rows_until = self.rows_from.plus(clock.span_ticks(rows as u64 * ROW_NS));
        time_ns
    }

    /// The next rows start then.
    pub(super) fn rows_start_at(&mut self, tick: Tick) {
        self.rows_from = tick;
    }

    /// The rows that wait to be handed over.
    pub(super) fn rows(&mut self) -> &mut Vec<TimelineRow> {
        &mut self.rows
    }

    /// The values of counters that wait to be handed over.
    pub(super) fn counters(&mut self) -> &mut Vec<CounterRow> {
        &mut self.counters
    }

    /// A process has so many live bytes at this time.
    pub(super) fn measured(&mut self, process: ProcessRow, time_ns: u64, bytes: u64) {
        self.counters.push(live_row(process, time_ns, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rows_put_the_next_ones_off() {
        let clock = Clock::start();
        let mut calendar = Calendar::new(&clock);
        let mut next = |rows| {
            let end = calendar.bucket.end;
            assert!(calendar.is_over(end) && calendar.rows_are_due());
            calendar.rows_begun(rows, &clock);
            calendar.bucket_begun(end, &clock);
            calendar.rows_are_due()
        };
        // A bucket is 10 ms: 100 rows are worth 1 ms, 100,000 rows 1 s.
        assert!(next(100));
        assert!(!next(100_000));
    }
}
