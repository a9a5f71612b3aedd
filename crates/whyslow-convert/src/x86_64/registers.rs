//! The meaning of registers in system calls.

use whyslow_unwind::x86_64::{RAX, RDI};
use whyslow_unwind::{Registers, X86_64};

/// The first argument of the system call that a thread is in; `None` if it is in none.
pub(super) fn system_call_argument(registers: &Registers<X86_64>) -> Option<u64> {
    // The kernel's placeholder for the result until there is one.
    const NO_RESULT_YET: u64 = (-38_i64).cast_unsigned();
    (registers.get(RAX)? == NO_RESULT_YET).then_some(registers.get(RDI)?)
}
