//! Decides whether reserving capacity would save a line's blocks from growing: what it would save, and what
//! it would cost.
//!
//! ```text
//! capacity   the largest size reached by the smallest 90 % of the blocks (in bars of powers of two)
//! spared     reallocations to sizes up to the capacity, and the bytes they copied
//! typical    the median block size
//! unused     capacity - size, over the blocks that fit into it
//!
//! advised    spared is worth it, capacity ≤ 4 × typical, and unused ≤ the bytes that those blocks use
//! no fit     otherwise, if sparing every reallocation were worth it: sizes differ too much
//! worth it   1,000 reallocations that are 1 % of all allocations,
//!            or 512 KiB of copying that are 1 % of all bytes allocated: about 50 µs either way
//! ```

use whyslow_profile::{GrowthBar, HeapCounts};

const BARS: usize = 65;
const FEWEST_SPARED: u64 = 1_000;
const FEWEST_COPIED: u64 = 512 << 10;

/// Advice on a capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityAdvice {
    /// None: there is little to gain, or how blocks grew is unknown.
    Silent,
    /// This capacity helps.
    Reserve(Capacity),
    /// No capacity fits: final sizes differ too much.
    NoFit {
        /// Half of the blocks end at this size or below.
        half_within: u64,
    },
}

/// A capacity and its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Its size.
    pub bytes: u64,
    /// Reallocations that it would save.
    pub spared_reallocations: u64,
    /// Bytes that would not be copied.
    pub spared_bytes: u64,
    /// Bytes of it that a median block would not use.
    pub typical_unused: u64,
}

impl CapacityAdvice {
    /// The advised capacity.
    pub fn capacity(&self) -> Option<&Capacity> {
        match self {
            Self::Reserve(capacity) => Some(capacity),
            Self::Silent | Self::NoFit { .. } => None,
        }
    }

    /// Judges how the blocks of a line grew, in a program with these numbers.
    pub(super) fn of<'a>(bars: impl Iterator<Item = &'a GrowthBar>, program: &HeapCounts) -> Self {
        let sizes = Sizes::of(bars);
        let blocks = sizes.reached();
        let (Some(most), Some(middle)) =
            (sizes.quantile(blocks - blocks / 10), sizes.quantile(blocks.div_ceil(2)))
        else {
            return Self::Silent;
        };
        if !is_worth(sizes.spared(BARS - 1), program) {
            return Self::Silent;
        }
        let typical = sizes.0[middle].reached_bytes / sizes.0[middle].reached.max(1);
        let bytes = sizes.0[most].largest;
        let (spared_reallocations, spared_bytes) = sizes.spared(most);
        let (within, used) = sizes.within(most);
        let unused = (u128::from(bytes) * u128::from(within)).saturating_sub(used.into());
        let fits = bytes / 4 <= typical && unused <= used.into();
        if fits && is_worth((spared_reallocations, spared_bytes), program) {
            let typical_unused = bytes.saturating_sub(typical);
            Self::Reserve(Capacity { bytes, spared_reallocations, spared_bytes, typical_unused })
        } else {
            Self::NoFit { half_within: sizes.0[middle].largest }
        }
    }
}

fn is_worth((reallocations, copied): (u64, u64), program: &HeapCounts) -> bool {
    (reallocations >= FEWEST_SPARED && reallocations >= program.allocations / 100)
        || (copied >= FEWEST_COPIED && copied >= program.bytes_allocated / 100)
}

/// The merged bars of a line's stacks.
struct Sizes(Vec<GrowthBar>);

impl Sizes {
    fn of<'a>(bars: impl Iterator<Item = &'a GrowthBar>) -> Self {
        let mut sums = vec![GrowthBar::default(); BARS];
        for bar in bars {
            let Some(sum) = sums.get_mut(bar.bar as usize) else { continue };
            for (sum, more) in [
                (&mut sum.grown, bar.grown),
                (&mut sum.bytes_copied, bar.bytes_copied),
                (&mut sum.reached, bar.reached),
                (&mut sum.reached_bytes, bar.reached_bytes),
            ] {
                *sum = sum.saturating_add(more);
            }
            sum.largest = sum.largest.max(bar.largest);
        }
        Self(sums)
    }

    fn reached(&self) -> u64 {
        self.0.iter().fold(0, |sum, bar| sum.saturating_add(bar.reached))
    }

    /// The bar of the block with this number, from 1 on, ordered by size.
    fn quantile(&self, number: u64) -> Option<usize> {
        let mut before = 0u64;
        self.0.iter().position(|bar| {
            before = before.saturating_add(bar.reached);
            number > 0 && before >= number
        })
    }

    /// Reallocations to sizes up to a bar, and the bytes they copied.
    fn spared(&self, bar: usize) -> (u64, u64) {
        self.0[..=bar].iter().fold((0, 0), |(grown, copied), bar| {
            (grown.saturating_add(bar.grown), copied.saturating_add(bar.bytes_copied))
        })
    }

    /// Blocks that fit into a bar, and their bytes.
    fn within(&self, bar: usize) -> (u64, u64) {
        self.0[..=bar].iter().fold((0, 0), |(blocks, bytes), bar| {
            (blocks.saturating_add(bar.reached), bytes.saturating_add(bar.reached_bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bars of blocks that double from 8 bytes up to a size, given as (count, size).
    fn doubling(blocks: &[(u64, u64)]) -> Vec<GrowthBar> {
        let mut bars = Vec::new();
        for &(blocks, reached) in blocks {
            let mut size = 8;
            while size < reached {
                size *= 2;
                bars.push(GrowthBar {
                    bar: u64::from(u64::BITS - size.leading_zeros()),
                    grown: blocks,
                    bytes_copied: blocks * size / 2,
                    ..GrowthBar::default()
                });
            }
            let last = bars.last_mut().expect("it grows");
            (last.reached, last.reached_bytes, last.largest) = (blocks, blocks * size, size);
        }
        bars
    }

    fn advice(blocks: &[(u64, u64)]) -> CapacityAdvice {
        CapacityAdvice::of(doubling(blocks).iter(), &HeapCounts::default())
    }

    #[test]
    fn savings_and_costs_are_exact() {
        let expected = Capacity {
            bytes: 1024,
            spared_reallocations: 7 * 1000,
            spared_bytes: 1000 * (8 + 16 + 32 + 64 + 128 + 256 + 512),
            typical_unused: 0,
        };
        assert_eq!(advice(&[(1000, 1024)]), CapacityAdvice::Reserve(expected));
        let CapacityAdvice::Reserve(capacity) = advice(&[(600, 512), (400, 1024)]) else { panic!() };
        assert_eq!((capacity.bytes, capacity.typical_unused), (1024, 512));
        assert_eq!(capacity.spared_reallocations, 600 * 6 + 400 * 7);
    }

    #[test]
    fn one_large_block_among_small_ones_does_not_set_the_capacity() {
        assert_eq!(advice(&[(99, 128), (1, 64 << 20)]), CapacityAdvice::NoFit { half_within: 128 });
        assert_eq!(advice(&[(1, 128), (1, 64 << 20)]), CapacityAdvice::NoFit { half_within: 128 });
        let CapacityAdvice::Reserve(capacity) = advice(&[(99_000, 128), (1, 64 << 20)]) else { panic!() };
        assert_eq!((capacity.bytes, capacity.typical_unused), (128, 0));
        assert_eq!(capacity.spared_reallocations, 99_001 * 4);
    }

    #[test]
    fn one_block_alone_gets_its_own_size() {
        let CapacityAdvice::Reserve(capacity) = advice(&[(1, 64 << 20)]) else { panic!() };
        assert_eq!((capacity.bytes, capacity.typical_unused), (64 << 20, 0));
    }

    #[test]
    fn small_savings_give_no_advice() {
        assert_eq!(advice(&[]), CapacityAdvice::Silent);
        assert_eq!(advice(&[(100, 1024)]), CapacityAdvice::Silent);
        let bars = doubling(&[(1000, 1024)]);
        let program =
            HeapCounts { allocations: 1_000_000, bytes_allocated: 1 << 40, ..HeapCounts::default() };
        assert_eq!(CapacityAdvice::of(bars.iter(), &program), CapacityAdvice::Silent);
    }

    #[test]
    fn widely_different_sizes_have_no_capacity() {
        let spread = [(1000, 16), (1000, 256), (1000, 4096), (1000, 65_536)];
        assert_eq!(advice(&spread), CapacityAdvice::NoFit { half_within: 256 });
    }

    #[test]
    fn accepts_any_numbers() {
        let hostile = GrowthBar::from_numbers([u64::MAX; GrowthBar::COLUMNS.len()]);
        let bars = [GrowthBar { bar: 64, ..hostile }, GrowthBar { bar: 3, ..hostile }, hostile];
        CapacityAdvice::of(bars.iter(), &HeapCounts::default());
        let empty = GrowthBar { reached: 1, bar: 3, ..GrowthBar::default() };
        CapacityAdvice::of([empty].iter(), &HeapCounts::default());
    }
}
