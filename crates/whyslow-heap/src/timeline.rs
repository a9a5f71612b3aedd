//! Time buckets. They grow with time, so that a long run has only a few more than a short one:
//!
//! ```text
//! width = max(10 ms, time since the start / 256)
//! ```

use crate::ids::Tick;
use whyslow_agent_host::Clock;

const SHORTEST_NS: u64 = 10_000_000;
const SHARE: u64 = 256;

/// The current bucket.
#[derive(Debug)]
pub(crate) struct Timeline {
    first: Tick,
    /// The start of the bucket.
    pub start: Tick,
    /// The end of the bucket.
    pub end: Tick,
}

impl Timeline {
    pub(crate) fn new(clock: &Clock) -> Self {
        let first = clock.first_tick();
        let mut timeline = Self { first, start: first, end: first };
        timeline.next(first, clock);
        timeline
    }

    /// Starts the bucket that contains this tick. Empty buckets are skipped.
    pub(crate) fn next(&mut self, tick: Tick, clock: &Clock) {
        let elapsed = self.end.since(self.first);
        let width = clock.span_ticks(SHORTEST_NS).max(elapsed / SHARE).max(1);
        self.start = self.end.plus(tick.since(self.end) / width * width);
        self.end = self.start.plus(width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_grow_with_time() {
        let clock = Clock::start();
        let mut timeline = Timeline::new(&clock);
        let mut buckets = 1u64;
        let hour = clock.span_ticks(3_600_000_000_000);
        while timeline.end < clock.first_tick().plus(hour) {
            let before = timeline.end;
            timeline.next(before, &clock);
            assert_eq!(timeline.start, before);
            buckets += 1;
        }
        assert!((1000..4000).contains(&buckets), "{buckets}");
        let far = timeline.end.plus(10 * hour);
        timeline.next(far, &clock);
        assert!(timeline.start <= far && far < timeline.end);
    }
}
