//! AArch64, through yaxpeax-arm.

mod meaning;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use meaning::decode;
pub(crate) use text::Writer;

use crate::instruction::Registers;

/// x0 to x18 and x30, and all vector registers but the lower halves of v8 to v15, which count as changed: the procedure call standard.
pub(crate) const CHANGED_BY_CALLS: Registers = Registers(0xffff_ffff_0000_0000 | 0x4007_ffff);

/// x2.
pub(crate) const THIRD_ARGUMENT: u8 = 2;

/// The stack pointer's number among general registers: that of the zero register, which is none here.
pub(crate) const STACK_POINTER: u8 = 31;

/// sp and x29.
pub(crate) fn is_stack_register(register: u8) -> bool {
    matches!(register, STACK_POINTER | 29)
}
