//! Measures resident set sizes, less and less often.

use whyslow_agent_host::{Processes, Programs};
use whyslow_numbers::ClockNs;

use crate::ids::Tick;
use crate::outcome::{CounterKind, CounterRow};

/// Interval of measurements at first, and later as a share of the elapsed time.
const EVERY_NS: u64 = 10_000_000;
const SHARE: u64 = 256;

/// Resident set sizes that have not been handed out yet.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    next: Tick,
    measured: Vec<CounterRow>,
}

impl Residents {
    /// Measures if it is time to. The interval grows with time, so that a long run has only a few more values
    /// than a short one.
    pub(crate) fn measure(&mut self, programs: &Programs, now: Tick) {
        if now < self.next {
            return;
        }
        let clock = &programs.clock;
        let passed = now.since(clock.first_tick());
        self.next = now.plus((passed / SHARE).max(clock.span_ticks(EVERY_NS)));
        self.measured.extend(resident(&programs.processes, clock.time(now)));
    }

    /// The values since the last call.
    pub(crate) fn take(&mut self) -> Vec<CounterRow> {
        std::mem::take(&mut self.measured)
    }
}

/// The resident set sizes of all running processes.
pub(crate) fn resident(processes: &Processes, time_ns: ClockNs) -> impl Iterator<Item = CounterRow> {
    let row = move |(process, value)| CounterRow { process, kind: CounterKind::Resident, time_ns, value };
    processes.resident().into_iter().map(row)
}
