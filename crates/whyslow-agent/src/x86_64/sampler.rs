//! How a thread begins that is sampled.

use core::arch::naked_asm;

use crate::sampler::thread_begins;

/// Gives the thread its timer, and goes on in the function that it was made for. No frame of the agent is left on its stack.
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
        begins = sym thread_begins,
    )
}
