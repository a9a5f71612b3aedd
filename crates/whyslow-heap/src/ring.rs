//! The collector's side of one thread's ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_agent_wire::area::{RingHeader, ring};

use crate::area::{Area, RingWords};
use crate::event::{Cursor, Event};
use crate::ids::{
    Address, AreaSlot, EntryRow, OwnTid, ProcessRow, RingNumber, RingStack, StackRow, ThreadRow, Tick,
};

/// Number of words after which the read position is published to the writer.
const PUBLISH_EVERY: u64 = 2048;

/// A ring that is in use.
#[derive(Debug)]
pub(crate) struct Ring {
    area: Arc<Area>,
    /// Its area.
    pub slot: AreaSlot,
    /// Its number in the area.
    pub number: RingNumber,
    /// Its process.
    pub process: ProcessRow,
    pub thread: ThreadRow,
    pub tid: OwnTid,
    /// The process that its own was forked from. `None` once the fork has been counted.
    pub forked_from: Option<ProcessRow>,
    pub cursor: Cursor,
    /// Events that have been read but not taken yet.
    ahead: VecDeque<Event>,
    published: u64,
    /// The value of `published` when the thread was last checked.
    pub published_at_check: u64,
    /// The thread has exited: the rest is read, then the ring is freed.
    pub closing: bool,
    /// Entries of the tally by stack number; [`UNKNOWN`] until requested.
    entries: Vec<EntryRow>,
    /// Rows of the global stacks by stack number.
    pub rows: Vec<StackRow>,
}

/// Number of events that are read ahead, so that their memory can be prefetched.
const AHEAD: usize = 24;
const UNKNOWN: EntryRow = EntryRow(u32::MAX);

impl Ring {
    /// The ring of a thread; `None` if the ring does not exist.
    pub(crate) fn new(
        area: &Arc<Area>,
        slot: AreaSlot,
        number: RingNumber,
        process: ProcessRow,
        thread: ThreadRow,
        tid: OwnTid,
    ) -> Option<Self> {
        let at = area.ring(number.index())?.read.load(Ordering::Relaxed);
        Some(Self {
            area: Arc::clone(area),
            slot,
            number,
            process,
            thread,
            tid,
            forked_from: None,
            cursor: Cursor::new(at),
            ahead: VecDeque::with_capacity(AHEAD),
            published: at,
            published_at_check: u64::MAX,
            closing: false,
            entries: Vec::new(),
            rows: Vec::new(),
        })
    }

    fn parts(&self) -> Option<(&RingHeader, &RingWords)> {
        Some((self.area.ring(self.number.index())?, self.area.words(self.number.index())?))
    }

    pub(crate) fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// Reads how far the ring is written. Returns the number of words to read.
    pub(crate) fn refresh(&mut self) -> u64 {
        let written =
            self.area.ring(self.number.index()).map_or(0, |header| header.written.load(Ordering::Acquire));
        self.cursor.extend(written);
        self.cursor.end.wrapping_sub(self.cursor.at)
    }

    /// The time of the next event, if there is one.
    #[inline]
    pub(crate) fn peek(&mut self, latest: Tick) -> Option<Tick> {
        if self.ahead.len() <= AHEAD / 2 {
            self.read_ahead(latest);
        }
        self.ahead.front().map(|event| event.tick)
    }

    /// The next event, after [`Self::peek`] has found one. It is copied as a whole: reading a part of a copy
    /// made in overlapping pieces stalls until all pieces are written.
    #[inline]
    pub(crate) fn next(&self) -> Event {
        self.ahead[0]
    }

    /// Removes the next event.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.ahead.pop_front();
    }

    fn read_ahead(&mut self, latest: Tick) {
        if self.cursor.at.wrapping_sub(self.published) >= PUBLISH_EVERY {
            self.publish();
        }
        let Some(words) = self.area.words(self.number.index()) else { return };
        while self.ahead.len() < AHEAD {
            let Some(event) = self.cursor.next(words, latest) else { break };
            self.ahead.push_back(event);
        }
    }

    /// The address of an upcoming event.
    #[inline]
    pub(crate) fn soon(&self) -> Option<Address> {
        self.ahead.get(AHEAD / 2).map(|event| event.address)
    }

    /// The entry of a stack, if it was requested before.
    #[inline]
    pub(crate) fn entry(&self, stack: RingStack) -> Option<EntryRow> {
        self.entries.get(stack.index()).copied().filter(|&entry| entry != UNKNOWN)
    }

    /// Stores the entry of a stack.
    pub(crate) fn set_entry(&mut self, stack: RingStack, entry: EntryRow) {
        let stack = stack.index();
        if self.entries.len() <= stack {
            self.entries.resize(stack + 1, UNKNOWN);
        }
        self.entries[stack] = entry;
    }

    /// Publishes the read position to the writer.
    pub(crate) fn publish(&mut self) {
        if self.published != self.cursor.at {
            self.published = self.cursor.at;
            if let Some((header, _)) = self.parts() {
                header.read.store(self.published, Ordering::Release);
            }
        }
    }

    /// Whether everything has been read. A record that an exited writer left incomplete does not count.
    pub(crate) fn is_done(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Frees the ring. Its thread has exited.
    pub(crate) fn give_back(&self) {
        if let Some((header, _)) = self.parts() {
            header.written.store(0, Ordering::Relaxed);
            header.read.store(0, Ordering::Relaxed);
            header.state.store(ring::FREE, Ordering::Release);
        }
        let active = &self.area.header().rings_active;
        let one_less = |active: u32| active.checked_sub(1);
        // If it is already zero, the count was wrong, and is left unchanged.
        let _ = active.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less);
    }
}
