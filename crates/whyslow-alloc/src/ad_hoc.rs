//! Profiles of events that the program counts itself. Each event has a weight and is attributed to its stack.

#![expect(unsafe_code, reason = "a closure around the walk could add a frame")]

use std::hint::black_box;

use rustc_hash::FxHashMap;

use crate::profiler;
use crate::stack;
use crate::watch::{Busy, with_thread};

/// The number of events, and the sum of their weights.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) events: u64,
    pub(crate) units: u64,
}

/// The events of one thread on one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventRow {
    pub(crate) stack: u32,
    pub(crate) thread: u32,
    pub(crate) counted: Events,
}

/// The events so far, by stack and thread.
#[derive(Debug, Default)]
pub(crate) struct AdHoc {
    rows: FxHashMap<(u32, u32), Events>,
    total: Events,
}

impl AdHoc {
    pub(crate) fn add(&mut self, stack: u32, thread: u32, weight: u64) {
        for sum in [&mut self.total, self.rows.entry((stack, thread)).or_default()] {
            sum.events += 1;
            sum.units += weight;
        }
    }

    pub(crate) fn total(&self) -> Events {
        self.total
    }

    /// All rows, the heaviest first.
    pub(crate) fn rows(&self) -> Vec<EventRow> {
        let row = |(&(stack, thread), &counted): (&(u32, u32), &Events)| EventRow { stack, thread, counted };
        let mut rows: Vec<EventRow> = self.rows.iter().map(row).collect();
        rows.sort_unstable_by_key(|row| (u64::MAX - row.counted.units, row.stack, row.thread));
        rows
    }
}

/// Counts an event with a weight at the caller's stack. Does nothing unless a profiler from
/// [`Profiler::new_ad_hoc`] is running.
///
/// ```no_run
/// let _profiler = whyslow_alloc::Profiler::new_ad_hoc();
/// for row in ["a,b", "c"] {
///     whyslow_alloc::ad_hoc_event(row.len());
/// }
/// ```
///
/// [`Profiler::new_ad_hoc`]: crate::Profiler::new_ad_hoc
#[inline(always)]
pub fn ad_hoc_event(weight: usize) {
    if profiler::counts_events() {
        count(weight as u64);
        // A tail call would remove the caller's frame from the stack.
        black_box(());
    }
}

#[inline(never)]
fn count(weight: u64) {
    let Some(_busy) = Busy::enter() else { return };
    let thread = with_thread(std::ptr::from_ref);
    // SAFETY: it belongs to this thread and lives as long as the thread.
    let thread = unsafe { &*thread };
    // The two innermost are the frame of `here` and that of this function.
    let stack = stack::caller(stack::caller(stack::here(thread)));
    profiler::record_event(thread, |events, row| events.add(stack, row, weight));
}
