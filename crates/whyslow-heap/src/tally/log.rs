//! What happened at each entry, put off and then done entry by entry.
//!
//! A program with ten thousand stacks has megabytes of sites. Changing them in the order of events would wait for memory several times
//! per event. So an event leaves a note, and when there are many, they are sorted by site first: then what belongs together is done
//! together. Of one site they stay in order, which is all that its numbers and those of its entries depend on.

use whyslow_heap_wire::record::MOST_FILLED;

use super::{Tally, Thread};
use crate::blocks::{Block, Cut};
use crate::chains::Chain;
use crate::sys;
use crate::weight::{Weight, add};

/// Notes after which they are done.
const MOST_NOTES: usize = 1 << 15;
/// Sites up to which sorting is not worth it.
const FEW_SITES: usize = 256;
/// Notes between asking for memory and using it.
const SOON: usize = 12;
/// Parts into which notes are sorted.
const PARTS: usize = 256;

/// One event at one entry.
#[derive(Debug, Clone, Copy)]
struct Note {
    entry: u32,
    /// The thread that did it.
    thread: u32,
    /// With a kind in the upper bits.
    size: u64,
    /// How long it lived; or another number.
    number: u64,
    /// The peak's epoch, counted from the first note.
    epoch: u32,
    /// Blocks that the thread made since it made this one.
    made_since: u32,
}

const SIZE: u64 = (1 << 56) - 1;
/// A block is made.
const CAME: u64 = 0 << 56;
/// A block is freed; `number` is its life.
const WENT: u64 = 1 << 56;
/// A block was made larger; `number` bytes were copied.
const GREW: u64 = 2 << 56;
/// As before, and the block had grown before.
const GREW_AGAIN: u64 = 3 << 56;
/// A block that had grown ends, or is made smaller for the first time.
const CHAIN_ENDED: u64 = 4 << 56;
/// A block was looked at; `number` bytes were never written.
const EXAMINED: u64 = 5 << 56;
/// A mapping is made.
const MAPPED: u64 = 6 << 56;
/// A part of a mapping is gone.
const CUT: u64 = 7 << 56;
/// The last part of a mapping is gone.
const CUT_LAST: u64 = 8 << 56;

/// A block was made larger again after it was made smaller; `number` bytes were copied.
const GREW_BACK: u64 = 9 << 56;

/// Not temporary, however few blocks were made since.
const NEVER: u32 = u32::MAX;

/// Notes that are not done yet.
#[derive(Debug, Default)]
pub(super) struct Log {
    notes: Vec<Note>,
    sorted: Vec<Note>,
    /// The epoch of the first note.
    epoch: u64,
}

impl Tally {
    #[inline]
    fn note(&mut self, entry: u32, thread: u32, size: u64, number: u64, made_since: u32) {
        if self.log.notes.is_empty() {
            self.log.epoch = self.epoch;
        }
        let epoch = (self.epoch - self.log.epoch) as u32;
        self.log.notes.push(Note { entry, thread, size, number, epoch, made_since });
        if self.log.notes.len() >= MOST_NOTES {
            self.settle_log();
        }
    }

    /// A block is made.
    #[inline]
    pub(super) fn note_came(&mut self, entry: u32, thread: u32, size: u64) {
        self.note(entry, thread, CAME | size, 0, NEVER);
    }

    /// A thread frees a block, or moves it.
    #[inline]
    pub(super) fn note_went(&mut self, thread: u32, block: &Block, ticks: u64, freed: bool) {
        let Thread { sequence, .. } = self.threads[thread as usize];
        let made_since = if freed { sequence.wrapping_sub(block.sequence) } else { NEVER };
        self.note(block.entry, thread, WENT | block.size(), ticks, made_since);
    }

    /// A block became larger.
    pub(super) fn note_grew(&mut self, entry: u32, size: u64, copied: u64, before: Chain) {
        let kind = match before {
            Chain::None => GREW,
            Chain::Growing => GREW_AGAIN,
            Chain::Shrunk => GREW_BACK,
        };
        self.note(entry, 0, kind | size, copied, NEVER);
    }

    /// A chain of growth ends.
    pub(super) fn note_chain_end(&mut self, block: &Block) {
        if block.chain() == Chain::Growing {
            self.note(block.entry, 0, CHAIN_ENDED | block.size(), 0, NEVER);
        }
    }

    /// So many bytes of a block were never written.
    pub(super) fn note_examined(&mut self, entry: u32, size: u64, unused: u64) {
        self.note(entry, 0, EXAMINED | size, unused, NEVER);
    }

    /// A mapping is made.
    pub(super) fn note_mapped(&mut self, entry: u32, thread: u32, size: u64) {
        self.note(entry, thread, MAPPED | size, 0, NEVER);
    }

    /// A part of a mapping is gone.
    pub(super) fn note_cut(&mut self, cut: &Cut, ticks: u64) {
        let kind = if cut.last { CUT_LAST } else { CUT };
        self.note(cut.piece.entry, 0, kind | cut.len.min(SIZE), ticks, NEVER);
    }

    /// Does what was put off.
    #[cold]
    pub(super) fn settle_log(&mut self) {
        if self.log.notes.is_empty() {
            return;
        }
        let mut notes = std::mem::take(&mut self.log.notes);
        if self.sites.len() > FEW_SITES {
            self.log.sort(&mut notes, &self.site_of_entry, self.sites.len());
        }
        for (at, note) in notes.iter().enumerate() {
            self.expect_note(&notes[at..]);
            self.settle_note(note);
        }
        notes.clear();
        self.log.notes = notes;
    }

    /// Asks for the memory that later notes will change: of one the entry, of a nearer one the site.
    #[inline]
    fn expect_note(&self, notes: &[Note]) {
        if let Some(note) = notes.get(2 * SOON) {
            let entry = &self.entries[note.entry as usize];
            sys::prefetch(entry);
            sys::prefetch(&entry.temporary);
        }
        if let Some(note) = notes.get(SOON) {
            let site = &self.sites[self.site_of_entry[note.entry as usize] as usize];
            match note.size & !SIZE {
                WENT => site.expect_free(note.number, &self.clock),
                _ => site.expect_block(note.size & SIZE),
            }
        }
    }

    #[inline]
    fn settle_note(&mut self, note: &Note) {
        let epoch = self.log.epoch + u64::from(note.epoch);
        let (kind, size) = (note.size & !SIZE, note.size & SIZE);
        let entry = &mut self.entries[note.entry as usize];
        let site = &mut self.sites[entry.site as usize];
        match kind {
            CAME | MAPPED => {
                let mapped = Weight { blocks: self.weights.unit(), bytes: size };
                let weight = if kind == CAME { self.weights.of(size) } else { mapped };
                Self::touch(&mut self.touched, entry, note.entry);
                entry.live.add(weight, epoch);
                entry.made += weight;
                site.came(size, weight);
            }
            WENT => {
                let weight = self.weights.of(size);
                Self::touch(&mut self.touched, entry, note.entry);
                entry.live.subtract(weight, epoch);
                add(&mut entry.bytes_freed, weight.bytes);
                site.went(weight, note.number, &self.clock);
                if size > MOST_FILLED && note.made_since != NEVER {
                    site.passed_over += weight;
                }
                if entry.thread != note.thread {
                    add(&mut site.freed_elsewhere, weight.blocks);
                    *self.transfers.entry((entry.thread, note.thread)).or_default() += weight;
                } else if note.made_since < self.temporary_within && !self.weights.sampled() {
                    // Samples do not tell how many blocks were made in between.
                    add(&mut entry.temporary, weight.blocks);
                }
            }
            CUT | CUT_LAST => {
                let blocks = if kind == CUT_LAST { self.weights.unit() } else { 0 };
                let weight = Weight { blocks, bytes: size };
                Self::touch(&mut self.touched, entry, note.entry);
                entry.live.subtract(weight, epoch);
                add(&mut entry.bytes_freed, weight.bytes);
                if kind == CUT_LAST {
                    site.went(weight, note.number, &self.clock);
                } else {
                    site.left(weight, note.number);
                }
            }
            GREW | GREW_AGAIN | GREW_BACK => {
                let blocks = self.weights.of(size).blocks;
                add(&mut site.grown, blocks);
                add(&mut site.bytes_copied, note.number);
                site.largest_grown = site.largest_grown.max(size);
                if kind == GREW {
                    add(&mut site.growth_chains, blocks);
                }
                if kind != GREW_BACK {
                    site.chains.grew(size, blocks, note.number);
                }
            }
            CHAIN_ENDED => site.chains.reached(size, self.weights.of(size)),
            _ => {
                Self::touch(&mut self.touched, entry, note.entry);
                add(&mut entry.unused, self.weights.part(note.number.min(size), size));
                add(&mut site.examined_bytes, self.weights.of(size).bytes);
            }
        }
    }
}

impl Log {
    /// Sorts notes by ranges of sites; those of one site stay in order.
    fn sort(&mut self, notes: &mut Vec<Note>, site_of_entry: &[u32], sites: usize) {
        let per_part = sites.div_ceil(PARTS).next_power_of_two();
        let shift = per_part.trailing_zeros();
        let part = |note: &Note| (site_of_entry[note.entry as usize] >> shift) as usize % PARTS;
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
    use crate::clock::Clock;
    use crate::tally::At;

    #[test]
    fn the_most_of_a_site_is_that_of_all_its_threads_together() {
        let mut tally = Tally::new(Clock::start(), None, 1);
        let process = tally.add_process(false);
        let threads = [tally.add_thread(), tally.add_thread()];
        // So many sites that notes are sorted; the two entries of the first lie far apart.
        let first = tally.entry(0, threads[0]);
        for stack in 1..1000 {
            tally.entry(stack, threads[0]);
        }
        let other = tally.entry(0, threads[1]);
        let at = |thread: usize, address| At {
            process,
            thread: threads[thread],
            tick: crate::sys::ticks(),
            address,
            force: true,
        };
        tally.alloc(&at(0, 0x1000), first, 100);
        tally.alloc(&at(1, 0x2000), other, 100);
        tally.free(&at(0, 0x1000));
        tally.free(&at(1, 0x2000));
        tally.end_process(process, crate::sys::ticks(), crate::tally::End::Exit);
        let (sites, _) = tally.finish();
        assert_eq!((sites[0].counts.max_bytes, sites[0].counts.max_blocks), (200, 2));
    }
}
