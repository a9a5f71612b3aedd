//! What happened at each stack, by each thread: sites and entries, and the notes that wait to be counted there.

use rustc_hash::FxHashMap;
use whyslow_heap_wire::record::MOST_FILLED;
use whyslow_profile::HeapCounts;

use super::entries::Entries;
use super::log::{Deed, Log, NEVER, Note};
use super::peak::Epoch;
use super::{End, Rules};
use crate::blocks::{Block, Cut};
use crate::chains::Chain;
use crate::ids::{EntryRow, StackRow, ThreadRow};
use crate::outcome::{TimelineRow, Transfer};
use crate::sites::{SiteState, Sites};
use crate::weight::Weight;

/// Notes between asking for memory and using it.
const SOON: usize = 12;

/// The numbers of all stacks and threads.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    sites: Sites,
    entries: Entries,
    /// What happened but is not counted yet.
    log: Log,
    /// Whose blocks were freed by whom.
    transfers: FxHashMap<(ThreadRow, ThreadRow), Weight>,
}

impl Accounts {
    /// The entry of a stack and a thread. It stays valid while the thread lives or has live blocks there.
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

    /// The stack that an entry belongs to.
    pub(super) fn stack_of(&self, entry: EntryRow) -> StackRow {
        self.sites.get(self.entries.get(entry).site).stack()
    }

    #[inline]
    fn note(&mut self, note: Note, epoch: Epoch, rules: &Rules) {
        if self.log.noted(note, epoch) {
            self.settle(rules);
        }
    }

    /// A block is made.
    #[inline]
    pub(super) fn allocated(
        &mut self,
        entry: EntryRow,
        thread: ThreadRow,
        size: u64,
        epoch: Epoch,
        rules: &Rules,
    ) {
        self.note(Note::new(Deed::Allocated, entry, size).by(thread), epoch, rules);
    }

    /// A thread frees a block that lived for so many ticks and since which it made so many blocks; with none, it moves it.
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
        let note = Note::new(Deed::Freed, block.entry, block.size()).by(thread).with(ticks);
        self.note(note.after(made_since.unwrap_or(NEVER)), epoch, rules);
    }

    /// A block became larger at an entry.
    pub(super) fn grew(
        &mut self,
        entry: EntryRow,
        size: u64,
        copied: u64,
        before: Chain,
        epoch: Epoch,
        rules: &Rules,
    ) {
        let deed = match before {
            Chain::None => Deed::Grew,
            Chain::Growing => Deed::GrewAgain,
            Chain::Shrunk => Deed::GrewBack,
        };
        self.note(Note::new(deed, entry, size).with(copied), epoch, rules);
    }

    /// A block ends, or is made smaller: if it was growing, it no longer is.
    #[inline]
    pub(super) fn growth_ended(&mut self, block: &Block, epoch: Epoch, rules: &Rules) {
        if block.chain() == Chain::Growing {
            self.note(Note::new(Deed::ChainEnded, block.entry, block.size()), epoch, rules);
        }
    }

    /// So many bytes of a block were never written.
    pub(super) fn examined(&mut self, entry: EntryRow, size: u64, unused: u64, epoch: Epoch, rules: &Rules) {
        self.note(Note::new(Deed::Examined, entry, size).with(unused), epoch, rules);
    }

    /// A mapping is made.
    pub(super) fn mapped(
        &mut self,
        entry: EntryRow,
        thread: ThreadRow,
        size: u64,
        epoch: Epoch,
        rules: &Rules,
    ) {
        self.note(Note::new(Deed::Mapped, entry, size).by(thread), epoch, rules);
    }

    /// A part of a mapping is unmapped after so many ticks.
    pub(super) fn unmapped(&mut self, cut: &Cut, ticks: u64, epoch: Epoch, rules: &Rules) {
        let deed = if cut.last { Deed::UnmappedLast } else { Deed::Unmapped };
        self.note(Note::new(deed, cut.piece.entry, cut.len).with(ticks), epoch, rules);
    }

    /// Counts what was put off.
    #[cold]
    pub(super) fn settle(&mut self, rules: &Rules) {
        let notes = self.log.take(self.entries.sites(), self.sites.len());
        for (at, note) in notes.iter().enumerate() {
            self.expect(&notes[at..], rules);
            self.count(note, rules);
        }
        self.log.done(notes);
    }

    /// Asks for the memory that later notes will change: of one the entry, of a nearer one the site.
    #[inline]
    fn expect(&self, notes: &[Note], rules: &Rules) {
        if let Some(note) = notes.get(2 * SOON) {
            self.entries.expect(note.entry);
        }
        if let Some(note) = notes.get(SOON) {
            let site = self.sites.get(self.entries.sites()[note.entry.index()]);
            match note.deed() {
                Deed::Freed => site.expect_free(note.number, &rules.clock),
                _ => site.expect_block(note.size()),
            }
        }
    }

    #[inline]
    fn count(&mut self, note: &Note, rules: &Rules) {
        let Rules { clock, weights, temporary_within } = rules;
        let epoch = self.log.epoch_of(note);
        let (deed, size) = (note.deed(), note.size());
        let site = self.sites.get_mut(self.entries.sites()[note.entry.index()]);
        match deed {
            Deed::Allocated | Deed::Mapped => {
                // Mappings are recorded always, never sampled.
                let mapped = Weight { blocks: weights.unit(), bytes: size };
                let weight = if deed == Deed::Allocated { weights.of(size) } else { mapped };
                self.entries.allocated(note.entry, weight, epoch);
                site.allocated(size, weight);
            }
            Deed::Freed => {
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
                    // Samples do not tell how many blocks were made in between.
                    self.entries.was_temporary(note.entry, weight.blocks);
                }
            }
            Deed::Unmapped => {
                let weight = Weight { blocks: 0, bytes: size };
                self.entries.freed(note.entry, weight, epoch);
                site.part_freed(weight, note.number);
            }
            Deed::UnmappedLast => {
                let weight = Weight { blocks: weights.unit(), bytes: size };
                self.entries.freed(note.entry, weight, epoch);
                site.freed(weight, note.number, clock);
            }
            Deed::Grew => site.grew(size, weights.of(size).blocks, note.number, Chain::None),
            Deed::GrewAgain => site.grew(size, weights.of(size).blocks, note.number, Chain::Growing),
            Deed::GrewBack => site.grew(size, weights.of(size).blocks, note.number, Chain::Shrunk),
            Deed::ChainEnded => site.growth_ended(size, weights.of(size)),
            Deed::Examined => {
                self.entries.had_unused(note.entry, weights.part(note.number.min(size), size));
                site.examined(weights.of(size).bytes);
            }
        }
    }

    /// A block is taken from its process at its end, after so many ticks. Everything before is settled.
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

    /// A block that was growing ends with its process. Everything before is settled.
    pub(super) fn growth_ended_with_process(&mut self, block: &Block, weight: Weight) {
        if block.chain() == Chain::Growing {
            let site = self.entries.get(block.entry).site;
            self.sites.get_mut(site).growth_ended(block.size(), weight);
        }
    }

    /// Notes how much sites have before a process takes it from them: that is no giving back.
    pub(super) fn reached(&mut self, time_ns: u64) {
        for site in self.entries.touched() {
            self.sites.get_mut(site).bucket_closed(time_ns);
        }
    }

    /// How many rows will go out.
    pub(super) fn rows_waiting(&self) -> usize {
        self.entries.touched().len()
    }

    /// Rows go out of what was done up to `end_ns`: bytes that were allocated. Everything is settled.
    pub(super) fn rows_closed(
        &mut self,
        time_ns: u64,
        end_ns: u64,
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

    /// Throws away what threads that ended have left behind. Everything is settled.
    pub(super) fn sweep(&mut self, epoch: Epoch, has_ended: impl Fn(ThreadRow) -> bool) {
        let sites = &self.sites;
        self.entries.sweep(epoch, has_ended, |site| sites.get(site).stack());
    }

    /// Adds what a look at a process found.
    pub(super) fn found(&mut self, findings: &[(StackRow, HeapCounts)]) {
        for (stack, counts) in findings {
            let site = self.sites.of_stack(*stack);
            self.sites.get_mut(site).add_findings(counts);
        }
    }

    /// Takes all sites out: nothing more will happen there.
    pub(super) fn take_sites(&mut self) -> impl Iterator<Item = SiteState> + use<> {
        self.entries = Entries::default();
        self.sites.take()
    }

    /// Whose blocks were freed by whom.
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
    use crate::clock::Clock;
    use crate::ids::Tick;
    use crate::weight::Weights;

    #[test]
    fn a_block_that_another_thread_frees_is_a_transfer_and_not_temporary() {
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
        assert_eq!((accounts.rows_waiting(), accounts.rows_closed(1, 2, &rules, &mut rows)), (1, 20));
        let row = rows[0];
        assert_eq!((row.stack, row.thread), (StackRow(4), one));
        assert_eq!((row.allocations, row.bytes_freed, row.temporary), (2, 20, 1));
        let transfers = accounts.transfers(&rules);
        assert_eq!(transfers, [Transfer { from: one, to: two, blocks: 1, bytes: 10 }]);
    }
}
