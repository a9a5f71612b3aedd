//! One thread's ring as the collector reads it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_heap_wire::area::{RingHeader, ring};

use crate::area::{Area, RingWords};
use crate::event::{Cursor, Event};
use crate::ids::{
    Address, AreaSlot, EntryRow, OwnTid, ProcessRow, RingNumber, RingStack, StackRow, ThreadRow, Tick,
};

/// Words after which the writer is told how far it is read.
const TELL_EVERY: u64 = 2048;

/// A ring that is in use.
#[derive(Debug)]
pub(crate) struct Ring {
    area: Arc<Area>,
    /// Its area.
    pub slot: AreaSlot,
    /// Which ring in it.
    pub number: RingNumber,
    /// Whose.
    pub process: ProcessRow,
    pub thread: ThreadRow,
    pub tid: OwnTid,
    /// The process from which its own was forked. None once that is counted.
    pub forked_from: Option<ProcessRow>,
    pub cursor: Cursor,
    /// Events that were read but not taken yet.
    ahead: VecDeque<Event>,
    told: u64,
    /// What `told` was when the thread was last looked for.
    pub told_at_check: u64,
    /// The thread has ended: what is left is read, then the ring is given back.
    pub closing: bool,
    /// Entries of the tally by the number of the stack; [`UNKNOWN`] before it is asked for.
    entries: Vec<EntryRow>,
    /// Rows of all programs' stacks, likewise.
    pub rows: Vec<StackRow>,
}

/// How many events are read ahead, so that their memory can be asked for in time.
const AHEAD: usize = 24;
const UNKNOWN: EntryRow = EntryRow(u32::MAX);

impl Ring {
    /// The ring of a thread; `None` if there is no such ring.
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
            told: at,
            told_at_check: u64::MAX,
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

    /// Looks how far it is written: the words to read.
    pub(crate) fn look(&mut self) -> u64 {
        let written =
            self.area.ring(self.number.index()).map_or(0, |header| header.written.load(Ordering::Acquire));
        self.cursor.extend(written);
        self.cursor.end.wrapping_sub(self.cursor.at)
    }

    /// When the next event was, if there is one.
    #[inline]
    pub(crate) fn peek(&mut self, latest: Tick) -> Option<Tick> {
        if self.ahead.len() <= AHEAD / 2 {
            self.read_ahead(latest);
        }
        self.ahead.front().map(|event| event.tick)
    }

    /// The next event, of which [`Self::peek`] has told. It is copied as a whole: reading a part of a copy that is made in overlapping pieces
    /// waits until all of them are written.
    #[inline]
    pub(crate) fn next(&self) -> Event {
        self.ahead[0]
    }

    /// The next event is done.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.ahead.pop_front();
    }

    fn read_ahead(&mut self, latest: Tick) {
        if self.cursor.at.wrapping_sub(self.told) >= TELL_EVERY {
            self.tell();
        }
        let Some(words) = self.area.words(self.number.index()) else { return };
        while self.ahead.len() < AHEAD {
            let Some(event) = self.cursor.next(words, latest) else { break };
            self.ahead.push_back(event);
        }
    }

    /// The address of an event that comes soon.
    #[inline]
    pub(crate) fn soon(&self) -> Option<Address> {
        self.ahead.get(AHEAD / 2).map(|event| event.address)
    }

    /// The entry of a stack, if it was asked for before.
    #[inline]
    pub(crate) fn entry(&self, stack: RingStack) -> Option<EntryRow> {
        self.entries.get(stack.index()).copied().filter(|&entry| entry != UNKNOWN)
    }

    /// Notes the entry of a stack.
    pub(crate) fn set_entry(&mut self, stack: RingStack, entry: EntryRow) {
        let stack = stack.index();
        if self.entries.len() <= stack {
            self.entries.resize(stack + 1, UNKNOWN);
        }
        self.entries[stack] = entry;
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
        self.ahead.is_empty()
    }

    /// Gives the ring back. Its thread has ended.
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
