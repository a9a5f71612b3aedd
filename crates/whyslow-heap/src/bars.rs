//! How many blocks had a value with so many significant bits.

use crate::sys;
use crate::weight::{self, Weights};

/// Bars: the last one holds all larger values.
const BARS: usize = 48;

/// Counts of blocks by the significant bits of a value. One byte each, so that a site takes few cache lines; what does not fit goes to a
/// table of its own.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    small: [u8; BARS],
    large: Option<Box<Large>>,
}

/// The counts from the first bar that needs it to the last.
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

/// How many significant bits a number has.
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

    /// Asks for the memory that [`Self::add`] changes.
    #[inline]
    pub(crate) fn expect(&self, value: u64) {
        sys::prefetch(&self.small[bar(value)]);
    }

    /// What was small goes along, so that this is rare.
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

    /// The bars in which there is anything, and how many blocks.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let large = |bar: usize| {
            let Large { first, counts } = self.large.as_deref()?;
            counts.get(bar.checked_sub(*first)?).copied()
        };
        let count = move |bar: usize| large(bar).unwrap_or(0).wrapping_add(self.small[bar].into());
        (0..BARS).map(move |bar| (bar, count(bar))).filter(|&(_, blocks)| blocks > 0)
    }
}

/// How many blocks had a value with so many significant bits, once everything is counted.
#[derive(Debug, Default, Clone)]
pub struct Histogram(Bars);

impl Histogram {
    /// Bars hold units of blocks while they are counted.
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

    /// Bars in which there is anything: the significant bits of their values, and how many blocks.
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
    fn bars_hold_values_with_as_many_bits() {
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
        fn bars_hold_what_was_added(added in proptest::collection::vec((0u32..64, 0u64..1000, 1usize..400), 0..40)) {
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
