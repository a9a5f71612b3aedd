//! Applies an event of a ring to the tally.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_agent_host::{Area, Ring};
use whyslow_agent_wire::area::filter_slot;

use crate::ids::{Address, EntryRow, RingStack};
use crate::records::{Event, HeapRecords, Kind};
use crate::stacks::{AreaStacks, Stacks};
use crate::tally::{Applied, At, Tally};

/// Counts one event.
#[inline]
pub(crate) fn apply(
    tally: &mut Tally,
    stacks: &mut Stacks,
    nodes: &mut AreaStacks,
    ring: &mut Ring<HeapRecords>,
    event: &Event,
    force: bool,
) -> Applied {
    let at =
        At { process: ring.process, thread: ring.thread, tick: event.tick, address: event.address, force };
    match event.kind {
        Kind::Allocated { stack, size } => {
            let entry = entry(tally, stacks, nodes, ring, stack);
            tally.allocated(&at, entry, size)
        }
        Kind::Freed => {
            let applied = tally.freed(&at);
            if applied == Applied::Known && tally.is_sampled() {
                forget(ring.area(), event.address);
            }
            applied
        }
        Kind::MoveBegun => tally.move_begun(&at, ring.number),
        Kind::Reallocated { stack, size } => {
            let entry = entry(tally, stacks, nodes, ring, stack);
            let (applied, old_address) = tally.reallocated(&at, ring.number, entry, size);
            if let (Some(old_address), true) = (old_address, tally.is_sampled()) {
                forget(ring.area(), old_address);
            }
            applied
        }
        Kind::MoveFailed => tally.move_failed(&at, ring.number),
        Kind::MovingFreed => {
            let applied = tally.moving_freed(&at, ring.number);
            if applied == Applied::Known && tally.is_sampled() {
                forget(ring.area(), event.address);
            }
            applied
        }
        Kind::Examined { unused } => {
            tally.examined(&at, unused);
            Applied::Known
        }
        Kind::Mapped { stack, size } => {
            let entry = entry(tally, stacks, nodes, ring, stack);
            tally.mapped(&at, entry, size);
            Applied::Known
        }
        Kind::Unmapped { size } => {
            tally.unmapped(&at, size);
            Applied::Known
        }
    }
}

/// The entry of a ring's stack.
#[inline]
fn entry(
    tally: &mut Tally,
    stacks: &mut Stacks,
    nodes: &mut AreaStacks,
    ring: &mut Ring<HeapRecords>,
    stack: RingStack,
) -> EntryRow {
    match ring.records.entry(stack) {
        Some(entry) => entry,
        None => new_entry(tally, stacks, nodes, ring, stack),
    }
}

#[cold]
fn new_entry(
    tally: &mut Tally,
    stacks: &mut Stacks,
    nodes: &mut AreaStacks,
    ring: &mut Ring<HeapRecords>,
    stack: RingStack,
) -> EntryRow {
    let area = Arc::clone(ring.area());
    let row = nodes.resolve(&area, &ring.records.trails, &mut ring.records.rows, stack, stacks);
    let entry = tally.entry(row, ring.thread);
    ring.records.set_entry(stack, entry);
    entry
}

/// Subtracts a freed sampled block from the filter. A saturated count is unchanged, since the real number is
/// unknown.
fn forget(area: &Area, address: Address) {
    if let Some(count) = area.filter().get(filter_slot(address.0)) {
        let one_less = |count: u8| (count != u8::MAX).then(|| count.checked_sub(1)).flatten();
        // A zero count is fine too.
        let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    }
}
