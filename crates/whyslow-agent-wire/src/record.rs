//! The records in a ring: 64-bit words, one after the other, wrapping word by word.
//!
//! ```text
//! word 0 = op: 4 bits, ticks since the ring's last stamp: 16 bits, address / 8: 44 bits
//! word 1 = a size or another number                                       ALLOC, REALLOC, MAP, UNMAP, UNUSED
//! ```
//! `STAMP` has the time itself instead: op: 4 bits, ticks: 60 bits. `GENERATION` has a number in the same
//! form.
//!
//! `ALLOC`, `REALLOC` and `MAP` happen on the ring's current *stack*, set by the last `STACK` before them.
//! Both sides keep the same *trails*: lists of frames, root first. A stack is a prefix of a trail plus some
//! fresh frames:
//!
//! ```text
//! STACK = op: 4 bits, from: 8, to: 8, cut: 1, kept: 24, fresh: 19; then the fresh frames, a word each, outermost first
//!         the stack is trails[from][..kept] + fresh. If there are fresh frames, it becomes trails[to].
//!         cut: the stack does not begin at the root, but where unwinding had to stop; only set when nothing is kept
//! ```
//! A frame is a return address: the address minus one is inside the call. It belongs to the modules of the
//! last `GENERATION`, 0 at first.
//!
//! A tick is 2^[`TICK_SHIFT`] cycles of the time-stamp counter. Every ring starts with a `STAMP`, and has
//! another one whenever the distance does not fit. A program with one ring reads the counter only now and
//! then; the records in between repeat the last distance. With two rings or more, every record has its own
//! time, so that records can be put in order.
//!
//! An allocation is recorded after it happens and a free before it happens. So for one address, tick order is
//! the order of its lifetimes. The record is also *visible* before the address can reach another thread. A
//! reader that reads the counter, then every ring's `written`, and then processes the records up to that time
//! never misses a cause of what it sees.
//!
//! A `realloc` that moves its block frees and allocates in one call. Another thread may own the old address
//! before the call returns, and may have owned the new address when the call started. So it is two records
//! with a time each:
//!
//! ```text
//! LEAVE           before the call   the block has no address from here on; it still counts as live
//! REALLOC         after it          the block is here now, with this size: one step, whether it moved or not
//! REALLOC_FAILED                    or: the call failed, the block is still at its old address
//! REALLOC_FREED                     or: the call freed the block (`realloc(p, 0)`), or its new block is not sampled
//! ```
//! Between the two, this ring contains only `STAMP`. A `REALLOC` without a `LEAVE` before it had an old block
//! that is not recorded (sampling). A ring that ends with a `LEAVE` belongs to a thread that exited during
//! the call.
//!
//! With sampling, the agent adds one to the filter for each sampled block. It records the free of every
//! address whose filter is not 0, sampled or not. The collector knows which blocks were sampled, and
//! subtracts one when a sampled block is freed. A filter that reaches 255 keeps that value.
//!
//! Blocks above [`MOST_FILLED`] are not filled and have no `UNUSED`.

/// Cycles per tick, as a power of two.
pub const TICK_SHIFT: u32 = 5;
/// The largest distance in ticks that a record can hold.
pub const MOST_TICKS: u64 = (1 << 16) - 1;
/// Maximum frames of a trail, except trail 0: longer stacks use trail 0, and no stack is copied from it.
pub const SHORT_TRAIL: usize = 128;
/// The largest trail number.
pub const MOST_TRAIL: usize = (1 << 8) - 1;
/// Maximum frames that a `STACK` can keep.
pub const MOST_KEPT: usize = (1 << 24) - 1;
/// Maximum fresh frames of a `STACK`. A longer stack is sent in pieces, outermost first.
pub const MOST_FRESH: usize = 1 << 12;
/// The largest block that is filled to find unused bytes.
pub const MOST_FILLED: u64 = 4 << 20;

/// The kinds of record.
pub mod op {
    /// A time.
    pub const STAMP: u64 = 1;
    /// A new block: 2 words.
    pub const ALLOC: u64 = 2;
    /// A block is freed: 1 word.
    pub const FREE: u64 = 3;
    /// The block of the last `LEAVE` is here now: 2 words.
    pub const REALLOC: u64 = 4;
    /// The stack of the allocations that follow: 1 word, and one per fresh frame.
    pub const STACK: u64 = 5;
    /// Bytes of this block that were never written: 2 words, before its `FREE` or `LEAVE`.
    pub const UNUSED: u64 = 6;
    /// A mapping that the program created itself: 2 words; the size is in pages of 4096 bytes.
    pub const MAP: u64 = 7;
    /// A mapping, or a part of one, is unmapped: 2 words, without a stack.
    pub const UNMAP: u64 = 8;
    /// A block is about to be moved or resized: 1 word.
    pub const LEAVE: u64 = 9;
    /// The realloc failed; the block of the last `LEAVE` is still at its old address: 1 word.
    pub const REALLOC_FAILED: u64 = 10;
    /// The realloc freed the block of the last `LEAVE`, or its new block is not sampled: 1 word, with its old address.
    pub const REALLOC_FREED: u64 = 11;
    /// The module generation of the frames that follow.
    pub const GENERATION: u64 = 12;
}

/// Word 0 of all records except `STAMP`, `GENERATION` and `STACK`.
#[inline]
pub const fn head(op: u64, ticks: u64, address: u64) -> u64 {
    op | (ticks << 4) | ((address >> 3) << 20)
}

/// The first word of a `STACK`.
#[inline]
pub const fn stack(stack: Stack) -> u64 {
    let Stack { from, to, cut, kept, fresh } = stack;
    op::STACK
        | (from as u64) << 4
        | (to as u64) << 12
        | (cut as u64) << 20
        | (kept as u64) << 21
        | (fresh as u64) << 45
}

/// Decodes the first word of a `STACK`.
#[inline]
pub const fn stack_of(word: u64) -> Stack {
    Stack {
        from: (word >> 4) as usize & MOST_TRAIL,
        to: (word >> 12) as usize & MOST_TRAIL,
        cut: word >> 20 & 1 != 0,
        kept: (word >> 21) as usize & MOST_KEPT,
        fresh: (word >> 45) as usize,
    }
}

/// The fields of a `STACK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack {
    /// The trail that the stack shares its outermost frames with.
    pub from: usize,
    /// The trail that the stack becomes.
    pub to: usize,
    /// The stack does not begin at the root.
    pub cut: bool,
    /// Number of frames taken from the trail.
    pub kept: usize,
    /// Number of frames that follow.
    pub fresh: usize,
}

/// The word of `STAMP` and `GENERATION`.
#[inline]
pub const fn number(op: u64, value: u64) -> u64 {
    op | (value << 4)
}

/// The kind of the record that starts with this word.
#[inline]
pub const fn op_of(word: u64) -> u64 {
    word & 15
}

/// The ticks since the last stamp.
#[inline]
pub const fn ticks_of(word: u64) -> u64 {
    (word >> 4) & MOST_TICKS
}

/// The address.
#[inline]
pub const fn address_of(word: u64) -> u64 {
    (word >> 20) << 3
}

/// The value of `STAMP` and `GENERATION`.
#[inline]
pub const fn value_of(word: u64) -> u64 {
    word >> 4
}

/// The length in words of the record that starts with this word.
#[inline]
pub const fn words(word: u64) -> u64 {
    match op_of(word) {
        op::STACK => 1 + (word >> 45),
        op::ALLOC | op::REALLOC | op::UNUSED | op::MAP | op::UNMAP => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        let address = 0x7fff_ffff_fff8;
        let word = head(op::REALLOC, MOST_TICKS, address);
        assert_eq!((op_of(word), ticks_of(word), address_of(word)), (op::REALLOC, MOST_TICKS, address));
        let all = Stack { from: 255, to: 254, cut: true, kept: MOST_KEPT, fresh: MOST_FRESH };
        for some in [all, Stack { from: 3, to: 0, cut: false, kept: 17, fresh: 0 }] {
            let word = stack(some);
            assert_eq!((op_of(word), stack_of(word), words(word)), (op::STACK, some, 1 + some.fresh as u64));
        }
        let word = number(op::STAMP, (1 << 60) - 1);
        assert_eq!((op_of(word), value_of(word)), (op::STAMP, (1 << 60) - 1));
    }
}
