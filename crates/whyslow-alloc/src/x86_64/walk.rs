//! The start of a walk: a function without a stack frame that keeps its caller's registers.

use whyslow_selfwalk::Numbered;

use crate::stack::walk_from;

/// Walks the stack, starting at its caller.
#[unsafe(naked)]
pub(crate) extern "C" fn walk(walker: &mut Numbered, generation: u16) -> u32 {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        "mov rdx, rsp",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {walk_from}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        walk_from = sym walk_from,
    )
}
