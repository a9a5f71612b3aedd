//! All counting of a profiler. This file does not deal with locks, clocks or files.
//!
//! The peak costs a few instructions per event, however many sites there are. Each time the total reaches a
//! new maximum, a number (`epoch`) changes. Each entry keeps its value from before its first change in the
//! current epoch. So if an entry has not changed in the last epoch, its current value is its value at the
//! peak; otherwise the kept value is.

use std::ops::{AddAssign, SubAssign};

use rustc_hash::FxHashMap;

use crate::origin::Origin;
use crate::outcome::{Outcome, Share, Site, TimelineRow, Totals, Transfer};
use crate::timeline::Timeline;

/// Blocks and their bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

impl Weight {
    pub(crate) fn one(bytes: u64) -> Self {
        Self { blocks: 1, bytes }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Weight {
    fn sub_assign(&mut self, other: Self) {
        self.blocks = self.blocks.saturating_sub(other.blocks);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// The thread and time of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) thread: u32,
    pub(crate) time_ns: u64,
}

/// A live block.
#[derive(Debug, Clone, Copy)]
struct Block {
    size: u64,
    allocated_ns: u64,
    entry: u32,
    /// The site that allocated the first block in its chain of reallocations.
    origin: u32,
    /// How many blocks its thread had allocated when this one was allocated.
    sequence: u64,
    /// It grew at least once.
    grew: bool,
    /// It shrank after that.
    shrank: bool,
}

/// A block that is being reallocated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    run: u32,
    block: Block,
}

/// The blocks that one thread allocated at one stack.
#[derive(Debug)]
struct Entry {
    site: u32,
    thread: u32,
    live: Weight,
    /// Live blocks before the first change in the epoch.
    kept: Weight,
    epoch: u64,
}

impl Entry {
    fn keep(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.kept = self.live;
        }
    }

    fn at_peak(&self, epoch: u64) -> Weight {
        if self.epoch == epoch { self.kept } else { self.live }
    }
}

/// All counts of a profiler.
#[derive(Debug)]
pub(crate) struct Tally {
    run: u32,
    blocks: FxHashMap<usize, Block>,
    sites: Vec<Site>,
    /// Per site, the blocks that it allocated first.
    origins: Vec<Origin>,
    site_of: FxHashMap<u32, u32>,
    entries: Vec<Entry>,
    entry_of: FxHashMap<(u32, u32), u32>,
    /// Blocks allocated by each thread.
    sequences: Vec<u64>,
    live: Weight,
    epoch: u64,
    totals: Totals,
    transfers: FxHashMap<(u32, u32), Weight>,
    timeline: Timeline,
}

impl Tally {
    pub(crate) fn new(run: u32) -> Self {
        Self {
            run,
            blocks: FxHashMap::default(),
            sites: Vec::new(),
            origins: Vec::new(),
            site_of: FxHashMap::default(),
            entries: Vec::new(),
            entry_of: FxHashMap::default(),
            sequences: Vec::new(),
            live: Weight::default(),
            epoch: 0,
            totals: Totals::default(),
            transfers: FxHashMap::default(),
            timeline: Timeline::default(),
        }
    }

    /// The live blocks and the totals so far.
    pub(crate) fn now(&self) -> (Weight, Totals) {
        (self.live, self.totals)
    }

    fn entry(&mut self, stack: u32, thread: u32) -> u32 {
        if let Some(&entry) = self.entry_of.get(&(stack, thread)) {
            return entry;
        }
        let next = self.sites.len() as u32;
        let site = *self.site_of.entry(stack).or_insert_with(|| {
            self.sites.push(Site { stack, ..Site::default() });
            self.origins.push(Origin::default());
            next
        });
        let entry = self.entries.len() as u32;
        // It had no live blocks at the last peak.
        let (live, kept) = (Weight::default(), Weight::default());
        self.entries.push(Entry { site, thread, live, kept, epoch: self.epoch });
        self.entry_of.insert((stack, thread), entry);
        entry
    }

    fn next_sequence(&mut self, thread: u32) -> u64 {
        let row = thread as usize;
        if self.sequences.len() <= row {
            self.sequences.resize(row + 1, 0);
        }
        self.sequences[row] += 1;
        self.sequences[row]
    }

    /// Adds a new block to the counts.
    fn add_block(&mut self, at: At, address: usize, block: Block) {
        let weight = Weight::one(block.size);
        let entry = &mut self.entries[block.entry as usize];
        entry.keep(self.epoch);
        entry.live += weight;
        let site = &mut self.sites[entry.site as usize];
        site.add_block(block.size, block.allocated_ns);
        self.live += weight;
        self.totals.allocated += weight;
        self.timeline.row(at.time_ns, block.entry).allocated += weight;
        // If an address is already known, code that is not counted has freed it.
        if let Some(lost) = self.blocks.insert(address, block) {
            self.remove_block(At { thread: self.entries[lost.entry as usize].thread, ..at }, &lost);
            self.origins[lost.origin as usize].freed(self.epoch, lost.size, lost.allocated_ns, at.time_ns);
        }
    }

    /// Removes a block from the counts.
    fn remove_block(&mut self, at: At, block: &Block) {
        let weight = Weight::one(block.size);
        let entry = &mut self.entries[block.entry as usize];
        entry.keep(self.epoch);
        entry.live -= weight;
        let site = &mut self.sites[entry.site as usize];
        site.remove_block(block.size, block.allocated_ns, at.time_ns);
        if entry.thread != at.thread {
            site.freed_elsewhere += 1;
            *self.transfers.entry((entry.thread, at.thread)).or_default() += weight;
        }
        self.live -= weight;
        self.totals.freed += weight;
        self.timeline.row(at.time_ns, block.entry).bytes_freed += block.size;
    }

    /// Checks for a new maximum, after the last change of an event. If the maximum is reached several times,
    /// the last one is the peak, as in the dhat crate.
    fn settle(&mut self, time_ns: u64) {
        if self.live.bytes >= self.totals.peak.bytes {
            self.totals.peak = self.live;
            self.totals.peak_ns = time_ns;
            self.epoch += 1;
        }
        self.timeline.trim();
    }

    /// A block was allocated.
    pub(crate) fn allocated(&mut self, at: At, stack: u32, address: usize, size: u64) {
        let entry = self.entry(stack, at.thread);
        let sequence = self.next_sequence(at.thread);
        let origin = self.entries[entry as usize].site;
        self.origins[origin as usize].allocated(self.epoch, size, at.time_ns);
        let allocated_ns = at.time_ns;
        self.add_block(
            at,
            address,
            Block { size, allocated_ns, entry, origin, sequence, grew: false, shrank: false },
        );
        self.settle(at.time_ns);
    }

    /// A block is freed.
    pub(crate) fn freed(&mut self, at: At, address: usize) {
        let Some(block) = self.blocks.remove(&address) else {
            self.totals.unknown_frees += 1;
            return;
        };
        self.remove_block(at, &block);
        self.origins[block.origin as usize].freed(self.epoch, block.size, block.allocated_ns, at.time_ns);
        let entry = &self.entries[block.entry as usize];
        let site = &mut self.sites[entry.site as usize];
        if block.grew && !block.shrank {
            site.reached(block.size);
        }
        let made_by_thread = self.sequences.get(at.thread as usize);
        if entry.thread == at.thread && made_by_thread == Some(&block.sequence) {
            site.temporary += 1;
            self.timeline.row(at.time_ns, block.entry).temporary += 1;
        }
    }

    /// Removes a block from the map, but not from the counts: it is about to be reallocated.
    pub(crate) fn take(&mut self, address: usize) -> Option<Taken> {
        self.blocks.remove(&address).map(|block| Taken { run: self.run, block })
    }

    /// Restores a block after a failed reallocation.
    pub(crate) fn put_back(&mut self, address: usize, taken: Taken) {
        if taken.run == self.run {
            self.blocks.insert(address, taken.block);
        }
    }

    /// A block was reallocated, in one step.
    pub(crate) fn replaced(
        &mut self,
        at: At,
        stack: u32,
        old: Option<Taken>,
        old_address: usize,
        address: usize,
        size: u64,
    ) {
        let old = old.filter(|taken| taken.run == self.run).map(|taken| taken.block);
        let entry = self.entry(stack, at.thread);
        let sequence = self.next_sequence(at.thread);
        let (mut grew, mut shrank) = (false, false);
        let mut origin = self.entries[entry as usize].site;
        match &old {
            Some(old) => {
                self.remove_block(at, old);
                origin = old.origin;
                self.origins[origin as usize].replaced(
                    self.epoch,
                    old.size,
                    old.allocated_ns,
                    size,
                    at.time_ns,
                );
                grew = old.grew || size > old.size;
                shrank = old.shrank || (old.grew && size < old.size);
                if shrank && !old.shrank {
                    self.sites[self.entries[old.entry as usize].site as usize].reached(old.size);
                }
                if size > old.size {
                    let copied = if address == old_address { 0 } else { old.size };
                    let site = &mut self.sites[self.entries[entry as usize].site as usize];
                    site.grown += 1;
                    site.bytes_copied += copied;
                    site.largest_grown = site.largest_grown.max(size);
                    site.growth_chains += u64::from(!old.grew);
                    if !shrank {
                        site.grew(size, copied);
                    }
                }
            }
            None => {
                self.totals.unknown_frees += 1;
                self.origins[origin as usize].allocated(self.epoch, size, at.time_ns);
            }
        }
        self.add_block(
            at,
            address,
            Block { size, allocated_ns: at.time_ns, entry, origin, sequence, grew, shrank },
        );
        self.settle(at.time_ns);
    }

    /// All results as of this time.
    pub(crate) fn outcome(&self, end_ns: u64) -> Outcome {
        let mut sites = self.sites.clone();
        let mut shares = Vec::new();
        for entry in &self.entries {
            let peak = entry.at_peak(self.epoch);
            sites[entry.site as usize].at_peak += peak;
            let (site, thread) = (entry.site, entry.thread);
            shares.push(Share { site, thread, at_peak: peak.bytes, live: entry.live.bytes });
        }
        for block in self.blocks.values().filter(|block| block.grew && !block.shrank) {
            sites[self.entries[block.entry as usize].site as usize].reached(block.size);
        }
        for site in &mut sites {
            site.end(end_ns);
        }
        let rows = self.timeline.rows().map(|(time_ns, row)| {
            let entry = &self.entries[row.entry as usize];
            let (allocated, bytes_freed, temporary) = (row.allocated, row.bytes_freed, row.temporary);
            TimelineRow { time_ns, site: entry.site, thread: entry.thread, allocated, bytes_freed, temporary }
        });
        let mut transfers: Vec<Transfer> =
            self.transfers.iter().map(|(&(from, to), &moved)| Transfer { from, to, moved }).collect();
        transfers.sort_unstable_by_key(|transfer| (transfer.from, transfer.to));
        let origins = self.origins.iter().map(|origin| origin.numbers(self.epoch, end_ns)).collect();
        Outcome {
            sites,
            origins,
            shares,
            rows: rows.collect(),
            transfers,
            totals: self.totals,
            live: self.live,
            end_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(thread: u32, time_ns: u64) -> At {
        At { thread, time_ns }
    }

    #[test]
    fn the_peak_is_kept_per_stack() {
        let mut tally = Tally::new(1);
        tally.allocated(at(0, 1), 10, 0x100, 100);
        tally.allocated(at(0, 2), 20, 0x200, 50);
        tally.freed(at(0, 3), 0x100);
        tally.allocated(at(1, 4), 30, 0x300, 40);
        tally.freed(at(0, 5), 0x200);
        let outcome = tally.outcome(9);
        std::assert_eq!(outcome.totals.peak, Weight { blocks: 2, bytes: 150 });
        std::assert_eq!(outcome.totals.peak_ns, 2);
        let peaks: Vec<u64> = outcome.sites.iter().map(|site| site.at_peak.bytes).collect();
        std::assert_eq!(peaks, [100, 50, 0]);
        let live: Vec<u64> = outcome.sites.iter().map(|site| site.live.bytes).collect();
        std::assert_eq!(live, [0, 0, 40]);
    }

    #[test]
    fn the_peak_is_right_in_any_order_of_events() {
        let mut seed = 7u64;
        let mut random = move |end: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % end
        };
        let mut tally = Tally::new(1);
        let mut blocks: Vec<(usize, u64, u32)> = Vec::new();
        let mut best = (0, Vec::new());
        for turn in 0..5000 {
            let stack = random(7) as u32 + 1;
            match random(3) {
                0 if !blocks.is_empty() => {
                    let (address, ..) = blocks.swap_remove(random(blocks.len() as u64) as usize);
                    tally.freed(at(0, turn), address);
                }
                1 if !blocks.is_empty() => {
                    let row = random(blocks.len() as u64) as usize;
                    let size = random(100);
                    let taken = tally.take(blocks[row].0);
                    tally.replaced(at(0, turn), stack, taken, blocks[row].0, blocks[row].0, size);
                    (blocks[row].1, blocks[row].2) = (size, stack);
                }
                _ => {
                    blocks.push((turn as usize + 1, random(100), stack));
                    tally.allocated(at(0, turn), stack, turn as usize + 1, blocks[blocks.len() - 1].1);
                }
            }
            let total: u64 = blocks.iter().map(|block| block.1).sum();
            if total > best.0 {
                best = (total, blocks.clone());
            }
        }
        let outcome = tally.outcome(5000);
        std::assert_eq!(outcome.totals.peak.bytes, best.0);
        std::assert_eq!(outcome.totals.peak.blocks, best.1.len() as u64);
        for site in &outcome.sites {
            let expected: u64 =
                best.1.iter().filter(|block| block.2 == site.stack).map(|block| block.1).sum();
            std::assert_eq!(site.at_peak.bytes, expected);
            let live: u64 = blocks.iter().filter(|block| block.2 == site.stack).map(|block| block.1).sum();
            std::assert_eq!(site.live.bytes, live);
        }
        std::assert_eq!(outcome.live.bytes, blocks.iter().map(|block| block.1).sum::<u64>());
    }

    #[test]
    fn distinguishes_growing_temporary_and_foreign_blocks() {
        let mut tally = Tally::new(1);
        tally.allocated(at(0, 1000), 10, 0x100, 8);
        let taken = tally.take(0x100);
        tally.replaced(at(0, 2000), 10, taken, 0x100, 0x180, 16);
        let taken = tally.take(0x180);
        tally.replaced(at(0, 3000), 10, taken, 0x180, 0x180, 32);
        tally.freed(at(0, 5000), 0x180);
        tally.allocated(at(0, 6000), 20, 0x200, 1);
        tally.freed(at(1, 6500), 0x200);
        tally.freed(at(1, 6600), 0x999);
        let outcome = tally.outcome(7000);
        let (grown, foreign) = (&outcome.sites[0], &outcome.sites[1]);
        std::assert_eq!((grown.grown, grown.growth_chains, grown.bytes_copied), (2, 1, 8));
        std::assert_eq!((grown.largest_grown, grown.temporary), (32, 1));
        let bar = |bits: usize| (grown.chains[bits].grown, grown.chains[bits].bytes_copied);
        std::assert_eq!((bar(5), bar(6)), ((1, 8), (1, 0)));
        std::assert_eq!((grown.chains[6].reached, grown.chains[6].largest), (Weight::one(32), 32));
        std::assert_eq!(grown.allocated, Weight { blocks: 3, bytes: 56 });
        std::assert_eq!(grown.lifetime_ns, 1000 + 1000 + 2000);
        std::assert_eq!((foreign.temporary, foreign.freed_elsewhere, foreign.lifetime_ns), (0, 1, 500));
        std::assert_eq!(outcome.totals.unknown_frees, 1);
        std::assert_eq!(outcome.totals.peak.bytes, 32);
        let moved = Weight { blocks: 1, bytes: 1 };
        std::assert_eq!(outcome.transfers, [Transfer { from: 0, to: 1, moved }]);
    }
}
