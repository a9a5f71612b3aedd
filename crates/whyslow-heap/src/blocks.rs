//! The live blocks and mappings of one process.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::chains::Chain;
use crate::ids::{Address, EntryRow, Tick};
use crate::sys;

/// A live block: 24 bytes, so that a million of them are cheap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    size: u64,
    /// When it was allocated.
    pub tick: Tick,
    /// The thread and stack that allocated it.
    pub entry: EntryRow,
    /// The number of blocks that its thread had allocated by then, including this one.
    pub sequence: u32,
}

/// Flag in `size`: the block grew by a reallocation, and shrank later.
const GREW: u64 = 1 << 63;
const SHRANK: u64 = 1 << 62;
/// Flag in `size`: the block was allocated before the process was forked, by its parent.
const INHERITED: u64 = 1 << 61;

impl Block {
    pub(crate) fn new(size: u64, tick: Tick, entry: EntryRow, sequence: u32, chain: Chain) -> Self {
        let flags = match chain {
            Chain::None => 0,
            Chain::Growing => GREW,
            Chain::Shrunk => GREW | SHRANK,
        };
        Self { size: size & !(GREW | SHRANK | INHERITED) | flags, tick, entry, sequence }
    }

    /// The requested size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size & !(GREW | SHRANK | INHERITED)
    }

    /// Whether reallocations made it larger, and smaller again.
    pub(crate) fn chain(&self) -> Chain {
        match (self.size & GREW, self.size & SHRANK) {
            (0, _) => Chain::None,
            (_, 0) => Chain::Growing,
            _ => Chain::Shrunk,
        }
    }

    /// Whether another process allocated it. Such a block can hold pointers, but is not counted.
    pub(crate) fn inherited(&self) -> bool {
        self.size & INHERITED != 0
    }

    /// The same block in a forked child.
    pub(crate) fn in_child(self) -> Self {
        Self { size: self.size | INHERITED, ..self }
    }
}

/// A slot of the table: half a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Slot {
    /// The address with its lowest bit set; 0 for an empty slot.
    key: u64,
    block: Block,
}

const EMPTY: Slot = Slot { key: 0, block: Block { size: 0, tick: Tick(0), entry: EntryRow(0), sequence: 0 } };
const FEWEST_SLOTS: usize = 64;

/// Blocks by address: an open-addressing table with linear probing.
///
/// A million blocks take 64 MB. A lookup costs one cache miss, which [`Self::prefetch`] can hide.
#[derive(Debug, Default, Clone)]
pub(crate) struct Blocks {
    slots: Vec<Slot>,
    len: usize,
}

impl Blocks {
    /// The first slot for an address. The table must not be empty.
    #[inline]
    fn home(&self, key: u64) -> usize {
        let hash = (key >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// The slot of an address, or the empty slot where it would go.
    #[inline]
    fn find(&self, key: u64) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        loop {
            let found = self.slots[at].key;
            if found == key {
                return Ok(at);
            }
            if found == 0 {
                return Err(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Prefetches the slot of an address.
    #[inline]
    pub(crate) fn prefetch(&self, address: Address) {
        if !self.slots.is_empty() {
            sys::prefetch(&self.slots[self.home(address.0 | 1)]);
        }
    }

    /// The block at an address.
    #[inline]
    pub(crate) fn get(&self, address: Address) -> Option<&Block> {
        if self.slots.is_empty() {
            return None;
        }
        self.find(address.0 | 1).ok().map(|at| &self.slots[at].block)
    }

    /// Adds a block. Returns the block that was there before.
    #[inline]
    pub(crate) fn insert(&mut self, address: Address, block: Block) -> Option<Block> {
        if self.len >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        let key = address.0 | 1;
        match self.find(key) {
            Ok(at) => Some(std::mem::replace(&mut self.slots[at].block, block)),
            Err(at) => {
                self.slots[at] = Slot { key, block };
                self.len += 1;
                None
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(FEWEST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; len]);
        for slot in old.into_iter().filter(|slot| slot.key != 0) {
            if let Err(at) = self.find(slot.key) {
                self.slots[at] = slot;
            }
        }
    }

    /// Removes a block.
    #[inline]
    pub(crate) fn remove(&mut self, address: Address) -> Option<Block> {
        if self.slots.is_empty() {
            return None;
        }
        let mut hole = self.find(address.0 | 1).ok()?;
        let block = self.slots[hole].block;
        let mask = self.slots.len() - 1;
        // Later blocks that are not in their first slot move up.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let key = self.slots[at].key;
            if key == 0 {
                break;
            }
            let distance = at.wrapping_sub(self.home(key)) & mask;
            if distance >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        self.len -= 1;
        Some(block)
    }

    /// The same blocks in a forked child.
    pub(crate) fn in_child(&self) -> Self {
        let mut child = self.clone();
        for slot in child.slots.iter_mut().filter(|slot| slot.key != 0) {
            slot.block = slot.block.in_child();
        }
        child
    }

    /// The number of slots of the table.
    pub(crate) fn places(&self) -> usize {
        self.slots.len()
    }

    /// All blocks with their addresses, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Address, &Block)> {
        self.slots.iter().filter(|slot| slot.key != 0).map(|slot| (Address(slot.key & !1), &slot.block))
    }
}

/// The number of a mapping in its process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MappingId(u32);

/// A part of a mapping, or the whole of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub len: u64,
    pub tick: Tick,
    pub entry: EntryRow,
    id: MappingId,
}

impl Piece {
    /// The id of its mapping.
    pub(crate) fn mapping(&self) -> MappingId {
        self.id
    }
}

/// A part of a mapping that was unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Its length in bytes.
    pub len: u64,
    /// The piece that it was cut from.
    pub piece: Piece,
    /// Whether nothing of the mapping remains.
    pub last: bool,
}

/// Mappings by address. Unmapped parts are cut out.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    pieces: BTreeMap<Address, Piece>,
    /// Mappings in more than one piece, and their number of pieces.
    split: FxHashMap<MappingId, u32>,
    next_id: MappingId,
}

impl Mappings {
    /// Adds a mapping to a free range.
    pub(crate) fn add(&mut self, start: Address, len: u64, tick: Tick, entry: EntryRow) {
        let id = self.next_id;
        self.next_id = MappingId(id.0.wrapping_add(1));
        self.pieces.insert(start, Piece { len, tick, entry, id });
    }

    /// Removes a range. Returns what was in it, in order.
    pub(crate) fn cut(&mut self, start: Address, len: u64) -> Vec<Cut> {
        let end = start.plus(len);
        let touched: Vec<(Address, Piece)> = self
            .pieces
            .range(..start)
            .next_back()
            .into_iter()
            .chain(self.pieces.range(start..end))
            .map(|(&at, &piece)| (at, piece))
            .filter(|(at, piece)| at.plus(piece.len) > start)
            .collect();
        let mut cuts = Vec::with_capacity(touched.len());
        for (at, piece) in touched {
            let piece_end = at.plus(piece.len);
            self.pieces.remove(&at);
            let mut left = 0;
            if at < start {
                self.pieces.insert(at, Piece { len: start.0 - at.0, ..piece });
                left += 1;
            }
            if piece_end > end {
                self.pieces.insert(end, Piece { len: piece_end.0 - end.0, ..piece });
                left += 1;
            }
            let pieces = self.split.get(&piece.id).copied().unwrap_or(1) + left - 1;
            if pieces > 1 {
                self.split.insert(piece.id, pieces);
            } else {
                self.split.remove(&piece.id);
            }
            cuts.push(Cut { len: piece_end.min(end).0 - at.max(start).0, piece, last: pieces == 0 });
        }
        cuts
    }

    /// All pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.values()
    }

    /// Removes everything.
    pub(crate) fn cut_all(&mut self) -> Vec<Cut> {
        self.cut(Address(0), u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_block_is_small() {
        assert_eq!(size_of::<Slot>(), 32);
        let block = Block::new(100, Tick(7), EntryRow(3), 9, Chain::Shrunk);
        assert!(block.chain() == Chain::Shrunk && block.size() == 100);
    }

    #[test]
    fn a_mapping_with_a_hole_is_one_until_both_ends_are_unmapped() {
        let mut mappings = Mappings::default();
        mappings.add(Address(0x1000), 0x3000, Tick(1), EntryRow(5));
        let lens = |cuts: Vec<Cut>| cuts.iter().map(|cut| (cut.len, cut.last)).collect::<Vec<_>>();
        assert_eq!(lens(mappings.cut(Address(0x2000), 0x1000)), [(0x1000, false)]);
        assert_eq!(lens(mappings.cut(Address(0x2000), 0x1000)), []);
        assert_eq!(lens(mappings.cut(Address(0), 0x2000)), [(0x1000, false)]);
        assert_eq!(lens(mappings.cut(Address(0x1000), 0x9000)), [(0x1000, true)]);
        assert!(mappings.pieces.is_empty() && mappings.split.is_empty());
    }

    proptest! {
        #[test]
        fn the_table_matches_a_hash_map(steps in proptest::collection::vec((any::<bool>(), 0u64..200), 1..600)) {
            let mut blocks = Blocks::default();
            let mut expected = FxHashMap::default();
            for (tick, &(put, number)) in steps.iter().enumerate() {
                // Few slots at first, and addresses that collide.
                let address = Address(number << 40);
                let block = Block::new(number, Tick(tick as u64), EntryRow(0), 0, Chain::None);
                if put {
                    prop_assert_eq!(blocks.insert(address, block), expected.insert(address, block));
                } else {
                    prop_assert_eq!(blocks.remove(address), expected.remove(&address));
                }
                prop_assert_eq!(blocks.get(address), expected.get(&address));
            }
            let found: FxHashMap<Address, Block> = blocks.iter().map(|(address, block)| (address, *block)).collect();
            prop_assert_eq!(found, expected);
        }

        /// Compares with a table of single bytes.
        #[test]
        fn cuts_match_the_mapped_bytes(steps in proptest::collection::vec((any::<bool>(), 0u64..64, 1u64..20), 1..60)) {
            let mut mappings = Mappings::default();
            let mut bytes = [None; 100];
            let mut alive = FxHashMap::default();
            for (tick, &(map, start, len)) in steps.iter().enumerate() {
                let mut expected = FxHashMap::default();
                for byte in &mut bytes[start as usize..(start + len) as usize] {
                    if let Some(owner) = byte.take() {
                        *expected.entry(owner).or_insert(0) += 1;
                        *alive.get_mut(&owner).expect("known") -= 1;
                    }
                }
                let mut found = FxHashMap::default();
                let mut ended = Vec::new();
                for cut in mappings.cut(Address(start), len) {
                    *found.entry(cut.piece.tick.0).or_insert(0) += cut.len;
                    if cut.last {
                        ended.push(cut.piece.tick.0);
                    }
                }
                prop_assert_eq!(&found, &expected);
                for owner in expected.keys() {
                    prop_assert_eq!(ended.contains(owner), alive[owner] == 0);
                }
                if map {
                    mappings.add(Address(start), len, Tick(tick as u64), EntryRow(0));
                    bytes[start as usize..(start + len) as usize].fill(Some(tick as u64));
                    alive.insert(tick as u64, len);
                }
            }
        }
    }
}
