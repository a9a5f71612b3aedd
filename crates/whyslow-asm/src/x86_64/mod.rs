//! x86-64, through iced-x86.

mod avx512;
mod meaning;
mod text;

pub use avx512::Avx512;
pub(crate) use meaning::decode;
pub(crate) use text::Writer;

use crate::instruction::Registers;

/// rax, rcx, rdx, rsi, rdi and r8 to r11, and all vector registers: the System V calling convention.
pub(crate) const CHANGED_BY_CALLS: Registers = Registers(0xffff_ffff_0000_0000 | 0b1111_1100_0111);

/// rdx.
pub(crate) const THIRD_ARGUMENT: u8 = 2;

/// rsp and rbp.
pub(crate) fn is_stack_register(register: u8) -> bool {
    matches!(register, 4 | 5)
}
