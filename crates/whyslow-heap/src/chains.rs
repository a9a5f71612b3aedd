//! How the blocks of one stack grew, by size: what a capacity would have spared them, and what it would have cost.

use whyslow_profile::GrowthBar;

use crate::weight::{Weight, Weights, add};

/// Where a block stands between growing and shrinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chain {
    /// It has never grown.
    None,
    /// It has grown, and was never made smaller since.
    Growing,
    /// It has grown, and then was made smaller: whatever comes now, no capacity at its start would have spared.
    Shrunk,
}

impl Chain {
    /// The same once the block has gone from one size to another.
    pub(crate) fn after(self, from: u64, to: u64) -> Self {
        match self {
            Self::None if to > from => Self::Growing,
            Self::Growing if to < from => Self::Shrunk,
            same => same,
        }
    }
}

/// Growth by size. The row is how many significant bits the size has.
#[derive(Debug, Default, Clone)]
pub(crate) struct Chains {
    bars: Vec<Bar>,
}

#[derive(Debug, Default, Clone)]
struct Bar {
    grown: u64,
    copied: u64,
    reached: Weight,
    largest: u64,
}

impl Chains {
    fn bar(&mut self, size: u64) -> &mut Bar {
        let row = (u64::BITS - size.leading_zeros()) as usize;
        if self.bars.len() <= row {
            self.bars.resize(row + 1, Bar::default());
        }
        &mut self.bars[row]
    }

    /// A block became so large.
    pub(crate) fn grew(&mut self, size: u64, blocks: u64, copied: u64) {
        let bar = self.bar(size);
        add(&mut bar.grown, blocks);
        add(&mut bar.copied, copied);
    }

    /// A block became no larger than that before it ended or was made smaller.
    pub(crate) fn reached(&mut self, size: u64, weight: Weight) {
        let bar = self.bar(size);
        bar.reached += weight;
        bar.largest = bar.largest.max(size);
    }

    /// Adds what other blocks did.
    pub(crate) fn merge(&mut self, others: &Self) {
        if self.bars.len() < others.bars.len() {
            self.bars.resize(others.bars.len(), Bar::default());
        }
        for (bar, other) in self.bars.iter_mut().zip(&others.bars) {
            add(&mut bar.grown, other.grown);
            add(&mut bar.copied, other.copied);
            bar.reached += other.reached;
            bar.largest = bar.largest.max(other.largest);
        }
    }

    /// The sum of the sizes that were reached.
    pub(crate) fn bytes_reached(&self) -> u64 {
        self.bars.iter().fold(0, |sum, bar| sum.wrapping_add(bar.reached.bytes))
    }

    /// The rows in which there is anything, in words of the profile, without their site.
    pub(crate) fn rows(&self, weights: &Weights) -> Vec<GrowthBar> {
        let row = |(bar, row): (u64, &Bar)| GrowthBar {
            site: 0,
            bar,
            grown: weights.blocks(row.grown),
            bytes_copied: row.copied,
            reached: weights.blocks(row.reached.blocks),
            reached_bytes: row.reached.bytes,
            largest: row.largest,
        };
        (0..).zip(&self.bars).filter(|(_, bar)| bar.grown > 0 || bar.reached.blocks > 0).map(row).collect()
    }
}
