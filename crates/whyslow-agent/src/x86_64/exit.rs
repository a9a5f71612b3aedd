//! Shims for the functions that end the program. They keep the caller's registers.

use core::arch::naked_asm;

use whyslow_agent_wire::handshake::hook;

use crate::causal::waits;
use crate::exit::{
    exit_body, exit_group_body, finished_body, note_orderly_exit, patched_body, quick_exit_body,
};
use crate::{exec, real, sampler};

/// The callee-saved registers, as [`push_kept`] leaves them on the stack. The return address is above them.
pub type Kept = [u64; 6];

/// Pushes the registers of [`Kept`] and puts the address of the lowest into the second argument.
macro_rules! push_kept {
    () => {
        push_kept!("r15", "r14", "r13", "r12", "rbp", "rbx")
    };
    ($($register:literal),*) => {
        concat!($("push ", $register, "\n.cfi_adjust_cfa_offset 8\n",)* "mov rsi, rsp")
    };
}

/// Notes the exit and continues in the real function.
macro_rules! noting_shim {
    ($hook:expr) => {
        naked_asm!(
            ".cfi_startproc",
            push_kept!(),
            "push rdi",
            ".cfi_adjust_cfa_offset 8",
            "call {noted}",
            "pop rdi",
            ".cfi_adjust_cfa_offset -8",
            "add rsp, 48",
            ".cfi_adjust_cfa_offset -48",
            "jmp qword ptr [rip + {real} + {hook}]",
            ".cfi_endproc",
            noted = sym note_orderly_exit,
            real = sym real::REAL,
            hook = const 8 * $hook,
        )
    };
}

/// Hook for libc's `exit`, patched at its start.
#[unsafe(naked)]
pub extern "C" fn orderly() {
    noting_shim!(hook::ORDERLY_EXIT)
}

/// Hook for libc's `quick_exit`, patched at its start.
#[unsafe(naked)]
pub extern "C" fn quick() {
    noting_shim!(hook::QUICK_EXIT)
}

/// Calls `body` with the caller's argument and registers.
macro_rules! shim {
    ($body:ident) => {
        naked_asm!(
            ".cfi_startproc",
            push_kept!(),
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "call {body}",
            "add rsp, 56",
            ".cfi_adjust_cfa_offset -56",
            "ret",
            ".cfi_endproc",
            body = sym $body,
        )
    };
}

/// An exit function that libc runs as one of the last.
#[unsafe(naked)]
pub extern "C" fn finished() {
    shim!(finished_body)
}

/// Hook for libc's `_exit`, patched at its start.
#[unsafe(naked)]
pub extern "C" fn patched() {
    shim!(patched_body)
}

/// Hook for libc's `syscall`, patched at its start. Handles by number the calls that end the process, execute
/// another program, forbid system calls, or wait and wake.
#[unsafe(naked)]
pub extern "C" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "cmp rdi, 202",
        "je {futex}",
        "cmp rdi, 231",
        "je 2f",
        "cmp rdi, 317",
        "je 4f",
        "cmp rdi, 59",
        "jne 3f",
        "cmp qword ptr [rip + {real} + {execve_hook}], 0",
        "je 3f",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "jmp {execve}",
        "2:",
        "mov rdi, rsi",
        "jmp {group}",
        "4:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        ".cfi_adjust_cfa_offset 40",
        "call {confined}",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -40",
        "3:",
        "jmp qword ptr [rip + {real} + {syscall_hook}]",
        ".cfi_endproc",
        real = sym real::REAL,
        execve_hook = const 8 * hook::EXECVE,
        syscall_hook = const 8 * hook::SYSCALL,
        execve = sym exec::execve,
        group = sym exit_group,
        confined = sym sampler::confined,
        futex = sym waits::futex,
    )
}

#[unsafe(naked)]
extern "C" fn exit_group() {
    shim!(exit_group_body)
}

/// Hook for libc's `_exit`.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _exit() {
    shim!(exit_body)
}

/// Hook for libc's `_Exit`.
#[cfg_attr(feature = "heap", unsafe(export_name = "_Exit"))]
#[unsafe(naked)]
pub extern "C" fn exit_of_c() {
    shim!(exit_body)
}

/// Hook for libc's `quick_exit`. Its handlers run after this, then `_exit`, which is the better place to hold
/// the process if it is hooked.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn quick_exit() {
    shim!(quick_exit_body)
}
