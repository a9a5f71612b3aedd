//! What one step from a frame to its caller computes. The common rule is each processor's own.

use crate::arch::Arch;
use crate::registers::Registers;

/// The known part of the target's memory.
pub trait Memory {
    /// The eight bytes at an address, or `None` if unknown.
    fn read(&mut self, address: u64) -> Option<u64>;
}

impl<F: FnMut(u64) -> Option<u64>> Memory for F {
    fn read(&mut self, address: u64) -> Option<u64> {
        self(address)
    }
}

/// How to step from a frame to its caller.
///
/// `s` is the frame's registers, `s'` the caller's, `*a` the eight bytes at `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule<A: Arch> {
    /// The common rule: [`crate::x86_64::Cfa`], [`crate::aarch64::Cfa`].
    Cfa(A::Cfa),
    /// The outermost frame: there is no caller.
    EndOfStack,
    /// The kernel's signal frame: its `ucontext` holds every register of the interrupted code.
    /// `s'.r = *(s.sp + CONTEXT_AT + 8·i)` for each `r = CONTEXT[i]`.
    SignalFrame,
    /// A rule that needs DWARF expressions or unusual registers, with its number in the module's list.
    Unusual(u32),
    /// No unwind information covers this address.
    Unknown,
}

/// Where a step reads the caller's pointers, in words from its stack pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedWords {
    /// The return address.
    pub return_address: i16,
    /// The frame pointer; `None` if it is unchanged.
    pub frame_pointer: Option<i16>,
}

/// Marks a register that the function has not saved.
pub(crate) const NO_SLOT: i16 = i16::MIN;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The registers are now the caller's, whose instruction pointer is a return address.
    Caller,
    /// The registers are now those of code that a signal interrupted: its instruction pointer is exact.
    Interrupted,
    /// There is no caller.
    End,
}

/// Why a step failed. The registers are unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepError {
    /// The memory at this address is needed.
    Memory(u64),
    /// The rule needs a register whose value is unknown, or its result is invalid.
    Impossible,
}

/// Applies [`Rule::SignalFrame`].
pub(crate) fn apply_signal_frame<A: Arch>(
    registers: &mut Registers<A>,
    memory: &mut impl Memory,
) -> Result<Step, StepError> {
    let first = registers.sp().wrapping_add(A::CONTEXT_AT);
    let mut interrupted = *registers;
    for (at, register) in (0u64..).zip(A::CONTEXT) {
        let address = first.wrapping_add(8 * at);
        interrupted.set(*register, memory.read(address).ok_or(StepError::Memory(address))?);
    }
    *registers = interrupted;
    Ok(if registers.ip() == 0 { Step::End } else { Step::Caller })
}

/// Whether a function has already restored a register: its slot is no longer on the stack.
///
/// Compilers do not record this in their tables. Between the last `pop` and `ret` the tables still name the
/// slot, which stack copies do not contain.
#[inline]
pub(crate) fn is_restored<A: Arch>(saved_at: u64, registers: &Registers<A>) -> bool {
    saved_at < registers.sp()
}
