//! What the kernel leaves on the stack for a signal handler.

use core::arch::naked_asm;

use whyslow_heap_wire::area::MOST_REGISTERS;

/// How the kernel takes back what it put on the stack.
#[unsafe(naked)]
pub extern "C" fn restorer() {
    naked_asm!("mov eax, 15", "syscall")
}

/// What the kernel leaves of the interrupted program (`ucontext`), as far as it is looked at.
#[repr(C)]
pub struct Context {
    _before: [u64; 5],
    registers: [u64; MOST_REGISTERS],
    ip: u64,
}

/// Where the stack pointer is among the registers.
const SP: usize = 15;

/// Bytes below the stack pointer that a function may use.
pub const RED_ZONE: u64 = 128;

impl Context {
    /// All general registers.
    pub fn registers(&self) -> [u64; MOST_REGISTERS] {
        self.registers
    }

    /// The same, and the instruction pointer behind them.
    pub fn all_registers(&self) -> impl Iterator<Item = u64> {
        self.registers.into_iter().chain([self.ip])
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.registers[SP]
    }
}
