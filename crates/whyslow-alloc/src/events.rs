//! What happens to a block goes to whoever wants to know: the thread's scopes, and the profiler.

use crate::profiler;
use crate::scope::{self, Change};
use crate::stack;
use crate::tally::Taken;
use crate::watch::{Busy, Thread, is_interested, note_installed, with_thread};

/// Does the work unless nobody is interested or the thread is counting already.
#[inline]
fn tell<R>(work: impl FnOnce(&Thread) -> R) -> Option<R> {
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

/// A block was made, if it is not null.
pub(crate) fn made(block: *mut u8, size: usize) {
    if block.is_null() {
        return;
    }
    let size = size as u64;
    tell(|thread| {
        let stack = stack_for(thread);
        scope::tell(thread, stack, Change::Made { size });
        if profiler::is_running() {
            profiler::tell(thread, |tally, at| tally.made(at, stack, block.addr(), size));
        }
    });
}

/// A block will be freed.
#[cold]
#[inline(never)]
pub(crate) fn freed(block: *mut u8, size: usize) {
    tell(|thread| {
        scope::tell(thread, stack::NONE, Change::Freed { size: size as u64 });
        if profiler::is_running() {
            profiler::tell(thread, |tally, at| tally.freed(at, block.addr()));
        }
    });
}

/// A block will be replaced: what the profiler knows of it, until it is known how that went.
pub(crate) fn replacing(block: *mut u8) -> Option<Taken> {
    tell(|thread| {
        let running = profiler::is_running();
        running.then(|| profiler::tell(thread, |tally, _| tally.take(block.addr()))).flatten().flatten()
    })
    .flatten()
}

/// A block was replaced by another, or stays if that is null.
pub(crate) fn replaced(old: Option<Taken>, block: *mut u8, size: usize, new: *mut u8, new_size: usize) {
    tell(|thread| {
        if new.is_null() {
            if let Some(old) = old {
                profiler::tell(thread, |tally, _| tally.put_back(block.addr(), old));
            }
            return;
        }
        let stack = stack_for(thread);
        let (size, new_size) = (size as u64, new_size as u64);
        scope::tell(thread, stack, Change::Replaced { size, new_size });
        if profiler::is_running() {
            profiler::tell(thread, |tally, at| {
                tally.replaced(at, stack, old, block.addr(), new.addr(), new_size);
            });
        }
    });
}
