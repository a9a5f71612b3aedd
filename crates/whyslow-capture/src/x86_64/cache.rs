//! The CPU cache.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Prefetches the cache line of an address. Nothing is read, so any address is allowed.
#[expect(unsafe_code, reason = "an instruction without a safe wrapper")]
pub(crate) fn fetch(address: *const u8) {
    // SAFETY: the instruction is a hint that never faults, whatever the address, and every x86-64 processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}
