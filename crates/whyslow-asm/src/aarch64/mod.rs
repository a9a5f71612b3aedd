//! AArch64, through yaxpeax-arm.

mod meaning;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use meaning::decode;
pub(crate) use text::Writer;

use crate::instruction::Registers;

/// By the procedure call standard: x0 to x18 and x30, and all vector registers. The lower halves of v8 to v15
/// are preserved, but count as changed here.
pub(crate) const CHANGED_BY_CALLS: Registers = Registers(0xffff_ffff_0000_0000 | 0x4007_ffff);

/// x2.
pub(crate) const THIRD_ARGUMENT: u8 = 2;

/// The stack pointer's number among general registers. It is that of the zero register, which has no number
/// here.
pub(crate) const STACK_POINTER: u8 = 31;

/// sp and x29.
pub(crate) fn is_stack_register(register: u8) -> bool {
    matches!(register, STACK_POINTER | 29)
}
