//! The AArch64 part of the conversion.

mod calls;
mod code;
mod registers;

use whyslow_unwind::{Aarch64, Registers};

pub(crate) use self::calls::CALLS;
use crate::arch::Convertible;
use crate::modules::{CodeModule, Rows};

impl Convertible for Aarch64 {
    const SYSTEM_CALL: &[u8] = &code::SYSTEM_CALL;
    const SIGNAL_STATE: usize = code::SIGNAL_STATE;

    fn system_call_argument(registers: &Registers<Self>) -> Option<u64> {
        registers::system_call_argument(registers)
    }

    fn modules(rows: &mut Rows) -> Option<&mut Vec<CodeModule<Self>>> {
        match rows {
            Rows::Aarch64(rows) => Some(rows),
            Rows::X86_64(_) => None,
        }
    }
}
