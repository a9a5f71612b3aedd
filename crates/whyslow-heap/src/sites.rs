//! The numbers of one allocating stack, over all threads.

use whyslow_profile::HeapCounts;

use crate::chains::Chains;
use crate::clock::Clock;
use crate::course::Course;
use crate::outcome::Site;
use crate::sys;
use crate::weight::{self, Weight, Weights};

/// Counts of blocks by the significant bits of a value. Small counts, so that a site takes few cache lines; what does
/// not fit goes to a large table.
#[derive(Debug, Clone)]
struct Bars<const N: usize> {
    small: [u32; N],
    large: Option<Box<[u64; N]>>,
}

impl<const N: usize> Default for Bars<N> {
    fn default() -> Self {
        Self { small: [0; N], large: None }
    }
}

impl<const N: usize> Bars<N> {
    #[inline]
    fn add(&mut self, value: u64, blocks: u64) {
        let bar = bar(value).min(N - 1);
        match u32::try_from(blocks).ok().and_then(|blocks| self.small[bar].checked_add(blocks)) {
            Some(sum) => self.small[bar] = sum,
            None => self.add_large(bar, blocks),
        }
    }

    #[inline]
    fn expect(&self, value: u64) {
        sys::prefetch(&self.small[bar(value).min(N - 1)]);
    }

    #[cold]
    fn add_large(&mut self, bar: usize, blocks: u64) {
        let large = self.large.get_or_insert_with(|| Box::new([0; N]));
        weight::add(&mut large[bar], blocks);
    }

    /// The counts; zeros at the end are left out.
    fn counts(&self, weights: &Weights) -> Vec<u64> {
        let large = |bar: usize| self.large.as_ref().map_or(0, |large| large[bar]);
        let count = |bar: usize| weights.blocks(large(bar).wrapping_add(self.small[bar].into()));
        let bars = (0..N).rposition(|bar| count(bar) > 0).map_or(0, |last| last + 1);
        (0..bars).map(count).collect()
    }
}

/// The numbers of one allocating stack. What every event changes comes first.
#[derive(Debug, Default, Clone)]
#[repr(C, align(64))]
pub(crate) struct SiteState {
    /// Live now.
    pub live: Weight,
    /// When it had the most bytes.
    pub most: Weight,
    /// How long blocks lived, in ticks, each block counted in units.
    pub lifetime: u128,
    sizes: Bars<48>,
    lifetimes: Bars<48>,
    /// Live bytes over time.
    course: Course,
    /// The stack: a row.
    pub stack: u32,
    /// Made so far, up to the last whole bucket.
    pub made: Weight,
    /// Live when their process ended.
    pub exit: Weight,
    /// Live when their process executed another program.
    pub given_back: Weight,
    pub temporary: u64,
    pub unused_bytes: u64,
    pub examined_bytes: u64,
    /// Freed, and too large to be examined. Those that stay are in the findings.
    pub passed_over: Weight,
    pub grown: u64,
    pub growth_chains: u64,
    pub bytes_copied: u64,
    pub largest_grown: u64,
    pub chains: Chains,
    pub freed_elsewhere: u64,
    /// What looks at processes found: leak classes, and unused bytes of live blocks.
    findings: Option<Box<HeapCounts>>,
}

/// How many significant bits a number has.
fn bar(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

impl SiteState {
    pub(crate) fn new(stack: u32) -> Self {
        Self { stack, ..Self::default() }
    }

    /// Asks for the memory that a new block of this size will change.
    #[inline]
    pub(crate) fn expect_block(&self, size: u64) {
        sys::prefetch(&self.live);
        self.sizes.expect(size);
    }

    /// Asks for the memory that a free after so many ticks will change.
    #[inline]
    pub(crate) fn expect_free(&self, ticks: u64, clock: &Clock) {
        sys::prefetch(&self.live);
        self.lifetimes.expect(clock.span_ns(ticks));
    }

    /// A block is made.
    #[inline]
    pub(crate) fn came(&mut self, size: u64, weight: Weight) {
        self.live += weight;
        if self.live.bytes > self.most.bytes {
            self.most = self.live;
        }
        self.sizes.add(size, weight.blocks);
    }

    /// A block is freed after so many ticks.
    #[inline]
    pub(crate) fn went(&mut self, weight: Weight, ticks: u64, clock: &Clock) {
        self.left(weight, ticks);
        self.lifetimes.add(clock.span_ns(ticks), weight.blocks);
    }

    /// A block ends with its process.
    pub(crate) fn left(&mut self, weight: Weight, ticks: u64) {
        self.live -= weight;
        self.lifetime = self.lifetime.wrapping_add(u128::from(ticks) * u128::from(weight.blocks));
    }

    /// A bucket in which something happened here ends.
    pub(crate) fn went_on(&mut self, time_ns: u64) {
        self.course.add(time_ns, self.live.bytes);
    }

    /// The numbers in words of the profile. All processes have ended.
    pub(crate) fn outcome(
        &self,
        peak: Weight,
        peak_by_thread: Vec<(u32, u64)>,
        exit_by_thread: Vec<(u32, u64)>,
        weights: &Weights,
        clock: &Clock,
    ) -> Site {
        let blocks = |units| weights.blocks(units);
        let nothing = HeapCounts::default();
        let found = self.findings.as_deref().unwrap_or(&nothing);
        let mut freed = self.made;
        freed -= self.live;
        freed -= self.exit;
        freed -= self.given_back;
        let lifetime = self.lifetime / u128::from(weights.unit());
        let counts = HeapCounts {
            allocations: blocks(self.made.blocks),
            bytes_allocated: self.made.bytes,
            frees: blocks(freed.blocks),
            bytes_freed: freed.bytes,
            peak_bytes: peak.bytes,
            peak_blocks: blocks(peak.blocks),
            max_bytes: self.most.bytes,
            max_blocks: blocks(self.most.blocks),
            live_at_exit_blocks: blocks(self.exit.blocks),
            live_at_exit_bytes: self.exit.bytes,
            temporary: blocks(self.temporary),
            lifetime_ns: clock.span_ns(u64::try_from(lifetime).unwrap_or(u64::MAX)),
            grown: blocks(self.grown),
            growth_chains: blocks(self.growth_chains),
            bytes_copied: self.bytes_copied,
            largest_grown: self.largest_grown,
            bytes_grown_to: self.chains.bytes_reached(),
            freed_elsewhere: blocks(self.freed_elsewhere),
            unused_bytes: self.unused_bytes.wrapping_add(found.unused_bytes),
            examined_bytes: self.examined_bytes.wrapping_add(found.examined_bytes),
            passed_over_blocks: blocks(self.passed_over.blocks).wrapping_add(found.passed_over_blocks),
            passed_over_bytes: self.passed_over.bytes.wrapping_add(found.passed_over_bytes),
            ..*found
        };
        Site {
            stack: self.stack,
            counts,
            growth: self.course.growth(),
            sizes: self.sizes.counts(weights),
            lifetimes: self.lifetimes.counts(weights),
            chains: self.chains.rows(weights),
            peak_by_thread,
            exit_by_thread,
        }
    }

    /// Forgets which blocks were lost when processes ended.
    pub(crate) fn forget_leaks(&mut self) {
        if let Some(found) = &mut self.findings {
            let HeapCounts { unused_bytes, examined_bytes, passed_over_blocks, passed_over_bytes, .. } =
                **found;
            **found = HeapCounts {
                unused_bytes,
                examined_bytes,
                passed_over_blocks,
                passed_over_bytes,
                ..HeapCounts::default()
            };
        }
    }

    /// Adds what a look at a process found.
    pub(crate) fn add_findings(&mut self, more: &HeapCounts) {
        let found = self.findings.get_or_insert_default();
        let mut sums = found.numbers();
        for (sum, more) in sums.iter_mut().zip(more.numbers()) {
            weight::add(sum, more);
        }
        **found = HeapCounts::from_numbers(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_values_with_as_many_bits() {
        assert_eq!([0, 1, 2, 3, 4, 255, 256].map(bar), [0, 1, 2, 2, 3, 8, 9]);
        assert_eq!(bar(u64::MAX), 64);
    }

    #[test]
    fn bars_hold_more_than_fits_into_a_small_one() {
        let mut bars = Bars::<48>::default();
        for blocks in [u64::from(u32::MAX), 1, 1 << 40] {
            bars.add(3, blocks);
        }
        bars.add(u64::MAX, 2);
        let counts = bars.counts(&Weights::new(None));
        assert_eq!((counts.len(), counts[2], counts[47]), (48, (1 << 40) + (1 << 32), 2));
    }
}
