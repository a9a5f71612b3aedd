//! What happens around one call of the allocator: the quick way when everything is recorded and nothing else is asked for, and the way
//! that does everything.

use core::sync::atomic::Ordering::Relaxed;

use whyslow_heap_wire::area::flag;
use whyslow_heap_wire::handshake::hook::MALLOC;
use whyslow_heap_wire::record::op;
use whyslow_selfwalk::Entry;

use crate::area::Area;
use crate::state::{self, State, gate};
use crate::{ring, sample, unused, walk};

/// A call that may return a new block of `size` bytes, `zeroed` if it may be one that must read as zeros; `call` makes it and says which.
#[inline(always)]
pub fn allocation(
    slot: usize,
    entry: *const Entry,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    if let Some(state) = state::mine()
        && state.gate.load(Relaxed) == gate::OPEN
    {
        state.set_gate(gate::BUSY);
        let noted = walk::note(state, entry);
        // libc's own `malloc` calls no other function of its kind; who comes in here now is a signal handler.
        if slot != MALLOC {
            state.set_gate(gate::MASKED);
        }
        let block = call();
        if slot != MALLOC {
            state.set_gate(gate::BUSY);
        }
        if block != 0 && noted {
            ring::alloc(state, block, size);
        }
        state.leave();
        return block;
    }
    any_allocation(entry, size, zeroed, call)
}

/// A call that is not sampled, and neither is what it calls.
#[inline(always)]
fn unrecorded(state: &State, call: impl FnOnce() -> u64) -> u64 {
    state.set_gate(gate::MASKED);
    let block = sample::uncounted(state, call);
    state.leave();
    block
}

#[inline(never)]
fn any_allocation(entry: *const Entry, size: u64, zeroed: bool, call: impl FnOnce() -> u64) -> u64 {
    let mut drawn = false;
    if let Some(state) = state::mine()
        && state.gate.load(Relaxed) == gate::SAMPLING
    {
        drawn = sample::takes(state, size);
        if !drawn {
            return unrecorded(state, call);
        }
    }
    let modes = Modes::get();
    let Some(state) = state::enter() else {
        let block = call();
        modes.forget(block);
        return block;
    };
    let wanted = drawn || !modes.sampling || sample::takes(state, size);
    let noted = wanted && walk::note(state, entry);
    state.set_gate(gate::MASKED);
    let block = sample::uncounted(state, call);
    state.set_gate(gate::BUSY);
    if block != 0 {
        modes.forget(block);
        if modes.unused && !zeroed {
            unused::fill_new(block, size);
        }
        if noted {
            modes.hold(block);
            ring::alloc(state, block, size);
        }
    }
    state.leave();
    block
}

/// A block is about to be freed.
#[inline(always)]
pub fn free(block: u64) {
    if let Some(state) = state::mine() {
        match state.gate.load(Relaxed) {
            gate::OPEN => {
                state.set_gate(gate::BUSY);
                ring::free(state, block);
                state.leave();
                return;
            }
            gate::SAMPLING => {
                if let Some(area) = Area::get()
                    && sample::may_hold(area, block)
                {
                    any_free(block);
                }
                return;
            }
            _ => {}
        }
    }
    any_free(block);
}

#[cold]
#[inline(never)]
fn any_free(block: u64) {
    let modes = Modes::get();
    let bytes = if modes.unused { unused::never_written(block) } else { None };
    modes.forget(block);
    let Some(state) = state::enter() else { return };
    if modes.may_hold(block) {
        if let Some(bytes) = bytes {
            ring::unused(state, block, bytes);
        }
        ring::free(state, block);
    }
    state.leave();
}

/// Makes a call during which the allocator's own calls are not recorded.
#[inline(always)]
pub fn masked(call: impl FnOnce() -> u64) -> u64 {
    let Some(state) = state::mine() else { return call() };
    let before = state.gate.load(Relaxed);
    if !matches!(before, gate::OPEN | gate::SAMPLING | gate::SPECIAL) {
        return call();
    }
    state.set_gate(gate::MASKED);
    let result = call();
    state.leave();
    result
}

/// A call that may move or resize the block `old`, which is not null, to `size` bytes; `call` makes it and says where it is.
#[inline(always)]
pub fn reallocation(
    entry: *const Entry,
    old: u64,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    if let Some(state) = state::mine()
        && state.gate.load(Relaxed) == gate::OPEN
    {
        state.set_gate(gate::BUSY);
        let left = walk::note(state, entry) && ring::leave(state, old);
        state.set_gate(gate::MASKED);
        let block = call();
        state.set_gate(gate::BUSY);
        if left {
            arrived(state, old, block, size, true);
        }
        state.leave();
        return block;
    }
    any_reallocation(entry, old, size, zeroed, call)
}

#[inline(never)]
fn any_reallocation(
    entry: *const Entry,
    old: u64,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    if let Some(state) = state::mine()
        && state.gate.load(Relaxed) == gate::SAMPLING
        && Area::get().is_some_and(|area| !sample::may_hold(area, old))
        && sample::passes(state, size)
    {
        return unrecorded(state, call);
    }
    let modes = Modes::get();
    let Some(state) = state::enter() else {
        modes.forget(old);
        let block = call();
        modes.forget(block);
        return block;
    };
    let wanted = (!modes.sampling || sample::takes(state, size)) && walk::note(state, entry);
    let old_kept = modes.may_hold(old);
    let bytes = if modes.unused { unused::never_written(old) } else { None };
    let was = modes.forget(old);
    let mut left = false;
    if old_kept {
        if let Some(bytes) = bytes {
            ring::unused(state, old, bytes);
        }
        left = ring::leave(state, old);
    }
    state.set_gate(gate::MASKED);
    let block = sample::uncounted(state, call);
    state.set_gate(gate::BUSY);
    if block != 0 {
        modes.forget(block);
    }
    match was {
        Some(was) if block != 0 && !zeroed => unused::fill_grown(was, block, size),
        Some(was) if block == 0 && size != 0 => unused::remember(old, was),
        _ => {}
    }
    if block != 0 && wanted {
        modes.hold(block);
    }
    if left || (wanted && block != 0 && !old_kept && ring::has_room(state)) {
        arrived(state, old, block, size, wanted);
    }
    state.leave();
    block
}

#[inline(always)]
fn arrived(state: &State, old: u64, block: u64, size: u64, wanted: bool) {
    match (block, size) {
        (0, 0) => ring::stay_or_gone(state, op::GONE, old),
        (0, _) => ring::stay_or_gone(state, op::STAY, old),
        _ if wanted => ring::realloc(state, block, size),
        _ => ring::stay_or_gone(state, op::GONE, old),
    }
}

/// What the collector asked for.
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
            sampling: area.is_some_and(|area| area.header().sample_bytes.load(Relaxed) != 0),
            unused: area.is_some_and(|area| area.flags() & flag::UNUSED != 0),
        }
    }

    /// Whether a block may be recorded.
    fn may_hold(&self, block: u64) -> bool {
        !self.sampling || self.area.is_some_and(|area| sample::may_hold(area, block))
    }

    /// Forgets what was filled at an address, whoever comes or goes there. What is not forgotten would be taken for a
    /// part of the next block.
    fn forget(&self, block: u64) -> Option<u64> {
        if self.unused { unused::forget(block) } else { None }
    }

    /// Notes that a block is recorded.
    fn hold(&self, block: u64) {
        if let Some(area) = self.area
            && self.sampling
        {
            sample::hold(area, block);
        }
    }
}
