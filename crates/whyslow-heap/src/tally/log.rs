//! Defers the counting of events at entries, to do it site by site.
//!
//! A program with ten thousand stacks has megabytes of sites. Changing them in event order would cause
//! several cache misses per event. So an event only adds a note. When there are many notes, they are sorted
//! by site and then counted. Notes of one site keep their order, which is all that the numbers of the site
//! and its entries depend on.

use super::peak::Epoch;
use crate::ids::{EntryRow, SiteRow, ThreadRow};

/// Number of notes after which they are counted.
const MOST_NOTES: usize = 1 << 15;
/// Number of sites up to which sorting does not pay off.
const FEW_SITES: usize = 256;
/// Number of parts into which notes are sorted.
const PARTS: usize = 256;

/// The kind of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum NoteKind {
    /// A block is allocated.
    Allocated,
    /// A block is freed or moved; `number` is its lifetime in ticks.
    Freed,
    /// A block grew; `number` bytes were copied.
    Grew,
    /// A block grew that had grown before; `number` bytes were copied.
    GrewAgain,
    /// A block grew again after it had shrunk; `number` bytes were copied.
    GrewBack,
    /// A grown block is freed, or shrinks for the first time.
    ChainEnded,
    /// A block was examined; `number` bytes were never written.
    Examined,
    /// A mapping is created.
    Mapped,
    /// A part of a mapping is unmapped; `number` is its lifetime in ticks.
    Unmapped,
    /// The last part of a mapping is unmapped; `number` is its lifetime in ticks.
    UnmappedLast,
}

/// Not temporary, regardless of the number of later allocations.
pub(super) const NEVER: u32 = u32::MAX;

/// One event at one entry: 32 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    pub entry: EntryRow,
    /// The thread that did it, where that matters.
    pub thread: ThreadRow,
    /// The size of the block, and the kind in the upper bits.
    size: u64,
    /// The block's lifetime, or another number.
    pub number: u64,
    /// The peak's epoch, relative to the first note.
    epoch: u32,
    /// Number of blocks that the thread has allocated since this one.
    pub made_since: u32,
}

const SIZE_BITS: u32 = 56;
const SIZE: u64 = (1 << SIZE_BITS) - 1;
const DEEDS: [NoteKind; 10] = [
    NoteKind::Allocated,
    NoteKind::Freed,
    NoteKind::Grew,
    NoteKind::GrewAgain,
    NoteKind::GrewBack,
    NoteKind::ChainEnded,
    NoteKind::Examined,
    NoteKind::Mapped,
    NoteKind::Unmapped,
    NoteKind::UnmappedLast,
];

impl Note {
    /// A note about a block of this size. The log sets its epoch.
    #[inline]
    pub(super) fn new(kind: NoteKind, entry: EntryRow, size: u64) -> Self {
        let size = size.min(SIZE) | (kind as u64) << SIZE_BITS;
        Self { entry, thread: ThreadRow(0), size, number: 0, epoch: 0, made_since: NEVER }
    }

    /// Sets the thread.
    #[inline]
    pub(super) fn by(self, thread: ThreadRow) -> Self {
        Self { thread, ..self }
    }

    /// Sets the number.
    #[inline]
    pub(super) fn with(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// Sets the number of later allocations of the thread.
    #[inline]
    pub(super) fn after(self, made_since: u32) -> Self {
        Self { made_since, ..self }
    }

    #[inline]
    pub(super) fn kind(&self) -> NoteKind {
        DEEDS[(self.size >> SIZE_BITS) as usize]
    }

    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.size & SIZE
    }
}

/// Notes that are not counted yet.
#[derive(Debug, Default)]
pub(super) struct Log {
    notes: Vec<Note>,
    sorted: Vec<Note>,
    /// The epoch of the first note.
    epoch: Epoch,
}

impl Log {
    /// Adds a note. Returns whether the notes must be counted now.
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

    /// The epoch of a note.
    #[inline]
    pub(super) fn epoch_of(&self, note: &Note) -> Epoch {
        Epoch(self.epoch.0 + u64::from(note.epoch))
    }

    /// Takes out all notes, grouped by site if there are many sites. [`Self::done`] returns the buffer.
    pub(super) fn take(&mut self, site_of_entry: &[SiteRow], sites: usize) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        if sites > FEW_SITES {
            self.sort(&mut notes, site_of_entry, sites);
        }
        notes
    }

    /// Returns the buffer of counted notes.
    pub(super) fn done(&mut self, mut notes: Vec<Note>) {
        notes.clear();
        self.notes = notes;
    }

    /// Sorts notes by ranges of sites; notes of one site keep their order.
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
    fn a_note_holds_kind_and_size() {
        assert_eq!(size_of::<Note>(), 32);
        for kind in DEEDS {
            let note = Note::new(kind, EntryRow(3), u64::MAX);
            assert_eq!((note.kind(), note.size()), (kind, SIZE));
        }
    }

    #[test]
    fn notes_of_one_site_keep_their_order_and_are_grouped() {
        let sites = 1000;
        // Two entries of each site, far apart.
        let site_of_entry: Vec<SiteRow> = (0..2 * sites).map(|entry| SiteRow::from(entry % sites)).collect();
        let mut log = Log::default();
        for number in 0..10_000u64 {
            let entry = EntryRow::from((number * 7919) as usize % (2 * sites));
            let full = log.noted(Note::new(NoteKind::Freed, entry, 1).with(number), Epoch(5 + number));
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
