//! The numbers of one allocating stack, over all threads.

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;
use whyslow_profile::HeapCounts;

use crate::bars::{Bars, Histogram};
use crate::chains::{Chain, Chains};
use crate::ids::{SiteRow, StackRow, ThreadRow};
use crate::live_curve::LiveCurve;
use crate::outcome::Site;
use crate::shelf::Shelf;
use crate::sys;
use crate::weight::{self, Weight, Weights};
use whyslow_agent_host::Clock;

/// The numbers of one allocating stack: five cache lines. An allocation changes the first two, a free the
/// first and the third. Numbers that most sites do not have are stored elsewhere.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct SiteState {
    /// Live now.
    live: Weight,
    /// The weight when it had its maximum of bytes.
    most: Weight,
    /// Sum of the lifetimes of blocks in ticks, weighted by units of blocks.
    lifetime: u128,
    freed_elsewhere: u64,
    stack: StackRow,
    sizes: Bars,
    temporary: u64,
    lifetimes: Bars,
    unused_bytes: u64,
    /// Allocated so far, up to the last rows.
    allocated: Weight,
    /// Live when their process exited.
    exit: Weight,
    growth: Option<Box<Growing>>,
    rare: Option<Box<Rare>>,
    /// Live bytes over time.
    live_curve: LiveCurve,
}

/// Counts of sites where blocks grew.
#[derive(Debug, Default, Clone)]
struct Growing {
    grown: u64,
    growth_chains: u64,
    bytes_copied: u64,
    largest_grown: u64,
    chains: Chains,
}

/// Counts that few sites have.
#[derive(Debug, Default, Clone)]
struct Rare {
    /// Live when their process executed another program.
    given_back: Weight,
    examined_bytes: u64,
    /// Freed, and too large to be examined. Those that are still live are in the findings.
    passed_over: Weight,
    /// The results of inspections: leak classes, and unused bytes of live blocks.
    findings: HeapCounts,
}

/// Numbers of a site that are not yet part of it, while its processes run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Beyond {
    /// Allocated since the last rows.
    pub allocated: Weight,
    pub temporary: u64,
    pub unused: u64,
    /// The lifetimes so far of live blocks.
    pub lifetime: u128,
    /// The growth so far of live blocks.
    pub chains: Chains,
    /// Live in the process of the snapshot.
    pub live: Weight,
}

impl SiteState {
    fn new(stack: StackRow) -> Self {
        Self {
            live: Weight::default(),
            most: Weight::default(),
            lifetime: 0,
            freed_elsewhere: 0,
            stack,
            sizes: Bars::default(),
            temporary: 0,
            lifetimes: Bars::default(),
            unused_bytes: 0,
            allocated: Weight::default(),
            exit: Weight::default(),
            growth: None,
            rare: None,
            live_curve: LiveCurve::default(),
        }
    }

    pub(crate) fn stack(&self) -> StackRow {
        self.stack
    }

    /// Prefetches the memory that a new block of this size will change.
    #[inline]
    pub(crate) fn expect_block(&self, size: u64) {
        sys::prefetch(&self.live);
        self.sizes.expect(size);
    }

    /// Prefetches the memory that a free after this many ticks will change.
    #[inline]
    pub(crate) fn expect_free(&self, ticks: u64, clock: &Clock) {
        sys::prefetch(&self.live);
        self.lifetimes.expect(clock.span_ns(ticks));
    }

    /// Counts an allocated block.
    #[inline]
    pub(crate) fn allocated(&mut self, size: u64, weight: Weight) {
        self.live += weight;
        if self.live.bytes > self.most.bytes {
            self.most = self.live;
        }
        self.sizes.add(size, weight.blocks);
    }

    /// Counts a block that is freed after this many ticks.
    #[inline]
    pub(crate) fn freed(&mut self, weight: Weight, ticks: u64, clock: &Clock) {
        self.part_freed(weight, ticks);
        self.lifetimes.add(clock.span_ns(ticks), weight.blocks);
    }

    /// Counts a part of a mapping that is unmapped after this many ticks.
    pub(crate) fn part_freed(&mut self, weight: Weight, ticks: u64) {
        self.live -= weight;
        self.lifetime = self.lifetime.wrapping_add(u128::from(ticks) * u128::from(weight.blocks));
    }

    /// Counts blocks from here that another thread has freed.
    pub(crate) fn freed_elsewhere(&mut self, blocks: u64) {
        weight::add(&mut self.freed_elsewhere, blocks);
    }

    /// Counts a block that ends with its process after this many ticks; `at_exit` if that is an exit.
    pub(crate) fn ended_with_process(&mut self, weight: Weight, ticks: u64, at_exit: bool) {
        self.part_freed(weight, ticks);
        if at_exit {
            self.exit += weight;
        } else {
            self.rare.get_or_insert_default().given_back += weight;
        }
    }

    /// Counts a block that grew here.
    pub(crate) fn grew(&mut self, size: u64, blocks: u64, copied: u64, before: Chain) {
        let growth = self.growth.get_or_insert_default();
        weight::add(&mut growth.grown, blocks);
        weight::add(&mut growth.bytes_copied, copied);
        growth.largest_grown = growth.largest_grown.max(size);
        if before == Chain::None {
            weight::add(&mut growth.growth_chains, blocks);
        }
        if before != Chain::Shrunk {
            growth.chains.grew(size, blocks, copied);
        }
    }

    /// Counts a grown block that is freed, or shrinks for the first time.
    pub(crate) fn growth_ended(&mut self, size: u64, weight: Weight) {
        self.growth.get_or_insert_default().chains.reached(size, weight);
    }

    /// Counts a freed block that was examined.
    pub(crate) fn examined(&mut self, bytes: u64) {
        weight::add(&mut self.rare.get_or_insert_default().examined_bytes, bytes);
    }

    /// Counts a freed block that was too large to be examined.
    pub(crate) fn passed_over(&mut self, weight: Weight) {
        self.rare.get_or_insert_default().passed_over += weight;
    }

    /// Adds the counts of finished timeline rows.
    pub(crate) fn rows_closed(&mut self, allocated: Weight, temporary: u64, unused: u64) {
        self.allocated += allocated;
        weight::add(&mut self.temporary, temporary);
        weight::add(&mut self.unused_bytes, unused);
    }

    /// Ends a bucket in which this site changed.
    pub(crate) fn bucket_closed(&mut self, time_ns: ClockNs) {
        self.live_curve.add(time_ns, self.live.bytes);
    }

    /// A copy as if all processes exited now, and only one of them had live blocks at its exit.
    pub(crate) fn as_if_ended(&self, beyond: &Beyond) -> Self {
        let mut site = self.clone();
        site.rows_closed(beyond.allocated, beyond.temporary, beyond.unused);
        if !beyond.chains.is_empty() {
            site.growth.get_or_insert_default().chains.merge(&beyond.chains);
        }
        site.lifetime = site.lifetime.wrapping_add(beyond.lifetime);
        // The live blocks of other processes, now or at their exit, were not freed either.
        site.live += site.exit;
        site.live -= beyond.live;
        site.exit = beyond.live;
        site.forget_leaks();
        site
    }

    /// The numbers in the profile's terms. All processes have exited.
    pub(crate) fn outcome(
        self,
        peak: Weight,
        peak_by_thread: Vec<(ThreadRow, u64)>,
        exit_by_thread: Vec<(ThreadRow, u64)>,
        weights: &Weights,
        clock: &Clock,
    ) -> Site {
        let blocks = |units| weights.blocks(units);
        let rare = self.rare.map(|rare| *rare).unwrap_or_default();
        let growth = self.growth.map(|growth| *growth).unwrap_or_default();
        let found = rare.findings;
        let mut freed = self.allocated;
        freed -= self.live;
        freed -= self.exit;
        freed -= rare.given_back;
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
            grown: blocks(growth.grown),
            growth_chains: blocks(growth.growth_chains),
            bytes_copied: growth.bytes_copied,
            largest_grown: growth.largest_grown,
            bytes_grown_to: growth.chains.bytes_reached(),
            freed_elsewhere: blocks(self.freed_elsewhere),
            unused_bytes: self.unused_bytes.wrapping_add(found.unused_bytes),
            examined_bytes: rare.examined_bytes.wrapping_add(found.examined_bytes),
            passed_over_blocks: blocks(rare.passed_over.blocks).wrapping_add(found.passed_over_blocks),
            passed_over_bytes: rare.passed_over.bytes.wrapping_add(found.passed_over_bytes),
            ..found
        };
        Site {
            stack: self.stack,
            counts,
            growth: self.live_curve.growth(),
            sizes: Histogram::new(self.sizes, weights),
            lifetimes: Histogram::new(self.lifetimes, weights),
            chains: growth.chains.rows(weights),
            peak_by_thread,
            exit_by_thread,
        }
    }

    /// Drops the leak classes from earlier exits.
    fn forget_leaks(&mut self) {
        if let Some(rare) = &mut self.rare {
            let HeapCounts { unused_bytes, examined_bytes, passed_over_blocks, passed_over_bytes, .. } =
                rare.findings;
            rare.findings = HeapCounts {
                unused_bytes,
                examined_bytes,
                passed_over_blocks,
                passed_over_bytes,
                ..HeapCounts::default()
            };
        }
    }

    /// Adds the results of an inspection.
    pub(crate) fn add_findings(&mut self, more: &HeapCounts) {
        let found = &mut self.rare.get_or_insert_default().findings;
        let mut sums = found.numbers();
        for (sum, more) in sums.iter_mut().zip(more.numbers()) {
            weight::add(sum, more);
        }
        *found = HeapCounts::from_numbers(sums);
    }
}

/// All sites.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    sites: Shelf<SiteState>,
    by_stack: FxHashMap<StackRow, SiteRow>,
}

impl Sites {
    /// The site of a stack, created if needed.
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

    /// Takes all sites out, in row order.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = SiteState> + use<> {
        self.by_stack = FxHashMap::default();
        self.sites.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_one_site_of_few_cache_lines() {
        assert_eq!(size_of::<SiteState>(), 320);
        let mut sites = Sites::default();
        let rows = [7, 9, 7].map(|stack| sites.of_stack(StackRow(stack)));
        assert_eq!((rows, sites.len()), ([SiteRow(0), SiteRow(1), SiteRow(0)], 2));
        assert_eq!(sites.get(rows[1]).stack(), StackRow(9));
    }

    #[test]
    fn blocks_at_an_exec_are_neither_freed_nor_live_at_exit() {
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
        let counts = site
            .clone()
            .outcome(Weight::default(), Vec::new(), Vec::new(), &Weights::new(None), &clock)
            .counts;
        assert_eq!((counts.allocations, counts.frees, counts.live_at_exit_blocks), (3, 1, 1));
        assert_eq!((counts.max_bytes, counts.bytes_freed), (24, 8));
    }
}
