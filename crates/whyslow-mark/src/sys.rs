//! System functions that std lacks: the time, the thread id, the user id, and counters of a profiler in the program.

#![expect(unsafe_code, reason = "C functions that std has no form of")]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

const CLOCK_MONOTONIC: c_int = 1;

// SAFETY: these are the C library's own declarations; the safe ones take nothing and only return a number.
unsafe extern "C" {
    safe fn geteuid() -> c_uint;
    safe fn gettid() -> c_int;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    #[cfg(not(target_feature = "crt-static"))]
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The user id that owns the files of this process.
pub(super) fn user() -> u32 {
    geteuid()
}

/// The id of the calling thread. Not cached, because a fork changes it.
pub(super) fn thread() -> u32 {
    gettid().unsigned_abs()
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock that samples carry.
#[inline]
pub(super) fn now_ns() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a local that we may fill, and has the layout that the function expects.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds as u64)
}

/// coz's `_coz_get_counter(kind, name)`.
type GetCounter = unsafe extern "C" fn(c_int, *const c_char) -> *const AtomicUsize;

/// A counter that a profiler reads.
#[derive(Clone, Copy)]
pub(super) struct Counter(&'static AtomicUsize);

impl Counter {
    pub(super) fn add_one(self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The function of a profiler in this program that gives counters, looked for once.
fn get_counter() -> Option<GetCounter> {
    static FOUND: OnceLock<Option<GetCounter>> = OnceLock::new();
    *FOUND.get_or_init(find_get_counter)
}

#[cfg(not(target_feature = "crt-static"))]
fn find_get_counter() -> Option<GetCounter> {
    const DEFAULT: *mut c_void = std::ptr::null_mut();
    // SAFETY: takes a zero-terminated name; returns null or the address of the symbol.
    let function = unsafe { dlsym(DEFAULT, c"_coz_get_counter".as_ptr()) };
    // SAFETY: null is `None`, and by coz's protocol the symbol is a function of this type.
    unsafe { std::mem::transmute::<*mut c_void, Option<GetCounter>>(function) }
}

/// A static program cannot look up symbols.
#[cfg(target_feature = "crt-static")]
fn find_get_counter() -> Option<GetCounter> {
    None
}

/// Whether a profiler gives counters.
pub(super) fn has_counters() -> bool {
    get_counter().is_some()
}

/// A counter of this kind and name.
pub(super) fn counter(kind: c_int, name: &CStr) -> Option<Counter> {
    // SAFETY: by coz's protocol, the function takes a zero-terminated name and returns null, or a counter that stays for
    // as long as the process lives.
    get_counter().and_then(|get| unsafe { get(kind, name.as_ptr()).as_ref() }).map(Counter)
}
