//! Blocks that a forked process inherits. The parent allocated them, and they count there; in the child they
//! matter because they can hold pointers to the child's own blocks.
//!
//! A fork leaves no event. The child's first event follows soon, and then the child gets its parent's live
//! blocks. Blocks that the parent has freed in between still exist in the child, so the blocks that it freed
//! last are included. A block too many is an address that the child never uses; a block too few would turn
//! everything behind it into a leak.

use std::collections::VecDeque;

use super::Ledger;
use crate::blocks::{Block, Blocks};
use crate::ids::{Address, ProcessRow};
use crate::leaks::LiveBlock;

/// Maximum number of recently freed blocks kept per process.
const MOST_RECENTLY_FREED: usize = 4096;
/// Maximum number of ended processes whose blocks are kept: the first event of a forked process may arrive
/// only then.
const MOST_LEFT_BEHIND: usize = 16;
/// Maximum number of slots for blocks of ended processes: 128 MB.
const MOST_PLACES_LEFT_BEHIND: usize = 4 << 20;
/// Maximum number of slots for inherited blocks of all running processes: 512 MB.
const MOST_PLACES_INHERITED: usize = 16 << 20;

/// What a process inherited from the one that it was forked from.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inherits {
    /// Nothing.
    #[default]
    Nothing,
    /// Blocks, which take this many slots.
    Blocks(usize),
    /// Too many blocks to keep.
    Unknown,
}

/// The blocks that a process freed last, with their addresses.
#[derive(Debug, Default)]
pub(super) struct RecentlyFreed(VecDeque<(Address, Block)>);

impl RecentlyFreed {
    #[inline]
    pub(super) fn add(&mut self, address: Address, block: Block) {
        if self.0.len() == MOST_RECENTLY_FREED {
            self.0.pop_front();
        }
        self.0.push_back((address, block));
    }
}

/// Blocks kept for forked processes.
#[derive(Debug, Default)]
pub(super) struct Legacy {
    /// Whether they are needed at all.
    kept: bool,
    /// Blocks of processes that have ended.
    left_behind: VecDeque<(ProcessRow, Blocks)>,
    /// Number of slots that inherited blocks take.
    places: usize,
}

impl Legacy {
    #[inline]
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }
}

impl Ledger {
    /// From now on, keeps what a leak check of a forked process needs.
    pub(in crate::tally) fn keep_legacy(&mut self) {
        self.legacy.kept = true;
    }

    /// Gives a process without events so far the blocks of the one that it was forked from.
    #[cold]
    pub(in crate::tally) fn forked(&mut self, process: ProcessRow, parent: ProcessRow, parent_ended: bool) {
        let child = &self.processes[process.index()];
        if !self.legacy.kept || child.inherits != Inherits::Nothing {
            return;
        }
        let from = &self.processes[parent.index()];
        let left_behind = self.legacy.left_behind.iter().find(|(row, _)| *row == parent);
        let blocks = left_behind.map_or(&from.blocks, |(_, blocks)| blocks);
        let unknown = from.inherits == Inherits::Unknown
            || parent_ended && left_behind.is_none()
            || self.legacy.places + blocks.places() > MOST_PLACES_INHERITED;
        let mut inherited = if unknown { Blocks::default() } else { blocks.in_child() };
        let moving = from.moving.values().filter_map(|moving| Some((moving.from, moving.block?)));
        let others = moving.chain(from.recently_freed.0.iter().rev().copied());
        for (address, block) in others.filter(|_| !unknown) {
            if inherited.get(address).is_none() {
                inherited.insert(address, block.in_child());
            }
        }
        let places = inherited.places();
        self.legacy.places += places;
        let child = &mut self.processes[process.index()];
        child.inherits = if unknown { Inherits::Unknown } else { Inherits::Blocks(places) };
        child.blocks = inherited;
    }

    /// Whether the blocks that a process inherited by fork are known.
    pub(in crate::tally) fn knows_inherited(&self, process: ProcessRow) -> bool {
        self.processes[process.index()].inherits != Inherits::Unknown
    }

    /// Keeps the blocks of a process that has ended.
    pub(super) fn bequeath(&mut self, process: ProcessRow, blocks: Blocks) {
        if let Inherits::Blocks(places) = self.processes[process.index()].inherits {
            self.legacy.places -= places;
        }
        if !self.legacy.kept {
            return;
        }
        let left_behind = &mut self.legacy.left_behind;
        left_behind.push_back((process, blocks));
        let places = |left_behind: &VecDeque<(ProcessRow, Blocks)>| -> usize {
            left_behind.iter().map(|(_, blocks)| blocks.places()).sum()
        };
        while left_behind.len() > MOST_LEFT_BEHIND || places(left_behind) > MOST_PLACES_LEFT_BEHIND {
            if let Some((forgotten, _)) = left_behind.pop_front() {
                self.processes[forgotten.index()].recently_freed = RecentlyFreed::default();
            }
        }
    }
}

/// Drops inherited blocks where the process now has its own. The blocks must be in address order.
pub(in crate::tally) fn drop_replaced(blocks: &mut Vec<LiveBlock>) {
    if !blocks.iter().any(|block| block.inherited) {
        return;
    }
    let own: Vec<(u64, u64)> =
        blocks.iter().filter(|block| !block.inherited).map(|block| (block.address.0, block.end())).collect();
    blocks.retain(|block| {
        let next = own.partition_point(|&(start, _)| start < block.end());
        !block.inherited || next == 0 || own[next - 1].1 <= block.address.0
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{RingNumber, StackRow, ThreadRow};
    use crate::sys;
    use crate::tally::{Applied, At, End, Tally};
    use whyslow_agent_host::Clock;

    const PARENT: ProcessRow = ProcessRow(0);
    const CHILD: ProcessRow = ProcessRow(1);
    const RING: RingNumber = RingNumber(0);

    fn at(process: ProcessRow, address: u64) -> At {
        let thread = ThreadRow(process.0);
        At { process, thread, tick: sys::now(), address: Address(address), force: false }
    }

    /// A process with blocks of 100 bytes at these addresses, some of them freed again, and the row of a
    /// child without events.
    fn forked(addresses: &[u64], freed: &[u64]) -> Tally {
        let mut tally = Tally::new(Clock::start(), None, 1);
        tally.keep_legacy();
        tally.process_added(false);
        tally.thread_added();
        let entry = tally.entry(StackRow(0), ThreadRow(0));
        for &address in addresses {
            assert_eq!(tally.allocated(&at(PARENT, address), entry, 100), Applied::Known);
        }
        for &address in freed {
            assert_eq!(tally.freed(&at(PARENT, address)), Applied::Known);
        }
        tally.process_added(true);
        tally.thread_added();
        tally
    }

    /// Addresses, and whether they are inherited.
    fn live(tally: &Tally, process: ProcessRow) -> Vec<(u64, bool)> {
        tally.live(process).blocks.iter().map(|block| (block.address.0, block.inherited)).collect()
    }

    #[test]
    fn a_child_inherits_its_parents_blocks_without_counting_them() {
        let mut tally = forked(&[0x1000, 0x2000, 0x3000, 0x4000], &[0x3000]);
        tally.forked(CHILD, PARENT);
        assert_eq!(live(&tally, CHILD), [0x1000, 0x2000, 0x3000, 0x4000].map(|address| (address, true)));
        assert!(!tally.has_blocks(CHILD) && tally.heights.bytes() == 300);
        // One is freed, one moved, one replaced, and one is inside a new one.
        let entry = tally.entry(StackRow(1), ThreadRow(1));
        assert_eq!(tally.freed(&at(CHILD, 0x1000)), Applied::Known);
        assert_eq!(tally.move_begun(&at(CHILD, 0x2000), RING), Applied::Known);
        tally.reallocated(&at(CHILD, 0x5000), RING, entry, 50);
        assert_eq!(tally.allocated(&at(CHILD, 0x3000), entry, 60), Applied::Known);
        assert_eq!(tally.allocated(&at(CHILD, 0x3f00), entry, 0x180), Applied::Known);
        assert_eq!(live(&tally, CHILD), [0x3000, 0x3f00, 0x5000].map(|address| (address, false)));
        assert_eq!((tally.totals().inherited_frees, tally.totals().lost_frees), (2, 0));
        tally.process_ended(CHILD, sys::now(), End::Exit);
        assert_eq!((tally.heights.bytes(), tally.of_process(CHILD).1), (300, 60 + 50 + 0x180));
        assert_eq!(tally.ledger.legacy.places, 0);
    }

    #[test]
    fn a_child_seen_after_its_parents_end_inherits_its_blocks() {
        let mut tally = forked(&[0x1000], &[]);
        tally.process_ended(PARENT, sys::now(), End::Exit);
        tally.forked(CHILD, PARENT);
        assert_eq!(live(&tally, CHILD), [(0x1000, true)]);
        // The blocks of a process that ended long ago are not kept; that is distinguished from having none.
        for _ in 0..MOST_LEFT_BEHIND {
            let row = tally.process_added(false);
            tally.process_ended(row, sys::now(), End::Exit);
        }
        let late = tally.process_added(true);
        tally.forked(late, PARENT);
        assert!(!tally.knows_inherited(late) && tally.knows_inherited(CHILD));
        let its_child = tally.process_added(true);
        tally.forked(its_child, late);
        assert!(!tally.knows_inherited(its_child));
    }
}
