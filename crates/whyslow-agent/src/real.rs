//! The functions that the agent stands in for.

use core::ffi::CStr;
use core::mem;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use whyslow_heap_wire::handshake::hook;

use crate::{link, start, symbols};

/// What each hook calls; 0 for none.
pub static REAL: [AtomicU64; hook::COUNT] = [const { AtomicU64::new(0) }; hook::COUNT];

/// The other functions that are exported.
pub mod other {
    pub const USABLE_SIZE: usize = 0;
    pub const DLCLOSE: usize = 1;
    pub const EXIT: usize = 2;
    pub const QUICK_EXIT: usize = 3;
    pub const MMAP: usize = 4;
    pub const MUNMAP: usize = 5;
    pub const MREMAP: usize = 6;
    pub(super) const COUNT: usize = 7;
}

static OTHER: [AtomicU64; other::COUNT] = [const { AtomicU64::new(0) }; other::COUNT];

const NAMES: [(usize, &CStr); 10] = [
    (hook::MALLOC, c"malloc"),
    (hook::CALLOC, c"calloc"),
    (hook::REALLOC, c"realloc"),
    (hook::FREE, c"free"),
    (hook::POSIX_MEMALIGN, c"posix_memalign"),
    (hook::ALIGNED_ALLOC, c"aligned_alloc"),
    (hook::MEMALIGN, c"memalign"),
    (hook::VALLOC, c"valloc"),
    (hook::PVALLOC, c"pvalloc"),
    (hook::REALLOCARRAY, c"reallocarray"),
];

const OTHER_NAMES: [&CStr; other::COUNT] =
    [c"malloc_usable_size", c"dlclose", c"_exit", c"quick_exit", c"mmap", c"munmap", c"mremap"];

/// 0: nobody looked. 1: somebody looks. 2: all that can be found are there.
static FOUND: AtomicU32 = AtomicU32::new(0);

/// What a hook calls. 0 if there is nothing, or if the loader is about to find it and asks for memory itself.
#[inline]
pub fn of(hook: usize) -> u64 {
    let Some(word) = REAL.get(hook) else { return 0 };
    match word.load(Relaxed) {
        0 => find(word),
        real => real,
    }
}

/// One of the other functions; 0 if there is none.
#[inline]
pub fn of_other(other: usize) -> u64 {
    match OTHER[other].load(Relaxed) {
        0 => find(&OTHER[other]),
        real => real,
    }
}

/// Sets what a hook calls.
pub fn set(hook: usize, address: u64) {
    if let Some(word) = REAL.get(hook) {
        word.store(address, Release);
    }
}

/// Whether a hook has anything to call, without looking for it.
pub fn is_set(hook: usize) -> bool {
    REAL[hook].load(Relaxed) != 0
}

/// Whether what a hook calls lies in a range.
pub fn is_in(hook: usize, start: u64, len: u64) -> bool {
    REAL[hook].load(Relaxed).wrapping_sub(start) < len
}

#[cold]
#[inline(never)]
fn find(word: &AtomicU64) -> u64 {
    if find_all() {
        start::early();
    }
    word.load(Acquire)
}

/// Looks all functions up in the libraries behind this one. False if that is done or under way already, or cannot be done yet.
pub fn find_all() -> bool {
    if link::dlsym() == 0 && link::dl_iterate_phdr() == 0
        || FOUND.compare_exchange(0, 1, Acquire, Relaxed).is_err()
    {
        return false;
    }
    for (hook, name) in NAMES {
        set(hook, next(name));
    }
    for (word, name) in OTHER.iter().zip(OTHER_NAMES) {
        word.store(next(name), Release);
    }
    FOUND.store(2, Release);
    true
}

fn next(name: &CStr) -> u64 {
    const RTLD_NEXT: usize = usize::MAX;
    if link::dlsym() == 0 {
        return symbols::next(name);
    }
    // SAFETY: `dlsym` is there, and this is its signature.
    unsafe {
        let dlsym: extern "C" fn(usize, *const core::ffi::c_char) -> u64 = mem::transmute(link::dlsym());
        dlsym(RTLD_NEXT, name.as_ptr())
    }
}

/// Calls a function with up to four arguments.
///
/// # Safety
/// There must be a function at `address` that takes them.
#[inline(always)]
pub unsafe fn call(address: u64, a: u64, b: u64, c: u64, d: u64) -> u64 {
    // SAFETY: the caller's; in the C calling convention, arguments that are not looked at do no harm.
    unsafe {
        let function: extern "C" fn(u64, u64, u64, u64) -> u64 = mem::transmute(address);
        function(a, b, c, d)
    }
}
