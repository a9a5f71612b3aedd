//! The registers of a stopped process, and what they mean.

/// `syscall; int3`
pub(crate) const CALL: [u8; 3] = [0x0f, 0x05, 0xcc];
/// The bytes below the stack pointer that belong to the program.
pub(crate) const RED_ZONE: u64 = 128;
/// The code segment of 64-bit programs.
const CODE_64: u64 = 0x33;

/// The registers for floating-point numbers.
pub(crate) type FloatRegisters = libc::user_fpregs_struct;

/// All others. The kernel has them in this layout.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers(libc::user_regs_struct);

impl Registers {
    /// Whether the process runs 64-bit code.
    pub(crate) fn are_of_64_bits(&self) -> bool {
        self.0.cs == CODE_64
    }

    /// Where the process goes on.
    pub(crate) fn pc(&self) -> u64 {
        self.0.rip
    }

    /// The stack pointer.
    pub(crate) fn sp(&self) -> u64 {
        self.0.rsp
    }

    /// What a function or a system call has returned.
    pub(crate) fn returned(&self) -> u64 {
        self.0.rax
    }

    /// The same when no system call is under way that could be repeated.
    pub(crate) fn outside_of_calls(self) -> Self {
        Self(libc::user_regs_struct { orig_rax: u64::MAX, ..self.0 })
    }

    /// Those of a process that is about to make a system call.
    pub(crate) fn calling(self, number: i64, [rdi, rsi, rdx, r10, r8, r9]: [u64; 6]) -> Self {
        Self(libc::user_regs_struct { rax: number as u64, rdi, rsi, rdx, r10, r8, r9, ..self.0 })
    }

    /// Those of a process that is at the beginning of a function.
    pub(crate) fn entering(self, function: u64, stack: u64, [rdi, rsi, rdx, rcx]: [u64; 4]) -> Self {
        Self(libc::user_regs_struct { rip: function, rsp: stack, rbp: 0, rdi, rsi, rdx, rcx, ..self.0 })
    }
}
