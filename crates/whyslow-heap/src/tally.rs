//! All counting. Events come in the order of time; nothing here knows of rings, processes' memory or the clock on the wall.
//!
//! The peak costs a few instructions per event, however many sites there are: whenever the total reaches a new maximum,
//! a number (`epoch`) changes. Each entry keeps what it had before its first change in the current epoch. So at the
//! end, an entry that has not changed in the last epoch had at the peak what it has now, and any other what it kept.

mod ends;
mod inherit;
mod log;
mod rows;
mod so_far;

use rustc_hash::FxHashMap;
use whyslow_profile::{Growth, HeapCounts};

use crate::blocks::{Block, Blocks, Cut, Mappings};
use crate::chains::Chain;
use crate::clock::Clock;
use crate::course::Course;
use crate::leaks::{Live, LiveBlock};
use crate::outcome::{CounterRow, TimelineRow};
use crate::sites::SiteState;
use crate::timeline::Timeline;
use crate::weight::{Weight, Weights, add};
pub(crate) use ends::End;
use inherit::{Inherits, LatelyFreed, Legacy};
use log::Log;
use so_far::Sums;

/// A number that remembers what it was at the peak.
#[derive(Debug, Default, Clone, Copy)]
struct Peaked {
    now: Weight,
    kept: Weight,
    epoch: u64,
}

impl Peaked {
    /// Nothing yet, also at the last peak.
    fn new(epoch: u64) -> Self {
        Self { epoch, ..Self::default() }
    }

    #[inline]
    fn keep(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.kept = self.now;
        }
    }

    #[inline]
    fn add(&mut self, weight: Weight, epoch: u64) {
        self.keep(epoch);
        self.now += weight;
    }

    #[inline]
    fn subtract(&mut self, weight: Weight, epoch: u64) {
        self.keep(epoch);
        self.now -= weight;
    }

    fn at_peak(&self, epoch: u64) -> Weight {
        if self.epoch == epoch { self.kept } else { self.now }
    }
}

/// What one thread made at one stack: two cache lines.
#[derive(Debug)]
#[repr(align(64))]
struct Entry {
    site: u32,
    thread: u32,
    /// Whether it is in the list of those that changed in this bucket.
    touched: bool,
    live: Peaked,
    /// Bytes that were live when the process ended.
    exit_bytes: u64,
    // This bucket's row.
    made: Weight,
    bytes_freed: u64,
    temporary: u64,
    unused: u64,
}

#[derive(Debug)]
struct Thread {
    /// Blocks it made.
    sequence: u32,
    ended: bool,
}

#[derive(Debug)]
struct Process {
    /// Its blocks' history began in another process.
    forked: bool,
    ended: bool,
    live: Peaked,
    /// The most bytes that were live.
    peak: u64,
    /// What was live when it ended.
    exit: Weight,
    blocks: Blocks,
    mappings: Mappings,
    /// Blocks without an address, by the ring whose writer moves them.
    away: FxHashMap<usize, Away>,
    /// What it has of the process that it was forked from.
    inherits: Inherits,
    /// Blocks that it freed or moved last.
    lately_freed: LatelyFreed,
}

/// A block that is being moved, if it was known, and where it was.
#[derive(Debug)]
struct Away {
    address: u64,
    block: Option<Block>,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// It is counted, and the block it ended was known, if it ended one.
    Known,
    /// It is counted, but the block it ended was not known.
    Unknown,
    /// It contradicts what is known; nothing has changed.
    Refused,
}

/// The place of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub process: u32,
    pub thread: u32,
    pub tick: u64,
    pub address: u64,
    /// Count it even if it contradicts what is known.
    pub force: bool,
}

/// Facts of the whole.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Totals {
    pub peak_bytes: u64,
    pub peak_tick: u64,
    pub unknown_frees: u64,
    pub inherited_frees: u64,
    /// Blocks whose address was given out again without a free.
    pub lost_frees: u64,
    /// Of the estimated bytes, when blocks are sampled.
    variance: f64,
    bytes_allocated: u64,
}

/// The numbers.
#[derive(Debug)]
pub(crate) struct Tally {
    pub clock: Clock,
    pub weights: Weights,
    temporary_within: u32,
    sites: Vec<SiteState>,
    site_of_stack: FxHashMap<u32, u32>,
    entries: Vec<Entry>,
    /// The same as in each entry, close together.
    site_of_entry: Vec<u32>,
    free_entries: Vec<u32>,
    entry_of: FxHashMap<(u32, u32), u32>,
    threads: Vec<Thread>,
    processes: Vec<Process>,
    live_bytes: u64,
    epoch: u64,
    pub totals: Totals,
    transfers: FxHashMap<(u32, u32), Weight>,
    timeline: Timeline,
    /// Where the next rows start, and how long they are put off at least, in ticks.
    rows_from: u64,
    rows_until: u64,
    touched: Vec<u32>,
    /// What happened at entries but is not counted there yet.
    log: Log,
    /// What all rows so far add up to.
    sums: Sums,
    /// The peak moved in this bucket.
    peaked: bool,
    /// Threads that ended since entries were last thrown away.
    ended_threads: usize,
    /// Blocks for processes that are forked.
    legacy: Legacy,
    /// Live bytes of everything.
    course: Course,
    pub rows: Vec<TimelineRow>,
    pub counters: Vec<CounterRow>,
}

/// Allocating thread, freeing thread, blocks, bytes.
type Transfer = (u32, u32, u64, u64);
/// Threads and bytes.
type ByThread = Vec<(u32, u64)>;

impl Tally {
    pub(crate) fn new(clock: Clock, sample_bytes: Option<u64>, temporary_within: u64) -> Self {
        Self {
            clock,
            weights: Weights::new(sample_bytes),
            temporary_within: u32::try_from(temporary_within).unwrap_or(u32::MAX),
            sites: Vec::new(),
            site_of_stack: FxHashMap::default(),
            entries: Vec::new(),
            site_of_entry: Vec::new(),
            free_entries: Vec::new(),
            entry_of: FxHashMap::default(),
            threads: Vec::new(),
            processes: Vec::new(),
            live_bytes: 0,
            epoch: 0,
            totals: Totals::default(),
            transfers: FxHashMap::default(),
            timeline: Timeline::new(&clock),
            rows_from: clock.first_tick(),
            rows_until: 0,
            touched: Vec::new(),
            log: Log::default(),
            sums: Sums::default(),
            peaked: false,
            ended_threads: 0,
            legacy: Legacy::default(),
            course: Course::default(),
            rows: Vec::new(),
            counters: Vec::new(),
        }
    }

    /// A new process: its row.
    pub(crate) fn add_process(&mut self, forked: bool) -> u32 {
        self.processes.push(Process {
            forked,
            ended: false,
            live: Peaked::new(self.epoch),
            peak: 0,
            exit: Weight::default(),
            blocks: Blocks::default(),
            mappings: Mappings::default(),
            away: FxHashMap::default(),
            inherits: Inherits::default(),
            lately_freed: LatelyFreed::default(),
        });
        self.processes.len() as u32 - 1
    }

    /// A new thread: its row.
    pub(crate) fn add_thread(&mut self) -> u32 {
        self.threads.push(Thread { sequence: 0, ended: false });
        self.threads.len() as u32 - 1
    }

    /// A thread is gone, and all its events are counted.
    pub(crate) fn end_thread(&mut self, thread: u32) {
        self.threads[thread as usize].ended = true;
        self.ended_threads += 1;
    }

    fn site(&mut self, stack: u32) -> u32 {
        let next = self.sites.len() as u32;
        *self.site_of_stack.entry(stack).or_insert_with(|| {
            self.sites.push(SiteState::new(stack));
            next
        })
    }

    /// The entry of a stack and a thread. It stays valid while the thread lives or has live blocks there.
    pub(crate) fn entry(&mut self, stack: u32, thread: u32) -> u32 {
        if let Some(&entry) = self.entry_of.get(&(stack, thread)) {
            return entry;
        }
        let site = self.site(stack);
        let new = Entry {
            site,
            thread,
            touched: false,
            live: Peaked::new(self.epoch),
            exit_bytes: 0,
            made: Weight::default(),
            bytes_freed: 0,
            temporary: 0,
            unused: 0,
        };
        let entry = match self.free_entries.pop() {
            Some(entry) => {
                self.entries[entry as usize] = new;
                self.site_of_entry[entry as usize] = site;
                entry
            }
            None => {
                self.entries.push(new);
                self.site_of_entry.push(site);
                self.entries.len() as u32 - 1
            }
        };
        self.entry_of.insert((stack, thread), entry);
        entry
    }

    #[inline]
    fn touch(touched: &mut Vec<u32>, entry: &mut Entry, number: u32) {
        if !entry.touched {
            entry.touched = true;
            touched.push(number);
        }
    }

    /// Counts a new block or mapping in.
    #[inline]
    fn came(&mut self, process: u32, weight: Weight) {
        let process = &mut self.processes[process as usize];
        process.live.add(weight, self.epoch);
        process.peak = process.peak.max(process.live.now.bytes);
        add(&mut self.live_bytes, weight.bytes);
    }

    /// Counts something out.
    #[inline]
    fn gone_from(&mut self, process: u32, weight: Weight) {
        self.processes[process as usize].live.subtract(weight, self.epoch);
        self.live_bytes = self.live_bytes.wrapping_sub(weight.bytes);
    }

    /// Counts a block out that this thread frees or moves.
    #[inline]
    fn went(&mut self, at: &At, block: &Block, freed: bool) {
        self.note_went(at.thread, block, at.tick.saturating_sub(block.tick), freed);
        self.gone_from(at.process, self.weights.of(block.size()));
    }

    /// Looks whether this is a new maximum, after the last change that belongs to a moment.
    #[inline]
    fn settle(&mut self, tick: u64) {
        if self.live_bytes > self.totals.peak_bytes {
            self.totals.peak_bytes = self.live_bytes;
            self.totals.peak_tick = tick;
            self.epoch += 1;
            self.peaked = true;
        }
    }

    #[inline]
    fn next_sequence(&mut self, thread: u32) -> u32 {
        let thread = &mut self.threads[thread as usize];
        thread.sequence = thread.sequence.wrapping_add(1);
        thread.sequence
    }

    /// A new block.
    #[inline]
    pub(crate) fn alloc(&mut self, at: &At, entry: u32, size: u64) -> Applied {
        let blocks = &mut self.processes[at.process as usize].blocks;
        if !at.force && blocks.get(at.address).is_some_and(|block| !block.inherited()) {
            return Applied::Refused;
        }
        self.reach(at.tick);
        let sequence = self.next_sequence(at.thread);
        let block = Block::new(size, at.tick, entry, sequence, Chain::None);
        self.put(at, block);
        self.made(at, entry, size);
        self.settle(at.tick);
        Applied::Known
    }

    #[inline]
    fn made(&mut self, at: &At, entry: u32, size: u64) {
        if self.weights.sampled() {
            self.totals.variance += self.weights.variance(size);
        }
        self.note_came(entry, at.thread, size);
        self.came(at.process, self.weights.of(size));
    }

    /// Notes a block. If there is one already, its free was lost, or the process never had it.
    #[inline]
    fn put(&mut self, at: &At, block: Block) {
        let blocks = &mut self.processes[at.process as usize].blocks;
        if let Some(lost) = blocks.insert(at.address, block).filter(|lost| !lost.inherited()) {
            self.totals.lost_frees += 1;
            // Nobody knows which thread freed it: its own, so that nothing is made up.
            let at = At { thread: self.entries[lost.entry as usize].thread, ..*at };
            self.went(&at, &lost, false);
            self.note_chain_end(&lost);
        }
    }

    /// Counts a free of nothing known. With sampling, most blocks are not known.
    fn unknown_free(&mut self, process: u32) {
        if self.weights.sampled() {
            return;
        }
        if self.processes[process as usize].forked {
            self.totals.inherited_frees += 1;
        } else {
            self.totals.unknown_frees += 1;
        }
    }

    /// A block is given back.
    #[inline]
    pub(crate) fn free(&mut self, at: &At) -> Applied {
        let process = &mut self.processes[at.process as usize];
        let Some(block) = process.blocks.remove(at.address) else {
            if !at.force {
                return Applied::Refused;
            }
            self.unknown_free(at.process);
            return Applied::Unknown;
        };
        if self.legacy.kept {
            process.lately_freed.add(at.address, block);
        }
        if block.inherited() {
            self.unknown_free(at.process);
            return Applied::Known;
        }
        self.freed(at, &block);
        Applied::Known
    }

    #[inline]
    fn freed(&mut self, at: &At, block: &Block) {
        self.reach(at.tick);
        self.went(at, block, true);
        self.note_chain_end(block);
    }

    /// A block is about to be moved or resized by the writer of this ring: it lives on without an address.
    pub(crate) fn leave(&mut self, at: &At, ring: usize) -> Applied {
        let process = &mut self.processes[at.process as usize];
        let block = process.blocks.remove(at.address);
        if block.is_none() && !at.force {
            return Applied::Refused;
        }
        if let Some(block) = block.filter(|_| self.legacy.kept) {
            process.lately_freed.add(at.address, block);
        }
        let block = block.filter(|block| !block.inherited());
        if let Some(before) = process.away.insert(ring, Away { address: at.address, block }) {
            self.put_back(at, before);
        }
        Applied::Known
    }

    /// The block that left is here now, with another size: in one step. Also the address that a known block had.
    pub(crate) fn realloc(&mut self, at: &At, ring: usize, entry: u32, size: u64) -> (Applied, Option<u64>) {
        let process = &mut self.processes[at.process as usize];
        if !at.force && process.blocks.get(at.address).is_some_and(|block| !block.inherited()) {
            return (Applied::Refused, None);
        }
        let away = process.away.remove(&ring);
        let left_without_trace = matches!(away, Some(Away { block: None, .. }));
        let old = away.and_then(|away| Some((away.address, away.block?)));
        self.reach(at.tick);
        let sequence = self.next_sequence(at.thread);
        let mut chain = Chain::None;
        if let Some((_, old)) = &old {
            self.went(at, old, false);
            // A sampled block is lost sight of when it grows, unless it is drawn again: its growth cannot be told.
            chain = if self.weights.sampled() { Chain::None } else { old.chain().after(old.size(), size) };
            if chain == Chain::Shrunk {
                self.note_chain_end(old);
            }
        }
        self.put(at, Block::new(size, at.tick, entry, sequence, chain));
        self.made(at, entry, size);
        let grown = old.as_ref().filter(|(_, old)| size > old.size() && !self.weights.sampled());
        if let Some((old_address, old)) = grown {
            let copied = if at.address == *old_address { 0 } else { old.size() };
            self.note_grew(entry, size, copied, old.chain());
        }
        self.settle(at.tick);
        if left_without_trace {
            self.unknown_free(at.process);
        }
        match old {
            Some((old_address, _)) => (Applied::Known, Some(old_address)),
            None => (Applied::Unknown, None),
        }
    }

    /// The block that left is where it was.
    pub(crate) fn stay(&mut self, at: &At, ring: usize) -> Applied {
        let process = &mut self.processes[at.process as usize];
        let Some(away) = process.away.get(&ring) else { return Applied::Unknown };
        let taken = || process.blocks.get(away.address).is_some_and(|block| !block.inherited());
        if !at.force && away.block.is_some() && taken() {
            return Applied::Refused;
        }
        if let Some(away) = process.away.remove(&ring) {
            self.put_back(at, away);
        }
        Applied::Known
    }

    fn put_back(&mut self, at: &At, away: Away) {
        if let Some(block) = away.block {
            self.put(&At { address: away.address, ..*at }, block);
        }
    }

    /// The block that left was freed.
    pub(crate) fn gone(&mut self, at: &At, ring: usize) -> Applied {
        match self.processes[at.process as usize].away.remove(&ring) {
            Some(Away { block: Some(block), .. }) => {
                self.freed(at, &block);
                Applied::Known
            }
            Some(Away { block: None, .. }) => {
                self.unknown_free(at.process);
                Applied::Unknown
            }
            None => Applied::Unknown,
        }
    }

    /// So many bytes of a block were never written.
    pub(crate) fn unused(&mut self, at: &At, bytes: u64) {
        let block = self.processes[at.process as usize].blocks.get(at.address);
        let Some(block) = block.filter(|block| !block.inherited()) else { return };
        let (number, size) = (block.entry, block.size());
        self.reach(at.tick);
        self.note_examined(number, size, bytes);
    }

    /// A new mapping, over whatever was mapped there.
    pub(crate) fn map(&mut self, at: &At, entry: u32, size: u64) {
        self.reach(at.tick);
        self.cut(at, size);
        self.next_sequence(at.thread);
        self.processes[at.process as usize].mappings.add(at.address, size, at.tick, entry);
        // Mappings are recorded always, never sampled.
        self.note_mapped(entry, at.thread, size);
        self.came(at.process, Weight { blocks: self.weights.unit(), bytes: size });
        self.settle(at.tick);
    }

    /// A range is no longer mapped.
    pub(crate) fn unmap(&mut self, at: &At, size: u64) {
        self.reach(at.tick);
        self.cut(at, size);
    }

    fn cut(&mut self, at: &At, size: u64) {
        for cut in self.processes[at.process as usize].mappings.cut(at.address, size) {
            self.note_cut(&cut, at.tick.saturating_sub(cut.piece.tick));
            self.gone_from(at.process, self.cut_weight(&cut));
        }
    }

    /// A part counts as bytes only, until it is the last one.
    fn cut_weight(&self, cut: &Cut) -> Weight {
        let blocks = if cut.last { self.weights.unit() } else { 0 };
        Weight { blocks, bytes: cut.len }
    }

    /// The live blocks of a process, by address. One that is being moved is where it was: its memory is as it was, or unmapped.
    pub(crate) fn live(&self, process: u32) -> Live {
        let Process { blocks, away, .. } = &self.processes[process as usize];
        let moving = !away.is_empty();
        let away = away.values().filter_map(|away| Some((away.address, away.block.as_ref()?)));
        let mut blocks: Vec<LiveBlock> = away
            .filter(|(address, _)| blocks.get(*address).is_none())
            .chain(blocks.iter())
            .map(|(address, block)| {
                let site = self.entries[block.entry as usize].site;
                let site = self.sites[site as usize].stack;
                LiveBlock { address, size: block.size(), site, inherited: block.inherited() }
            })
            .collect();
        blocks.sort_unstable_by_key(|block| block.address);
        inherit::drop_replaced(&mut blocks);
        Live { blocks, moving }
    }

    /// The peak of a process, and what was live when it ended: bytes and blocks.
    pub(crate) fn of_process(&self, process: u32) -> (u64, u64, u64) {
        let process = &self.processes[process as usize];
        (process.peak, process.exit.bytes, self.weights.blocks(process.exit.blocks))
    }

    /// Whether a process has any live block of its own.
    pub(crate) fn has_blocks(&self, process: u32) -> bool {
        let Process { blocks, away, .. } = &self.processes[process as usize];
        !away.is_empty() || blocks.iter().any(|(_, block)| !block.inherited())
    }

    /// Adds what a look at a process found.
    pub(crate) fn add_findings(&mut self, findings: &[(u32, HeapCounts)]) {
        for (stack, counts) in findings {
            let site = self.site(*stack);
            self.sites[site as usize].add_findings(counts);
        }
    }

    /// Asks for the memory that an event will need that comes soon.
    #[inline]
    pub(crate) fn expect(&self, process: u32, address: u64) {
        self.processes[process as usize].blocks.prefetch(address);
    }

    /// Relative standard error of the estimated bytes.
    pub(crate) fn sample_error(&self) -> Option<f64> {
        self.weights
            .sampled()
            .then(|| self.totals.variance.sqrt() / (self.totals.bytes_allocated.max(1) as f64))
    }

    /// How live bytes of everything went.
    pub(crate) fn growth(&self) -> Growth {
        self.course.growth()
    }
}
