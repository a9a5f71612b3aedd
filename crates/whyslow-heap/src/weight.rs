//! The weight of a recorded block.
//!
//! ```text
//! everything recorded:      1 block,    size bytes
//! sampled every R bytes:    1/p blocks, size/p bytes,    p = 1 - e^(-size/R): the probability that it was recorded
//! ```
//! Blocks are counted in whole numbers of [`Weights::unit`] parts, so that added weights can be subtracted
//! again exactly.

use std::ops::{AddAssign, SubAssign};

/// Blocks (in units) and bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    pub blocks: u64,
    pub bytes: u64,
}

// A hostile program can report more bytes than a number holds: sums wrap around instead of stopping the
// collector.
impl AddAssign for Weight {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.blocks = self.blocks.wrapping_add(more.blocks);
        self.bytes = self.bytes.wrapping_add(more.bytes);
    }
}

impl SubAssign for Weight {
    #[inline]
    fn sub_assign(&mut self, less: Self) {
        self.blocks = self.blocks.wrapping_sub(less.blocks);
        self.bytes = self.bytes.wrapping_sub(less.bytes);
    }
}

/// Adds to a sum that may wrap around.
#[inline]
pub(crate) fn add(sum: &mut u64, more: u64) {
    *sum = sum.wrapping_add(more);
}

/// Computes the weights of blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    /// Bytes between samples.
    every: Option<f64>,
}

/// Parts per block, when block counts are estimated.
const PARTS: u64 = 1 << 10;

impl Weights {
    pub(crate) fn new(sample_bytes: Option<u64>) -> Self {
        Self { every: sample_bytes.filter(|&every| every > 0).map(|every| every as f64) }
    }

    /// Whether only samples are recorded.
    pub(crate) fn sampled(&self) -> bool {
        self.every.is_some()
    }

    /// The probability that a block of this size was recorded. An empty block counts as one byte.
    fn probability(every: f64, size: u64) -> f64 {
        -(-(size.max(1) as f64) / every).exp_m1()
    }

    /// The weight of a block of this size.
    #[inline]
    pub(crate) fn of(&self, size: u64) -> Weight {
        match self.every {
            None => Weight { blocks: 1, bytes: size },
            Some(every) => {
                let p = Self::probability(every, size);
                Weight { blocks: (PARTS as f64 / p).round() as u64, bytes: (size as f64 / p).round() as u64 }
            }
        }
    }

    /// What a block of this size adds to the variance of the estimated bytes.
    pub(crate) fn variance(&self, size: u64) -> f64 {
        self.every.map_or(0.0, |every| {
            let p = Self::probability(every, size);
            (1.0 - p) * (size as f64 / p).powi(2)
        })
    }

    /// Number of parts in which one block is counted.
    pub(crate) fn unit(&self) -> u64 {
        if self.every.is_some() { PARTS } else { 1 }
    }

    /// Converts units to whole blocks.
    pub(crate) fn blocks(&self, units: u64) -> u64 {
        match self.every {
            None => units,
            Some(_) => units.saturating_add(PARTS / 2) / PARTS,
        }
    }

    /// Scales a number of bytes of a block like the whole block.
    pub(crate) fn part(&self, bytes: u64, size: u64) -> u64 {
        if self.every.is_none() || size == 0 {
            return bytes;
        }
        (u128::from(self.of(size).bytes) * u128::from(bytes) / u128::from(size)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_sampling_a_block_counts_as_itself() {
        let weights = Weights::new(None);
        assert_eq!(weights.of(24), Weight { blocks: 1, bytes: 24 });
        assert_eq!(weights.blocks(7), 7);
        assert_eq!(weights.part(3, 24), 3);
    }

    #[test]
    fn a_sampled_block_stands_for_unsampled_ones() {
        let weights = Weights::new(Some(1 << 19));
        let small = weights.of(16);
        assert_eq!(weights.blocks(small.blocks), 32769);
        assert_eq!(small.bytes, 524_296);
        let large = weights.of(1 << 30);
        assert_eq!((weights.blocks(large.blocks), large.bytes), (1, 1 << 30));
        assert!(weights.variance(1 << 30) < 1.0 && weights.variance(16) > 1e10);
        let empty = weights.of(0);
        assert!(empty.blocks > 0 && empty.bytes == 0);
    }
}
