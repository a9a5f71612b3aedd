//! The counter that orders events: the same for all processors, and cheap to read.

use core::arch::x86_64::{_mm_lfence, _rdtsc};

/// The time-stamp counter.
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: reads a counter.
    unsafe { _rdtsc() }
}

/// The counter, read after all earlier instructions are done.
#[inline(always)]
pub fn counter_after() -> u64 {
    // SAFETY: waits.
    unsafe { _mm_lfence() };
    counter()
}
