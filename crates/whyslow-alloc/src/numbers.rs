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
    /// Allocated blocks, including reallocations.
    pub total_blocks: u64,
    /// Their bytes. A reallocation counts with its new size.
    pub total_bytes: u64,
    /// Live blocks.
    pub curr_blocks: usize,
    /// Their bytes.
    pub curr_bytes: usize,
    /// Live blocks at the peak of live bytes (the last one, if it was reached several times).
    pub max_blocks: usize,
    /// Their bytes.
    pub max_bytes: usize,
}

impl HeapStats {
    /// The numbers of the running profiler.
    ///
    /// # Panics
    /// Panics if no profiler is running, if it counts events instead, or if it has ended because an assertion
    /// failed.
    #[track_caller]
    pub fn get() -> Self {
        let (live, totals) = of_running(|state| state.heap().map(Tally::now));
        Self {
            total_blocks: totals.allocated.blocks,
            total_bytes: totals.allocated.bytes,
            curr_blocks: live.blocks as usize,
            curr_bytes: live.bytes as usize,
            max_blocks: totals.peak.blocks as usize,
            max_bytes: totals.peak.bytes as usize,
        }
    }
}

/// Numbers of the running event profiler: see [`ad_hoc_event`](crate::ad_hoc_event).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdHocStats {
    /// Number of events.
    pub total_events: u64,
    /// Sum of their weights.
    pub total_units: u64,
}

impl AdHocStats {
    /// The numbers of the running profiler.
    ///
    /// # Panics
    /// Panics if no profiler is running, if it counts the heap instead, or if it has ended because an
    /// assertion failed.
    #[track_caller]
    pub fn get() -> Self {
        let total = of_running(|state| state.events().map(AdHoc::total));
        Self { total_events: total.events, total_units: total.units }
    }
}

/// Calls `ask` on the running profiler.
#[track_caller]
fn of_running<R>(ask: impl FnOnce(&State) -> Result<R, Unfit>) -> R {
    let _busy = Busy::force();
    let answer = match &*profiler::lock() {
        Phase::Running(state) => ask(state),
        Phase::Ready => Err(Unfit::NoneRuns),
        Phase::Asserted(_) => Err(Unfit::Asserted),
    };
    answer.unwrap_or_else(|unfit| std::panic!("{unfit}"))
}

/// While this value exists, an assertion evaluates its condition, and allocations are not counted.
#[doc(hidden)]
pub struct Asserting(#[expect(dead_code, reason = "allocations are not counted until it is dropped")] Busy);

impl Asserting {
    /// # Panics
    /// Panics if no profiler is running in testing mode: then there would be no records to show if the
    /// assertion fails.
    #[expect(
        clippy::new_without_default,
        reason = "it starts an assertion; a default value would make no sense"
    )]
    #[track_caller]
    pub fn new() -> Self {
        of_running(|state| if state.is_testing() { Ok(()) } else { Err(Unfit::NotTesting) });
        Self(Busy::force())
    }

    /// Handles a failed assertion: ends the profiler, writes its recording, and shows the heaviest stacks.
    #[track_caller]
    pub fn failed(&self, what: &str, detail: Option<fmt::Arguments<'_>>) -> ! {
        let message = {
            let _busy = Busy::force();
            let mut message = detail.map_or_else(|| what.to_owned(), |detail| format!("{what}: {detail}"));
            // Another thread's assertion may have ended the profiler in the meantime.
            if let Some(recorded) = profiler::end_by_assertion() {
                message.push_str(&written(&recorded));
            }
            message
        };
        std::panic!("{message}");
    }
}

/// Writes the profile and returns a message about it.
fn written(recorded: &Recorded) -> String {
    let path = recorded.settings.path();
    let mut message = match recorded.write(path) {
        Ok(()) => format!("\nprofile written to {}", path.display()),
        Err(error) => format!("\ncannot write {}: {error}", path.display()),
    };
    recorded.print_if_asked();
    if let Counted::Heap(outcome) = &recorded.counted {
        let rows = outcome.sites.iter().map(|site| Row {
            stack: site.stack,
            allocations: site.allocated.blocks,
            bytes: site.allocated.bytes,
        });
        message.push_str("; allocations so far:\n");
        message.push_str(&report::stacks(rows.collect(), true));
    }
    message
}
