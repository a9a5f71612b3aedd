//! The processor's cache.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Brings the line of the first byte into the cache, some time later.
#[expect(unsafe_code, reason = "an instruction without a safe wrapper")]
pub(crate) fn fetch(bytes: &[u8]) {
    // SAFETY: the instruction is a hint that reads nothing and never faults, and every x86-64 processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast()) };
}
