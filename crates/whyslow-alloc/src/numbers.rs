//! The numbers of the running profiler, and assertions about them.

use std::fmt;

use crate::ad_hoc::AdHoc;
use crate::profiler::{self, Phase, State, Unfit};
use crate::recorded::{Counted, Recorded};
use crate::report::{self, Row};
use crate::tally::Tally;
use crate::watch::Busy;

/// Numbers of the running [`Profiler`](crate::Profiler).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapStats {
    /// Blocks that were made, by reallocation too.
    pub total_blocks: u64,
    /// Their bytes, reallocations with their new size.
    pub total_bytes: u64,
    /// Blocks that are live now.
    pub curr_blocks: usize,
    /// Their bytes.
    pub curr_bytes: usize,
    /// Blocks that were live when the most bytes were (the last time).
    pub max_blocks: usize,
    /// Their bytes.
    pub max_bytes: usize,
}

impl HeapStats {
    /// What the running profiler has counted.
    ///
    /// # Panics
    /// When none runs, when it counts events instead, and when it has ended because an assertion failed.
    #[track_caller]
    pub fn get() -> Self {
        let (live, totals) = of_running(|state| state.heap().map(Tally::now));
        Self {
            total_blocks: totals.made.blocks,
            total_bytes: totals.made.bytes,
            curr_blocks: live.blocks as usize,
            curr_bytes: live.bytes as usize,
            max_blocks: totals.peak.blocks as usize,
            max_bytes: totals.peak.bytes as usize,
        }
    }
}

/// Numbers of the running profiler of events: see [`ad_hoc_event`](crate::ad_hoc_event).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdHocStats {
    /// Events that were counted.
    pub total_events: u64,
    /// Their weights, added up.
    pub total_units: u64,
}

impl AdHocStats {
    /// What the running profiler has counted.
    ///
    /// # Panics
    /// When none runs, when it counts the heap instead, and when it has ended because an assertion failed.
    #[track_caller]
    pub fn get() -> Self {
        let total = of_running(|state| state.events().map(AdHoc::total));
        Self { total_events: total.events, total_units: total.units }
    }
}

/// Asks the running profiler.
#[track_caller]
fn of_running<R>(ask: impl FnOnce(&State) -> Result<R, Unfit>) -> R {
    let _busy = Busy::stay();
    let answer = match &*profiler::lock() {
        Phase::Running(state) => ask(state),
        Phase::Ready => Err(Unfit::NoneRuns),
        Phase::Asserted(_) => Err(Unfit::Asserted),
    };
    answer.unwrap_or_else(|unfit| std::panic!("{unfit}"))
}

/// While this lives, an assertion looks at its condition, and nothing that it allocates is counted.
#[doc(hidden)]
pub struct Asserting(
    #[expect(dead_code, reason = "what is allocated is not counted until it is dropped")] Busy,
);

impl Asserting {
    /// # Panics
    /// When no profiler runs in testing mode: nothing would be recorded to show if the assertion failed.
    #[expect(clippy::new_without_default, reason = "the beginning of an assertion is an act, not a value")]
    #[track_caller]
    pub fn new() -> Self {
        of_running(|state| if state.is_testing() { Ok(()) } else { Err(Unfit::NotTesting) });
        Self(Busy::stay())
    }

    /// The assertion has failed: ends the profiler, writes what it has recorded, and shows the heaviest stacks.
    #[track_caller]
    pub fn failed(&self, what: &str, detail: Option<fmt::Arguments<'_>>) -> ! {
        let message = {
            let _busy = Busy::stay();
            let mut message = detail.map_or_else(|| what.to_owned(), |detail| format!("{what}: {detail}"));
            // Another thread's assertion may have ended the profiler meanwhile.
            if let Some(recorded) = profiler::end_by_assertion() {
                message.push_str(&written(&recorded));
            }
            message
        };
        std::panic!("{message}");
    }
}

/// Writes the profile, and says what is in it.
fn written(recorded: &Recorded) -> String {
    let path = recorded.settings.path();
    let mut message = match recorded.write(path) {
        Ok(()) => format!("\nthe profile is in {}", path.display()),
        Err(error) => format!("\n{} cannot be written: {error}", path.display()),
    };
    recorded.print_if_asked();
    if let Counted::Heap(outcome) = &recorded.counted {
        let rows = outcome.sites.iter().map(|site| Row {
            stack: site.stack,
            allocations: site.made.blocks,
            bytes: site.made.bytes,
        });
        message.push_str("; allocations so far:\n");
        message.push_str(&report::stacks(rows.collect(), true));
    }
    message
}
