//! The AArch64 registers and their orders. DWARF, the kernel's samples and its `ucontext` agree: x0 to x30, sp, pc.

use crate::registers::{Register, mask};

/// First argument and result.
pub const X0: Register = Register(0);
/// The number of a system call.
pub const X8: Register = Register(8);
/// Callee-saved.
pub const X19: Register = Register(19);
/// Frame pointer (x29): the address of the frame record, which has the caller's x29 and x30.
pub const FP: Register = Register(29);
/// Link register (x30): the return address, until the function saves it or calls.
pub const LR: Register = Register(30);
/// Stack pointer.
pub const SP: Register = Register(31);
/// Program counter.
pub const PC: Register = Register(32);
/// A column of the tables: whether the return address is signed.
pub(super) const SIGN_STATE: Register = Register(34);

pub(super) const COUNT: usize = 33;

/// The registers that a function must restore, x19 to x30, in the order of [`super::Cfa`]'s slots.
pub(super) const CALLEE_SAVED: [Register; 12] = {
    let mut saved = [X19; 12];
    let mut at = 0;
    while at < saved.len() {
        saved[at] = Register(X19.0 + at as u8);
        at += 1;
    }
    saved
};

/// Registers that are preserved across a call. A call changes x30 itself.
pub(super) const SURVIVORS: u64 = mask(&CALLEE_SAVED) & !mask(&[LR]) | mask(&[SP, PC]);

/// The order in the kernel's `ucontext`.
pub(super) const CONTEXT: [Register; COUNT] = {
    let mut registers = [X0; COUNT];
    let mut at = 0;
    while at < COUNT {
        registers[at] = Register(at as u8);
        at += 1;
    }
    registers
};

/// The kernel's number of each register in the masks of its samples.
pub(super) const PERF: [(u64, Register); COUNT] = {
    let mut registers = [(0, X0); COUNT];
    let mut at = 0;
    while at < COUNT {
        registers[at] = (at as u64, Register(at as u8));
        at += 1;
    }
    registers
};

/// A saved return address may be signed (pointer authentication): the bits above those of an address then hold the
/// signature. Programs get addresses of at most 48 bits, unless they ask for more by address.
pub(super) fn plain_address(saved: u64) -> u64 {
    const ADDRESS: u64 = (1 << 48) - 1;
    saved & ADDRESS
}
