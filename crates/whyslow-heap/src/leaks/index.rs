//! From an address to the live block it lies in.

use super::LiveBlock;

/// Gaps between blocks that start a new region of the index.
const REGION_GAP: u64 = 1 << 20;
/// The smallest bucket is 16 bytes: no two blocks start in it.
const SMALLEST_SHIFT: u32 = 4;

/// Live blocks in the order of their addresses, found in constant time.
///
/// Blocks that lie near each other form a region. A region is cut into as many equal buckets as it has blocks, and a
/// bucket knows the first block that starts in it or behind it. So a lookup is a search among a few regions, then
/// among the one or two blocks of a bucket.
#[derive(Debug)]
pub(crate) struct Index {
    /// Each block from its start up to its end, ascending.
    spans: Vec<Span>,
    /// The row of each block in what was given.
    rows: Vec<u32>,
    regions: Vec<Region>,
    /// For each bucket of each region, and once more for its end: the first block that does not start before it.
    buckets: Vec<u32>,
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
    shift: u32,
    first_bucket: usize,
}

impl Index {
    /// Sorts them. Their number must fit into 31 bits.
    pub(crate) fn new(blocks: &[LiveBlock]) -> Self {
        let mut order: Vec<(u64, u32)> =
            (0u32..).zip(blocks).map(|(row, block)| (block.address, row)).collect();
        order.sort_unstable();
        let spans =
            order.iter().map(|&(start, row)| Span { start, end: blocks[row as usize].end() }).collect();
        let rows = order.iter().map(|&(_, row)| row).collect();
        let mut index = Self { spans, rows, regions: Vec::new(), buckets: Vec::new() };
        let mut first = 0;
        let mut end = 0;
        for at in 0..index.len() {
            if at > first && index.start(at).saturating_sub(end) > REGION_GAP {
                index.add_region(first, at, end);
                first = at;
                end = 0;
            }
            end = end.max(index.end(at));
        }
        if first < index.len() {
            index.add_region(first, index.len(), end);
        }
        index
    }

    /// A region of the blocks `first..last`, up to the address `end`.
    fn add_region(&mut self, first: usize, last: usize, end: u64) {
        let start = self.start(first);
        let mut shift = SMALLEST_SHIFT;
        while ((end - start) >> shift) as usize > 2 * (last - first) {
            shift += 1;
        }
        let first_bucket = self.buckets.len();
        let mut at = first;
        for bucket in 0..=((end - start) >> shift) + 1 {
            let from = start.saturating_add(bucket.saturating_mul(1 << shift));
            while at < last && self.start(at) < from {
                at += 1;
            }
            self.buckets.push(at as u32);
        }
        self.regions.push(Region { start, end, shift, first_bucket });
    }

    /// From the first block's start up to the last region's end.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        match (self.regions.first(), self.regions.last()) {
            (Some(first), Some(last)) => (first.start, last.end),
            _ => (0, 0),
        }
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Where a block starts.
    pub(crate) fn start(&self, block: usize) -> u64 {
        self.spans[block].start
    }

    /// Where a block ends.
    pub(crate) fn end(&self, block: usize) -> u64 {
        self.spans[block].end
    }

    /// Its row in what was given.
    pub(crate) fn row(&self, block: usize) -> usize {
        self.rows[block] as usize
    }

    /// The block in which an address lies.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let region = match self.regions.as_slice() {
            [only] => only,
            regions => &regions[regions.partition_point(|region| region.start <= address).checked_sub(1)?],
        };
        if address < region.start || address >= region.end {
            return None;
        }
        let bucket = region.first_bucket + ((address - region.start) >> region.shift) as usize;
        let (from, to) = (self.buckets[bucket] as usize, self.buckets[bucket + 1] as usize);
        let not_after = from + self.spans[from..to].partition_point(|span| span.start <= address);
        let block = not_after.checked_sub(1)?;
        (address < self.spans[block].end).then_some(block)
    }

    /// The first block that starts at an address or behind it; their number if there is none.
    pub(crate) fn first_from(&self, address: u64) -> usize {
        self.spans.partition_point(|span| span.start < address)
    }

    /// Whether any block has a part in a range.
    pub(crate) fn any_in(&self, start: u64, end: u64) -> bool {
        let after = self.first_from(end);
        after > 0 && (self.start(after - 1) >= start || self.end(after - 1) > start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(address: u64, size: u64) -> LiveBlock {
        LiveBlock { address, size, site: 0 }
    }

    #[test]
    fn no_block_is_found_in_nothing() {
        assert_eq!(Index::new(&[]).find(0), None);
    }

    #[test]
    fn a_block_of_zero_bytes_is_found_at_its_start_only() {
        let index = Index::new(&[block(0x1000, 0)]);
        assert_eq!(index.find(0x1000), Some(0));
        assert_eq!(index.find(0x1001), None);
    }

    #[test]
    fn the_highest_addresses_do_not_overflow() {
        let index = Index::new(&[block(u64::MAX - 8, 64), block(0, 4)]);
        assert_eq!(index.find(u64::MAX - 1), Some(1));
        assert_eq!(index.find(3), Some(0));
    }

    proptest! {
        #[test]
        fn an_address_is_found_exactly_where_a_block_is(
            steps in prop::collection::vec((0u64..200, 1u64..5_000_000, any::<bool>()), 1..200),
            probes in prop::collection::vec((any::<prop::sample::Index>(), -70i64..70), 50),
        ) {
            let mut blocks = Vec::new();
            let mut at = 0x5555_0000_0000u64;
            for (size, gap, far) in steps {
                blocks.push(block(at, size));
                at += size.max(1) + if far { gap } else { gap % 64 };
            }
            blocks.reverse();
            let index = Index::new(&blocks);
            for (which, offset) in probes {
                let near = blocks[which.index(blocks.len())];
                let address = near.address.wrapping_add_signed(offset);
                let expected = blocks.iter().position(|b| b.address <= address && address < b.end());
                prop_assert_eq!(index.find(address).map(|found| index.row(found)), expected);
                prop_assert_eq!(index.any_in(address, address + 1), expected.is_some());
            }
        }
    }
}
