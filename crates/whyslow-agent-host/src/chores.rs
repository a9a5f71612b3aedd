//! Schedules the work that is not needed every round.

use crate::clock::Clock;
use crate::ids::Tick;

/// Interval of checks for exited threads and processes.
const CHECK_EVERY_NS: u64 = 20_000_000;
/// Interval of checks for areas of exited programs.
const RELEASE_EVERY_NS: u64 = 500_000_000;

/// The next time of each chore.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    check: Tick,
    release: Tick,
}

impl Chores {
    /// Whether it is time to check threads and processes. If so, sets the next time.
    pub(crate) fn is_time_to_check(&mut self, now: Tick, clock: &Clock) -> bool {
        is_time(&mut self.check, now, clock.span_ticks(CHECK_EVERY_NS))
    }

    /// Whether it is time to check areas of exited programs. If so, sets the next time.
    pub(crate) fn is_time_to_release(&mut self, now: Tick, clock: &Clock) -> bool {
        is_time(&mut self.release, now, clock.span_ticks(RELEASE_EVERY_NS))
    }
}

fn is_time(next: &mut Tick, now: Tick, pause: u64) -> bool {
    let is_time = now >= *next;
    if is_time {
        *next = now.plus(pause);
    }
    is_time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chore_is_done_once_per_interval() {
        let clock = Clock::start();
        let mut chores = Chores::default();
        let first = clock.first_tick();
        let pause = clock.span_ticks(CHECK_EVERY_NS);
        let times = [0, 1, pause - 1, pause, pause + 1, 2 * pause];
        let due = times.map(|ticks| chores.is_time_to_check(first.plus(ticks), &clock));
        assert_eq!(due, [true, false, false, true, false, true]);
        assert!(chores.is_time_to_release(first, &clock), "each chore has its own schedule");
    }
}
