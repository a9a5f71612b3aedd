//! The live blocks and mappings of each process: where they are, and which thread and stack allocated them.
//! It counts nothing.

mod inherit;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::blocks::{Block, Blocks, Cut, Mappings, Piece};
use crate::ids::{Address, EntryRow, ProcessRow, RingNumber, Tick};
pub(super) use inherit::drop_replaced;
use inherit::{Inherits, Legacy, RecentlyFreed};

/// The blocks and mappings of one process.
#[derive(Debug, Default)]
struct Holdings {
    /// The process was forked: it has blocks of another process.
    forked: bool,
    blocks: Blocks,
    mappings: Mappings,
    /// Blocks without an address, by the ring whose writer moves them.
    moving: FxHashMap<RingNumber, Moving>,
    /// What it inherited from the process that it was forked from.
    inherits: Inherits,
    /// The blocks that it freed or moved last.
    recently_freed: RecentlyFreed,
}

impl Holdings {
    fn own_blocks(&self) -> impl Iterator<Item = &Block> {
        let moving = self.moving.values().filter_map(|moving| moving.block.as_ref());
        self.blocks.iter().map(|(_, block)| block).filter(|block| !block.inherited()).chain(moving)
    }
}

/// A block that is being moved, if it is known, and its old address.
#[derive(Debug)]
pub(super) struct Moving {
    pub from: Address,
    pub block: Option<Block>,
}

/// There is no known block at an address.
#[derive(Debug)]
pub(super) struct NotKnown;

/// The live blocks and mappings of all processes.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    processes: Vec<Holdings>,
    /// Blocks kept for forked processes.
    legacy: Legacy,
}

impl Ledger {
    pub(super) fn process_added(&mut self, forked: bool) {
        self.processes.push(Holdings { forked, ..Holdings::default() });
    }

    pub(super) fn is_forked(&self, process: ProcessRow) -> bool {
        self.processes[process.index()].forked
    }

    /// Prefetches the slot of an address.
    #[inline]
    pub(super) fn expect(&self, process: ProcessRow, address: Address) {
        self.processes[process.index()].blocks.prefetch(address);
    }

    /// The block at an address that the process allocated itself.
    #[inline]
    pub(super) fn own_block(&self, process: ProcessRow, address: Address) -> Option<&Block> {
        self.processes[process.index()].blocks.get(address).filter(|block| !block.inherited())
    }

    /// Adds a block, or puts it back. Returns the process's own block that was there: its free was lost.
    #[inline]
    pub(super) fn allocated(&mut self, process: ProcessRow, address: Address, block: Block) -> Option<Block> {
        let before = self.processes[process.index()].blocks.insert(address, block);
        before.filter(|lost| !lost.inherited())
    }

    /// Removes a freed block and returns it, if known.
    #[inline]
    pub(super) fn freed(&mut self, process: ProcessRow, address: Address) -> Option<Block> {
        let process = &mut self.processes[process.index()];
        let block = process.blocks.remove(address)?;
        if self.legacy.is_kept() {
            process.recently_freed.add(address, block);
        }
        Some(block)
    }

    /// The writer of this ring starts to move the block at an address: it is still live, but has no address.
    /// Returns a block that the writer was moving before and whose end was never recorded. Unless forced,
    /// nothing changes if there is no such block.
    pub(super) fn move_begun(
        &mut self,
        process: ProcessRow,
        ring: RingNumber,
        from: Address,
        force: bool,
    ) -> Result<Option<Moving>, NotKnown> {
        let block = self.freed(process, from);
        if block.is_none() && !force {
            return Err(NotKnown);
        }
        let block = block.filter(|block| !block.inherited());
        Ok(self.processes[process.index()].moving.insert(ring, Moving { from, block }))
    }

    /// The block that the writer of this ring is moving.
    pub(super) fn moving(&self, process: ProcessRow, ring: RingNumber) -> Option<&Moving> {
        self.processes[process.index()].moving.get(&ring)
    }

    /// Removes the block that the writer of this ring has moved.
    pub(super) fn move_ended(&mut self, process: ProcessRow, ring: RingNumber) -> Option<Moving> {
        self.processes[process.index()].moving.remove(&ring)
    }

    /// Adds a mapping to a free range.
    pub(super) fn mapped(
        &mut self,
        process: ProcessRow,
        start: Address,
        len: u64,
        tick: Tick,
        entry: EntryRow,
    ) {
        self.processes[process.index()].mappings.add(start, len, tick, entry);
    }

    /// Removes a range of mappings. Returns what was in it.
    pub(super) fn unmapped(&mut self, process: ProcessRow, start: Address, len: u64) -> Vec<Cut> {
        self.processes[process.index()].mappings.cut(start, len)
    }

    /// Removes a process that has ended. Passes its blocks to `each`, and returns its mappings.
    pub(super) fn process_ended(&mut self, process: ProcessRow, each: impl FnMut(&Block)) -> Vec<Cut> {
        let holdings = &mut self.processes[process.index()];
        holdings.own_blocks().for_each(each);
        holdings.moving.clear();
        let cuts = holdings.mappings.cut_all();
        let blocks = std::mem::take(&mut holdings.blocks);
        self.bequeath(process, blocks);
        cuts
    }

    /// All blocks of a process with their addresses, including inherited ones, in no order. A block that is
    /// being moved is listed at its old address.
    pub(super) fn blocks_of(&self, process: ProcessRow) -> impl Iterator<Item = (Address, &Block)> {
        let Holdings { blocks, moving, .. } = &self.processes[process.index()];
        let moving = moving.values().filter_map(|moving| Some((moving.from, moving.block.as_ref()?)));
        moving.filter(|(address, _)| blocks.get(*address).is_none()).chain(blocks.iter())
    }

    /// Whether a process is moving a block.
    pub(super) fn is_moving(&self, process: ProcessRow) -> bool {
        !self.processes[process.index()].moving.is_empty()
    }

    /// Whether a process has any live block that it allocated itself.
    pub(super) fn has_own_blocks(&self, process: ProcessRow) -> bool {
        self.is_moving(process) || self.processes[process.index()].own_blocks().next().is_some()
    }

    /// Blocks that were allocated by the processes that have them.
    pub(super) fn own_blocks(&self) -> impl Iterator<Item = &Block> {
        self.processes.iter().flat_map(Holdings::own_blocks)
    }

    /// A piece of each mapping.
    pub(super) fn mappings(&self) -> impl Iterator<Item = &Piece> {
        self.processes.iter().flat_map(|process| {
            let mut seen = FxHashSet::default();
            process.mappings.pieces().filter(move |piece| seen.insert(piece.mapping()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::Chain;

    const PROCESS: ProcessRow = ProcessRow(0);
    const RING: RingNumber = RingNumber(3);

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.process_added(false);
        ledger
    }

    fn block(size: u64) -> Block {
        Block::new(size, Tick(1), EntryRow(0), 0, Chain::None)
    }

    #[test]
    fn a_block_is_live_from_its_allocation_to_its_free() {
        let mut ledger = ledger();
        assert_eq!(ledger.allocated(PROCESS, Address(0x10), block(1)), None);
        assert_eq!(ledger.own_block(PROCESS, Address(0x10)), Some(&block(1)));
        assert_eq!(ledger.allocated(PROCESS, Address(0x10), block(2)), Some(block(1)), "its free was lost");
        assert_eq!(ledger.freed(PROCESS, Address(0x10)), Some(block(2)));
        assert_eq!(ledger.freed(PROCESS, Address(0x10)), None);
        assert!(!ledger.has_own_blocks(PROCESS));
    }

    #[test]
    fn a_moving_block_has_no_address_but_still_belongs_to_its_process() {
        let mut ledger = ledger();
        assert!(ledger.move_begun(PROCESS, RING, Address(0x10), false).is_err());
        assert!(ledger.moving(PROCESS, RING).is_none());
        ledger.allocated(PROCESS, Address(0x10), block(1));
        assert!(matches!(ledger.move_begun(PROCESS, RING, Address(0x10), false), Ok(None)));
        assert!(ledger.own_block(PROCESS, Address(0x10)).is_none() && ledger.has_own_blocks(PROCESS));
        assert_eq!(ledger.blocks_of(PROCESS).collect::<Vec<_>>(), [(Address(0x10), &block(1))]);
        assert_eq!(ledger.move_ended(PROCESS, RING).and_then(|moving| moving.block), Some(block(1)));
        assert!(!ledger.is_moving(PROCESS));
        assert!(ledger.move_begun(PROCESS, RING, Address(0x20), true).is_ok(), "the block is unknown");
        assert!(ledger.moving(PROCESS, RING).is_some_and(|moving| moving.block.is_none()));
    }

    #[test]
    fn an_ended_process_returns_everything_and_leaves_nothing() {
        let mut ledger = ledger();
        ledger.allocated(PROCESS, Address(0x10), block(1));
        ledger.allocated(PROCESS, Address(0x20), block(2));
        let _ = ledger.move_begun(PROCESS, RING, Address(0x20), false);
        ledger.mapped(PROCESS, Address(0x1000), 0x3000, Tick(1), EntryRow(0));
        assert_eq!(ledger.unmapped(PROCESS, Address(0x2000), 0x1000).len(), 1);
        assert_eq!((ledger.mappings().count(), ledger.own_blocks().count()), (1, 2));
        let mut sizes = Vec::new();
        let cuts = ledger.process_ended(PROCESS, |block| sizes.push(block.size()));
        sizes.sort_unstable();
        assert_eq!((sizes, cuts.len()), (vec![1, 2], 2));
        assert!(!ledger.has_own_blocks(PROCESS) && ledger.mappings().next().is_none());
    }
}
