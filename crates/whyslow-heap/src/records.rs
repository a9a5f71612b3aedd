//! Decodes the words of a ring into events.

use std::sync::atomic::Ordering;

use whyslow_agent_host::{Cursor, Records, RingWords, Timed};
use whyslow_agent_wire::area::RING_WORDS;
use whyslow_agent_wire::record::{self, op};
use whyslow_processor::PAGE;

use crate::ids::{Address, EntryRow, RingStack, StackRow, Tick};
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

impl Timed for Event {
    #[inline]
    fn tick(&self) -> Tick {
        self.tick
    }
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

/// What the words of a ring have set so far, and what is known about its stacks.
#[derive(Debug, Default)]
pub(crate) struct HeapRecords {
    stamp: Tick,
    last: Tick,
    pub(crate) trails: Trails,
    /// Entries of the tally by stack number; [`UNKNOWN`] until requested.
    entries: Vec<EntryRow>,
    /// Rows of the global stacks by stack number.
    pub(crate) rows: Vec<StackRow>,
}

const UNKNOWN: EntryRow = EntryRow(u32::MAX);

/// The largest block that an address space can hold.
const MOST_BYTES: u64 = (1 << 47) - 1;

impl HeapRecords {
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
}

impl Records for HeapRecords {
    type Event = Event;

    #[inline]
    fn next(&mut self, cursor: &mut Cursor, words: &RingWords, latest: Tick) -> Option<Event> {
        let word_at = |at: u64| words[at as usize % RING_WORDS].load(Ordering::Relaxed);
        loop {
            if cursor.at == cursor.end {
                return None;
            }
            let head = word_at(cursor.at);
            let kind = record::op_of(head);
            let len = record::words(head);
            // Records are published whole; wait for the rest of an incomplete one.
            if cursor.end.wrapping_sub(cursor.at) < len {
                if len > RING_WORDS as u64 {
                    cursor.give_up();
                }
                return None;
            }
            match kind {
                op::STAMP => {
                    self.stamp = Tick(record::value_of(head));
                    cursor.at = cursor.at.wrapping_add(1);
                    continue;
                }
                op::STACK => {
                    let first = cursor.at.wrapping_add(1);
                    let stack = record::stack_of(head);
                    let fresh = (0..stack.fresh).map(|frame| word_at(first.wrapping_add(frame as u64)));
                    if !self.trails.follow(stack, fresh) {
                        cursor.give_up();
                        return None;
                    }
                    cursor.at = cursor.at.wrapping_add(len);
                    continue;
                }
                op::GENERATION => {
                    self.trails.set_generation(record::value_of(head));
                    cursor.at = cursor.at.wrapping_add(1);
                    continue;
                }
                op::ALLOC..=op::REALLOC | op::UNUSED..=op::REALLOC_FREED => {}
                _ => {
                    cursor.give_up();
                    return None;
                }
            }
            let body = if len > 1 { word_at(cursor.at.wrapping_add(1)) } else { 0 };
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
            cursor.at = cursor.at.wrapping_add(len);
            self.last = self.last.max(self.stamp.plus(record::ticks_of(head)).min(latest));
            return Some(Event { tick: self.last, address: Address(record::address_of(head)), kind });
        }
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

    fn read(words: &[u64]) -> (Vec<Event>, Cursor, HeapRecords) {
        let memory = ring(words);
        let (mut cursor, mut records) = (Cursor::new(0), HeapRecords::default());
        cursor.extend(words.len() as u64);
        let events = std::iter::from_fn(|| records.next(&mut cursor, &memory, Tick::MAX)).collect();
        (events, cursor, records)
    }

    #[test]
    fn records_become_events_with_their_time() {
        let (events, cursor, records) = read(&[
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
        let node = records.trails.node(RingStack(1));
        assert_eq!((node.caller, node.frame), (Some(RingStack(0)), 0x1001));
    }

    #[test]
    fn waits_for_the_rest_of_a_record() {
        let (events, cursor, _) = read(&[record::number(op::STAMP, 1), record::head(op::ALLOC, 5, 0x4000)]);
        assert_eq!((events.len(), cursor.at, cursor.broken), (0, 1, false));
    }

    proptest! {
        #[test]
        fn any_words_can_be_read(words in proptest::collection::vec(any::<u64>(), 0..200), latest in any::<u64>().prop_map(Tick)) {
            let memory = ring(&words);
            let (mut cursor, mut records) = (Cursor::new(0), HeapRecords::default());
            cursor.extend(words.len() as u64);
            let mut last = Tick(0);
            while let Some(event) = records.next(&mut cursor, &memory, latest) {
                prop_assert!(event.tick >= last && event.tick <= latest);
                last = event.tick;
            }
            prop_assert!(cursor.at <= cursor.end);
        }
    }
}
