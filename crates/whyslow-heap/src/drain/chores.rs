//! What need not be done every round: when it is done next, and the sizes of resident sets that it measures.

use crate::clock::Clock;
use crate::ids::Tick;
use crate::outcome::{CounterKind, CounterRow};
use crate::processes::Processes;

/// How often threads and processes are looked for.
const CHECK_EVERY_NS: u64 = 20_000_000;
/// How often areas of ended programs are looked at.
const RELEASE_EVERY_NS: u64 = 500_000_000;
/// How often resident sets are measured at first, and by which share of the time that has passed later.
const RESIDENT_EVERY_NS: u64 = 10_000_000;
const RESIDENT_SHARE: u64 = 256;

/// When each is done next.
#[derive(Debug, Default)]
pub(super) struct Chores {
    check: Tick,
    release: Tick,
    resident: Tick,
    /// Resident sets that wait to be handed over.
    measured: Vec<CounterRow>,
}

impl Chores {
    /// Whether it is time to look for threads and processes. If so, the next time is later.
    pub(super) fn is_time_to_check(&mut self, now: Tick, clock: &Clock) -> bool {
        is_time(&mut self.check, now, clock.span_ticks(CHECK_EVERY_NS))
    }

    /// Whether it is time to look at areas of ended programs, likewise.
    pub(super) fn is_time_to_release(&mut self, now: Tick, clock: &Clock) -> bool {
        is_time(&mut self.release, now, clock.span_ticks(RELEASE_EVERY_NS))
    }

    /// Measures resident sets if it is time to. The pauses grow with time, so that a long run has few more values than a short one.
    pub(super) fn measure_resident(&mut self, now: Tick, clock: &Clock, processes: &Processes) {
        let passed = now.since(clock.first_tick());
        let pause = (passed / RESIDENT_SHARE).max(clock.span_ticks(RESIDENT_EVERY_NS));
        if is_time(&mut self.resident, now, pause) {
            self.measured.extend(resident(processes, clock.ns(now)));
        }
    }

    /// The resident sets that were measured since the last time.
    pub(super) fn take_measured(&mut self) -> Vec<CounterRow> {
        std::mem::take(&mut self.measured)
    }
}

/// The resident sets of all that live.
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
    fn a_chore_is_done_once_per_pause() {
        let clock = Clock::start();
        let mut chores = Chores::default();
        let first = clock.first_tick();
        let pause = clock.span_ticks(CHECK_EVERY_NS);
        let times = [0, 1, pause - 1, pause, pause + 1, 2 * pause];
        let due = times.map(|ticks| chores.is_time_to_check(first.plus(ticks), &clock));
        assert_eq!(due, [true, false, false, true, false, true]);
        assert!(chores.is_time_to_release(first, &clock), "each has its own time");
    }
}
