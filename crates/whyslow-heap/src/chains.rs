//! How the blocks of one stack grew, by size: what an initial capacity would have saved, and what it would
//! have cost.

use whyslow_profile::GrowthBar;

use crate::weight::{Weight, Weights, add};

/// A block's history of growing and shrinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chain {
    /// It has never grown.
    None,
    /// It has grown, and has not shrunk since.
    Growing,
    /// It has grown and then shrunk: an initial capacity would not have saved later reallocations.
    Shrunk,
}

impl Chain {
    /// The state after a change of size.
    pub(crate) fn after(self, from: u64, to: u64) -> Self {
        match self {
            Self::None if to > from => Self::Growing,
            Self::Growing if to < from => Self::Shrunk,
            same => same,
        }
    }
}

/// Growth by size, with one bar per number of significant bits. Only bars from the smallest size to the
/// largest are stored.
#[derive(Debug, Default, Clone)]
pub(crate) struct Chains {
    /// The bar of the first row.
    first: usize,
    rows: Vec<Bar>,
}

#[derive(Debug, Default, Clone)]
struct Bar {
    grown: u64,
    copied: u64,
    reached: Weight,
    largest: u64,
}

impl Chains {
    fn bar_of(&mut self, size: u64) -> &mut Bar {
        self.bar((u64::BITS - size.leading_zeros()) as usize)
    }

    fn bar(&mut self, bar: usize) -> &mut Bar {
        if self.rows.is_empty() {
            self.first = bar;
        }
        if bar < self.first {
            self.rows.splice(0..0, std::iter::repeat_n(Bar::default(), self.first - bar));
            self.first = bar;
        }
        let row = bar - self.first;
        if self.rows.len() <= row {
            self.rows.reserve_exact(row + 1 - self.rows.len());
            self.rows.resize(row + 1, Bar::default());
        }
        &mut self.rows[row]
    }

    /// Whether no block has grown.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Counts a block that grew to this size.
    pub(crate) fn grew(&mut self, size: u64, blocks: u64, copied: u64) {
        let bar = self.bar_of(size);
        add(&mut bar.grown, blocks);
        add(&mut bar.copied, copied);
    }

    /// Counts a block that reached this maximum size before it was freed or shrunk.
    pub(crate) fn reached(&mut self, size: u64, weight: Weight) {
        let bar = self.bar_of(size);
        bar.reached += weight;
        bar.largest = bar.largest.max(size);
    }

    /// Adds the growth of other blocks.
    pub(crate) fn merge(&mut self, others: &Self) {
        for (number, other) in others.bars() {
            let bar = self.bar(number);
            add(&mut bar.grown, other.grown);
            add(&mut bar.copied, other.copied);
            bar.reached += other.reached;
            bar.largest = bar.largest.max(other.largest);
        }
    }

    /// The rows with their bars.
    fn bars(&self) -> impl Iterator<Item = (usize, &Bar)> {
        (self.first..).zip(&self.rows)
    }

    /// The sum of the maximum sizes.
    pub(crate) fn bytes_reached(&self) -> u64 {
        self.rows.iter().fold(0, |sum, bar| sum.wrapping_add(bar.reached.bytes))
    }

    /// The rows that are not empty, as profile rows without a site.
    pub(crate) fn rows(&self, weights: &Weights) -> Vec<GrowthBar> {
        let row = |(bar, row): (usize, &Bar)| GrowthBar {
            site: 0,
            bar: bar as u64,
            grown: weights.blocks(row.grown),
            bytes_copied: row.copied,
            reached: weights.blocks(row.reached.blocks),
            reached_bytes: row.reached.bytes,
            largest: row.largest,
        };
        self.bars().filter(|(_, bar)| bar.grown > 0 || bar.reached.blocks > 0).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bars_between_the_smallest_and_the_largest_size_take_memory() {
        let (mut chains, mut others) = (Chains::default(), Chains::default());
        chains.grew(1 << 20, 1, 7);
        assert_eq!(chains.rows.len(), 1);
        chains.reached(1 << 18, Weight { blocks: 1, bytes: 1 << 18 });
        others.grew(1 << 22, 2, 9);
        chains.merge(&others);
        assert_eq!((chains.first, chains.rows.len()), (19, 5));
        let rows = chains.rows(&Weights::new(None));
        let numbers: Vec<_> =
            rows.iter().map(|row| (row.bar, row.grown, row.bytes_copied, row.reached)).collect();
        assert_eq!(numbers, [(19, 0, 0, 1), (21, 1, 7, 0), (23, 2, 9, 0)]);
    }
}
