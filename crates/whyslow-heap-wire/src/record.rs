//! Records: words of 64 bits, one after the other in a ring, wrapping word by word.
//!
//! ```text
//! word 0 = op: 4 bits, ticks since the ring's last stamp: 16 bits, address / 8: 44 bits
//! word 1 = stack: 28 bits, size: 36 bits                                          ALLOC, REALLOC, MAP, UNMAP
//! ```
//! `STAMP` has the time itself instead: op: 4 bits, ticks: 60 bits. `LARGE` carries a size that does not fit into 36 bits for
//! the record that follows it: op: 4 bits, size: 60 bits. `UNUSED` has its number in word 1.
//!
//! A tick is 2^[`TICK_SHIFT`] cycles of the time-stamp counter. Every ring starts with a `STAMP`, and has another one whenever
//! the distance does not fit. A program with one ring reads the counter only now and then: its records then repeat the
//! last distance. As soon as there are two, every record has its own, so that they can be put in order.
//!
//! An allocation is recorded after it was made and a free before it is done, so that for one address the order of
//! ticks is the order of life. The record is also *visible* before the address can reach another thread. So whoever reads the
//! counter, then every ring's `written`, and goes through the records up to that time, never misses a cause of what it sees.
//!
//! A `realloc` that moves its block does both in one call: its old address may be another thread's before it returns, its new
//! one may have been another thread's when it was called. So it is two records with a time each:
//!
//! ```text
//! LEAVE   before the call   the block has no address from here on; it still counts as live
//! REALLOC after it          the block is here now, with this size: in one step, whether it moved or not
//! STAY                      or: the call failed, the block is at its old address still
//! GONE                      or: the call was another way to free it (`realloc(p, 0)`)
//! ```
//! Between the two there is nothing else in this ring but `STAMP` and `LARGE`. A `REALLOC` without a `LEAVE` before it had an old block that is not
//! recorded (sampling). A ring that ends with a `LEAVE` belongs to a thread that ended in the call.
//!
//! With sampling, the agent adds one to the filter for each sampled block and records the free of every address whose filter is not 0, sampled or
//! not; the collector knows which it was, and takes one away when a sampled block is gone. 255 stays.
//!
//! Blocks above [`MOST_FILLED`] are not filled and have no `UNUSED`.

/// Cycles per tick, as a power of two.
pub const TICK_SHIFT: u32 = 5;
/// The largest distance in ticks that a record can hold.
pub const MOST_TICKS: u64 = (1 << 16) - 1;
/// The largest size that fits into word 1.
pub const MOST_SIZE: u64 = (1 << 36) - 1;
/// The largest stack number.
pub const MOST_STACK: u32 = (1 << 28) - 1;
/// The stack of an allocation whose stack could not be walked or kept.
pub const NO_STACK: u32 = 0;

/// The largest block that is filled when unused bytes are looked for.
pub const MOST_FILLED: u64 = 4 << 20;

/// The kinds of record.
pub mod op {
    /// A time.
    pub const STAMP: u64 = 1;
    /// A new block: 2 words.
    pub const ALLOC: u64 = 2;
    /// A block is given back: 1 word.
    pub const FREE: u64 = 3;
    /// The block that left is here now: 2 words.
    pub const REALLOC: u64 = 4;
    /// The size of the next record.
    pub const LARGE: u64 = 5;
    /// Bytes of this block that were never written: 2 words, before its FREE or LEAVE.
    pub const UNUSED: u64 = 6;
    /// A mapping that the program made itself: 2 words; the size is in pages of 4096 bytes.
    pub const MAP: u64 = 7;
    /// A mapping, or a part of one, is given back: 2 words, without a stack.
    pub const UNMAP: u64 = 8;
    /// A block is about to be moved or resized: 1 word.
    pub const LEAVE: u64 = 9;
    /// The block that left is at its old address still: 1 word.
    pub const STAY: u64 = 10;
    /// The block that left was freed: 1 word, with its old address.
    pub const GONE: u64 = 11;
}

/// Word 0 of all records but `STAMP` and `LARGE`.
#[inline]
pub const fn head(op: u64, ticks: u64, address: u64) -> u64 {
    op | (ticks << 4) | ((address >> 3) << 20)
}

/// Word 1 of `ALLOC`, `REALLOC`, `MAP`.
#[inline]
pub const fn body(stack: u32, size: u64) -> u64 {
    stack as u64 | (size << 28)
}

/// The word of `STAMP` and `LARGE`.
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

/// The value of `STAMP` and `LARGE`.
#[inline]
pub const fn value_of(word: u64) -> u64 {
    word >> 4
}

/// The stack in word 1.
#[inline]
pub const fn stack_of(word: u64) -> u32 {
    (word & MOST_STACK as u64) as u32
}

/// The size in word 1.
#[inline]
pub const fn size_of(word: u64) -> u64 {
    word >> 28
}

/// How many words a record has.
#[inline]
pub const fn words(op: u64) -> u64 {
    match op {
        op::ALLOC | op::REALLOC | op::UNUSED | op::MAP | op::UNMAP => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_what_was_put_in() {
        let address = 0x7fff_ffff_fff8;
        let word = head(op::REALLOC, MOST_TICKS, address);
        assert_eq!((op_of(word), ticks_of(word), address_of(word)), (op::REALLOC, MOST_TICKS, address));
        let word = body(MOST_STACK, MOST_SIZE);
        assert_eq!((stack_of(word), size_of(word)), (MOST_STACK, MOST_SIZE));
        let word = number(op::LARGE, (1 << 60) - 1);
        assert_eq!((op_of(word), value_of(word)), (op::LARGE, (1 << 60) - 1));
    }
}
