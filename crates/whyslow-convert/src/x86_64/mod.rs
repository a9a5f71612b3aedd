//! The x86-64 part of the conversion.

mod calls;
mod code;
mod registers;

use whyslow_unwind::{Registers, X86_64};

pub(crate) use self::calls::CALLS;
use crate::arch::Convertible;
use crate::modules::{CodeModule, Rows};

impl Convertible for X86_64 {
    const SYSTEM_CALL: &[u8] = &code::SYSTEM_CALL;
    const SIGNAL_STATE: usize = code::SIGNAL_STATE;

    fn system_call_argument(registers: &Registers<Self>) -> Option<u64> {
        registers::system_call_argument(registers)
    }

    fn modules(rows: &mut Rows) -> Option<&mut Vec<CodeModule<Self>>> {
        match rows {
            Rows::X86_64(rows) => Some(rows),
            Rows::Aarch64(_) => None,
        }
    }
}
