//! What happens around one allocator call. There is a fast path for when everything is recorded and no other
//! mode is on, and a path that handles all modes.

use core::sync::atomic::Ordering::Relaxed;

use whyslow_agent_wire::area::heap_flag;
use whyslow_agent_wire::handshake::hook::MALLOC;
use whyslow_agent_wire::record::op;

use crate::area::Area;
use crate::ring::Writer;
use crate::sample::NewThread;
use crate::state::{self, Mine};
use crate::walk::{self, Caller};
use crate::{freeres, sample, unused};

/// Wraps a call that may return a new block of `size` bytes. `zeroed` says whether the block may have to read
/// as zeros. `call` makes the call and returns the block.
///
/// # Safety
/// `call` returns 0, or a block of at least `size` bytes that no other code has.
#[inline(always)]
pub unsafe fn allocation(
    slot: usize,
    caller: Caller,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    if let Some(mut inside) = Mine::get().and_then(Mine::enter_if_all_is_recorded) {
        let noted = walk::note(&mut inside, caller);
        // libc's own `malloc` calls no other hooked function. A nested call here comes from a signal handler.
        let block = if slot == MALLOC { call() } else { inside.masked(call) };
        if block != 0 && noted {
            inside.writer().alloc(block, size);
        }
        return block;
    }
    // SAFETY: the caller upholds the same contract.
    unsafe { any_allocation(caller, size, zeroed, call) }
}

/// Makes a call that is not sampled, nor are the calls that it makes.
#[inline(always)]
fn unrecorded(thread: Mine, call: impl FnOnce() -> u64) -> u64 {
    thread.masked(|| thread.sampling().uncounted(call))
}

/// # Safety
/// Same as [`allocation`].
#[inline(never)]
unsafe fn any_allocation(caller: Caller, size: u64, zeroed: bool, call: impl FnOnce() -> u64) -> u64 {
    let mut drawn = false;
    if let Some(thread) = Mine::get().filter(|thread| thread.is_sampling()) {
        drawn = thread.sampling().takes(size);
        if !drawn {
            return unrecorded(thread, call);
        }
    } else if let Some(thread) = NewThread::get()
        && thread.passes(size)
    {
        return thread.uncounted(call);
    }
    let modes = Modes::get();
    let Some(mut inside) = state::enter() else {
        let block = call();
        modes.forget(block);
        return block;
    };
    let wanted = drawn || !modes.sampling || inside.sampling().takes(size);
    let noted = wanted && walk::note(&mut inside, caller);
    let block = inside.masked_uncounted(call);
    if block != 0 {
        modes.forget(block);
        if modes.unused && !zeroed {
            // SAFETY: the block is new, has this size, and no other code has it yet.
            unsafe { unused::fill_new(block, size) };
        }
        if noted {
            modes.hold(block);
            inside.writer().alloc(block, size);
        }
    }
    block
}

/// Records that a block is about to be freed.
///
/// # Safety
/// The block belongs to the allocator, and the caller owns it.
#[inline(always)]
pub unsafe fn free(block: u64) {
    if let Some(thread) = Mine::get() {
        if let Some(inside) = thread.enter_if_all_is_recorded() {
            return inside.writer().free(block);
        }
        if thread.is_sampling() && !Area::get().is_some_and(|area| sample::may_hold(area, block)) {
            return;
        }
    }
    // SAFETY: the caller upholds the same contract.
    unsafe { any_free(block) };
}

/// # Safety
/// Same as [`free`].
#[cold]
#[inline(never)]
unsafe fn any_free(block: u64) {
    let modes = Modes::get();
    // SAFETY: only the caller uses the block.
    let bytes = if modes.unused { unsafe { unused::never_written(block) } } else { None };
    modes.forget(block);
    if !modes.may_hold(block) {
        return;
    }
    let Some(inside) = state::enter() else { return freeres::list(block) };
    if let Some(bytes) = bytes {
        inside.writer().unused(block, bytes);
    }
    inside.writer().free(block);
}

/// Makes a call during which the allocator's own calls are not recorded.
#[inline(always)]
pub fn masked(call: impl FnOnce() -> u64) -> u64 {
    match Mine::get() {
        Some(thread) => thread.masked(call),
        None => call(),
    }
}

/// Wraps a call that may move the non-null block `old` or resize it to `size` bytes. `call` makes the call
/// and returns the block's new address.
///
/// # Safety
/// `old` is a block of the allocator, and the caller owns it. `call` returns 0, or a block of at least `size`
/// bytes that no other code has.
#[inline(always)]
pub unsafe fn reallocation(
    caller: Caller,
    old: u64,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    if let Some(mut inside) = Mine::get().and_then(Mine::enter_if_all_is_recorded) {
        let left = walk::note(&mut inside, caller) && inside.writer().leave(old);
        let block = inside.masked(call);
        if left {
            arrived(inside.writer(), old, block, size, true);
        }
        return block;
    }
    // SAFETY: the caller upholds the same contract.
    unsafe { any_reallocation(caller, old, size, zeroed, call) }
}

/// # Safety
/// Same as [`reallocation`].
#[inline(never)]
unsafe fn any_reallocation(
    caller: Caller,
    old: u64,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    if let Some(thread) = Mine::get().filter(|thread| thread.is_sampling())
        && Area::get().is_some_and(|area| !sample::may_hold(area, old))
        && thread.sampling().passes(size)
    {
        return unrecorded(thread, call);
    }
    if let Some(thread) = NewThread::get()
        && Area::get().is_some_and(|area| !sample::may_hold(area, old))
        && thread.passes(size)
    {
        return thread.uncounted(call);
    }
    let modes = Modes::get();
    let Some(mut inside) = state::enter() else {
        modes.forget(old);
        let block = call();
        modes.forget(block);
        return block;
    };
    let wanted = (!modes.sampling || inside.sampling().takes(size)) && walk::note(&mut inside, caller);
    let old_kept = modes.may_hold(old);
    // SAFETY: only the caller uses the old block.
    let bytes = if modes.unused { unsafe { unused::never_written(old) } } else { None };
    let was = modes.forget(old);
    let mut left = false;
    if old_kept {
        if let Some(bytes) = bytes {
            inside.writer().unused(old, bytes);
        }
        left = inside.writer().leave(old);
    }
    let block = inside.masked_uncounted(call);
    if block != 0 {
        modes.forget(block);
    }
    match was {
        // SAFETY: the block has this size, and its owner does not have it yet.
        Some(was) if block != 0 && !zeroed => unsafe { unused::fill_grown(was, block, size) },
        Some(was) if block == 0 && size != 0 => unused::remember(old, was),
        _ => {}
    }
    if block != 0 && wanted {
        modes.hold(block);
    }
    if left || (wanted && block != 0 && !old_kept && inside.writer().has_room()) {
        arrived(inside.writer(), old, block, size, wanted);
    }
    block
}

#[inline(always)]
fn arrived(writer: &Writer, old: u64, block: u64, size: u64, wanted: bool) {
    match (block, size) {
        (0, 0) => writer.realloc_failed_or_freed(op::REALLOC_FREED, old),
        (0, _) => writer.realloc_failed_or_freed(op::REALLOC_FAILED, old),
        _ if wanted => writer.realloc(block, size),
        _ => writer.realloc_failed_or_freed(op::REALLOC_FREED, old),
    }
}

/// What the collector requested.
struct Modes {
    area: Option<Area>,
    sampling: bool,
    unused: bool,
}

impl Modes {
    fn get() -> Self {
        let area = Area::get();
        Modes {
            area,
            sampling: area.is_some_and(|area| area.heap().sample_bytes.load(Relaxed) != 0),
            unused: area.is_some_and(|area| area.heap_flags() & heap_flag::UNUSED != 0),
        }
    }

    /// Whether a block may be recorded.
    fn may_hold(&self, block: u64) -> bool {
        !self.sampling || self.area.is_some_and(|area| sample::may_hold(area, block))
    }

    /// Forgets which bytes were filled at an address when a block is allocated or freed there. Otherwise they
    /// would count for the next block.
    fn forget(&self, block: u64) -> Option<u64> {
        if self.unused { unused::forget(block) } else { None }
    }

    /// Marks a block as recorded.
    fn hold(&self, block: u64) {
        if let Some(area) = self.area
            && self.sampling
        {
            sample::hold(area, block);
        }
    }
}
