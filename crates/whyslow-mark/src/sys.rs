//! System functions that std lacks: the time, the thread id, the user id.

#![expect(unsafe_code, reason = "C functions that std has no form of")]

use std::ffi::{c_int, c_long, c_uint};

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
