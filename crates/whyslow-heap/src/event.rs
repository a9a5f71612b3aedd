//! Decodes the words of a ring into events.

use std::sync::atomic::Ordering;

use whyslow_agent_wire::area::RING_WORDS;
use whyslow_agent_wire::record::{self, op};

use crate::area::RingWords;
use crate::ids::{Address, RingStack, Tick};
use crate::trails::Trails;

/// A decoded record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// The time in ticks. Never earlier than the ring's previous event.
    pub tick: Tick,
    /// The address of the block or mapping.
    pub address: Address,
    /// What happened.
    pub kind: Kind,
}

/// Kinds of events. Stacks are numbers of the ring's [`Trails`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block is allocated.
    Allocated { stack: RingStack, size: u64 },
    /// A block is freed.
    Freed,
    /// A realloc starts: the block has no address for a while.
    MoveBegun,
    /// The realloc is done: the block is here now.
    Reallocated { stack: RingStack, size: u64 },
    /// The realloc failed: the block is still at its old address.
    MoveFailed,
    /// The realloc freed the block, or its new block is not sampled.
    MovingFreed,
    /// A block was examined: this many bytes were never written.
    Examined { unused: u64 },
    /// A mapping is created.
    Mapped { stack: RingStack, size: u64 },
    /// A range is unmapped.
    Unmapped { size: u64 },
}

/// A position in a ring, and the state that the words before it have set.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The next word to read.
    pub at: u64,
    /// The end of the written words.
    pub end: u64,
    stamp: Tick,
    last: Tick,
    pub trails: Trails,
    /// The writer violates the protocol: nothing more is read.
    pub broken: bool,
}

/// The largest block that an address space can hold.
const MOST_BYTES: u64 = (1 << 47) - 1;
const PAGE: u64 = 4096;

impl Cursor {
    pub(crate) fn new(at: u64) -> Self {
        Self { at, end: at, ..Self::default() }
    }

    /// Sets how far the writer is.
    pub(crate) fn extend(&mut self, written: u64) {
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

    /// The next event. Its time is at most `latest`: a time in the future cannot be true.
    #[inline]
    pub(crate) fn next(&mut self, words: &RingWords, latest: Tick) -> Option<Event> {
        let word_at = |at: u64| words[at as usize % RING_WORDS].load(Ordering::Relaxed);
        loop {
            if self.at == self.end {
                return None;
            }
            let head = word_at(self.at);
            let kind = record::op_of(head);
            let len = record::words(head);
            // Records are published whole; wait for the rest of an incomplete one.
            if self.end.wrapping_sub(self.at) < len {
                return if len > RING_WORDS as u64 { self.give_up() } else { None };
            }
            match kind {
                op::STAMP => {
                    self.stamp = Tick(record::value_of(head));
                    self.at = self.at.wrapping_add(1);
                    continue;
                }
                op::STACK => {
                    let first = self.at.wrapping_add(1);
                    let stack = record::stack_of(head);
                    let fresh = (0..stack.fresh).map(|frame| word_at(first.wrapping_add(frame as u64)));
                    if !self.trails.follow(stack, fresh) {
                        return self.give_up();
                    }
                    self.at = self.at.wrapping_add(len);
                    continue;
                }
                op::GENERATION => {
                    self.trails.set_generation(record::value_of(head));
                    self.at = self.at.wrapping_add(1);
                    continue;
                }
                op::ALLOC..=op::REALLOC | op::UNUSED..=op::REALLOC_FREED => {}
                _ => return self.give_up(),
            }
            let body = if len > 1 { word_at(self.at.wrapping_add(1)) } else { 0 };
            let kind = match kind {
                op::FREE => Kind::Freed,
                op::LEAVE => Kind::MoveBegun,
                op::REALLOC_FAILED => Kind::MoveFailed,
                op::REALLOC_FREED => Kind::MovingFreed,
                op::UNUSED => Kind::Examined { unused: body },
                op::UNMAP => Kind::Unmapped { size: body.saturating_mul(PAGE).min(MOST_BYTES) },
                _ => {
                    let stack = self.trails.current();
                    match kind {
                        op::ALLOC => Kind::Allocated { stack, size: body.min(MOST_BYTES) },
                        op::REALLOC => Kind::Reallocated { stack, size: body.min(MOST_BYTES) },
                        _ => Kind::Mapped { stack, size: body.saturating_mul(PAGE).min(MOST_BYTES) },
                    }
                }
            };
            self.at = self.at.wrapping_add(len);
            self.last = self.last.max(self.stamp.plus(record::ticks_of(head)).min(latest));
            return Some(Event { tick: self.last, address: Address(record::address_of(head)), kind });
        }
    }

    #[cold]
    fn give_up(&mut self) -> Option<Event> {
        self.broken = true;
        self.at = self.end;
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use proptest::prelude::*;
    use whyslow_agent_wire::record::Stack;

    use super::*;

    fn ring(words: &[u64]) -> Box<RingWords> {
        let mut all: Vec<AtomicU64> = words.iter().map(|&word| AtomicU64::new(word)).collect();
        all.resize_with(RING_WORDS, AtomicU64::default);
        all.into_boxed_slice().try_into().expect("the length of a ring")
    }

    fn read(words: &[u64]) -> (Vec<Event>, Cursor) {
        let memory = ring(words);
        let mut cursor = Cursor::new(0);
        cursor.extend(words.len() as u64);
        let events = std::iter::from_fn(|| cursor.next(&memory, Tick::MAX)).collect();
        (events, cursor)
    }

    #[test]
    fn records_become_events_with_their_time() {
        let (events, cursor) = read(&[
            record::number(op::STAMP, 1000),
            record::stack(Stack { from: 0, to: 3, cut: false, kept: 0, fresh: 2 }),
            0x1001,
            0x2002,
            record::head(op::ALLOC, 5, 0x4000),
            24,
            record::stack(Stack { from: 3, to: 3, cut: false, kept: 1, fresh: 0 }),
            record::head(op::LEAVE, 5, 0x4000),
            record::head(op::REALLOC, 6, 0x8000),
            1 << 40,
            record::head(op::FREE, 9, 0x8000),
            record::stack(Stack { from: 3, to: 3, cut: false, kept: 2, fresh: 0 }),
            record::head(op::MAP, 9, 0x10000),
            2,
        ]);
        assert_eq!(
            events,
            [
                Event {
                    tick: Tick(1005),
                    address: Address(0x4000),
                    kind: Kind::Allocated { stack: RingStack(2), size: 24 }
                },
                Event { tick: Tick(1005), address: Address(0x4000), kind: Kind::MoveBegun },
                Event {
                    tick: Tick(1006),
                    address: Address(0x8000),
                    kind: Kind::Reallocated { stack: RingStack(1), size: 1 << 40 }
                },
                Event { tick: Tick(1009), address: Address(0x8000), kind: Kind::Freed },
                Event {
                    tick: Tick(1009),
                    address: Address(0x10000),
                    kind: Kind::Mapped { stack: RingStack(2), size: 8192 }
                },
            ]
        );
        assert!(!cursor.broken && cursor.at == cursor.end);
        let node = cursor.trails.node(RingStack(1));
        assert_eq!((node.caller, node.frame), (Some(RingStack(0)), 0x1001));
    }

    #[test]
    fn waits_for_the_rest_of_a_record() {
        let (events, cursor) = read(&[record::number(op::STAMP, 1), record::head(op::ALLOC, 5, 0x4000)]);
        assert_eq!((events.len(), cursor.at, cursor.broken), (0, 1, false));
    }

    #[test]
    fn gives_up_an_overrun_ring() {
        let mut cursor = Cursor::new(10);
        cursor.extend(11 + RING_WORDS as u64);
        assert!(cursor.broken && cursor.at == cursor.end);
        let mut cursor = Cursor::new(10);
        cursor.extend(9);
        assert!(cursor.broken);
    }

    proptest! {
        #[test]
        fn any_words_can_be_read(words in proptest::collection::vec(any::<u64>(), 0..200), latest in any::<u64>().prop_map(Tick)) {
            let memory = ring(&words);
            let mut cursor = Cursor::new(0);
            cursor.extend(words.len() as u64);
            let mut last = Tick(0);
            while let Some(event) = cursor.next(&memory, latest) {
                prop_assert!(event.tick >= last && event.tick <= latest);
                last = event.tick;
            }
            prop_assert!(cursor.at <= cursor.end);
        }
    }
}
