//! What happened at each entry, put off and then done entry by entry.
//!
//! A program with ten thousand stacks has megabytes of sites. Changing them in the order of events would wait for memory several times
//! per event. So an event leaves a note, and when there are many, they are sorted by site first: then what belongs together is done
//! together. Of one site they stay in order, which is all that its numbers and those of its entries depend on.

use super::peak::Epoch;
use crate::ids::{EntryRow, SiteRow, ThreadRow};

/// Notes after which they are done.
const MOST_NOTES: usize = 1 << 15;
/// Sites up to which sorting is not worth it.
const FEW_SITES: usize = 256;
/// Parts into which notes are sorted.
const PARTS: usize = 256;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Deed {
    /// A block is made.
    Allocated,
    /// A block is freed or moved; `number` is its life in ticks.
    Freed,
    /// A block was made larger; `number` bytes were copied.
    Grew,
    /// As before, and the block had grown before.
    GrewAgain,
    /// A block was made larger again after it was made smaller; `number` bytes were copied.
    GrewBack,
    /// A block that had grown ends, or is made smaller for the first time.
    ChainEnded,
    /// A block was looked at; `number` bytes were never written.
    Examined,
    /// A mapping is made.
    Mapped,
    /// A part of a mapping is unmapped; `number` is its life in ticks.
    Unmapped,
    /// The last part of a mapping is unmapped, likewise.
    UnmappedLast,
}

/// Not temporary, however few blocks were made since.
pub(super) const NEVER: u32 = u32::MAX;

/// One event at one entry: 32 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    pub entry: EntryRow,
    /// The thread that did it, where that matters.
    pub thread: ThreadRow,
    /// The size of the block, and in the upper bits the deed.
    size: u64,
    /// How long it lived; or another number.
    pub number: u64,
    /// The peak's epoch, counted from the first note.
    epoch: u32,
    /// Blocks that the thread made since it made this one.
    pub made_since: u32,
}

const SIZE_BITS: u32 = 56;
const SIZE: u64 = (1 << SIZE_BITS) - 1;
const DEEDS: [Deed; 10] = [
    Deed::Allocated,
    Deed::Freed,
    Deed::Grew,
    Deed::GrewAgain,
    Deed::GrewBack,
    Deed::ChainEnded,
    Deed::Examined,
    Deed::Mapped,
    Deed::Unmapped,
    Deed::UnmappedLast,
];

impl Note {
    /// A note of what was done to a block of this size. Its epoch is given by the log.
    #[inline]
    pub(super) fn new(deed: Deed, entry: EntryRow, size: u64) -> Self {
        let size = size.min(SIZE) | (deed as u64) << SIZE_BITS;
        Self { entry, thread: ThreadRow(0), size, number: 0, epoch: 0, made_since: NEVER }
    }

    /// The same, done by this thread.
    #[inline]
    pub(super) fn by(self, thread: ThreadRow) -> Self {
        Self { thread, ..self }
    }

    /// The same with the number that belongs to its deed.
    #[inline]
    pub(super) fn with(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// The same, after its thread has made so many other blocks.
    #[inline]
    pub(super) fn after(self, made_since: u32) -> Self {
        Self { made_since, ..self }
    }

    #[inline]
    pub(super) fn deed(&self) -> Deed {
        DEEDS[(self.size >> SIZE_BITS) as usize]
    }

    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.size & SIZE
    }
}

/// Notes that are not done yet.
#[derive(Debug, Default)]
pub(super) struct Log {
    notes: Vec<Note>,
    sorted: Vec<Note>,
    /// The epoch of the first note.
    epoch: Epoch,
}

impl Log {
    /// Adds a note; whether there are so many now that they must be done.
    #[inline]
    #[must_use]
    pub(super) fn noted(&mut self, mut note: Note, epoch: Epoch) -> bool {
        if self.notes.is_empty() {
            self.epoch = epoch;
        }
        note.epoch = (epoch.0 - self.epoch.0) as u32;
        self.notes.push(note);
        self.notes.len() >= MOST_NOTES
    }

    /// When a note was made.
    #[inline]
    pub(super) fn epoch_of(&self, note: &Note) -> Epoch {
        Epoch(self.epoch.0 + u64::from(note.epoch))
    }

    /// Takes out all notes, those of one site together if there are many sites. [`Self::done`] gives the room back.
    pub(super) fn take(&mut self, site_of_entry: &[SiteRow], sites: usize) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        if sites > FEW_SITES {
            self.sort(&mut notes, site_of_entry, sites);
        }
        notes
    }

    /// The notes that were taken out are done.
    pub(super) fn done(&mut self, mut notes: Vec<Note>) {
        notes.clear();
        self.notes = notes;
    }

    /// Sorts notes by ranges of sites; those of one site stay in order.
    fn sort(&mut self, notes: &mut Vec<Note>, site_of_entry: &[SiteRow], sites: usize) {
        let per_part = sites.div_ceil(PARTS).next_power_of_two();
        let shift = per_part.trailing_zeros();
        let part = |note: &Note| (site_of_entry[note.entry.index()].0 >> shift) as usize % PARTS;
        let mut next = [0; PARTS];
        for note in &*notes {
            next[part(note)] += 1;
        }
        let mut start = 0;
        for next in &mut next {
            start += std::mem::replace(next, start);
        }
        let Some(&any) = notes.first() else { return };
        self.sorted.resize(notes.len(), any);
        for note in &*notes {
            let to = &mut next[part(note)];
            self.sorted[*to] = *note;
            *to += 1;
        }
        std::mem::swap(notes, &mut self.sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_what_was_done_and_to_how_many_bytes() {
        assert_eq!(size_of::<Note>(), 32);
        for deed in DEEDS {
            let note = Note::new(deed, EntryRow(3), u64::MAX);
            assert_eq!((note.deed(), note.size()), (deed, SIZE));
        }
    }

    #[test]
    fn notes_of_one_site_stay_in_order_and_together() {
        let sites = 1000;
        // Two entries of each site, far apart.
        let site_of_entry: Vec<SiteRow> = (0..2 * sites).map(|entry| SiteRow::from(entry % sites)).collect();
        let mut log = Log::default();
        for number in 0..10_000u64 {
            let entry = EntryRow::from((number * 7919) as usize % (2 * sites));
            let full = log.noted(Note::new(Deed::Freed, entry, 1).with(number), Epoch(5 + number));
            assert!(!full);
        }
        let notes = log.take(&site_of_entry, sites);
        assert!(notes.iter().all(|note| log.epoch_of(note) == Epoch(5 + note.number)));
        let part = |note: &Note| site_of_entry[note.entry.index()].0 / 4;
        assert!(notes.is_sorted_by_key(part));
        for site in (0..sites).map(SiteRow::from) {
            let its = notes.iter().filter(|note| site_of_entry[note.entry.index()] == site);
            assert!(its.clone().count() == 10 && its.is_sorted_by_key(|note| note.number), "{site:?}");
        }
        log.done(notes);
        assert!(log.take(&site_of_entry, sites).is_empty());
    }
}
