//! The processor's cache.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Brings the line of an address into the cache, some time later. Nothing is read, so that any address will do.
#[expect(unsafe_code, reason = "an instruction without a safe wrapper")]
pub(crate) fn fetch(address: *const u8) {
    // SAFETY: the instruction is a hint that never faults, whatever the address, and every x86-64 processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}
