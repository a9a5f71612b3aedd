//! The numbers of one allocating stack, over all threads.

use whyslow_profile::HeapCounts;

use crate::clock::Clock;
use crate::course::Course;
use crate::outcome::Site;
use crate::weight::{self, Weight, Weights};

/// The numbers of one allocating stack. What every event changes comes first.
#[derive(Debug, Default)]
pub(crate) struct SiteState {
    /// Live now.
    pub live: Weight,
    /// When it had the most bytes.
    pub most: Weight,
    /// How long blocks lived, in ticks, each block counted in units.
    pub lifetime: u128,
    sizes: Vec<u64>,
    lifetimes: Vec<u64>,
    /// Live bytes over time.
    course: Course,
    /// The stack: a row.
    pub stack: u32,
    /// Made so far, up to the last whole bucket.
    pub made: Weight,
    /// Live when their process ended.
    pub exit: Weight,
    pub temporary: u64,
    pub unused_bytes: u64,
    pub examined_bytes: u64,
    pub grown: u64,
    pub growth_chains: u64,
    pub bytes_copied: u64,
    pub largest_grown: u64,
    pub bytes_grown_to: u64,
    pub freed_elsewhere: u64,
    /// What looks at processes found: leak classes, and unused bytes of live blocks.
    findings: HeapCounts,
}

/// How many significant bits a number has.
fn bar(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

fn count(bars: &mut Vec<u64>, value: u64, blocks: u64) {
    let bar = bar(value);
    if bar >= bars.len() {
        bars.resize(bar + 1, 0);
    }
    weight::add(&mut bars[bar], blocks);
}

impl SiteState {
    pub(crate) fn new(stack: u32) -> Self {
        Self { stack, ..Self::default() }
    }

    /// A block is made.
    #[inline]
    pub(crate) fn came(&mut self, size: u64, weight: Weight) {
        self.live += weight;
        if self.live.bytes > self.most.bytes {
            self.most = self.live;
        }
        count(&mut self.sizes, size, weight.blocks);
    }

    /// A block is freed after so many ticks.
    #[inline]
    pub(crate) fn went(&mut self, weight: Weight, ticks: u64, clock: &Clock) {
        self.left(weight, ticks);
        count(&mut self.lifetimes, clock.span_ns(ticks), weight.blocks);
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
        let found = &self.findings;
        let mut freed = self.made;
        freed -= self.live;
        freed -= self.exit;
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
            bytes_grown_to: self.bytes_grown_to,
            freed_elsewhere: blocks(self.freed_elsewhere),
            unused_bytes: self.unused_bytes.wrapping_add(found.unused_bytes),
            examined_bytes: self.examined_bytes.wrapping_add(found.examined_bytes),
            ..*found
        };
        let whole = |bars: &[u64]| bars.iter().map(|&units| blocks(units)).collect();
        Site {
            stack: self.stack,
            counts,
            growth: self.course.growth(),
            sizes: whole(&self.sizes),
            lifetimes: whole(&self.lifetimes),
            peak_by_thread,
            exit_by_thread,
        }
    }

    /// Adds what a look at a process found.
    pub(crate) fn add_findings(&mut self, more: &HeapCounts) {
        let mut sums = self.findings.numbers();
        for (sum, more) in sums.iter_mut().zip(more.numbers()) {
            weight::add(sum, more);
        }
        self.findings = HeapCounts::from_numbers(sums);
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
}
