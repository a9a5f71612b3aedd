//! CPU samples that a program takes of itself, for machines that do not permit perf events. A timer on each
//! thread's CPU clock interrupts the thread. The handler copies registers and stack into a free slot, and the
//! collector unwinds them like the kernel's copies.
//!
//! ```text
//! 0          Board                            the sampling period, what was lost, the state of each slot
//! SLOTS_AT   MOST_SLOTS × Slot                a sample each
//! ```
//! Threads take the first free slot, so only as many slots take memory as were ever full at the same time.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Maximum number of samples that can wait for the collector.
pub const MOST_SLOTS: usize = 1024;
/// Bytes of the stack that are copied, starting at the stack pointer.
pub const STACK_LEN: usize = 32 << 10;
/// General registers in the kernel's order (`ucontext`), followed by the instruction pointer.
pub const REGISTERS: usize = 17;
/// Bytes of a thread's name, including the final zero.
pub const NAME_LEN: usize = 16;

/// Offset of the slots.
pub const SLOTS_AT: usize = size_of::<Board>().next_multiple_of(4096);
/// Length of the board and all slots.
pub const SAMPLES_LEN: usize = SLOTS_AT + MOST_SLOTS * size_of::<Slot>();

/// The state shared by all threads of a program.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Board {
    /// Requested CPU time between two samples of a thread, set by the collector. Timers cannot fire more
    /// often than the kernel's clock ticks. The agent takes the longer of the two and writes it to
    /// `period_ns`.
    pub wish_ns: AtomicU64,
    /// The actual sampling period; 0 until there is an agent.
    pub period_ns: AtomicU64,
    /// CPU time of samples that found no free slot.
    pub lost_ns: AtomicU64,
    /// Number of samples that found no free slot.
    pub lost: AtomicU64,
    /// Threads for which no timer could be created.
    pub untimed: AtomicU64,
    /// The errno of the last of them.
    pub untimed_error: AtomicU64,
    /// Processes that have forbidden themselves system calls and are not sampled since then.
    pub confined: AtomicU64,
    /// One of [`state`] for each slot.
    pub states: [AtomicU32; MOST_SLOTS],
}

/// States of a slot. A thread takes a free slot by compare-and-swap; the collector frees it.
pub mod state {
    /// Not in use.
    pub const FREE: u32 = 0;
    /// A thread is writing the slot: see [`taken_by`].
    const TAKEN: u32 = 1;
    /// Bit offset of the thread id, above the bits of the state.
    const OWNER_AT: u32 = 8;
    /// The slot holds a sample.
    pub const SAMPLE: u32 = 2;
    /// A process has forked: `pid` is the child, `tid` its parent.
    pub const FORKED: u32 = 3;
    /// A thread has started.
    pub const BEGUN: u32 = 5;
    /// A thread exits: the value is its total CPU time.
    pub const ENDED: u32 = 4;

    /// The state while a thread writes the slot, with the thread's own id. Thread ids have at most 22 bits.
    /// If the thread is killed while it writes, the collector knows which thread held the slot.
    pub const fn taken_by(tid: u32) -> u32 {
        tid << OWNER_AT | TAKEN
    }

    /// The thread that is writing the slot, if any.
    pub const fn owner(state: u32) -> Option<u32> {
        if state & ((1 << OWNER_AT) - 1) == TAKEN { Some(state >> OWNER_AT) } else { None }
    }
}

/// One sample.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    /// The time, by the kernel's monotonic clock.
    pub time_ns: AtomicU64,
    /// The CPU time that the sample stands for.
    pub value_ns: AtomicU64,
    /// The process id, as the process sees it.
    pub pid: AtomicU32,
    /// The thread id, as the process sees it.
    pub tid: AtomicU32,
    /// Number of stack bytes copied.
    pub stack_len: AtomicU32,
    /// Not used.
    pub reserved: AtomicU32,
    /// The thread's name.
    pub name: [AtomicU8; NAME_LEN],
    /// The registers.
    pub registers: [AtomicU64; REGISTERS],
    _rest: [u8; 8],
    /// The copied stack.
    pub stack: [AtomicU64; STACK_LEN / 8],
}

/// Offset of a slot.
pub const fn slot_at(slot: usize) -> usize {
    SLOTS_AT + slot * size_of::<Slot>()
}

const _: () = assert!(size_of::<Slot>() == STACK_LEN + 192 && size_of::<Slot>().is_multiple_of(64));
