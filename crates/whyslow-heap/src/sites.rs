//! The numbers of one allocating stack, over all threads.

use rustc_hash::FxHashMap;
use whyslow_profile::HeapCounts;

use crate::chains::{Chain, Chains};
use crate::clock::Clock;
use crate::course::Course;
use crate::ids::{SiteRow, StackRow, ThreadRow};
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
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct SiteState {
    /// Live now.
    live: Weight,
    /// When it had the most bytes.
    most: Weight,
    /// How long blocks lived, in ticks, each block counted in units.
    lifetime: u128,
    sizes: Bars<48>,
    lifetimes: Bars<48>,
    /// Live bytes over time.
    course: Course,
    stack: StackRow,
    /// Made so far, up to the last rows.
    allocated: Weight,
    /// Live when their process ended.
    exit: Weight,
    /// Live when their process executed another program.
    given_back: Weight,
    temporary: u64,
    unused_bytes: u64,
    examined_bytes: u64,
    /// Freed, and too large to be examined. Those that stay are in the findings.
    passed_over: Weight,
    grown: u64,
    growth_chains: u64,
    bytes_copied: u64,
    largest_grown: u64,
    chains: Chains,
    freed_elsewhere: u64,
    /// What looks at processes found: leak classes, and unused bytes of live blocks.
    findings: Option<Box<HeapCounts>>,
}

/// What a site has beyond what it has counted itself, while its processes live.
#[derive(Debug, Default, Clone)]
pub(crate) struct Beyond {
    /// Since the last rows.
    pub allocated: Weight,
    pub temporary: u64,
    pub unused: u64,
    /// How long blocks have lived that have not ended.
    pub lifetime: u128,
    /// How large such blocks have grown.
    pub chains: Chains,
    /// Live in the process that is looked at.
    pub live: Weight,
}

/// How many significant bits a number has.
fn bar(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

impl SiteState {
    fn new(stack: StackRow) -> Self {
        Self {
            live: Weight::default(),
            most: Weight::default(),
            lifetime: 0,
            sizes: Bars::default(),
            lifetimes: Bars::default(),
            course: Course::default(),
            stack,
            allocated: Weight::default(),
            exit: Weight::default(),
            given_back: Weight::default(),
            temporary: 0,
            unused_bytes: 0,
            examined_bytes: 0,
            passed_over: Weight::default(),
            grown: 0,
            growth_chains: 0,
            bytes_copied: 0,
            largest_grown: 0,
            chains: Chains::default(),
            freed_elsewhere: 0,
            findings: None,
        }
    }

    pub(crate) fn stack(&self) -> StackRow {
        self.stack
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
    pub(crate) fn allocated(&mut self, size: u64, weight: Weight) {
        self.live += weight;
        if self.live.bytes > self.most.bytes {
            self.most = self.live;
        }
        self.sizes.add(size, weight.blocks);
    }

    /// A block is freed after so many ticks.
    #[inline]
    pub(crate) fn freed(&mut self, weight: Weight, ticks: u64, clock: &Clock) {
        self.part_freed(weight, ticks);
        self.lifetimes.add(clock.span_ns(ticks), weight.blocks);
    }

    /// A part of a mapping is unmapped after so many ticks.
    pub(crate) fn part_freed(&mut self, weight: Weight, ticks: u64) {
        self.live -= weight;
        self.lifetime = self.lifetime.wrapping_add(u128::from(ticks) * u128::from(weight.blocks));
    }

    /// Another thread has freed a block that was made here.
    pub(crate) fn freed_elsewhere(&mut self, blocks: u64) {
        weight::add(&mut self.freed_elsewhere, blocks);
    }

    /// A block is taken from its process at its end after so many ticks; `at_exit`, if that is an exit.
    pub(crate) fn ended_with_process(&mut self, weight: Weight, ticks: u64, at_exit: bool) {
        self.part_freed(weight, ticks);
        if at_exit {
            self.exit += weight;
        } else {
            self.given_back += weight;
        }
    }

    /// A block of another stack was made larger here.
    pub(crate) fn grew(&mut self, size: u64, blocks: u64, copied: u64, before: Chain) {
        weight::add(&mut self.grown, blocks);
        weight::add(&mut self.bytes_copied, copied);
        self.largest_grown = self.largest_grown.max(size);
        if before == Chain::None {
            weight::add(&mut self.growth_chains, blocks);
        }
        if before != Chain::Shrunk {
            self.chains.grew(size, blocks, copied);
        }
    }

    /// A block that had grown ends, or is made smaller for the first time.
    pub(crate) fn growth_ended(&mut self, size: u64, weight: Weight) {
        self.chains.reached(size, weight);
    }

    /// A block that is freed was looked at.
    pub(crate) fn examined(&mut self, bytes: u64) {
        weight::add(&mut self.examined_bytes, bytes);
    }

    /// A block that is freed was too large to be looked at.
    pub(crate) fn passed_over(&mut self, weight: Weight) {
        self.passed_over += weight;
    }

    /// Rows go out of what was done here.
    pub(crate) fn rows_closed(&mut self, allocated: Weight, temporary: u64, unused: u64) {
        self.allocated += allocated;
        weight::add(&mut self.temporary, temporary);
        weight::add(&mut self.unused_bytes, unused);
    }

    /// A bucket in which something happened here ends.
    pub(crate) fn bucket_closed(&mut self, time_ns: u64) {
        self.course.add(time_ns, self.live.bytes);
    }

    /// The same as if everything ended now, and only one process had something at its exit.
    pub(crate) fn as_if_ended(&self, beyond: &Beyond) -> Self {
        let mut site = self.clone();
        site.rows_closed(beyond.allocated, beyond.temporary, beyond.unused);
        site.chains.merge(&beyond.chains);
        site.lifetime = site.lifetime.wrapping_add(beyond.lifetime);
        // What other processes have or had at their end was not freed either.
        site.live += site.exit;
        site.live -= beyond.live;
        site.exit = beyond.live;
        site.forget_leaks();
        site
    }

    /// The numbers in words of the profile. All processes have ended.
    pub(crate) fn outcome(
        &self,
        peak: Weight,
        peak_by_thread: Vec<(ThreadRow, u64)>,
        exit_by_thread: Vec<(ThreadRow, u64)>,
        weights: &Weights,
        clock: &Clock,
    ) -> Site {
        let blocks = |units| weights.blocks(units);
        let nothing = HeapCounts::default();
        let found = self.findings.as_deref().unwrap_or(&nothing);
        let mut freed = self.allocated;
        freed -= self.live;
        freed -= self.exit;
        freed -= self.given_back;
        let lifetime = self.lifetime / u128::from(weights.unit());
        let counts = HeapCounts {
            allocations: blocks(self.allocated.blocks),
            bytes_allocated: self.allocated.bytes,
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
    fn forget_leaks(&mut self) {
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

/// All sites.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    sites: Vec<SiteState>,
    by_stack: FxHashMap<StackRow, SiteRow>,
}

impl Sites {
    /// The site of a stack, which there is from now on.
    pub(crate) fn of_stack(&mut self, stack: StackRow) -> SiteRow {
        let next = SiteRow::from(self.sites.len());
        *self.by_stack.entry(stack).or_insert_with(|| {
            self.sites.push(SiteState::new(stack));
            next
        })
    }

    #[inline]
    pub(crate) fn get(&self, site: SiteRow) -> &SiteState {
        &self.sites[site.index()]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, site: SiteRow) -> &mut SiteState {
        &mut self.sites[site.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.sites.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SiteState> {
        self.sites.iter()
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
    fn a_stack_has_one_site() {
        let mut sites = Sites::default();
        let rows = [7, 9, 7].map(|stack| sites.of_stack(StackRow(stack)));
        assert_eq!((rows, sites.len()), ([SiteRow(0), SiteRow(1), SiteRow(0)], 2));
        assert_eq!(sites.get(rows[1]).stack(), StackRow(9));
    }

    #[test]
    fn what_an_exec_takes_was_not_freed_and_is_not_live_at_exit() {
        let clock = Clock::start();
        let mut sites = Sites::default();
        let row = sites.of_stack(StackRow(1));
        let site = sites.get_mut(row);
        let block = Weight { blocks: 1, bytes: 8 };
        for _ in 0..3 {
            site.allocated(8, block);
        }
        site.freed(block, 1, &clock);
        site.ended_with_process(block, 1, true);
        site.ended_with_process(block, 1, false);
        site.rows_closed(Weight { blocks: 3, bytes: 24 }, 0, 0);
        let counts =
            site.outcome(Weight::default(), Vec::new(), Vec::new(), &Weights::new(None), &clock).counts;
        assert_eq!((counts.allocations, counts.frees, counts.live_at_exit_blocks), (3, 1, 1));
        assert_eq!((counts.max_bytes, counts.bytes_freed), (24, 8));
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
