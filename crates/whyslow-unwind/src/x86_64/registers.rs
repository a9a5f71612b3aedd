//! The x86-64 registers and their orders.

use crate::registers::{Register, mask};

/// Accumulator.
pub const RAX: Register = Register(0);
/// Callee-saved.
pub const RBX: Register = Register(3);
/// First argument.
pub const RDI: Register = Register(5);
/// Frame pointer, or callee-saved.
pub const RBP: Register = Register(6);
/// Stack pointer.
pub const RSP: Register = Register(7);
/// Callee-saved.
pub const R12: Register = Register(12);
/// Callee-saved.
pub const R15: Register = Register(15);
/// The return address: the instruction pointer of the frame.
pub const RIP: Register = Register(16);

pub(super) const COUNT: usize = 17;

/// The registers that a function must restore, in the order of [`super::Cfa`]'s slots.
pub(super) const CALLEE_SAVED: [Register; 6] = [RBX, RBP, R12, Register(13), Register(14), R15];

/// Registers that are preserved across a call.
pub(super) const SURVIVORS: u64 = mask(&CALLEE_SAVED) | mask(&[RSP, RIP]);

/// The kernel's number of each register in the masks of its samples.
pub(super) const PERF: [(u64, Register); COUNT] = [
    (0, Register(0)),
    (1, Register(3)),
    (2, Register(2)),
    (3, Register(1)),
    (4, Register(4)),
    (5, Register(5)),
    (6, Register(6)),
    (7, Register(7)),
    (8, Register(16)),
    (16, Register(8)),
    (17, Register(9)),
    (18, Register(10)),
    (19, Register(11)),
    (20, Register(12)),
    (21, Register(13)),
    (22, Register(14)),
    (23, Register(15)),
];

/// The order in the kernel's `ucontext`: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
pub(super) const CONTEXT: [Register; COUNT] = [
    Register(8),
    Register(9),
    Register(10),
    Register(11),
    Register(12),
    Register(13),
    Register(14),
    Register(15),
    Register(5),
    Register(4),
    Register(6),
    Register(3),
    Register(1),
    Register(0),
    Register(2),
    Register(7),
    Register(16),
];
