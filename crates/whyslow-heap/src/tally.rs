//! All counting. Events arrive in time order; nothing here depends on rings, process memory or wall-clock
//! time.
//!
//! ```text
//! ledger     which blocks are live, and which thread and stack allocated them     counts nothing
//! heights    live bytes of all processes and of each process; the peak
//! accounts   counts by stack and thread                                           entries, log; sites
//! threads    number of blocks that each thread has allocated
//! calendar   buckets and rows of the timeline
//! ```
//! An event changes each of them by one call. This file defines what an event means, [`ends`] the end of
//! processes and of everything, [`so_far`] a snapshot in between.

mod accounts;
mod calendar;
mod ends;
mod entries;
mod ledger;
mod log;
mod peak;
mod so_far;
mod threads;

use whyslow_agent_host::Clock;
pub(crate) use whyslow_agent_host::End;
use whyslow_profile::{Growth, HeapCounts};

use crate::blocks::{Block, Cut};
use crate::chains::Chain;
use crate::ids::{Address, EntryRow, ProcessRow, RingNumber, StackRow, ThreadRow, Tick};
use crate::leaks::{Live, LiveBlock};
use crate::outcome::{CounterRow, TimelineRow};
use crate::weight::{Weight, Weights};
use accounts::Accounts;
use calendar::Calendar;
use ledger::{Ledger, Moving, NotKnown};
use peak::Heights;
pub(crate) use peak::Peak;
use threads::Threads;

/// The result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// Counted. If it ended a block, the block was known.
    Known,
    /// Counted, but the block that it ended was not known.
    Unknown,
    /// It contradicts the known state; nothing has changed.
    Refused,
}

/// Where and when an event happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub process: ProcessRow,
    pub thread: ThreadRow,
    pub tick: Tick,
    pub address: Address,
    /// Count the event even if it contradicts the known state.
    pub force: bool,
}

/// Totals of events that are visible nowhere else.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Totals {
    pub unknown_frees: u64,
    pub inherited_frees: u64,
    /// Blocks whose address was allocated again without a free.
    pub lost_frees: u64,
    /// Variance of the estimated bytes, when blocks are sampled.
    variance: f64,
    bytes_allocated: u64,
}

/// Settings for all counting.
#[derive(Debug)]
struct Rules {
    clock: Clock,
    weights: Weights,
    /// The maximum number of allocations of its thread that a temporary block outlives.
    temporary_within: u32,
}

/// All counts.
#[derive(Debug)]
pub(crate) struct Tally {
    rules: Rules,
    ledger: Ledger,
    heights: Heights,
    accounts: Accounts,
    threads: Threads,
    calendar: Calendar,
    totals: Totals,
}

impl Tally {
    pub(crate) fn new(clock: Clock, sample_bytes: Option<u64>, temporary_within: u64) -> Self {
        let temporary_within = u32::try_from(temporary_within).unwrap_or(u32::MAX);
        Self {
            rules: Rules { clock, weights: Weights::new(sample_bytes), temporary_within },
            ledger: Ledger::default(),
            heights: Heights::default(),
            accounts: Accounts::default(),
            threads: Threads::default(),
            calendar: Calendar::new(&clock),
            totals: Totals::default(),
        }
    }

    pub(crate) fn process_added(&mut self, forked: bool) -> ProcessRow {
        self.ledger.process_added(forked);
        self.heights.process_added()
    }

    pub(crate) fn thread_added(&mut self) -> ThreadRow {
        self.threads.added()
    }

    /// Notes that a thread has exited and all its events are counted.
    pub(crate) fn thread_ended(&mut self, thread: ThreadRow) {
        self.threads.ended(thread);
    }

    /// From now on, keeps what a leak check of a forked process needs.
    pub(crate) fn keep_legacy(&mut self) {
        self.ledger.keep_legacy();
    }

    /// Notes that a process without events so far was forked from this one: it has its blocks.
    #[cold]
    pub(crate) fn forked(&mut self, process: ProcessRow, parent: ProcessRow) {
        if !self.heights.has_ended(process) {
            self.ledger.forked(process, parent, self.heights.has_ended(parent));
        }
    }

    /// The entry of a stack and a thread. It remains valid while the thread runs or has live blocks there.
    pub(crate) fn entry(&mut self, stack: StackRow, thread: ThreadRow) -> EntryRow {
        self.accounts.entry(stack, thread, self.heights.epoch())
    }

    /// Prefetches the memory that an upcoming event will need.
    #[inline]
    pub(crate) fn expect(&self, process: ProcessRow, address: Address) {
        self.ledger.expect(process, address);
    }

    /// Counts an allocated block.
    #[inline]
    pub(crate) fn allocated(&mut self, at: &At, entry: EntryRow, size: u64) -> Applied {
        if !at.force && self.ledger.own_block(at.process, at.address).is_some() {
            return Applied::Refused;
        }
        self.reach(at.tick);
        let sequence = self.threads.allocated(at.thread);
        self.put(at, Block::new(size, at.tick, entry, sequence, Chain::None));
        self.count_allocated(at, entry, size);
        self.heights.moment_ended(at.tick);
        Applied::Known
    }

    #[inline]
    fn count_allocated(&mut self, at: &At, entry: EntryRow, size: u64) {
        let Rules { weights, .. } = &self.rules;
        if weights.sampled() {
            self.totals.variance += weights.variance(size);
        }
        let weight = weights.of(size);
        self.accounts.allocated(entry, at.thread, size, self.heights.epoch(), &self.rules);
        self.heights.allocated(at.process, weight);
    }

    /// Puts a block into the ledger. If there already is one, its free was lost.
    #[inline]
    fn put(&mut self, at: &At, block: Block) {
        if let Some(lost) = self.ledger.allocated(at.process, at.address, block) {
            self.free_was_lost(at, &lost);
        }
    }

    #[cold]
    fn free_was_lost(&mut self, at: &At, lost: &Block) {
        self.totals.lost_frees += 1;
        // The freeing thread is unknown. The block's own thread is assumed, so that no transfer is invented.
        let at = At { thread: self.accounts.entries().get(lost.entry).thread(), ..*at };
        self.count_freed(&at, lost, None);
        self.accounts.growth_ended(lost, self.heights.epoch(), &self.rules);
    }

    /// Counts a block that this thread frees. `made_since` is the number of blocks that the thread has
    /// allocated since; without it, the block is moved.
    #[inline]
    fn count_freed(&mut self, at: &At, block: &Block, made_since: Option<u32>) {
        let ticks = at.tick.since(block.tick);
        self.accounts.freed(block, at.thread, ticks, made_since, self.heights.epoch(), &self.rules);
        self.heights.freed(at.process, self.rules.weights.of(block.size()));
    }

    /// Counts a free of an unknown block. With sampling, most blocks are unknown.
    fn count_unknown_free(&mut self, process: ProcessRow) {
        if self.rules.weights.sampled() {
            return;
        }
        if self.ledger.is_forked(process) {
            self.totals.inherited_frees += 1;
        } else {
            self.totals.unknown_frees += 1;
        }
    }

    /// Counts a freed block.
    #[inline]
    pub(crate) fn freed(&mut self, at: &At) -> Applied {
        let Some(block) = self.ledger.freed(at.process, at.address) else {
            if !at.force {
                return Applied::Refused;
            }
            self.count_unknown_free(at.process);
            return Applied::Unknown;
        };
        if block.inherited() {
            self.count_unknown_free(at.process);
        } else {
            self.own_block_freed(at, &block);
        }
        Applied::Known
    }

    #[inline]
    fn own_block_freed(&mut self, at: &At, block: &Block) {
        self.reach(at.tick);
        let made_since = self.threads.made_since(at.thread, block.sequence);
        self.count_freed(at, block, Some(made_since));
        self.accounts.growth_ended(block, self.heights.epoch(), &self.rules);
    }

    /// The writer of this ring starts to move or resize a block: it is still live, but has no address.
    pub(crate) fn move_begun(&mut self, at: &At, ring: RingNumber) -> Applied {
        match self.ledger.move_begun(at.process, ring, at.address, at.force) {
            Err(NotKnown) => return Applied::Refused,
            Ok(None) => {}
            Ok(Some(before)) => self.put_back(at, before),
        }
        Applied::Known
    }

    /// The moved block is here now, with another size: one step. Also returns the old address of a known
    /// block.
    pub(crate) fn reallocated(
        &mut self,
        at: &At,
        ring: RingNumber,
        entry: EntryRow,
        size: u64,
    ) -> (Applied, Option<Address>) {
        if !at.force && self.ledger.own_block(at.process, at.address).is_some() {
            return (Applied::Refused, None);
        }
        let moving = self.ledger.move_ended(at.process, ring);
        let was_unknown = matches!(moving, Some(Moving { block: None, .. }));
        let old = moving.and_then(|moving| Some((moving.from, moving.block?)));
        self.reach(at.tick);
        let sequence = self.threads.allocated(at.thread);
        let mut chain = Chain::None;
        if let Some((_, old)) = &old {
            self.count_freed(at, old, None);
            // A sampled block that grows is no longer tracked unless it is sampled again, so its growth is
            // unknown.
            if !self.rules.weights.sampled() {
                chain = old.chain().after(old.size(), size);
            }
            if chain == Chain::Shrunk {
                self.accounts.growth_ended(old, self.heights.epoch(), &self.rules);
            }
        }
        self.put(at, Block::new(size, at.tick, entry, sequence, chain));
        self.count_allocated(at, entry, size);
        let grown = old.as_ref().filter(|(_, old)| size > old.size() && !self.rules.weights.sampled());
        if let Some((old_address, old)) = grown {
            let copied = if at.address == *old_address { 0 } else { old.size() };
            self.accounts.grew(entry, size, copied, old.chain(), self.heights.epoch(), &self.rules);
        }
        self.heights.moment_ended(at.tick);
        if was_unknown {
            self.count_unknown_free(at.process);
        }
        match old {
            Some((old_address, _)) => (Applied::Known, Some(old_address)),
            None => (Applied::Unknown, None),
        }
    }

    /// The move failed: the block is still at its old address.
    pub(crate) fn move_failed(&mut self, at: &At, ring: RingNumber) -> Applied {
        let Some(moving) = self.ledger.moving(at.process, ring) else { return Applied::Unknown };
        let taken = || self.ledger.own_block(at.process, moving.from).is_some();
        if !at.force && moving.block.is_some() && taken() {
            return Applied::Refused;
        }
        if let Some(moving) = self.ledger.move_ended(at.process, ring) {
            self.put_back(at, moving);
        }
        Applied::Known
    }

    fn put_back(&mut self, at: &At, moving: Moving) {
        if let Some(block) = moving.block {
            self.put(&At { address: moving.from, ..*at }, block);
        }
    }

    /// The block that was being moved is freed.
    pub(crate) fn moving_freed(&mut self, at: &At, ring: RingNumber) -> Applied {
        match self.ledger.move_ended(at.process, ring) {
            Some(Moving { block: Some(block), .. }) => {
                self.own_block_freed(at, &block);
                Applied::Known
            }
            Some(Moving { block: None, .. }) => {
                self.count_unknown_free(at.process);
                Applied::Unknown
            }
            None => Applied::Unknown,
        }
    }

    /// Counts bytes of a block that were never written.
    pub(crate) fn examined(&mut self, at: &At, unused: u64) {
        let Some(block) = self.ledger.own_block(at.process, at.address) else { return };
        let (entry, size) = (block.entry, block.size());
        self.reach(at.tick);
        self.accounts.examined(entry, size, unused, self.heights.epoch(), &self.rules);
    }

    /// Counts a new mapping, which replaces whatever was mapped there.
    pub(crate) fn mapped(&mut self, at: &At, entry: EntryRow, size: u64) {
        self.unmapped(at, size);
        self.threads.allocated(at.thread);
        self.ledger.mapped(at.process, at.address, size, at.tick, entry);
        self.accounts.mapped(entry, at.thread, size, self.heights.epoch(), &self.rules);
        self.heights.allocated(at.process, Weight { blocks: self.rules.weights.unit(), bytes: size });
        self.heights.moment_ended(at.tick);
    }

    /// Counts an unmapped range.
    pub(crate) fn unmapped(&mut self, at: &At, size: u64) {
        self.reach(at.tick);
        for cut in self.ledger.unmapped(at.process, at.address, size) {
            let ticks = at.tick.since(cut.piece.tick);
            self.accounts.unmapped(&cut, ticks, self.heights.epoch(), &self.rules);
            self.heights.freed(at.process, self.cut_weight(&cut));
        }
    }

    /// A part counts only as bytes, until it is the last one.
    fn cut_weight(&self, cut: &Cut) -> Weight {
        let blocks = if cut.last { self.rules.weights.unit() } else { 0 };
        Weight { blocks, bytes: cut.len }
    }

    /// Advances the time.
    #[inline]
    pub(crate) fn reach(&mut self, tick: Tick) {
        if self.calendar.is_over(tick) {
            self.close_bucket();
            self.calendar.bucket_begun(tick, &self.rules.clock);
        }
    }

    #[cold]
    fn close_bucket(&mut self) {
        if self.calendar.rows_are_due() {
            self.close_rows();
        }
        let (start_ns, end_ns) = self.calendar.bucket_ns(&self.rules.clock);
        let peak_ns = self.rules.clock.time(self.heights.peak().tick).clamp(start_ns, end_ns);
        self.heights.bucket_closed(peak_ns, end_ns, self.calendar.counters());
        if self.threads.many_have_ended() {
            self.accounts.settle(&self.rules);
            self.accounts.sweep(self.heights.epoch(), |thread| self.threads.has_ended(thread));
        }
    }

    /// Emits timeline rows for all changes since the last ones.
    #[cold]
    fn close_rows(&mut self) {
        self.accounts.settle(&self.rules);
        let (_, end_ns) = self.calendar.bucket_ns(&self.rules.clock);
        let time_ns = self.calendar.rows_begun(self.accounts.rows_waiting(), &self.rules.clock);
        let bytes = self.accounts.rows_closed(time_ns, end_ns, &self.rules, self.calendar.rows());
        self.totals.bytes_allocated = self.totals.bytes_allocated.wrapping_add(bytes);
    }

    /// The live blocks of a process, by address. A block that is being moved is listed at its old address:
    /// its memory is unchanged, or unmapped.
    pub(crate) fn live(&self, process: ProcessRow) -> Live {
        let block = |(address, block): (Address, &Block)| LiveBlock {
            address,
            size: block.size(),
            stack: self.accounts.stack_of(block.entry),
            inherited: block.inherited(),
        };
        let mut blocks: Vec<LiveBlock> = self.ledger.blocks_of(process).map(block).collect();
        blocks.sort_unstable_by_key(|block| block.address);
        ledger::drop_replaced(&mut blocks);
        Live { blocks, moving: self.ledger.is_moving(process) }
    }

    /// The peak of a process, and what was live at its exit: bytes and blocks.
    pub(crate) fn of_process(&self, process: ProcessRow) -> (u64, u64, u64) {
        let (most, exit) = self.heights.most_and_exit(process);
        (most, exit.bytes, self.rules.weights.blocks(exit.blocks))
    }

    /// Whether a process has any live block that it allocated itself.
    pub(crate) fn has_blocks(&self, process: ProcessRow) -> bool {
        self.ledger.has_own_blocks(process)
    }

    /// Whether the blocks that a process inherited by fork are known.
    pub(crate) fn knows_inherited(&self, process: ProcessRow) -> bool {
        self.ledger.knows_inherited(process)
    }

    /// Adds the results of an inspection.
    pub(crate) fn found(&mut self, findings: &[(StackRow, HeapCounts)]) {
        self.accounts.found(findings);
    }

    /// Relative standard error of the estimated bytes.
    pub(crate) fn sample_error(&self) -> Option<f64> {
        let Totals { variance, bytes_allocated, .. } = self.totals;
        self.is_sampled().then(|| variance.sqrt() / (bytes_allocated.max(1) as f64))
    }

    /// Whether only samples are recorded.
    #[inline]
    pub(crate) fn is_sampled(&self) -> bool {
        self.rules.weights.sampled()
    }

    /// How the live bytes of all processes changed.
    pub(crate) fn growth(&self) -> Growth {
        self.heights.growth()
    }

    pub(crate) fn peak(&self) -> Peak {
        self.heights.peak()
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    #[cfg(test)]
    pub(crate) fn clock(&self) -> &Clock {
        &self.rules.clock
    }

    /// Continues with this clock: the same one, later.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.rules.clock = clock;
    }

    /// Timeline rows and counter values since the last call.
    pub(crate) fn take_rows(&mut self) -> (Vec<TimelineRow>, Vec<CounterRow>) {
        (std::mem::take(self.calendar.rows()), std::mem::take(self.calendar.counters()))
    }
}
