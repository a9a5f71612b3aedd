//! One thread's ring as the collector reads it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_heap_wire::area::{RingHeader, ring};

use crate::area::{Area, RingWords};
use crate::event::{Cursor, Event};

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
    /// The process from which its own was forked: a row. None once that is counted.
    pub inherits_from: Option<u32>,
    pub cursor: Cursor,
    /// Events that were read but not taken yet.
    ahead: VecDeque<Event>,
    told: u64,
    /// What `told` was when the thread was last looked for.
    pub told_at_check: u64,
    /// The thread is gone: what is left is read, then the ring is given back.
    pub closing: bool,
    /// Entries of the tally by the number of the stack; [`UNKNOWN`] before it is asked for.
    entries: Vec<u32>,
    /// Rows of all programs' stacks, likewise.
    pub rows: Vec<u32>,
}

/// How many events are read ahead, so that their memory can be asked for in time.
const AHEAD: usize = 24;
const UNKNOWN: u32 = u32::MAX;

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
            inherits_from: None,
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
        Some((self.area.ring(self.number)?, self.area.words(self.number)?))
    }

    pub(crate) fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// Looks how far it is written: the words to read.
    pub(crate) fn look(&mut self) -> u64 {
        let written = self.area.ring(self.number).map_or(0, |header| header.written.load(Ordering::Acquire));
        self.cursor.extend(written);
        self.cursor.end.wrapping_sub(self.cursor.at)
    }

    /// The next event.
    #[inline]
    pub(crate) fn peek(&mut self, latest: u64) -> Option<Event> {
        if self.ahead.len() <= AHEAD / 2 {
            self.read_ahead(latest);
        }
        self.ahead.front().copied()
    }

    /// The next event is done.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.ahead.pop_front();
    }

    fn read_ahead(&mut self, latest: u64) {
        if self.cursor.at.wrapping_sub(self.told) >= TELL_EVERY {
            self.tell();
        }
        let Some(words) = self.area.words(self.number) else { return };
        while self.ahead.len() < AHEAD {
            let Some(event) = self.cursor.next(words, latest) else { break };
            self.ahead.push_back(event);
        }
    }

    /// The address of an event that comes soon.
    #[inline]
    pub(crate) fn soon(&self) -> Option<u64> {
        self.ahead.get(AHEAD / 2).map(|event| event.address)
    }

    /// The entry of a stack, if it was asked for before.
    #[inline]
    pub(crate) fn entry(&self, stack: u32) -> Option<u32> {
        self.entries.get(stack as usize).copied().filter(|&entry| entry != UNKNOWN)
    }

    /// Notes the entry of a stack.
    pub(crate) fn set_entry(&mut self, stack: u32, entry: u32) {
        let stack = stack as usize;
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
