//! Histograms: numbers of blocks by the significant bits of a value.

use crate::sys;
use crate::weight::{self, Weights};

/// Number of bars; the last one holds all larger values.
const BARS: usize = 48;

/// Counts blocks by the significant bits of a value. A count is one byte, so that a site takes few cache
/// lines; larger counts go to a separate table.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    small: [u8; BARS],
    large: Option<Box<Large>>,
}

/// The counts from the first bar that needs more than a byte to the last.
#[derive(Debug, Default, Clone)]
struct Large {
    first: usize,
    counts: Vec<u64>,
}

impl Default for Bars {
    fn default() -> Self {
        Self { small: [0; BARS], large: None }
    }
}

/// The number of significant bits of a value.
fn bar(value: u64) -> usize {
    ((u64::BITS - value.leading_zeros()) as usize).min(BARS - 1)
}

impl Bars {
    /// Adds blocks with this value.
    #[inline]
    pub(crate) fn add(&mut self, value: u64, blocks: u64) {
        self.add_to(bar(value), blocks);
    }

    #[inline]
    fn add_to(&mut self, bar: usize, blocks: u64) {
        match u8::try_from(blocks).ok().and_then(|blocks| self.small[bar].checked_add(blocks)) {
            Some(sum) => self.small[bar] = sum,
            None => self.add_large(bar, blocks),
        }
    }

    /// Prefetches the memory that [`Self::add`] changes.
    #[inline]
    pub(crate) fn expect(&self, value: u64) {
        sys::prefetch(&self.small[bar(value)]);
    }

    /// Moves the small counts too, so that this is rarely needed.
    #[cold]
    fn add_large(&mut self, bar: usize, blocks: u64) {
        let Large { first, counts } = &mut **self.large.get_or_insert_default();
        if counts.is_empty() {
            *first = bar;
        }
        if bar < *first {
            counts.splice(0..0, std::iter::repeat_n(0, *first - bar));
            *first = bar;
        }
        if counts.len() <= bar - *first {
            counts.resize(bar - *first + 1, 0);
        }
        let count = &mut counts[bar - *first];
        weight::add(count, u64::from(std::mem::take(&mut self.small[bar])));
        weight::add(count, blocks);
    }

    /// The bars that are not empty, and their numbers of blocks.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let large = |bar: usize| {
            let Large { first, counts } = self.large.as_deref()?;
            counts.get(bar.checked_sub(*first)?).copied()
        };
        let count = move |bar: usize| large(bar).unwrap_or(0).wrapping_add(self.small[bar].into());
        (0..BARS).map(move |bar| (bar, count(bar))).filter(|&(_, blocks)| blocks > 0)
    }
}

/// Numbers of blocks by the significant bits of a value, after all counting.
#[derive(Debug, Default, Clone)]
pub struct Histogram(Bars);

impl Histogram {
    /// Converts bars, which hold units of blocks during counting.
    pub(crate) fn new(bars: Bars, weights: &Weights) -> Self {
        if !weights.sampled() {
            return Self(bars);
        }
        let mut blocks = Bars::default();
        for (bar, units) in bars.counts() {
            blocks.add_to(bar, weights.blocks(units));
        }
        Self(blocks)
    }

    /// The bars that are not empty: the significant bits of their values, and the number of blocks.
    pub fn bars(&self) -> impl Iterator<Item = (u8, u64)> {
        self.0.counts().map(|(bar, blocks)| (bar as u8, blocks))
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.bars().eq(other.bars())
    }
}

impl Eq for Histogram {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_go_to_the_bar_of_their_bits() {
        assert_eq!([0, 1, 2, 3, 4, 255, 256, u64::MAX].map(bar), [0, 1, 2, 2, 3, 8, 9, BARS - 1]);
        assert_eq!(size_of::<Bars>(), 56);
    }

    #[test]
    fn samples_stand_for_whole_blocks() {
        let weights = Weights::new(Some(1 << 19));
        let mut bars = Bars::default();
        bars.add(16, weights.of(16).blocks);
        let histogram = Histogram::new(bars, &weights);
        assert_eq!(histogram.bars().collect::<Vec<_>>(), [(5, 32769)]);
    }

    proptest! {
        #[test]
        fn bars_match_a_plain_count(added in proptest::collection::vec((0u32..64, 0u64..1000, 1usize..400), 0..40)) {
            let mut bars = Bars::default();
            let mut expected = [0u64; BARS];
            for (shift, blocks, times) in added {
                for _ in 0..times {
                    bars.add(1 << shift, blocks);
                }
                expected[bar(1 << shift)] += blocks * times as u64;
            }
            let histogram = Histogram::new(bars, &Weights::new(None));
            let expected = (0u8..).zip(expected).filter(|&(_, blocks)| blocks > 0).collect::<Vec<_>>();
            prop_assert_eq!(histogram.bars().collect::<Vec<_>>(), expected);
        }
    }
}
