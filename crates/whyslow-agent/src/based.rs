//! States by `fs` base, for programs without a loader.

use core::arch::asm;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use crate::state::State;
use crate::sys;

/// A thread's place in the table.
struct Based {
    /// The base plus one; 0 for none.
    key: AtomicU64,
    state: AtomicPtr<State>,
}

const BASES: usize = 1 << 14;
static BASED: [Based; BASES] =
    [const { Based { key: AtomicU64::new(0), state: AtomicPtr::new(ptr::null_mut()) } }; BASES];
/// Where a thread's number lies behind its base; 0 if that is not known, then the kernel is asked each time.
static THREAD_AT: AtomicU32 = AtomicU32::new(0);
/// Whether user code may read the base by an instruction.
static BASE_READABLE: AtomicU32 = AtomicU32::new(0);

/// Finds out how to read the `fs` base.
pub fn look_for_base() {
    const AT_HWCAP2: u64 = 26;
    const HWCAP2_FSGSBASE: u64 = 2;
    let file = sys::open(c"/proc/self/auxv");
    let mut bytes = [0u8; 1024];
    let len = if file >= 0 { sys::read(file, &mut bytes) } else { 0 };
    sys::close(file);
    for pair in bytes[..len].as_chunks::<16>().0 {
        let (kind, value) = (u64_at(pair, 0), u64_at(pair, 8));
        if kind == AT_HWCAP2 && value & HWCAP2_FSGSBASE != 0 {
            BASE_READABLE.store(1, Relaxed);
        }
    }
}

fn u64_at(bytes: &[u8; 16], at: usize) -> u64 {
    let mut word = 0;
    for byte in bytes[at..at + 8].iter().rev() {
        word = word << 8 | u64::from(*byte);
    }
    word
}

fn base() -> u64 {
    if BASE_READABLE.load(Relaxed) == 0 {
        return sys::fs_base();
    }
    let base: u64;
    // SAFETY: the kernel allows it.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

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

/// The thread's number as far as it can be read without the kernel: the base is that of another thread soon after one has ended.
fn thread_mark(base: u64) -> u32 {
    match (base, THREAD_AT.load(Relaxed)) {
        (0, _) => 0,
        (_, 0) => sys::thread(),
        // SAFETY: libc keeps a thread's control block at its base as long as the thread lives, in one layout for all threads, and
        // `look_for_thread` has read this far in one.
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
    // SAFETY: null, or what `set_mine` got, which is there for good.
    match unsafe { state.as_ref() } {
        Some(found) if found.is_marked(thread_mark(base)) => state,
        _ => ptr::null(),
    }
}

/// Makes a state the calling thread's. None if there is no room.
pub fn set_mine(state: &'static State) -> Option<()> {
    let base = base();
    if base != 0 && THREAD_AT.load(Relaxed) == 0 {
        look_for_thread(base);
    }
    state.set_mark(thread_mark(base));
    based(base, true)?.state.store(ptr::from_ref(state).cast_mut(), Release);
    Some(())
}

/// Finds where libc keeps the thread's number in its control block: the one place that holds it.
fn look_for_thread(base: u64) {
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
