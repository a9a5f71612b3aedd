//! Schedules the work that is not needed every round, and measures resident set sizes.

use crate::clock::Clock;
use crate::ids::Tick;
use crate::outcome::{CounterKind, CounterRow};
use crate::processes::Processes;

/// Interval of checks for exited threads and processes.
const CHECK_EVERY_NS: u64 = 20_000_000;
/// Interval of checks for areas of exited programs.
const RELEASE_EVERY_NS: u64 = 500_000_000;
/// Interval of resident set measurements at first, and later as a share of the elapsed time.
const RESIDENT_EVERY_NS: u64 = 10_000_000;
const RESIDENT_SHARE: u64 = 256;

/// The next time of each chore.
#[derive(Debug, Default)]
pub(super) struct Chores {
    check: Tick,
    release: Tick,
    resident: Tick,
    /// Resident set sizes that have not been handed out yet.
    measured: Vec<CounterRow>,
}

impl Chores {
    /// Whether it is time to check threads and processes. If so, sets the next time.
    pub(super) fn is_time_to_check(&mut self, now: Tick, clock: &Clock) -> bool {
        is_time(&mut self.check, now, clock.span_ticks(CHECK_EVERY_NS))
    }

    /// Whether it is time to check areas of exited programs. If so, sets the next time.
    pub(super) fn is_time_to_release(&mut self, now: Tick, clock: &Clock) -> bool {
        is_time(&mut self.release, now, clock.span_ticks(RELEASE_EVERY_NS))
    }

    /// Measures resident set sizes if it is time to. The interval grows with time, so that a long run has
    /// only a few more values than a short one.
    pub(super) fn measure_resident(&mut self, now: Tick, clock: &Clock, processes: &Processes) {
        let passed = now.since(clock.first_tick());
        let pause = (passed / RESIDENT_SHARE).max(clock.span_ticks(RESIDENT_EVERY_NS));
        if is_time(&mut self.resident, now, pause) {
            self.measured.extend(resident(processes, clock.ns(now)));
        }
    }

    /// The resident set sizes measured since the last call.
    pub(super) fn take_measured(&mut self) -> Vec<CounterRow> {
        std::mem::take(&mut self.measured)
    }
}

/// The resident set sizes of all running processes.
pub(crate) fn resident(processes: &Processes, time_ns: u64) -> impl Iterator<Item = CounterRow> {
    let row = move |(process, value)| CounterRow { process, kind: CounterKind::Resident, time_ns, value };
    processes.resident().into_iter().map(row)
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
