//! Converts ticks of the time-stamp counter to `CLOCK_MONOTONIC`: a straight line through the first pair of
//! readings and the latest one.

use std::time::Duration;

use whyslow_numbers::ClockNs;

use crate::ids::Tick;
use crate::sys;

#[derive(Debug, Clone, Copy)]
struct Pair {
    tick: Tick,
    time: ClockNs,
}

impl Pair {
    /// Reads both clocks at the same time: the least disturbed of a few attempts.
    fn read() -> Self {
        let mut best = (u64::MAX, Self { tick: Tick(0), time: ClockNs::MIN });
        for _ in 0..5 {
            let before = sys::now();
            let time = whyslow_proc::now();
            let after = sys::now();
            let width = after.since(before);
            if width < best.0 {
                best = (width, Self { tick: before.plus(width / 2), time });
            }
        }
        best.1
    }
}

/// The line through two pairs of readings.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    first: Pair,
    ns_per_tick: f64,
}

impl Clock {
    /// Measures the counter's rate for a millisecond.
    pub fn start() -> Self {
        let first = Pair::read();
        std::thread::sleep(Duration::from_millis(1));
        let mut clock = Self { first, ns_per_tick: 1.0 };
        clock.adjust();
        clock
    }

    /// Extends the line to now.
    pub fn adjust(&mut self) {
        let now = Pair::read();
        let ticks = now.tick.since(self.first.tick);
        if ticks > 0 {
            self.ns_per_tick = now.time.since(self.first.time).max(1) as f64 / ticks as f64;
        }
    }

    /// Converts a number of ticks to nanoseconds.
    #[inline]
    pub fn span_ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }

    /// Converts nanoseconds to a number of ticks.
    pub fn span_ticks(&self, ns: u64) -> u64 {
        (ns as f64 / self.ns_per_tick) as u64
    }

    /// The time of a tick.
    #[inline]
    pub fn time(&self, tick: Tick) -> ClockNs {
        if tick >= self.first.tick {
            self.first.time.plus(self.span_ns(tick.since(self.first.tick)))
        } else {
            self.first.time.minus(self.span_ns(self.first.tick.since(tick)))
        }
    }

    /// The tick at the start.
    pub fn first_tick(&self) -> Tick {
        self.first.tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_the_time_of_the_monotonic_clock() {
        let mut clock = Clock::start();
        std::thread::sleep(Duration::from_millis(20));
        clock.adjust();
        let before = whyslow_proc::now();
        let now = clock.time(sys::now());
        let after = whyslow_proc::now();
        // Readings may be disturbed, so this check is much coarser than the clock.
        assert!(now.plus(5_000_000) > before && now < after.plus(5_000_000), "{before:?} {now:?} {after:?}");
        assert!(clock.time(clock.first_tick()) <= before);
    }
}
