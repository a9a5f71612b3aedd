//! How much chance is in the numbers of one profile.
//!
//! ```text
//! counted                    grain = 0
//! samples of weight v        grain = Σ v² / Σ v                the weight of a sample, as the value sees it
//! heap, every R bytes        grain = s / (e^(s/R) - 1) bytes   for blocks of s bytes: about R when they are small,
//!                                  = 1 / (e^(s/R) - 1) blocks  and nothing when they are all recorded
//! ```

use whyslow_profile::{HistogramOf, Origin, Profile, StackId, Unit};

use super::statistics::Estimate;
use crate::counting::sample_counts;
use crate::selection::{Selection, Weights};

/// Where chance is.
#[derive(Debug)]
pub(super) enum Chance {
    /// Nowhere: everything was counted.
    None,
    /// In which samples came.
    Samples {
        /// What one of them weighs.
        grain: f64,
    },
    /// In which blocks of memory were recorded.
    Blocks(Blocks),
}

#[derive(Debug)]
pub(super) struct Blocks {
    /// Bytes between samples.
    every: f64,
    /// About how large the blocks of a stack are, at least; the row is the stack's.
    sizes: Vec<Sizes>,
}

/// The grain of a stack's blocks, in blocks and in bytes.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    blocks: f64,
    bytes: f64,
}

impl Chance {
    pub(super) fn of(profile: &Profile, selection: &Selection) -> Self {
        match profile.metrics.get(selection.metric).map(|metric| metric.origin).unwrap_or_default() {
            Origin::Unknown | Origin::Sampled(_) => Self::of_samples(profile, selection),
            Origin::Estimated => Self::of_heap(profile),
            Origin::Counted | Origin::Simulated => Self::None,
        }
    }

    fn of_samples(profile: &Profile, selection: &Selection) -> Self {
        if sample_counts(profile).is_some() {
            // Rows stand for many samples each.
            let weights = selection.weigh(profile);
            let count = weights.total_count.max(1) as f64;
            return Self::Samples { grain: weights.total_value as f64 / count };
        }
        let (mut sum, mut squares) = (0.0, 0.0);
        selection.each_selected(profile, |_, stack, value| {
            if !profile.is_not_sampled(stack) {
                sum += value as f64;
                squares += value as f64 * value as f64;
            }
        });
        Self::Samples { grain: if sum > 0.0 { squares / sum } else { 0.0 } }
    }

    /// That of every number about the heap.
    pub(super) fn of_heap(profile: &Profile) -> Self {
        match profile.meta.heap.as_ref().and_then(|facts| facts.sample_bytes).filter(|every| *every > 0) {
            Some(every) => Self::Blocks(Blocks::new(profile, every as f64)),
            None => Self::None,
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// What one sample on this stack stands for.
    pub(super) fn grain(&self, stack: StackId, unit: Unit) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Samples { grain } => *grain,
            Self::Blocks(blocks) => {
                blocks.sizes.get(stack.index()).map_or(blocks.every, |sizes| match unit {
                    Unit::Bytes => sizes.bytes,
                    Unit::Count | Unit::Nanoseconds => sizes.blocks,
                })
            }
        }
    }

    /// What one sample would have stood for where this side has none and the other side's grain is known. Where the other
    /// side counted, blocks may be of any size.
    pub(super) fn grain_of_nothing(&self, other: &Self, other_grain: f64) -> f64 {
        match (self, other) {
            (Self::None, _) => 0.0,
            (Self::Samples { grain }, _) if *grain > 0.0 => *grain,
            // Where there is no sample at all, one is taken to weigh what it does on the other side.
            (Self::Samples { .. }, _) => other_grain,
            (Self::Blocks(own), Self::Blocks(other)) => other_grain * own.every / other.every,
            (Self::Blocks(own), _) => own.every,
        }
    }

    /// All weights together.
    pub(super) fn whole(&self, weights: &Weights, unit: Unit) -> Estimate {
        let stacks = weights.value.iter().enumerate().filter(|(_, value)| **value > 0);
        self.sum(stacks.map(|(stack, value)| (StackId::from(stack), *value)), unit)
    }

    /// Values of several stacks together: their grains, each as often as it is there.
    pub(super) fn sum(&self, values: impl Iterator<Item = (StackId, u64)>, unit: Unit) -> Estimate {
        let (mut value, mut variance) = (0u64, 0.0);
        for (stack, more) in values {
            value = value.saturating_add(more);
            variance += more as f64 * self.grain(stack, unit);
        }
        Estimate { value, grain: if value > 0 { variance / value as f64 } else { 0.0 } }
    }
}

impl Blocks {
    fn new(profile: &Profile, every: f64) -> Self {
        let mut bars: Vec<Vec<(f64, f64)>> = vec![Vec::new(); profile.heap.sites.len()];
        for row in profile.heap.histograms.iter().filter(|row| row.of == HistogramOf::Size) {
            if let Some(bars) = bars.get_mut(row.site as usize) {
                // The smallest size of the bar: smaller blocks have more chance in them.
                let size = 2f64.powi(i32::from(row.bar.max(1)) - 1);
                bars.push((size, row.blocks as f64));
            }
        }
        // A stack of which nothing is known may have blocks of one byte.
        let mut sizes = vec![grains(every, &[(1.0, 1.0)]); profile.stacks.len()];
        for (site, mut bars) in profile.heap.sites.iter().zip(bars) {
            if bars.is_empty() && site.counts.allocations > 0 {
                let mean = site.counts.bytes_allocated as f64 / site.counts.allocations as f64;
                bars.push((mean.max(1.0), 1.0));
            }
            if !bars.is_empty() {
                sizes[site.stack.index()] = grains(every, &bars);
            }
        }
        Self { every, sizes }
    }
}

/// The grain of blocks of these sizes, each with how many there are.
fn grains(every: f64, bars: &[(f64, f64)]) -> Sizes {
    let (mut blocks, mut bytes, mut block_variance, mut byte_variance) = (0.0, 0.0, 0.0, 0.0);
    for &(size, count) in bars {
        let grain = 1.0 / (size / every).exp_m1();
        blocks += count;
        bytes += count * size;
        block_variance += count * grain;
        byte_variance += count * size * (size * grain);
    }
    Sizes { blocks: block_variance / blocks, bytes: byte_variance / bytes }
}

#[cfg(test)]
mod tests {
    use whyslow_profile::HistogramBar;

    use super::*;
    use crate::testing;

    fn sampled(every: u64) -> Profile {
        let mut profile = testing::heap_profile(
            "main;small : allocations=1000 bytes_allocated=16000
             main;large : allocations=2 bytes_allocated=2000000000
             main;mixed : allocations=40 bytes_allocated=4000",
        );
        testing::sampled_heap(&mut profile, every);
        let bar = |bar, blocks| HistogramBar { site: 2, of: HistogramOf::Size, bar, blocks };
        profile.heap.histograms = vec![bar(6, 20), bar(8, 20)];
        profile
    }

    #[test]
    fn small_blocks_have_the_grain_of_the_rate_and_large_ones_none() {
        let profile = sampled(1 << 19);
        let chance = Chance::of_heap(&profile);
        let grain = |site: usize, unit| chance.grain(profile.heap.sites[site].stack, unit);
        assert!((grain(0, Unit::Bytes) / 524_288.0 - 1.0).abs() < 1e-4);
        assert!((grain(0, Unit::Count) / 32_768.0 - 1.0).abs() < 1e-4);
        assert!(grain(1, Unit::Bytes) < 1e-9 && grain(1, Unit::Count) < 1e-9);
        let mixed = 0.5 * (524_288.0 / 32.0 + 524_288.0 / 128.0);
        assert!((grain(2, Unit::Count) / mixed - 1.0).abs() < 1e-3);
    }

    #[test]
    fn what_was_counted_has_no_chance() {
        let mut profile = sampled(1 << 19);
        profile.meta.heap.as_mut().unwrap().sample_bytes = None;
        assert!(Chance::of(&profile, &Selection::default()).is_none());
    }

    #[test]
    fn a_sample_weighs_what_it_weighs() {
        let profile = testing::profile("main;a 10");
        let chance = Chance::of(&profile, &Selection::default());
        assert_eq!(chance.grain(StackId(0), Unit::Nanoseconds), testing::SAMPLE_NS as f64);
        let whole = chance.whole(&Selection::default().weigh(&profile), Unit::Nanoseconds);
        assert_eq!(whole.value, 10 * testing::SAMPLE_NS);
        let rows = Chance::of(&testing::profile(""), &Selection::default());
        assert_eq!(rows.grain(StackId(0), Unit::Nanoseconds), 0.0);
    }
}
