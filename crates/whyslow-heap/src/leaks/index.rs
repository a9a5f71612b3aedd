//! Finds the live block that contains an address.

use super::LiveBlock;

/// A gap between blocks that starts a new region.
const REGION_GAP: u64 = 8 << 10;
/// A block of this size ends its region.
const LARGE: u64 = 64 << 10;
/// Slots per entry of `Region`'s counts: a cache line of bits.
const COUNTED: usize = 8;

/// Live blocks in address order, found in constant time.
///
/// Blocks near each other form a region, which has one bit per slot: does a block start there? The number of
/// bits up to an address is the number of the block that contains the address or precedes it. So a million
/// blocks are found with less than a megabyte of bits, and pointers to starts, which most pointers are, never
/// touch the list of blocks.
#[derive(Debug)]
pub(crate) struct Index {
    /// Each block from its start to its end, ascending, with unique starts.
    spans: Vec<Span>,
    /// The row of each block in the input.
    rows: Vec<u32>,
    /// Input rows with a duplicate address: the row, and the block.
    doubles: Vec<(u32, u32)>,
    regions: Vec<Region>,
    bits: Vec<u64>,
    /// Number of blocks before every [`COUNTED`] words of bits.
    counts: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: u64,
    end: u64,
}

#[derive(Debug)]
struct Region {
    start: u64,
    end: u64,
    /// The slot size is this power of two, counted from the region's start: all blocks of the region start at
    /// a slot.
    shift: u32,
    /// The last slot in which a block starts.
    last_slot: u64,
    /// Its first word of bits; a multiple of [`COUNTED`].
    first_word: usize,
}

impl Index {
    /// Sorts the blocks. Their number must fit into 31 bits.
    pub(crate) fn new(blocks: &[LiveBlock]) -> Self {
        let mut order: Vec<(u64, u32)> =
            (0u32..).zip(blocks).map(|(row, block)| (block.address.0, row)).collect();
        order.sort_unstable();
        let mut index = Self {
            spans: Vec::with_capacity(blocks.len()),
            rows: Vec::with_capacity(blocks.len()),
            doubles: Vec::new(),
            regions: Vec::new(),
            bits: Vec::new(),
            counts: Vec::new(),
        };
        for (start, row) in order {
            if index.spans.last().is_some_and(|last| last.start == start) {
                index.doubles.push((row, index.rows.len() as u32 - 1));
            } else {
                index.spans.push(Span { start, end: blocks[row as usize].end() });
                index.rows.push(row);
            }
        }
        let mut first = 0;
        for at in 1..=index.len() {
            let ends = at == index.len() || {
                let (before, next) = (index.spans[at - 1], index.spans[at]);
                next.start - before.start >= LARGE || next.start.saturating_sub(before.end) > REGION_GAP
            };
            if ends {
                index.add_region(first, at);
                first = at;
            }
        }
        index
    }

    /// Adds a region of the blocks `first..last`.
    fn add_region(&mut self, first: usize, last: usize) {
        let spans = &self.spans[first..last];
        let start = spans[0].start;
        let all = spans.iter().fold(0, |all, span| all | (span.start - start));
        let shift = all.trailing_zeros().min(4);
        let last_slot = (spans[spans.len() - 1].start - start) >> shift;
        let first_word = self.bits.len();
        self.bits.resize((first_word + (last_slot / 64) as usize + 1).next_multiple_of(COUNTED), 0);
        for span in spans {
            let slot = (span.start - start) >> shift;
            self.bits[first_word + (slot / 64) as usize] |= 1 << (slot % 64);
        }
        let mut count = first as u32;
        for words in self.bits[first_word..].chunks(COUNTED) {
            self.counts.push(count);
            count += words.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        let end = spans.iter().map(|span| span.end).max().unwrap_or(start);
        self.regions.push(Region { start, end, shift, last_slot, first_word });
    }

    /// The block that contains an address, and whether the address is its start.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<(usize, bool)> {
        let region = match self.regions.as_slice() {
            [only] => only,
            regions => &regions[regions.partition_point(|region| region.start <= address).checked_sub(1)?],
        };
        if address < region.start || address >= region.end {
            return None;
        }
        let offset = address - region.start;
        let slot = (offset >> region.shift).min(region.last_slot);
        let word = region.first_word + (slot / 64) as usize;
        let up_to = self.bits[word] << (63 - slot % 64);
        let line = word / COUNTED;
        let before: u32 = self.bits[line * COUNTED..word].iter().map(|word| word.count_ones()).sum();
        // The region's first slot has a bit, so there is at least one.
        let block = (self.counts[line] + before + up_to.count_ones()) as usize - 1;
        if up_to >> 63 == 1 && offset == slot << region.shift {
            return Some((block, true));
        }
        (address < self.spans[block].end).then_some((block, false))
    }

    /// From the first block's start to the last end.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let start = self.regions.first().map_or(0, |region| region.start);
        (start, self.regions.iter().map(|region| region.end).max().unwrap_or(start))
    }

    /// Number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The start of a block.
    pub(crate) fn start(&self, block: usize) -> u64 {
        self.spans[block].start
    }

    /// The end of a block.
    pub(crate) fn end(&self, block: usize) -> u64 {
        self.spans[block].end
    }

    /// A block's row in the input.
    pub(crate) fn row(&self, block: usize) -> usize {
        self.rows[block] as usize
    }

    /// Each input row, with its block.
    pub(crate) fn all_rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let doubles = self.doubles.iter().map(|&(row, block)| (row as usize, block as usize));
        self.rows.iter().enumerate().map(|(block, &row)| (row as usize, block)).chain(doubles)
    }

    /// The first block that starts at or after an address; the number of blocks if there is none.
    pub(crate) fn first_from(&self, address: u64) -> usize {
        self.spans.partition_point(|span| span.start < address)
    }

    /// Whether any block overlaps a range.
    pub(crate) fn any_in(&self, start: u64, end: u64) -> bool {
        let after = self.first_from(end);
        after > 0 && (self.start(after - 1) >= start || self.end(after - 1) > start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::{Address, StackRow};

    fn block(address: u64, size: u64) -> LiveBlock {
        LiveBlock { address: Address(address), size, stack: StackRow(0), inherited: false }
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        assert_eq!(Index::new(&[]).find(0), None);
    }

    #[test]
    fn a_block_of_zero_bytes_is_found_at_its_start_only() {
        let index = Index::new(&[block(0x1000, 0)]);
        assert_eq!(index.find(0x1000), Some((0, true)));
        assert_eq!(index.find(0x1001), None);
    }

    #[test]
    fn a_duplicate_address_is_one_block() {
        let index = Index::new(&[block(0x1000, 8), block(0x2000, 8), block(0x1000, 8)]);
        assert_eq!(index.len(), 2);
        assert_eq!(index.all_rows().collect::<Vec<_>>(), [(0, 0), (1, 1), (2, 0)]);
        assert_eq!(index.find(0x2000), Some((1, true)));
    }

    #[test]
    fn the_highest_addresses_do_not_overflow() {
        let index = Index::new(&[block(u64::MAX - 8, 64), block(0, 4)]);
        assert_eq!(index.find(u64::MAX - 1), Some((1, false)));
        assert_eq!(index.find(3), Some((0, false)));
    }

    proptest! {
        #[test]
        fn finds_an_address_exactly_where_a_block_is(
            steps in prop::collection::vec((0u64..200, 0u64..200_000, any::<bool>()), 1..200),
            align in 0u32..6,
            probes in prop::collection::vec((any::<prop::sample::Index>(), -70i64..70), 50),
        ) {
            let mut blocks = Vec::new();
            let mut at = 0x5555_0000_0000u64;
            for (size, gap, far) in steps {
                let size = if far { size * 1000 } else { size };
                blocks.push(block(at, size));
                at += size.max(1) + if far { gap } else { gap % 64 };
                at = at.next_multiple_of(1 << align);
            }
            blocks.reverse();
            let index = Index::new(&blocks);
            for (which, offset) in probes {
                let near = blocks[which.index(blocks.len())];
                let address = near.address.0.wrapping_add_signed(offset);
                let expected = blocks.iter().position(|b| b.address.0 <= address && address < b.end());
                let expected_start = expected.map(|row| (row, blocks[row].address.0 == address));
                prop_assert_eq!(index.find(address).map(|(found, start)| (index.row(found), start)), expected_start);
                prop_assert_eq!(index.any_in(address, address + 1), expected.is_some());
            }
        }
    }
}
