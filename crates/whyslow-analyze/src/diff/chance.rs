//! The sampling noise in the numbers of one profile.
//!
//! ```text
//! counted                    grain = 0
//! samples of weight v        grain = Σ v² / Σ v                the value-weighted mean weight of a sample
//! heap                       see [`Grains`]
//! ```

use whyslow_profile::{Origin, Profile, StackId, Unit};

use super::statistics::Estimate;
use crate::counting::sample_counts;
use crate::heap::Grains;
use crate::selection::{Selection, Weights};

/// The source of the noise.
#[derive(Debug)]
pub(super) enum Chance {
    /// No noise: everything was counted.
    None,
    /// Which samples were taken.
    Samples {
        /// The weight of one sample.
        grain: f64,
    },
    /// Which memory blocks were recorded.
    Blocks(Grains),
}

impl Chance {
    pub(super) fn of(profile: &Profile, selection: &Selection) -> Self {
        match profile.metrics.get(selection.metric.index()).map(|metric| metric.origin).unwrap_or_default() {
            Origin::Unknown | Origin::Sampled(_) => Self::of_samples(profile, selection),
            Origin::Estimated => Self::of_heap(profile),
            Origin::Counted | Origin::Simulated => Self::None,
        }
    }

    fn of_samples(profile: &Profile, selection: &Selection) -> Self {
        if sample_counts(profile).is_some() {
            // Each row stands for many samples.
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

    /// The noise of all heap numbers.
    pub(super) fn of_heap(profile: &Profile) -> Self {
        Grains::of(profile).map_or(Self::None, Self::Blocks)
    }

    /// The same for a profile with other stack numbers.
    pub(super) fn placed(self, places: &[StackId]) -> Self {
        match self {
            Self::Blocks(grains) => Self::Blocks(grains.placed(places)),
            other => other,
        }
    }

    /// The same for means of this many runs.
    pub(super) fn per_run(self, runs: u64) -> Self {
        match self {
            Self::Samples { grain } => Self::Samples { grain: grain / runs as f64 },
            other => other,
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
            Self::Blocks(grains) => grains.grain(stack, unit),
        }
    }

    /// What one sample would stand for where this side has none and the other side's grain is known. If the
    /// other side was counted, blocks may be of any size.
    pub(super) fn grain_of_nothing(&self, other: &Self, other_grain: f64) -> f64 {
        match (self, other) {
            (Self::None, _) => 0.0,
            (Self::Samples { grain }, _) if *grain > 0.0 => *grain,
            // Without any sample, one is assumed to weigh what it does on the other side.
            (Self::Samples { .. }, _) => other_grain,
            (Self::Blocks(own), Self::Blocks(other)) => other_grain * own.every() / other.every(),
            (Self::Blocks(own), _) => own.every(),
        }
    }

    /// All weights together.
    pub(super) fn whole(&self, weights: &Weights, unit: Unit) -> Estimate {
        let stacks = weights.value.iter().enumerate().filter(|(_, value)| **value > 0);
        self.sum(stacks.map(|(stack, value)| (StackId::from(stack), *value)), unit)
    }

    /// The sum of values of several stacks, with their grains weighted by value.
    pub(super) fn sum(&self, values: impl Iterator<Item = (StackId, u64)>, unit: Unit) -> Estimate {
        let (mut value, mut variance) = (0u64, 0.0);
        for (stack, more) in values {
            value = value.saturating_add(more);
            variance += more as f64 * self.grain(stack, unit);
        }
        Estimate { value, grain: if value > 0 { variance / value as f64 } else { 0.0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn counted_numbers_have_no_noise() {
        let mut profile = testing::heap_profile("main;small : allocations=1000 bytes_allocated=16000");
        assert!(Chance::of(&profile, &Selection::default()).is_none());
        testing::sampled_heap(&mut profile, 1 << 19);
        assert!(!Chance::of(&profile, &Selection::default()).is_none());
        profile.meta.heap.as_mut().unwrap().sample_bytes = None;
        assert!(Chance::of(&profile, &Selection::default()).is_none());
    }

    #[test]
    fn grain_is_the_weight_of_a_sample() {
        let profile = testing::profile("main;a 10");
        let chance = Chance::of(&profile, &Selection::default());
        assert_eq!(chance.grain(StackId(0), Unit::Nanoseconds), testing::SAMPLE_NS as f64);
        let whole = chance.whole(&Selection::default().weigh(&profile), Unit::Nanoseconds);
        assert_eq!(whole.value, 10 * testing::SAMPLE_NS);
        let rows = Chance::of(&testing::profile(""), &Selection::default());
        assert_eq!(rows.grain(StackId(0), Unit::Nanoseconds), 0.0);
    }
}
