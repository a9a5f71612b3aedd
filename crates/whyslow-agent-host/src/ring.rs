//! The host's side of one thread's ring. What the words mean is known to the purpose that they are for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_agent_wire::area::{RING_WORDS, RingHeader, ring};

use crate::area::{Area, RingWords};
use crate::ids::{AreaSlot, OwnTid, ProcessRow, RingNumber, ThreadRow, Tick};

/// Number of words after which the read position is published to the writer.
const PUBLISH_EVERY: u64 = 2048;

/// A position in the words of a ring.
#[derive(Debug, Default)]
pub struct Cursor {
    /// The next word to read.
    pub at: u64,
    /// The end of the written words.
    pub end: u64,
    /// The writer violates the protocol: nothing more is read.
    pub broken: bool,
}

impl Cursor {
    /// A ring with nothing to read yet.
    pub fn new(at: u64) -> Self {
        Self { at, end: at, broken: false }
    }

    /// Sets how far the writer is.
    pub fn extend(&mut self, written: u64) {
        if written.wrapping_sub(self.at) <= RING_WORDS as u64 {
            self.end = written;
        } else {
            self.broken = true;
        }
        if self.broken {
            self.at = written;
            self.end = written;
        }
    }

    /// Reads nothing more of a ring whose writer violates the protocol.
    #[cold]
    pub fn give_up(&mut self) {
        self.broken = true;
        self.at = self.end;
    }
}

/// An event with a time.
pub trait Timed: Copy + std::fmt::Debug {
    /// The time. Never earlier than the ring's previous event.
    fn tick(&self) -> Tick;
}

/// Decodes the words of one ring. Its state is what the words before have set.
pub trait Records: Default + Send + std::fmt::Debug {
    /// A decoded record.
    type Event: Timed + Send;

    /// The next event that is complete. Its time is at most `latest`: a time in the future cannot be true.
    fn next(&mut self, cursor: &mut Cursor, words: &RingWords, latest: Tick) -> Option<Self::Event>;
}

/// A ring that is in use.
#[derive(Debug)]
pub struct Ring<R: Records> {
    area: Arc<Area>,
    /// Its area.
    pub slot: AreaSlot,
    /// Its number in the area.
    pub number: RingNumber,
    /// Its process.
    pub process: ProcessRow,
    /// Its thread.
    pub thread: ThreadRow,
    pub(crate) tid: OwnTid,
    /// The process that its own was forked from. Whoever counts the fork takes it.
    pub forked_from: Option<ProcessRow>,
    pub(crate) cursor: Cursor,
    /// What the purpose knows about the ring.
    pub records: R,
    /// Events that have been read but not taken yet.
    ahead: VecDeque<R::Event>,
    published: u64,
    /// The value of `published` when the thread was last checked.
    pub(crate) published_at_check: u64,
    /// The thread has exited: the rest is read, then the ring is freed.
    pub(crate) closing: bool,
}

/// A ring that a thread has taken.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its area.
    pub(crate) area: Arc<Area>,
    pub(crate) slot: AreaSlot,
    pub(crate) number: RingNumber,
    pub(crate) process: ProcessRow,
    pub(crate) thread: ThreadRow,
    pub(crate) tid: OwnTid,
    pub(crate) forked_from: Option<ProcessRow>,
}

/// Number of events that are read ahead, so that their memory can be prefetched.
const AHEAD: usize = 24;

impl<R: Records> Ring<R> {
    /// The ring of a thread; `None` if the ring does not exist.
    pub(crate) fn new(opened: Opened) -> Option<Self> {
        let Opened { area, slot, number, process, thread, tid, forked_from } = opened;
        let at = area.ring(number.index())?.read.load(Ordering::Relaxed);
        Some(Self {
            area,
            slot,
            number,
            process,
            thread,
            tid,
            forked_from,
            cursor: Cursor::new(at),
            records: R::default(),
            ahead: VecDeque::with_capacity(AHEAD),
            published: at,
            published_at_check: u64::MAX,
            closing: false,
        })
    }

    fn parts(&self) -> Option<(&RingHeader, &RingWords)> {
        Some((self.area.ring(self.number.index())?, self.area.words(self.number.index())?))
    }

    /// The memory that it is in.
    pub fn area(&self) -> &Arc<Area> {
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
        self.ahead.front().map(Timed::tick)
    }

    /// The next event, after [`Self::peek`] has found one. It is copied as a whole: reading a part of a copy
    /// made in overlapping pieces stalls until all pieces are written.
    #[inline]
    pub(crate) fn next(&self) -> R::Event {
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
            let Some(event) = self.records.next(&mut self.cursor, words, latest) else { break };
            self.ahead.push_back(event);
        }
    }

    /// An upcoming event.
    #[inline]
    pub fn soon(&self) -> Option<&R::Event> {
        self.ahead.get(AHEAD / 2)
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
