//! Counts by stack and thread: sites and entries, and the notes that have not been counted yet.

use rustc_hash::FxHashMap;
use whyslow_agent_wire::record::MOST_FILLED;
use whyslow_numbers::ClockNs;
use whyslow_profile::HeapCounts;

use super::entries::Entries;
use super::log::{Log, NEVER, Note, NoteKind};
use super::peak::Epoch;
use super::{End, Rules};
use crate::blocks::{Block, Cut};
use crate::chains::Chain;
use crate::ids::{EntryRow, StackRow, ThreadRow};
use crate::outcome::{TimelineRow, Transfer};
use crate::sites::{SiteState, Sites};
use crate::weight::Weight;

/// Number of notes between prefetching memory and using it.
const SOON: usize = 12;

/// The counts of all stacks and threads.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    sites: Sites,
    entries: Entries,
    /// Events that are not counted yet.
    log: Log,
    /// Blocks freed by another thread, by allocating and freeing thread.
    transfers: FxHashMap<(ThreadRow, ThreadRow), Weight>,
}

impl Accounts {
    /// The entry of a stack and a thread. It remains valid while the thread runs or has live blocks there.
    pub(super) fn entry(&mut self, stack: StackRow, thread: ThreadRow, epoch: Epoch) -> EntryRow {
        if let Some(entry) = self.entries.find(stack, thread) {
            return entry;
        }
        let site = self.sites.of_stack(stack);
        self.entries.added(site, stack, thread, epoch)
    }

    pub(super) fn sites(&self) -> &Sites {
        &self.sites
    }

    pub(super) fn entries(&self) -> &Entries {
        &self.entries
    }

    /// The stack of an entry.
    pub(super) fn stack_of(&self, entry: EntryRow) -> StackRow {
        self.sites.get(self.entries.get(entry).site).stack()
    }

    #[inline]
    fn note(&mut self, note: Note, epoch: Epoch, rules: &Rules) {
        if self.log.noted(note, epoch) {
            self.settle(rules);
        }
    }

    /// Counts an allocated block.
    #[inline]
    pub(super) fn allocated(
        &mut self,
        entry: EntryRow,
        thread: ThreadRow,
        size: u64,
        epoch: Epoch,
        rules: &Rules,
    ) {
        self.note(Note::new(NoteKind::Allocated, entry, size).by(thread), epoch, rules);
    }

    /// Counts a block that a thread frees after this many ticks and this many later allocations; without
    /// them, the block is moved.
    #[inline]
    pub(super) fn freed(
        &mut self,
        block: &Block,
        thread: ThreadRow,
        ticks: u64,
        made_since: Option<u32>,
        epoch: Epoch,
        rules: &Rules,
    ) {
        let note = Note::new(NoteKind::Freed, block.entry, block.size()).by(thread).with(ticks);
        self.note(note.after(made_since.unwrap_or(NEVER)), epoch, rules);
    }

    /// Counts a block that grew at an entry.
    pub(super) fn grew(
        &mut self,
        entry: EntryRow,
        size: u64,
        copied: u64,
        before: Chain,
        epoch: Epoch,
        rules: &Rules,
    ) {
        let kind = match before {
            Chain::None => NoteKind::Grew,
            Chain::Growing => NoteKind::GrewAgain,
            Chain::Shrunk => NoteKind::GrewBack,
        };
        self.note(Note::new(kind, entry, size).with(copied), epoch, rules);
    }

    /// Ends the growth of a block that is freed or shrinks.
    #[inline]
    pub(super) fn growth_ended(&mut self, block: &Block, epoch: Epoch, rules: &Rules) {
        if block.chain() == Chain::Growing {
            self.note(Note::new(NoteKind::ChainEnded, block.entry, block.size()), epoch, rules);
        }
    }

    /// Counts bytes of a block that were never written.
    pub(super) fn examined(&mut self, entry: EntryRow, size: u64, unused: u64, epoch: Epoch, rules: &Rules) {
        self.note(Note::new(NoteKind::Examined, entry, size).with(unused), epoch, rules);
    }

    /// Counts a new mapping.
    pub(super) fn mapped(
        &mut self,
        entry: EntryRow,
        thread: ThreadRow,
        size: u64,
        epoch: Epoch,
        rules: &Rules,
    ) {
        self.note(Note::new(NoteKind::Mapped, entry, size).by(thread), epoch, rules);
    }

    /// Counts a part of a mapping that is unmapped after this many ticks.
    pub(super) fn unmapped(&mut self, cut: &Cut, ticks: u64, epoch: Epoch, rules: &Rules) {
        let kind = if cut.last { NoteKind::UnmappedLast } else { NoteKind::Unmapped };
        self.note(Note::new(kind, cut.piece.entry, cut.len).with(ticks), epoch, rules);
    }

    /// Counts all pending notes.
    #[cold]
    pub(super) fn settle(&mut self, rules: &Rules) {
        let notes = self.log.take(self.entries.sites(), self.sites.len());
        for (at, note) in notes.iter().enumerate() {
            self.expect(&notes[at..], rules);
            self.count(note, rules);
        }
        self.log.done(notes);
    }

    /// Prefetches the memory that upcoming notes will change: the entry of one, the site of a nearer one.
    #[inline]
    fn expect(&self, notes: &[Note], rules: &Rules) {
        if let Some(note) = notes.get(2 * SOON) {
            self.entries.expect(note.entry);
        }
        if let Some(note) = notes.get(SOON) {
            let site = self.sites.get(self.entries.sites()[note.entry.index()]);
            match note.kind() {
                NoteKind::Freed => site.expect_free(note.number, &rules.clock),
                _ => site.expect_block(note.size()),
            }
        }
    }

    #[inline]
    fn count(&mut self, note: &Note, rules: &Rules) {
        let Rules { clock, weights, temporary_within } = rules;
        let epoch = self.log.epoch_of(note);
        let (kind, size) = (note.kind(), note.size());
        let site = self.sites.get_mut(self.entries.sites()[note.entry.index()]);
        match kind {
            NoteKind::Allocated | NoteKind::Mapped => {
                // Mappings are always recorded, never sampled.
                let mapped = Weight { blocks: weights.unit(), bytes: size };
                let weight = if kind == NoteKind::Allocated { weights.of(size) } else { mapped };
                self.entries.allocated(note.entry, weight, epoch);
                site.allocated(size, weight);
            }
            NoteKind::Freed => {
                let weight = weights.of(size);
                let made_by = self.entries.freed(note.entry, weight, epoch);
                site.freed(weight, note.number, clock);
                if size > MOST_FILLED && note.made_since != NEVER {
                    site.passed_over(weight);
                }
                if made_by != note.thread {
                    site.freed_elsewhere(weight.blocks);
                    *self.transfers.entry((made_by, note.thread)).or_default() += weight;
                } else if note.made_since < *temporary_within && !weights.sampled() {
                    // Samples do not show how many blocks were allocated in between.
                    self.entries.was_temporary(note.entry, weight.blocks);
                }
            }
            NoteKind::Unmapped => {
                let weight = Weight { blocks: 0, bytes: size };
                self.entries.freed(note.entry, weight, epoch);
                site.part_freed(weight, note.number);
            }
            NoteKind::UnmappedLast => {
                let weight = Weight { blocks: weights.unit(), bytes: size };
                self.entries.freed(note.entry, weight, epoch);
                site.freed(weight, note.number, clock);
            }
            NoteKind::Grew => site.grew(size, weights.of(size).blocks, note.number, Chain::None),
            NoteKind::GrewAgain => site.grew(size, weights.of(size).blocks, note.number, Chain::Growing),
            NoteKind::GrewBack => site.grew(size, weights.of(size).blocks, note.number, Chain::Shrunk),
            NoteKind::ChainEnded => site.growth_ended(size, weights.of(size)),
            NoteKind::Examined => {
                self.entries.had_unused(note.entry, weights.part(note.number.min(size), size));
                site.examined(weights.of(size).bytes);
            }
        }
    }

    /// Counts a block that ends with its process, after this many ticks. No notes are pending.
    pub(super) fn ended_with_process(
        &mut self,
        entry: EntryRow,
        weight: Weight,
        ticks: u64,
        end: End,
        epoch: Epoch,
    ) {
        let at_exit = end == End::Exit;
        self.entries.ended_with_process(entry, weight, epoch, at_exit);
        let site = self.entries.get(entry).site;
        self.sites.get_mut(site).ended_with_process(weight, ticks, at_exit);
    }

    /// Counts a growing block that ends with its process. No notes are pending.
    pub(super) fn growth_ended_with_process(&mut self, block: &Block, weight: Weight) {
        if block.chain() == Chain::Growing {
            let site = self.entries.get(block.entry).site;
            self.sites.get_mut(site).growth_ended(block.size(), weight);
        }
    }

    /// Records the live bytes of sites before a process ends: its end is not a free.
    pub(super) fn reached(&mut self, time_ns: ClockNs) {
        for site in self.entries.touched() {
            self.sites.get_mut(site).bucket_closed(time_ns);
        }
    }

    /// Number of rows that will be emitted.
    pub(super) fn rows_waiting(&self) -> usize {
        self.entries.touched().len()
    }

    /// Emits rows for everything up to `end_ns`. Returns the allocated bytes. No notes are pending.
    pub(super) fn rows_closed(
        &mut self,
        time_ns: ClockNs,
        end_ns: ClockNs,
        rules: &Rules,
        rows: &mut Vec<TimelineRow>,
    ) -> u64 {
        let mut bytes = 0u64;
        self.entries.rows_closed(|site, thread, did| {
            let site = self.sites.get_mut(site);
            site.bucket_closed(end_ns);
            site.rows_closed(did.allocated, did.temporary, did.unused);
            bytes = bytes.wrapping_add(did.allocated.bytes);
            rows.push(did.row(time_ns, thread, site.stack(), &rules.weights));
        });
        bytes
    }

    /// Drops the entries of exited threads. No notes are pending.
    pub(super) fn sweep(&mut self, epoch: Epoch, has_ended: impl Fn(ThreadRow) -> bool) {
        let sites = &self.sites;
        self.entries.sweep(epoch, has_ended, |site| sites.get(site).stack());
    }

    /// Adds the results of an inspection.
    pub(super) fn found(&mut self, findings: &[(StackRow, HeapCounts)]) {
        for (stack, counts) in findings {
            let site = self.sites.of_stack(*stack);
            self.sites.get_mut(site).add_findings(counts);
        }
    }

    /// Takes all sites out: nothing more will be counted.
    pub(super) fn take_sites(&mut self) -> impl Iterator<Item = SiteState> + use<> {
        self.entries = Entries::default();
        self.sites.take()
    }

    /// Blocks freed by another thread, by allocating and freeing thread.
    pub(super) fn transfers(&self, rules: &Rules) -> Vec<Transfer> {
        let transfer = |(&(from, to), freed): (&(ThreadRow, ThreadRow), &Weight)| Transfer {
            from,
            to,
            blocks: rules.weights.blocks(freed.blocks),
            bytes: freed.bytes,
        };
        let mut transfers: Vec<_> = self.transfers.iter().map(transfer).collect();
        transfers.sort_unstable_by_key(|transfer| (transfer.from, transfer.to));
        transfers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Tick;
    use crate::weight::Weights;
    use whyslow_agent_host::Clock;

    #[test]
    fn a_block_freed_by_another_thread_is_a_transfer_and_not_temporary() {
        let rules = Rules { clock: Clock::start(), weights: Weights::new(None), temporary_within: 1 };
        let mut accounts = Accounts::default();
        let [one, two] = [ThreadRow(0), ThreadRow(1)];
        let entry = accounts.entry(StackRow(4), one, Epoch(0));
        let block = Block::new(10, Tick(0), entry, 1, Chain::None);
        for freed_by in [one, two] {
            accounts.allocated(entry, one, 10, Epoch(0), &rules);
            accounts.freed(&block, freed_by, 5, Some(0), Epoch(0), &rules);
        }
        assert_eq!(accounts.rows_waiting(), 0, "nothing is counted yet");
        accounts.settle(&rules);
        let mut rows = Vec::new();
        assert_eq!(
            (
                accounts.rows_waiting(),
                accounts.rows_closed(ClockNs::new(1), ClockNs::new(2), &rules, &mut rows)
            ),
            (1, 20)
        );
        let row = rows[0];
        assert_eq!((row.stack, row.thread), (StackRow(4), one));
        assert_eq!((row.allocations, row.bytes_freed, row.temporary), (2, 20, 1));
        let transfers = accounts.transfers(&rules);
        assert_eq!(transfers, [Transfer { from: one, to: two, blocks: 1, bytes: 10 }]);
    }
}
