//! Frees what libc and libstdc++ keep until the end, which is not a leak.
//!
//! While other threads run, nothing may be freed under them. Then a copy of the process frees it instead, in
//! its own memory, and lists the blocks. The process itself only records them.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use crate::sys::{self, Copy, Pages};
use crate::{confined, events, link};

/// Frees the libraries' memory. Only after an orderly exit, and not in a signal handler, which may have
/// interrupted the allocator.
pub fn free_library_memory() {
    if sys::signals_blocked() {
        return;
    }
    if sys::threads() == 1 {
        free();
    } else if !confined::since_the_start(&mut [0; 4096]) {
        list_and_record();
    }
}

fn free() {
    for free in [link::libstdcxx_freeres(), link::libc_freeres()].into_iter().flatten() {
        // SAFETY: no code of the program runs any more in this process, so nothing uses what they free.
        unsafe { free() };
    }
}

/// Blocks that a copy of the process has freed. It shares this memory.
#[repr(C)]
struct Freed {
    count: AtomicU32,
    done: AtomicU32,
    blocks: [AtomicU64; MOST_BLOCKS],
}

/// libc keeps some hundred blocks.
const MOST_BLOCKS: usize = 1 << 16;

/// In a copy: where it lists what it frees. Null in all other processes.
static LIST: AtomicPtr<Freed> = AtomicPtr::new(core::ptr::null_mut());

impl Freed {
    fn of_this_copy() -> Option<&'static Self> {
        // SAFETY: null, or a list that remains mapped as long as the copy lives.
        unsafe { LIST.load(Relaxed).as_ref() }
    }

    fn add(&self, block: u64) {
        let count = self.count.load(Relaxed);
        if let Some(place) = self.blocks.get(count as usize) {
            place.store(block, Relaxed);
            self.count.store(count + 1, Release);
        }
    }

    fn blocks(&self) -> &[AtomicU64] {
        let count = self.count.load(Acquire) as usize;
        self.blocks.get(..count).unwrap_or_default()
    }
}

/// Whether this process is such a copy. It records nothing.
pub fn is_copy() -> bool {
    Freed::of_this_copy().is_some()
}

/// In a copy, lists a block that is about to be freed.
pub fn list(block: u64) {
    if let Some(list) = Freed::of_this_copy() {
        list.add(block);
    }
}

/// Lets copies of this process free the libraries' memory until one succeeds, and records what it freed. A
/// copy does not succeed if a thread that it lacks was about to allocate and holds the allocator's lock.
fn list_and_record() {
    const TRIES: u32 = 4;
    let Some(pages) = Pages::shared(size_of::<Freed>()) else { return };
    // SAFETY: zeroed pages of this size, which is a valid list. They are mapped until the end of this function.
    let list = unsafe { pages.at().cast::<Freed>().as_ref() };
    for _ in 0..TRIES {
        list.count.store(0, Relaxed);
        let copy = Copy::run(|| {
            LIST.store(pages.at().as_ptr().cast(), Relaxed);
            free();
            list.done.store(1, Release);
            sys::wake(&list.done);
        });
        let Some(copy) = copy else { return };
        if has_finished(copy, &list.done) {
            break;
        }
    }
    for block in list.blocks() {
        // SAFETY: the block belonged to the libraries' own lists when the copy was made. This only records.
        unsafe { events::free(block.load(Relaxed)) };
    }
}

/// Waits for a bounded time.
fn has_finished(mut copy: Copy, done: &AtomicU32) -> bool {
    const STEP: u64 = 5_000_000;
    const STEPS: u32 = 50;
    let mut left = STEPS;
    while done.load(Acquire) == 0 && left > 0 && !copy.has_ended() {
        if !sys::wait(done, 0, STEP) {
            left -= 1;
        }
    }
    done.load(Acquire) != 0
}
