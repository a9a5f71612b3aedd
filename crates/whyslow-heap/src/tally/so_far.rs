//! The numbers while the programs still run, as if everything ended now. Nothing changes by looking.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{ByThread, Entry, Tally, Transfer};
use crate::chains::{Chain, Chains};
use crate::outcome::{CounterKind, CounterRow, Site, TimelineRow};
use crate::weight::{Weight, Weights, add};

/// What a thread did at a stack, over several buckets.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Sum {
    made: Weight,
    bytes_freed: u64,
    temporary: u64,
    unused: u64,
}

impl Sum {
    /// This bucket's.
    fn of(entry: &Entry) -> Self {
        Self {
            made: entry.made,
            bytes_freed: entry.bytes_freed,
            temporary: entry.temporary,
            unused: entry.unused,
        }
    }

    fn add(&mut self, more: &Self) {
        self.made += more.made;
        for (sum, more) in [
            (&mut self.bytes_freed, more.bytes_freed),
            (&mut self.temporary, more.temporary),
            (&mut self.unused, more.unused),
        ] {
            add(sum, more);
        }
    }

    fn row(&self, time_ns: u64, thread: u32, stack: u32, weights: &Weights) -> TimelineRow {
        TimelineRow {
            time_ns,
            thread,
            stack,
            allocations: weights.blocks(self.made.blocks),
            bytes_allocated: self.made.bytes,
            bytes_freed: self.bytes_freed,
            temporary: weights.blocks(self.temporary),
            unused_bytes: self.unused,
        }
    }
}

/// The sums of all buckets that are closed.
#[derive(Debug, Default)]
pub(super) struct Sums {
    by_entry: Vec<Sum>,
    /// By stack: what threads did that have ended and left nothing behind, under the first such thread.
    of_ended: FxHashMap<u32, (u32, Sum)>,
}

impl Sums {
    /// A bucket is closed.
    pub(super) fn close(&mut self, number: u32, entry: &Entry) {
        let number = number as usize;
        if self.by_entry.len() <= number {
            self.by_entry.resize(number + 1, Sum::default());
        }
        self.by_entry[number].add(&Sum::of(entry));
    }

    /// An entry is thrown away.
    pub(super) fn retire(&mut self, number: u32, stack: u32, thread: u32) {
        let sum = self.by_entry.get_mut(number as usize).map(std::mem::take).unwrap_or_default();
        self.of_ended.entry(stack).or_insert((thread, Sum::default())).1.add(&sum);
    }

    fn of(&self, number: u32) -> Sum {
        self.by_entry.get(number as usize).copied().unwrap_or_default()
    }
}

/// What a site has beyond what it has counted itself.
#[derive(Debug, Default, Clone)]
struct Beyond {
    bucket: Sum,
    peak: Weight,
    peaks: ByThread,
    now: Weight,
    nows: ByThread,
    lifetime: u128,
    /// How large blocks have grown that have not ended.
    chains: Chains,
}

/// Everything that is counted so far.
#[derive(Debug, Default)]
pub(crate) struct SoFar {
    pub sites: Vec<Site>,
    pub transfers: Vec<Transfer>,
    /// One row per thread and stack.
    pub rows: Vec<TimelineRow>,
    pub counters: Vec<CounterRow>,
}

impl Tally {
    /// The numbers at this tick. What is live at the end is what is live now in this process; `process_of` says where each
    /// thread belongs.
    pub(crate) fn so_far(&mut self, process: u32, process_of: &[u32], tick: u64) -> SoFar {
        self.settle_log();
        let mut by_site = vec![Beyond::default(); self.sites.len()];
        let mut rows = Vec::new();
        let time_ns = self.clock.ns(tick);
        for &number in self.entry_of.values() {
            let entry = &self.entries[number as usize];
            let site = &mut by_site[entry.site as usize];
            let bucket = Sum::of(entry);
            site.bucket.add(&bucket);
            let peak = entry.live.at_peak(self.epoch);
            site.peak += peak;
            if peak.bytes > 0 {
                site.peaks.push((entry.thread, peak.bytes));
            }
            if process_of.get(entry.thread as usize) == Some(&process) {
                site.now += entry.live.now;
                if entry.live.now.bytes > 0 {
                    site.nows.push((entry.thread, entry.live.now.bytes));
                }
            }
            let mut sum = self.sums.of(number);
            sum.add(&bucket);
            rows.push((entry.thread, self.sites[entry.site as usize].stack, sum));
        }
        rows.extend(self.sums.of_ended.iter().map(|(&stack, &(thread, sum))| (thread, stack, sum)));
        rows.retain(|(_, _, sum)| *sum != Sum::default());
        rows.sort_unstable_by_key(|&(thread, stack, _)| (thread, stack));
        self.add_living(&mut by_site, tick);
        let sites = self.sites.iter().zip(by_site).map(|(site, mut beyond)| {
            let mut site = site.clone();
            site.made += beyond.bucket.made;
            add(&mut site.temporary, beyond.bucket.temporary);
            add(&mut site.unused_bytes, beyond.bucket.unused);
            site.chains.merge(&beyond.chains);
            site.lifetime = site.lifetime.wrapping_add(beyond.lifetime);
            // What other processes have or had at their end was not freed either.
            site.live += site.exit;
            site.live -= beyond.now;
            site.exit = beyond.now;
            site.forget_leaks();
            beyond.peaks.sort_unstable();
            beyond.nows.sort_unstable();
            site.outcome(beyond.peak, beyond.peaks, beyond.nows, &self.weights, &self.clock)
        });
        SoFar {
            sites: sites.collect(),
            transfers: self.transfers(),
            rows: rows
                .into_iter()
                .map(|(thread, stack, sum)| sum.row(time_ns, thread, stack, &self.weights))
                .collect(),
            counters: self.heights(time_ns),
        }
    }

    /// Adds what is counted when blocks end, for those that have not.
    fn add_living(&self, by_site: &mut [Beyond], tick: u64) {
        let mut lived = |entry: u32, weight: Weight, since: u64| {
            let site = &mut by_site[self.entries[entry as usize].site as usize];
            let ticks = u128::from(tick.saturating_sub(since));
            site.lifetime = site.lifetime.wrapping_add(ticks * u128::from(weight.blocks));
        };
        let mut grown = Vec::new();
        for process in &self.processes {
            let away = process.away.values().filter_map(|away| away.block.as_ref());
            let own = process.blocks.iter().map(|(_, block)| block).filter(|block| !block.inherited());
            for block in own.chain(away) {
                let weight = self.weights.of(block.size());
                lived(block.entry, weight, block.tick);
                if block.chain() == Chain::Growing {
                    grown.push((block.entry, block.size(), weight));
                }
            }
            let mut seen = FxHashSet::default();
            for piece in process.mappings.pieces().filter(|piece| seen.insert(piece.mapping())) {
                lived(piece.entry, Weight { blocks: self.weights.unit(), bytes: 0 }, piece.tick);
            }
        }
        for (entry, size, weight) in grown {
            by_site[self.entries[entry as usize].site as usize].chains.reached(size, weight);
        }
    }

    /// Live bytes: how they went, where there is one process, and how much each has now.
    fn heights(&self, now_ns: u64) -> Vec<CounterRow> {
        let row = |process, time_ns, value| CounterRow { process, kind: CounterKind::Live, time_ns, value };
        let course = self.course.points().filter(|&(time_ns, _)| time_ns < now_ns);
        let course = course.filter(|_| self.processes.len() == 1);
        let mut rows: Vec<_> = course.map(|(time_ns, value)| row(0, time_ns, value)).collect();
        let living = self.processes.iter().enumerate().filter(|(_, process)| !process.ended);
        rows.extend(living.map(|(number, process)| row(number as u32, now_ns, process.live.now.bytes)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::SWEEP_AFTER;
    use super::super::*;
    use crate::outcome::Site;

    fn at(thread: u32, tick: u64, address: u64) -> At {
        At { process: 0, thread, tick, address, force: true }
    }

    /// Two threads of one process: blocks of both, temporary ones, a transfer, growth, over several buckets.
    fn tally(look: bool) -> Tally {
        let clock = Clock::start();
        let second = clock.span_ticks(1_000_000_000);
        let first = clock.first_tick();
        let mut tally = Tally::new(clock, None, 1);
        tally.add_process(false);
        let threads = [tally.add_thread(), tally.add_thread()];
        for step in 0..300u64 {
            let tick = first + step * second / 50;
            let thread = threads[(step % 2) as usize];
            let entry = tally.entry((step % 7) as u32, thread);
            tally.alloc(&at(thread, tick, 0x1000 + step * 64), entry, 10 + step);
            match step % 5 {
                1 => drop(tally.free(&at(thread, tick + 1, 0x1000 + step * 64))),
                2 => drop(tally.free(&at(threads[0], tick + 1, 0x1000 + (step - 2) * 64))),
                3 => {
                    tally.leave(&at(thread, tick + 1, 0x1000 + step * 64), 0);
                    tally.realloc(&at(thread, tick + 2, 0x100_000 + step * 64), 0, entry, 40 + 3 * step);
                }
                _ => {}
            }
            if look && step % 10 == 0 {
                tally.so_far(0, &[0, 0], tick + 5);
            }
        }
        tally
    }

    fn end(tally: &Tally) -> u64 {
        tally.clock.first_tick() + tally.clock.span_ticks(6_000_000_000)
    }

    #[test]
    fn what_is_known_so_far_is_what_would_be_known_if_it_ended_now() {
        let mut tally = tally(false);
        let tick = end(&tally);
        let so_far = tally.so_far(0, &[0, 0], tick);
        tally.end_process(0, tick, crate::tally::End::Exit);
        let (sites, transfers) = tally.finish();
        let numbers = |sites: &[Site]| {
            let of = |site: &Site| {
                (site.stack, site.counts, site.peak_by_thread.clone(), site.exit_by_thread.clone())
            };
            sites.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&so_far.sites), numbers(&sites));
        assert_eq!(so_far.transfers, transfers);
        let mut sums = FxHashMap::<(u32, u32), [u64; 4]>::default();
        for row in &tally.rows {
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
    fn looking_changes_nothing() {
        let (mut seen, mut unseen) = (tally(true), tally(false));
        for tally in [&mut seen, &mut unseen] {
            let tick = end(tally);
            tally.end_process(0, tick, crate::tally::End::Exit);
        }
        let counts = |sites: Vec<Site>| {
            let of = |site: Site| (site.stack, HeapCounts { lifetime_ns: 0, ..site.counts }, site.sizes);
            sites.into_iter().map(of).collect::<Vec<_>>()
        };
        let ((seen_sites, seen_transfers), (sites, transfers)) = (seen.finish(), unseen.finish());
        assert_eq!((counts(seen_sites), seen_transfers), (counts(sites), transfers));
        assert_eq!(seen.rows.len(), unseen.rows.len());
        assert_eq!(seen.totals.peak_bytes, unseen.totals.peak_bytes);
    }

    #[test]
    fn only_what_one_process_has_is_live() {
        let mut tally = Tally::new(Clock::start(), None, 1);
        for process in 0..2 {
            tally.add_process(process > 0);
            let thread = tally.add_thread();
            let entry = tally.entry(0, thread);
            let size = 100 * (u64::from(process) + 1);
            tally.alloc(
                &At { process, thread, tick: crate::sys::ticks(), address: 0x1000, force: true },
                entry,
                size,
            );
        }
        let counts = tally.so_far(1, &[0, 1], crate::sys::ticks()).sites[0].counts;
        assert_eq!((counts.live_at_exit_bytes, counts.live_at_exit_blocks), (200, 1));
        assert_eq!((counts.bytes_allocated, counts.frees, counts.peak_bytes), (300, 0, 300));
    }

    #[test]
    fn threads_that_are_swept_away_are_counted_with_the_first_of_them() {
        let mut tally = Tally::new(Clock::start(), None, 1);
        tally.add_process(false);
        let second = tally.clock.span_ticks(1_000_000_000);
        let mut tick = tally.clock.first_tick();
        // The peak, which nothing below comes near to.
        let main = tally.add_thread();
        let entry = tally.entry(9, main);
        tally.alloc(&at(main, tick, 0x10), entry, 1 << 20);
        tally.free(&at(main, tick, 0x10));
        for _ in 0..3 * SWEEP_AFTER {
            let thread = tally.add_thread();
            let entry = tally.entry(3, thread);
            tick += second;
            tally.alloc(&at(thread, tick, 0x1000), entry, 10);
            tally.free(&at(thread, tick + 1, 0x1000));
            tally.end_thread(thread);
        }
        tally.reach(tick + second);
        let threads = vec![0; 3 * SWEEP_AFTER + 1];
        let rows = tally.so_far(0, &threads, tick + second).rows;
        assert!(rows.len() < threads.len());
        let allocations: u64 = rows.iter().filter(|row| row.stack == 3).map(|row| row.allocations).sum();
        assert_eq!(allocations, 3 * SWEEP_AFTER as u64);
    }
}
