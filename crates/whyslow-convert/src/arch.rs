//! What the folder of each processor provides to the conversion, in addition to its unwinding rules.

use whyslow_unwind::{AnyRegisters, Arch, Registers};

use crate::modules::{CodeModule, Rows};

/// A processor whose recordings can be converted.
pub(crate) trait Convertible: Arch {
    /// The system call instruction.
    const SYSTEM_CALL: &[u8];
    /// Bytes of the interrupted code's state in the kernel's signal frame.
    const SIGNAL_STATE: usize;

    /// The first argument of the system call that a thread is in; `None` if it is in none.
    fn system_call_argument(registers: &Registers<Self>) -> Option<u64>;

    /// The modules of a recording; `None` if it is of another processor.
    fn modules(rows: &mut Rows) -> Option<&mut Vec<CodeModule<Self>>>;
}

/// See [`Convertible::system_call_argument`].
pub(crate) fn system_call_argument(registers: &AnyRegisters) -> Option<u64> {
    match registers {
        AnyRegisters::X86_64(registers) => Convertible::system_call_argument(registers),
        AnyRegisters::Aarch64(registers) => Convertible::system_call_argument(registers),
    }
}
