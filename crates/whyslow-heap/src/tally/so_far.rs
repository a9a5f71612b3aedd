//! The numbers while the programs still run, as if everything ended now. Computing them changes nothing.

use super::Tally;
use super::ends::ByThread;
use crate::blocks::Block;
use crate::chains::Chain;
use crate::ids::{EntryRow, ProcessRow, Tick};
use crate::outcome::{CounterRow, Site, TimelineRow, Transfer};
use crate::sites::Beyond;
use crate::weight::Weight;

/// Numbers of a site that are not yet part of it, and by which threads.
#[derive(Debug, Default, Clone)]
struct OfSite {
    beyond: Beyond,
    peak: Weight,
    peaks: ByThread,
    nows: ByThread,
}

/// All counts so far.
#[derive(Debug, Default)]
pub(crate) struct SoFar {
    pub sites: Vec<Site>,
    pub transfers: Vec<Transfer>,
    /// One row per thread and stack.
    pub rows: Vec<TimelineRow>,
    pub counters: Vec<CounterRow>,
}

impl Tally {
    /// The numbers at this tick. Live at exit means live now in this process; `process_of` is the process of
    /// each thread.
    pub(crate) fn so_far(&mut self, process: ProcessRow, process_of: &[ProcessRow], tick: Tick) -> SoFar {
        self.accounts.settle(&self.rules);
        let Self { heights, accounts, .. } = self;
        let (sites, entries) = (accounts.sites(), accounts.entries());
        let mut by_site = vec![OfSite::default(); sites.len()];
        let mut rows = Vec::new();
        for (number, entry) in entries.iter() {
            let of_site = &mut by_site[entry.site.index()];
            let (recent, beyond) = (entry.recent(), &mut of_site.beyond);
            beyond.allocated += recent.allocated;
            beyond.temporary = beyond.temporary.wrapping_add(recent.temporary);
            beyond.unused = beyond.unused.wrapping_add(recent.unused);
            let peak = entry.at_peak(heights.epoch());
            of_site.peak += peak;
            if peak.bytes > 0 {
                of_site.peaks.push((entry.thread(), peak.bytes));
            }
            if process_of.get(entry.thread().index()) == Some(&process) {
                let now = entry.live();
                beyond.live += now;
                if now.bytes > 0 {
                    of_site.nows.push((entry.thread(), now.bytes));
                }
            }
            rows.push((entry.thread(), sites.get(entry.site).stack(), entries.in_all(number)));
        }
        rows.extend(entries.of_swept().map(|(stack, thread, sum)| (thread, stack, sum)));
        rows.retain(|(_, _, sum)| *sum != Default::default());
        rows.sort_unstable_by_key(|&(thread, stack, _)| (thread, stack));
        self.add_living(&mut by_site, tick);
        let Self { rules, heights, accounts, .. } = self;
        let sites = accounts.sites().iter().zip(by_site).map(|(site, mut of_site)| {
            of_site.peaks.sort_unstable();
            of_site.nows.sort_unstable();
            let site = site.as_if_ended(&of_site.beyond);
            site.outcome(of_site.peak, of_site.peaks, of_site.nows, &rules.weights, &rules.clock)
        });
        let time_ns = rules.clock.time(tick);
        let row = |(thread, stack, sum): (_, _, super::entries::Activity)| {
            sum.row(time_ns, thread, stack, &rules.weights)
        };
        SoFar {
            sites: sites.collect(),
            transfers: accounts.transfers(rules),
            rows: rows.into_iter().map(row).collect(),
            counters: heights.counters_at(time_ns),
        }
    }

    /// Adds the counts that live blocks would get at their end.
    fn add_living(&self, by_site: &mut [OfSite], tick: Tick) {
        let Self { rules, ledger, accounts, .. } = self;
        let site_of = |entry: EntryRow| accounts.entries().get(entry).site.index();
        let mut lived = |entry: EntryRow, blocks: u64, since: Tick| {
            let beyond = &mut by_site[site_of(entry)].beyond;
            let ticks = u128::from(tick.since(since)) * u128::from(blocks);
            beyond.lifetime = beyond.lifetime.wrapping_add(ticks);
        };
        for block in ledger.own_blocks() {
            lived(block.entry, rules.weights.of(block.size()).blocks, block.tick);
        }
        for piece in ledger.mappings() {
            lived(piece.entry, rules.weights.unit(), piece.tick);
        }
        let growing = |block: &&Block| block.chain() == Chain::Growing;
        for block in ledger.own_blocks().filter(growing) {
            let weight = rules.weights.of(block.size());
            by_site[site_of(block.entry)].beyond.chains.reached(block.size(), weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::super::threads::SWEEP_AFTER;
    use super::super::*;
    use crate::outcome::Site;
    use crate::sys;

    const PROCESS: ProcessRow = ProcessRow(0);
    const RING: RingNumber = RingNumber(0);

    fn at(thread: ThreadRow, tick: Tick, address: u64) -> At {
        At { process: PROCESS, thread, tick, address: Address(address), force: true }
    }

    /// Two threads of one process: blocks of both, temporary ones, a transfer, growth, over several buckets.
    fn tally(snapshots: bool) -> Tally {
        let clock = Clock::start();
        let second = clock.span_ticks(1_000_000_000);
        let first = clock.first_tick();
        let mut tally = Tally::new(clock, None, 1);
        tally.process_added(false);
        let threads = [tally.thread_added(), tally.thread_added()];
        for step in 0..300u64 {
            let tick = first.plus(step * second / 50);
            let thread = threads[(step % 2) as usize];
            let entry = tally.entry(StackRow((step % 7) as u32), thread);
            tally.allocated(&at(thread, tick, 0x1000 + step * 64), entry, 10 + step);
            match step % 5 {
                1 => drop(tally.freed(&at(thread, tick.plus(1), 0x1000 + step * 64))),
                2 => drop(tally.freed(&at(threads[0], tick.plus(1), 0x1000 + (step - 2) * 64))),
                3 => {
                    tally.move_begun(&at(thread, tick.plus(1), 0x1000 + step * 64), RING);
                    tally.reallocated(
                        &at(thread, tick.plus(2), 0x100_000 + step * 64),
                        RING,
                        entry,
                        40 + 3 * step,
                    );
                }
                _ => {}
            }
            if snapshots && step % 10 == 0 {
                tally.so_far(PROCESS, &[PROCESS; 2], tick.plus(5));
            }
        }
        tally
    }

    fn end(tally: &Tally) -> Tick {
        tally.clock().first_tick().plus(tally.clock().span_ticks(6_000_000_000))
    }

    #[test]
    fn numbers_so_far_equal_those_of_an_end_now() {
        let mut tally = tally(false);
        let tick = end(&tally);
        let so_far = tally.so_far(PROCESS, &[PROCESS; 2], tick);
        tally.process_ended(PROCESS, tick, crate::tally::End::Exit);
        let (sites, transfers) = tally.finish();
        let numbers = |sites: &[Site]| {
            let of = |site: &Site| {
                (site.stack, site.counts, site.peak_by_thread.clone(), site.exit_by_thread.clone())
            };
            sites.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&so_far.sites), numbers(&sites));
        assert_eq!(so_far.transfers, transfers);
        let mut sums = FxHashMap::<(ThreadRow, StackRow), [u64; 4]>::default();
        for row in &tally.take_rows().0 {
            let sum = sums.entry((row.thread, row.stack)).or_default();
            for (sum, more) in
                sum.iter_mut().zip([row.allocations, row.bytes_allocated, row.bytes_freed, row.temporary])
            {
                *sum += more;
            }
        }
        assert_eq!(so_far.rows.len(), sums.len());
        for row in &so_far.rows {
            let numbers = [row.allocations, row.bytes_allocated, row.bytes_freed, row.temporary];
            assert_eq!(sums[&(row.thread, row.stack)], numbers);
        }
    }

    #[test]
    fn a_snapshot_changes_nothing() {
        let (mut seen, mut plain) = (tally(true), tally(false));
        for tally in [&mut seen, &mut plain] {
            let tick = end(tally);
            tally.process_ended(PROCESS, tick, crate::tally::End::Exit);
        }
        let counts = |sites: Vec<Site>| {
            let of = |site: Site| (site.stack, HeapCounts { lifetime_ns: 0, ..site.counts }, site.sizes);
            sites.into_iter().map(of).collect::<Vec<_>>()
        };
        let ((snapshot_sites, snapshot_transfers), (sites, transfers)) = (seen.finish(), plain.finish());
        assert_eq!((counts(snapshot_sites), snapshot_transfers), (counts(sites), transfers));
        assert_eq!(seen.take_rows().0.len(), plain.take_rows().0.len());
        assert_eq!(seen.peak().bytes, plain.peak().bytes);
    }

    #[test]
    fn only_blocks_of_the_given_process_are_live() {
        let mut tally = Tally::new(Clock::start(), None, 1);
        for number in 0..2 {
            let process = tally.process_added(number > 0);
            let thread = tally.thread_added();
            let entry = tally.entry(StackRow(0), thread);
            let size = 100 * (number + 1);
            tally.allocated(
                &At { process, thread, tick: sys::now(), address: Address(0x1000), force: true },
                entry,
                size,
            );
        }
        let counts = tally.so_far(ProcessRow(1), &[PROCESS, ProcessRow(1)], sys::now()).sites[0].counts;
        assert_eq!((counts.live_at_exit_bytes, counts.live_at_exit_blocks), (200, 1));
        assert_eq!((counts.bytes_allocated, counts.frees, counts.peak_bytes), (300, 0, 300));
    }

    #[test]
    fn swept_threads_are_counted_under_the_first_of_them() {
        let mut tally = Tally::new(Clock::start(), None, 1);
        tally.process_added(false);
        let second = tally.clock().span_ticks(1_000_000_000);
        let mut tick = tally.clock().first_tick();
        // The peak; the live bytes below are far from it.
        let main = tally.thread_added();
        let entry = tally.entry(StackRow(9), main);
        tally.allocated(&at(main, tick, 0x10), entry, 1 << 20);
        tally.freed(&at(main, tick, 0x10));
        for _ in 0..3 * SWEEP_AFTER {
            let thread = tally.thread_added();
            let entry = tally.entry(StackRow(3), thread);
            tick = tick.plus(second);
            tally.allocated(&at(thread, tick, 0x1000), entry, 10);
            tally.freed(&at(thread, tick.plus(1), 0x1000));
            tally.thread_ended(thread);
        }
        tally.reach(tick.plus(second));
        let threads = vec![PROCESS; 3 * SWEEP_AFTER + 1];
        let rows = tally.so_far(PROCESS, &threads, tick.plus(second)).rows;
        assert!(rows.len() < threads.len());
        let allocations: u64 =
            rows.iter().filter(|row| row.stack == StackRow(3)).map(|row| row.allocations).sum();
        assert_eq!(allocations, 3 * SWEEP_AFTER as u64);
    }

    #[test]
    fn the_maximum_of_a_site_is_over_all_its_threads_together() {
        let mut tally = Tally::new(Clock::start(), None, 1);
        tally.process_added(false);
        let threads = [tally.thread_added(), tally.thread_added()];
        // Enough sites for notes to be sorted; the two entries of the first site are far apart.
        let first = tally.entry(StackRow(0), threads[0]);
        for stack in 1..1000 {
            tally.entry(StackRow(stack), threads[0]);
        }
        let other = tally.entry(StackRow(0), threads[1]);
        let at = |thread: usize, address| at(threads[thread], sys::now(), address);
        tally.allocated(&at(0, 0x1000), first, 100);
        tally.allocated(&at(1, 0x2000), other, 100);
        tally.freed(&at(0, 0x1000));
        tally.freed(&at(1, 0x2000));
        tally.process_ended(PROCESS, sys::now(), End::Exit);
        let (sites, _) = tally.finish();
        assert_eq!((sites[0].counts.max_bytes, sites[0].counts.max_blocks), (200, 2));
    }
}
