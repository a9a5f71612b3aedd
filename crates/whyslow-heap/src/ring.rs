//! One thread's ring as the collector reads it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_heap_wire::area::{RingHeader, ring};

use crate::area::{Area, RingWords};
use crate::event::{Cursor, Event};
use crate::tally::Tally;

/// Words after which the writer is told how far it is read.
const TELL_EVERY: u64 = 2048;

/// A ring that is in use.
#[derive(Debug)]
pub(crate) struct Ring {
    area: Arc<Area>,
    /// Which area: a slot of the drain.
    pub slot: usize,
    /// Which ring in it.
    pub number: usize,
    /// Whose: rows.
    pub process: u32,
    pub thread: u32,
    pub tid: u32,
    pub cursor: Cursor,
    /// An event that was read but must wait for others.
    pub head: Option<Event>,
    told: u64,
    /// What `told` was when the thread was last looked for.
    pub told_at_check: u64,
    /// The thread is gone: what is left is read, then the ring is given back.
    pub closing: bool,
    pub entries: EntryCache,
    ahead: Ahead,
}

/// Events that come soon, for which memory is asked in advance: one place per event, in a circle.
#[derive(Debug, Default)]
struct Ahead {
    /// The word behind the last of them.
    at: u64,
    /// Where the circle begins.
    first: usize,
    events: [Expected; AHEAD],
}

/// How many events are looked ahead.
const AHEAD: usize = 16;

#[derive(Debug, Default, Clone, Copy)]
struct Expected {
    address: u64,
    /// The entry, if it is known, and whether the event makes a block there.
    entry: Option<u32>,
    makes: bool,
}

impl Ring {
    /// The ring of a thread; `None` if there is no such ring.
    pub(crate) fn new(
        area: &Arc<Area>,
        slot: usize,
        number: usize,
        process: u32,
        thread: u32,
        tid: u32,
    ) -> Option<Self> {
        let at = area.ring(number)?.read.load(Ordering::Relaxed);
        Some(Self {
            area: Arc::clone(area),
            slot,
            number,
            process,
            thread,
            tid,
            cursor: Cursor::new(at),
            head: None,
            told: at,
            told_at_check: u64::MAX,
            closing: false,
            entries: EntryCache::default(),
            ahead: Ahead::default(),
        })
    }

    fn parts(&self) -> Option<(&RingHeader, &RingWords)> {
        Some((self.area.ring(self.number)?, self.area.words(self.number)?))
    }

    pub(crate) fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// Looks how far it is written: the words to read.
    pub(crate) fn look(&mut self) -> u64 {
        let written = self.area.ring(self.number).map_or(0, |header| header.written.load(Ordering::Acquire));
        self.cursor.extend(written);
        self.cursor.end - self.cursor.at
    }

    /// The next event.
    #[inline]
    pub(crate) fn next(&mut self, latest: u64) -> Option<Event> {
        if let Some(event) = self.head.take() {
            return Some(event);
        }
        if self.cursor.at - self.told >= TELL_EVERY {
            self.tell();
        }
        let words = self.area.words(self.number)?;
        self.cursor.next(words, latest)
    }

    /// Looks one event further ahead and asks for the memory that it will need, in three steps.
    #[inline]
    pub(crate) fn look_ahead(&mut self, tally: &Tally) {
        let Some(words) = self.area.words(self.number) else { return };
        let ahead = &mut self.ahead;
        ahead.at = ahead.at.max(self.cursor.at);
        let slot = |after: usize| (ahead.first + after) % AHEAD;
        let (newest, middle, soon) = (slot(AHEAD - 1), slot(AHEAD / 2), slot(AHEAD / 4));
        ahead.first = slot(1);
        ahead.events[newest] = Expected::default();
        if let Some((address, node, next)) = self.cursor.scout(words, ahead.at) {
            ahead.at = next;
            let entry = node.and_then(|node| self.entries.get(node));
            tally.expect(self.process, address, entry);
            ahead.events[newest] = Expected { address, entry, makes: node.is_some() };
        }
        let expected = &mut ahead.events[middle];
        if expected.address != 0 && (expected.entry.is_some() || !expected.makes) {
            expected.entry = tally.expect_more(self.process, expected.address, expected.entry);
        }
        let expected = ahead.events[soon];
        if let (Some(entry), false) = (expected.entry, expected.makes) {
            tally.expect_most(entry);
        }
    }

    /// The time of the next event.
    #[inline]
    pub(crate) fn peek(&mut self, latest: u64) -> Option<u64> {
        self.head = self.next(latest);
        self.head.map(|event| event.tick)
    }

    /// Tells the writer how far it is read.
    pub(crate) fn tell(&mut self) {
        if self.told != self.cursor.at {
            self.told = self.cursor.at;
            if let Some((header, _)) = self.parts() {
                header.read.store(self.told, Ordering::Release);
            }
        }
    }

    /// Whether everything is read. What the writer left unfinished when it died does not count.
    pub(crate) fn is_done(&self) -> bool {
        self.head.is_none()
    }

    /// Gives the ring back. Its thread is gone.
    pub(crate) fn give_back(&self) {
        if let Some((header, _)) = self.parts() {
            header.written.store(0, Ordering::Relaxed);
            header.read.store(0, Ordering::Relaxed);
            header.state.store(ring::FREE, Ordering::Release);
        }
        let active = &self.area.header().rings_active;
        let one_less = |active: u32| active.checked_sub(1);
        // Zero already: the number was not ours to begin with, and stays.
        let _ = active.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less);
    }
}

/// Stack node → entry of the tally, for one thread: what was found last for a part of the node's number. Grows as long
/// as entries push each other out.
#[derive(Debug, Default)]
pub(crate) struct EntryCache {
    slots: Vec<(u32, u32)>,
    misses: usize,
}

const EMPTY: (u32, u32) = (u32::MAX, 0);
const MOST_SLOTS: usize = 1 << 13;

impl EntryCache {
    /// The entry of a node, if it is known.
    #[inline]
    pub(crate) fn get(&self, node: u32) -> Option<u32> {
        let slot = self.slots.get(node as usize & self.slots.len().wrapping_sub(1))?;
        (slot.0 == node).then_some(slot.1)
    }

    /// Notes the entry of a node.
    pub(crate) fn put(&mut self, node: u32, entry: u32) {
        self.misses += 1;
        if self.misses > self.slots.len() && self.slots.len() < MOST_SLOTS {
            let len = (self.slots.len() * 2).max(32);
            let old = std::mem::replace(&mut self.slots, vec![EMPTY; len]);
            for slot in old.into_iter().filter(|&slot| slot != EMPTY) {
                self.slots[slot.0 as usize & (len - 1)] = slot;
            }
            self.misses = 0;
        }
        let mask = self.slots.len() - 1;
        self.slots[node as usize & mask] = (node, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_never_answers_for_another_node() {
        let mut cache = EntryCache::default();
        assert_eq!(cache.get(0), None);
        for node in 0..50_000 {
            cache.put(node, node * 2);
            assert_eq!(cache.get(node), Some(node * 2));
        }
        let known = (0..50_000)
            .filter(|&node| cache.get(node).inspect(|&entry| assert_eq!(entry, node * 2)).is_some());
        assert_eq!(known.count(), MOST_SLOTS);
    }
}
