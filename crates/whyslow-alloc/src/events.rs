//! Passes allocator events on to the thread's scopes and to the profiler.

use crate::profiler;
use crate::scope::{self, Change};
use crate::stack;
use crate::tally::Taken;
use crate::watch::{Busy, Thread, is_interested, note_installed, with_thread};

/// Runs `work`, unless nothing counts this thread or the thread is already counting.
#[inline]
fn if_counted<R>(work: impl FnOnce(&Thread) -> R) -> Option<R> {
    note_installed();
    with_thread(|thread| {
        if !is_interested(thread) {
            return None;
        }
        let _busy = Busy::enter()?;
        Some(work(thread))
    })
}

fn stack_for(thread: &Thread) -> u32 {
    if profiler::is_running() || scope::wants_stacks(thread) { stack::here(thread) } else { stack::NONE }
}

/// A block was allocated, unless it is null.
pub(crate) fn allocated(block: *mut u8, size: usize) {
    if block.is_null() {
        return;
    }
    let size = size as u64;
    if_counted(|thread| {
        let stack = stack_for(thread);
        scope::count_event(thread, stack, Change::Made { size });
        if profiler::is_running() {
            profiler::record(thread, |tally, at| tally.allocated(at, stack, block.addr(), size));
        }
    });
}

/// A block is about to be freed.
#[cold]
#[inline(never)]
pub(crate) fn freed(block: *mut u8, size: usize) {
    if_counted(|thread| {
        scope::count_event(thread, stack::NONE, Change::Freed { size: size as u64 });
        if profiler::is_running() {
            profiler::record(thread, |tally, at| tally.freed(at, block.addr()));
        }
    });
}

/// A block is about to be reallocated. Returns the profiler's data about it until the result is known.
pub(crate) fn replacing(block: *mut u8) -> Option<Taken> {
    if_counted(|thread| {
        let running = profiler::is_running();
        running.then(|| profiler::record(thread, |tally, _| tally.take(block.addr()))).flatten().flatten()
    })
    .flatten()
}

/// A block was reallocated. If `new` is null, that failed and the block is unchanged.
pub(crate) fn replaced(old: Option<Taken>, block: *mut u8, size: usize, new: *mut u8, new_size: usize) {
    if_counted(|thread| {
        if new.is_null() {
            if let Some(old) = old {
                profiler::record(thread, |tally, _| tally.put_back(block.addr(), old));
            }
            return;
        }
        let stack = stack_for(thread);
        let (size, new_size) = (size as u64, new_size as u64);
        scope::count_event(thread, stack, Change::Replaced { size, new_size });
        if profiler::is_running() {
            profiler::record(thread, |tally, at| {
                tally.replaced(at, stack, old, block.addr(), new.addr(), new_size);
            });
        }
    });
}
