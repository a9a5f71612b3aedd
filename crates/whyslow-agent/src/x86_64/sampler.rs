//! The start of a sampled thread.

use core::arch::naked_asm;

use crate::sampler::thread_started;

/// Creates the thread's timer and continues in the function that the thread was created with. No frame of the
/// agent remains on its stack.
#[unsafe(naked)]
pub extern "C" fn thread_start() {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {begins}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "mov rdi, rdx",
        "jmp rax",
        ".cfi_endproc",
        begins = sym thread_started,
    )
}
