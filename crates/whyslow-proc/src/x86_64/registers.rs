//! The registers of a stopped thread and their meaning.

/// The code segment of 64-bit programs.
const CODE_64: u64 = 0x33;

/// The floating-point registers.
pub type FloatRegisters = libc::user_fpregs_struct;

/// All other registers, in the kernel's layout.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Registers(libc::user_regs_struct);

impl Registers {
    /// Whether the process runs 64-bit code.
    pub fn are_of_64_bits(&self) -> bool {
        self.0.cs == CODE_64
    }

    /// The general registers in the order of the kernel's `ucontext`, and the instruction pointer.
    pub fn general(&self) -> [u64; 17] {
        let r = &self.0;
        [
            r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
            r.rcx, r.rsp, r.rip,
        ]
    }

    /// Whether it is in a system call.
    pub fn are_in_a_call(&self) -> bool {
        self.0.orig_rax.cast_signed() >= 0
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.0.rip
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.0.rsp
    }

    /// The return value of a function or a system call.
    pub fn returned(&self) -> u64 {
        self.0.rax
    }

    /// The same registers, without a system call that the kernel could restart.
    pub fn outside_of_calls(self) -> Self {
        Self(libc::user_regs_struct { orig_rax: u64::MAX, ..self.0 })
    }

    /// The registers of a process that is about to make a system call.
    pub fn calling(self, number: i64, [rdi, rsi, rdx, r10, r8, r9]: [u64; 6]) -> Self {
        Self(libc::user_regs_struct { rax: number as u64, rdi, rsi, rdx, r10, r8, r9, ..self.0 })
    }

    /// The registers of a process at the start of a function.
    pub fn entering(self, function: u64, stack: u64, [rdi, rsi, rdx, rcx]: [u64; 4]) -> Self {
        Self(libc::user_regs_struct { rip: function, rsp: stack, rbp: 0, rdi, rsi, rdx, rcx, ..self.0 })
    }
}
