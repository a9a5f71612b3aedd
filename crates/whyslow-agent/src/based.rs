//! Thread states found by `fs` base, for programs without a loader.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use crate::arch::thread::base;
use crate::state::State;
use crate::sys;

/// A thread's entry in the table.
struct Based {
    /// The base plus one. 0 for a free entry.
    key: AtomicU64,
    state: AtomicPtr<State>,
}

const BASES: usize = 1 << 14;
static BASED: [Based; BASES] =
    [const { Based { key: AtomicU64::new(0), state: AtomicPtr::new(ptr::null_mut()) } }; BASES];
/// Offset of the thread id from its base. 0 if unknown: then the kernel is asked each time.
static THREAD_AT: AtomicU32 = AtomicU32::new(0);
fn based(base: u64, insert: bool) -> Option<&'static Based> {
    let key = base.wrapping_add(1);
    let start = (base >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50;
    for step in 0..BASES as u64 {
        let slot = &BASED[(start + step) as usize % BASES];
        match slot.key.load(Acquire) {
            found if found == key => return Some(slot),
            0 if !insert => return None,
            0 => match slot.key.compare_exchange(0, key, AcqRel, Acquire) {
                Ok(_) => return Some(slot),
                Err(found) if found == key => return Some(slot),
                Err(_) => {}
            },
            _ => {}
        }
    }
    None
}

/// The thread id, read without the kernel if possible. It is needed because another thread soon reuses the
/// base of a thread that exited.
fn thread_mark(base: u64) -> u32 {
    match (base, THREAD_AT.load(Relaxed)) {
        (0, _) => 0,
        (_, 0) => sys::thread(),
        // SAFETY: libc keeps a thread's control block at its base until the thread exits, with one layout for
        // all threads, and `find_thread_offset` has read up to here in one of them.
        (base, at) => unsafe { ptr::read_volatile((base + u64::from(at)) as *const u32) },
    }
}

/// The calling thread's state; null before its first event.
#[cold]
#[inline(never)]
pub fn mine() -> *const State {
    let base = base();
    let Some(slot) = based(base, false) else { return ptr::null() };
    let state = slot.state.load(Acquire);
    // SAFETY: null, or the state from `set_mine`, which is never freed.
    match unsafe { state.as_ref() } {
        Some(found) if found.is_marked(thread_mark(base)) => state,
        _ => ptr::null(),
    }
}

/// Makes `state` the calling thread's state. `None` if there is no room.
pub fn set_mine(state: &'static State) -> Option<()> {
    let base = base();
    if base != 0 && THREAD_AT.load(Relaxed) == 0 {
        find_thread_offset(base);
    }
    state.set_mark(thread_mark(base));
    based(base, true)?.state.store(ptr::from_ref(state).cast_mut(), Release);
    Some(())
}

/// Finds where libc stores the thread id in its control block: the only word that holds it.
fn find_thread_offset(base: u64) {
    let thread = sys::thread();
    let mut block = [0u8; 1024];
    let len = sys::peek(base, &mut block);
    let mut found = 0;
    for (index, word) in block[..len].as_chunks::<4>().0.iter().enumerate().skip(4) {
        if u32::from_le_bytes(*word) == thread {
            if found != 0 {
                return;
            }
            found = index as u32 * 4;
        }
    }
    THREAD_AT.store(found, Relaxed);
}
