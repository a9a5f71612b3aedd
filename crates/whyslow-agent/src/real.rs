//! The real functions behind the hooks.

use core::ffi::CStr;
use core::mem;
use core::num::NonZeroU64;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use whyslow_agent_wire::handshake::hook;

use crate::{link, start, symbols};

/// The function that each hook calls. 0 for none.
pub static REAL: [AtomicU64; hook::COUNT] = [const { AtomicU64::new(0) }; hook::COUNT];

/// The other exported functions.
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

/// 0: not looked up yet. 1: lookup in progress. 2: everything that can be found was found.
static FOUND: AtomicU32 = AtomicU32::new(0);

/// The real function behind a hook.
#[derive(Clone, Copy)]
pub struct Function(NonZeroU64);

impl Function {
    /// Calls it with up to six arguments.
    ///
    /// # Safety
    /// The arguments are those of the program's own call of the hook, or equally valid.
    #[inline(always)]
    pub unsafe fn call<const COUNT: usize>(self, arguments: [u64; COUNT]) -> u64 {
        const { assert!(COUNT <= 6) };
        let mut all = [0; 6];
        all[..COUNT].copy_from_slice(&arguments);
        let [a, b, c, d, e, f] = all;
        // SAFETY: the code that created this value vouches for the function (`set`, `find_all`). In the C
        // calling convention extra arguments are ignored, so a function with fewer arguments can be called
        // with four or six.
        unsafe {
            if COUNT <= 4 {
                let function: unsafe extern "C" fn(u64, u64, u64, u64) -> u64 = mem::transmute(self.0);
                function(a, b, c, d)
            } else {
                let function: unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64 =
                    mem::transmute(self.0);
                function(a, b, c, d, e, f)
            }
        }
    }

    /// Its address.
    pub fn address(self) -> u64 {
        self.0.get()
    }
}

/// The function that a hook calls. `None` if there is none, or if the loader is just looking it up and needs
/// memory itself.
#[inline]
pub fn of(hook: usize) -> Option<Function> {
    let word = REAL.get(hook)?;
    match NonZeroU64::new(word.load(Relaxed)) {
        None => find(word),
        Some(real) => Some(Function(real)),
    }
}

/// One of the other functions, if it exists.
#[inline]
pub fn of_other(other: usize) -> Option<Function> {
    let word = OTHER.get(other)?;
    match NonZeroU64::new(word.load(Relaxed)) {
        None => find(word),
        Some(real) => Some(Function(real)),
    }
}

/// Sets the function that a hook calls.
///
/// # Safety
/// While it is set, this address holds the hooked function or its relocated start.
pub unsafe fn set(hook: usize, address: u64) {
    if let Some(word) = REAL.get(hook) {
        word.store(address, Release);
    }
}

/// Clears hooks that call into this range.
pub fn forget_in(start: u64, len: u64) {
    for word in &REAL {
        if word.load(Relaxed).wrapping_sub(start) < len {
            word.store(0, Release);
        }
    }
}

/// Whether a hook has a function to call. Does not look it up.
pub fn is_set(hook: usize) -> bool {
    REAL[hook].load(Relaxed) != 0
}

/// Whether a hook calls this function.
pub fn is(hook: usize, function: Function) -> bool {
    REAL[hook].load(Relaxed) == function.address()
}

#[cold]
#[inline(never)]
fn find(word: &AtomicU64) -> Option<Function> {
    if find_all() {
        start::early();
    }
    NonZeroU64::new(word.load(Acquire)).map(Function)
}

/// Looks up all functions in the libraries after this one. False if that was done, is in progress, or is not
/// possible yet.
pub fn find_all() -> bool {
    if link::dlsym().is_none() && link::dl_iterate_phdr().is_none()
        || FOUND.compare_exchange(0, 1, Acquire, Relaxed).is_err()
    {
        return false;
    }
    for (hook, name) in NAMES {
        // SAFETY: the next function with the hook's own name. Its library is never unloaded, because the
        // program is linked with it.
        unsafe { set(hook, next(name)) };
    }
    for (word, name) in OTHER.iter().zip(OTHER_NAMES) {
        word.store(next(name), Release);
    }
    FOUND.store(2, Release);
    true
}

fn next(name: &CStr) -> u64 {
    const RTLD_NEXT: usize = usize::MAX;
    match link::dlsym() {
        // SAFETY: the name is zero-terminated, and libc accepts this number as a handle.
        Some(dlsym) => unsafe { dlsym(RTLD_NEXT, name.as_ptr()) },
        None => symbols::next(name),
    }
}
