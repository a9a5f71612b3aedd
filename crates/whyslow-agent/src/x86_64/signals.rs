//! What the kernel leaves on the stack for a signal handler.

use core::arch::naked_asm;

use whyslow_agent_wire::area::MOST_REGISTERS;
use whyslow_selfwalk::Registers;

/// Makes the kernel restore what it put on the stack. Debuggers and profilers know a signal handler's caller by these
/// very bytes, those of libc.
#[unsafe(naked)]
pub extern "C" fn restorer() {
    naked_asm!(".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0", "syscall") // mov rax, 15
}

/// The fields of the kernel's `ucontext` that are used: the state of the interrupted program.
#[repr(C)]
pub struct Context {
    _before: [u64; 5],
    registers: [u64; MOST_REGISTERS],
    ip: u64,
}

/// Indices among the registers.
const BP: usize = 10;
const BX: usize = 11;
const SP: usize = 15;

/// Bytes below the stack pointer that a function may use.
pub const RED_ZONE: u64 = 128;

impl Context {
    /// All general registers.
    pub fn registers(&self) -> [u64; MOST_REGISTERS] {
        self.registers
    }

    /// The same, followed by the instruction pointer.
    pub fn all_registers(&self) -> impl Iterator<Item = u64> {
        self.registers.into_iter().chain([self.ip])
    }

    /// What the caller of the interrupted function can depend on.
    pub fn frame(&self) -> Registers {
        Registers { pc: self.ip, sp: self.registers[SP], bp: self.registers[BP], bx: self.registers[BX] }
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.registers[SP]
    }
}
