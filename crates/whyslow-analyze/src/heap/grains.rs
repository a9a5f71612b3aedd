//! The sampling noise in the numbers of a sampled heap.
//!
//! ```text
//! A block of s bytes is recorded with probability     p = 1 - e^(-s/R)      R: bytes between samples on average
//! and then counted as                                 1/p blocks, s/p bytes
//! which has the variance, per recorded block          (1-p)/p²,  s² (1-p)/p²
//! So an estimated number has the variance             number × grain
//! with the grain                                      (1-p)/p   = 1 / (e^(s/R) - 1) blocks
//!                                                     s (1-p)/p = s / (e^(s/R) - 1) bytes
//! ```
//! The grain is what one sample more or less would change: about R bytes for small blocks, 0 for blocks that
//! are always recorded. The histogram of a stack gives the sizes of its blocks. All of them are placed
//! equally far above the lower edge of their bar, so that they add up to the stack's bytes.
//!
//! Blocks that were not recorded may be smaller than those of their stack that were: [`Grains::largest`] is the grain of
//! the smallest blocks that are plausible in this program.

use rustc_hash::FxHashMap;
use whyslow_profile::{HistogramOf, Profile, StackId, Unit};

/// The grains of all allocating stacks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grains {
    every: f64,
    of_stack: FxHashMap<StackId, Grain>,
    largest: Grain,
}

/// A program is assumed to have blocks as small as this, also if none was recorded.
const SMALL: f64 = 16.0;

/// In blocks and in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Grain {
    blocks: f64,
    bytes: f64,
}

impl Grains {
    /// The grains of a sampled heap; `None` if every block was counted.
    pub(crate) fn of(profile: &Profile) -> Option<Self> {
        let every = profile.meta.heap.as_ref()?.sample_bytes.filter(|every| *every > 0)? as f64;
        let mut bars: Vec<Vec<(f64, f64)>> = vec![Vec::new(); profile.heap.sites.len()];
        for row in profile.heap.histograms.iter().filter(|row| row.of == HistogramOf::Size) {
            if let Some(bars) = bars.get_mut(row.site as usize) {
                bars.push((2f64.powi(i32::from(row.bar.max(1)) - 1), row.blocks as f64));
            }
        }
        let seen = bars.iter().flatten().filter(|(_, blocks)| *blocks > 0.0);
        let smallest = seen.map(|(edge, _)| *edge).fold(SMALL, f64::min);
        let mut of_stack = FxHashMap::default();
        for (site, mut bars) in profile.heap.sites.iter().zip(bars) {
            let (blocks, bytes) = (site.counts.allocations as f64, site.counts.bytes_allocated as f64);
            if bars.is_empty() && blocks > 0.0 {
                bars.push(((bytes / blocks).max(1.0), 1.0));
            } else {
                let least: f64 = bars.iter().map(|(edge, blocks)| edge * blocks).sum();
                let above = (bytes / least).clamp(1.0, 2.0);
                bars.iter_mut().for_each(|(edge, _)| *edge *= above);
            }
            if !bars.is_empty() {
                of_stack.insert(site.stack, Grain::of(every, &bars));
            }
        }
        Some(Self { every, of_stack, largest: Grain::of(every, &[(smallest, 1.0)]) })
    }

    /// The same for a profile with other stack numbers.
    pub(crate) fn placed(self, places: &[StackId]) -> Self {
        let of_stack = self.of_stack.into_iter().map(|(stack, grain)| (places[stack.index()], grain));
        Self { of_stack: of_stack.collect(), ..self }
    }

    /// Bytes between samples on average.
    pub(crate) fn every(&self) -> f64 {
        self.every
    }

    /// What one sample on this stack stands for. An unknown stack may have blocks of one byte.
    pub(crate) fn grain(&self, stack: StackId, unit: Unit) -> f64 {
        let grain = self.of_stack.get(&stack).copied();
        grain.unwrap_or_else(|| Grain::of(self.every, &[(1.0, 1.0)])).in_unit(unit)
    }

    /// What one sample of the program's smallest blocks stands for.
    pub(crate) fn largest(&self, unit: Unit) -> f64 {
        self.largest.in_unit(unit)
    }
}

impl Grain {
    fn in_unit(self, unit: Unit) -> f64 {
        match unit {
            Unit::Bytes => self.bytes,
            Unit::Count | Unit::Nanoseconds => self.blocks,
        }
    }

    /// The grain of blocks of these sizes, given as (size, count).
    fn of(every: f64, sizes: &[(f64, f64)]) -> Self {
        let (mut blocks, mut bytes, mut block_variance, mut byte_variance) = (0.0, 0.0, 0.0, 0.0);
        for &(size, count) in sizes {
            let grain = 1.0 / (size / every).exp_m1();
            blocks += count;
            bytes += count * size;
            block_variance += count * grain;
            byte_variance += count * size * (size * grain);
        }
        let per = |variance: f64, whole: f64| if whole > 0.0 { variance / whole } else { 0.0 };
        Self { blocks: per(block_variance, blocks), bytes: per(byte_variance, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use whyslow_profile::HistogramBar;

    use super::*;
    use crate::testing;

    #[test]
    fn small_blocks_have_the_sampling_distance_as_grain_and_large_ones_none() {
        let mut profile = testing::heap_profile(
            "main;small : allocations=1000 bytes_allocated=16000
             main;large : allocations=2 bytes_allocated=2000000000
             main;mixed : allocations=40 bytes_allocated=4000",
        );
        profile.meta.heap.as_mut().unwrap().sample_bytes = Some(1 << 19);
        let bar = |bar, blocks| HistogramBar { site: 2, of: HistogramOf::Size, bar, blocks };
        profile.heap.histograms = vec![bar(6, 20), bar(8, 20)];
        let grains = Grains::of(&profile).unwrap();
        let grain = |site: usize, unit| grains.grain(profile.heap.sites[site].stack, unit);
        assert!((grain(0, Unit::Bytes) / 524_288.0 - 1.0).abs() < 1e-4);
        assert!((grain(0, Unit::Count) / 32_768.0 - 1.0).abs() < 1e-4);
        assert!(grain(1, Unit::Bytes) < 1e-9 && grain(1, Unit::Count) < 1e-9);
        // 40 and 160 bytes add up to the 4,000.
        let mixed = 0.5 * (524_288.0 / 40.0 + 524_288.0 / 160.0);
        assert!((grain(2, Unit::Count) / mixed - 1.0).abs() < 1e-3);
        assert!(grains.grain(StackId(u32::MAX), Unit::Count) > 500_000.0);
    }
}
