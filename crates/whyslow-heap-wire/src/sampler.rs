//! Samples of CPU time that a program takes of itself, for machines that refuse perf events. A timer on each thread's CPU clock interrupts the
//! thread; the handler copies registers and stack into a free slot, and the collector unwinds them as it does what the kernel copies.
//!
//! ```text
//! 0          Board                            who may write, what was lost, the state of each slot
//! SLOTS_AT   MOST_SLOTS × Slot                a sample each
//! ```
//! Threads take the first free slot, so only as many of them take memory as were ever full at one time.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Samples that can wait for the collector.
pub const MOST_SLOTS: usize = 1024;
/// Bytes of a stack that are copied, from the stack pointer on.
pub const STACK_LEN: usize = 32 << 10;
/// General registers, in the kernel's order (`ucontext`), and the instruction pointer behind them.
pub const REGISTERS: usize = 17;
/// Bytes of a thread's name, with its final zero.
pub const NAME_LEN: usize = 16;

/// Where the slots begin.
pub const SLOTS_AT: usize = size_of::<Board>().next_multiple_of(4096);
/// All of it.
pub const SAMPLES_LEN: usize = SLOTS_AT + MOST_SLOTS * size_of::<Slot>();

/// What all threads of a program share.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Board {
    /// CPU time between two samples of a thread, set by the collector. Timers come no more often than the kernel's clock ticks; the agent
    /// takes the longer of the two, and writes it into `period_ns`.
    pub wish_ns: AtomicU64,
    /// The period that samples really have; 0 as long as there is no agent.
    pub period_ns: AtomicU64,
    /// CPU time of samples that found no free slot.
    pub lost_ns: AtomicU64,
    /// How many those were.
    pub lost: AtomicU64,
    /// Threads that could be given no timer.
    pub untimed: AtomicU64,
    /// Processes that have forbidden themselves system calls, and are not sampled since.
    pub confined: AtomicU64,
    /// One of [`state`] for each slot.
    pub states: [AtomicU32; MOST_SLOTS],
}

/// States of a slot. A thread takes a free one by a compare-and-swap, and the collector frees it.
pub mod state {
    /// Nobody's.
    pub const FREE: u32 = 0;
    /// A thread writes it: see [`taken_by`].
    const TAKEN: u32 = 1;
    /// Bits behind those of the state.
    const OWNER_AT: u32 = 8;
    /// It is a sample.
    pub const SAMPLE: u32 = 2;
    /// It says that a process has forked: `pid` is the child, `tid` its parent.
    pub const FORKED: u32 = 3;
    /// It says that a thread begins.
    pub const BEGUN: u32 = 5;
    /// It says that a thread ends: its value is all the CPU time that it had.
    pub const ENDED: u32 = 4;

    /// A thread writes it, of this number as it sees itself. Numbers have 22 bits at most; if the thread is killed meanwhile, the collector knows whose it was.
    pub const fn taken_by(tid: u32) -> u32 {
        tid << OWNER_AT | TAKEN
    }

    /// The thread that writes it, if one does.
    pub const fn owner(state: u32) -> Option<u32> {
        if state & ((1 << OWNER_AT) - 1) == TAKEN { Some(state >> OWNER_AT) } else { None }
    }
}

/// One sample.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    /// When, by the kernel's monotonic clock.
    pub time_ns: AtomicU64,
    /// How much CPU time it stands for.
    pub value_ns: AtomicU64,
    /// The process, as it sees itself.
    pub pid: AtomicU32,
    /// The thread, likewise.
    pub tid: AtomicU32,
    /// Bytes of the stack that were copied.
    pub stack_len: AtomicU32,
    /// Not used.
    pub reserved: AtomicU32,
    /// What the thread is called.
    pub name: [AtomicU8; NAME_LEN],
    /// The registers.
    pub registers: [AtomicU64; REGISTERS],
    _rest: [u8; 8],
    /// The stack.
    pub stack: [AtomicU64; STACK_LEN / 8],
}

/// Where a slot lies.
pub const fn slot_at(slot: usize) -> usize {
    SLOTS_AT + slot * size_of::<Slot>()
}

const _: () = assert!(size_of::<Slot>() == STACK_LEN + 192 && size_of::<Slot>().is_multiple_of(64));
