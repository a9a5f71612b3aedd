//! The meaning of registers in system calls.

use whyslow_unwind::aarch64::X0;
use whyslow_unwind::{Aarch64, Registers};

/// The first argument of the system call that a thread is in. The kernel replaces it only by the result, so the
/// registers of a thread that is in none look the same.
pub(super) fn system_call_argument(registers: &Registers<Aarch64>) -> Option<u64> {
    registers.get(X0)
}
