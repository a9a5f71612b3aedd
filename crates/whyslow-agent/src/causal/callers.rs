//! Whether code of the target called what an interrupted thread is in.
//!
//! The thread's stack is copied piece by piece, so a wrong table ends the look instead of the program.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use whyslow_agent_wire::causal::Round;
use whyslow_selfwalk::{Glance, Module, Registers, Seen, World};

use super::board::Board;
use super::handler::holds;
use crate::area::Area;
use crate::{modules, sys, walk};

/// A look goes through this many frames at most.
const MOST_FRAMES: usize = 512;
/// Bytes of the stack that are copied at once.
const WINDOW: usize = 4096;
/// Threads that look at the same time.
const MOST_LOOKS: usize = 64;

/// Looks through the stack of the calling thread, which was interrupted with these registers.
pub fn lead_to_target(board: Board, round: &Round, interrupted: Registers) -> bool {
    let Some(area) = Area::get() else { return false };
    let Some(mut desk) = Desk::take() else { return false };
    let Memory { glance, window } = desk.memory();
    window.len = 0;
    let read = |address| window.word(address);
    let seen =
        glance.search(walk::rules(), &Process(area), interrupted, MOST_FRAMES, read, |at| holds(round, at));
    let shared = board.shared();
    shared.looks.fetch_add(1, Relaxed);
    if seen == Seen::Cut {
        shared.looks_cut.fetch_add(1, Relaxed);
    }
    seen == Seen::Found
}

struct Process(Area);

// SAFETY: it gives no memory.
unsafe impl World for Process {
    unsafe fn module_of(&self, address: u64) -> Option<Module<'_>> {
        // SAFETY: the caller upholds the same contract.
        unsafe { modules::find_in_handler(self.0, address) }
    }

    fn begins_near(&self, sp: u64) -> bool {
        walk::begins_near(self.0, sp)
    }

    fn memory(&self, _bytes: usize) -> *mut u8 {
        core::ptr::null_mut()
    }
}

/// A copy of a piece of the stack.
struct Window {
    start: u64,
    len: usize,
    bytes: [u64; WINDOW / 8],
}

impl Window {
    fn word(&mut self, address: u64) -> Option<u64> {
        const WORD: usize = 8;
        if !address.is_multiple_of(WORD as u64) {
            return None;
        }
        let mut at = address.wrapping_sub(self.start) as usize;
        if at.saturating_add(WORD) > self.len {
            // SAFETY: the bytes are this thread's own, and any bytes are valid words.
            self.len = unsafe { sys::copy_own(address, self.bytes.as_mut_ptr() as usize, WINDOW) };
            (self.start, at) = (address, 0);
        }
        if self.len < WORD { None } else { self.bytes.get(at / WORD).copied() }
    }
}

/// What a look needs. Stacks of signal handlers may be too small for it.
struct Memory {
    glance: Glance,
    window: Window,
}

static TAKEN: [AtomicU32; MOST_LOOKS] = [const { AtomicU32::new(0) }; MOST_LOOKS];
static MEMORIES: Memories = Memories(
    [const {
        UnsafeCell::new(Memory {
            glance: Glance::new(),
            window: Window { start: 0, len: 0, bytes: [0; WINDOW / 8] },
        })
    }; MOST_LOOKS],
);

struct Memories([UnsafeCell<Memory>; MOST_LOOKS]);

// SAFETY: only the `Desk` with its number uses a memory.
unsafe impl Sync for Memories {}

/// A memory that belongs to the calling thread for now.
struct Desk(usize);

impl Desk {
    fn take() -> Option<Self> {
        let is_taken = |taken: &AtomicU32| {
            taken.load(Relaxed) == 0 && taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        };
        TAKEN.iter().position(is_taken).map(Self)
    }

    fn memory(&mut self) -> &mut Memory {
        // SAFETY: nobody else has this number until it is given back.
        unsafe { &mut *MEMORIES.0[self.0 % MOST_LOOKS].get() }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        TAKEN[self.0 % MOST_LOOKS].store(0, Release);
    }
}
