//! What one step from a frame to its caller computes.

use crate::registers::{Register, Registers};

/// The target's memory as far as it is known.
pub trait Memory {
    /// The eight bytes at an address, or `None` where nothing is known.
    fn read(&mut self, address: u64) -> Option<u64>;
}

impl<F: FnMut(u64) -> Option<u64>> Memory for F {
    fn read(&mut self, address: u64) -> Option<u64> {
        self(address)
    }
}

/// How to get from a frame to its caller.
///
/// `s` is the frame's registers, `s'` the caller's, `*a` the eight bytes at `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The usual one. With `cfa = s[base] + offset`:
    /// `s'.sp = cfa`, `s'.ip = *(cfa - 8)`, and for each callee-saved register `r`
    /// `s'.r = *(cfa + 8·slot[r])` where it has a slot, else `s'.r = s.r`.
    Cfa {
        /// The register the frame is described by.
        base: Register,
        /// Added to it.
        offset: i32,
        /// Where each of rbx, rbp, r12, r13, r14, r15 is, in words from the cfa; `i8::MIN` when not saved.
        slots: [i8; 6],
    },
    /// The outermost frame: there is no caller.
    EndOfStack,
    /// A rule that needs DWARF expressions or unusual registers, with its number in the module's list.
    Unusual(u32),
    /// No unwind information covers this address.
    Unknown,
}

/// Marks a register that its function has not saved.
pub(crate) const NO_SLOT: i8 = i8::MIN;

/// What a step led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The registers are now the caller's, whose instruction pointer is a return address.
    Caller,
    /// The registers are now those of code that a signal interrupted: its instruction pointer is exact.
    Interrupted,
    /// There is no caller.
    End,
}

/// Why a step was not possible. The registers are unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepError {
    /// The memory at this address would be needed.
    Memory(u64),
    /// The rule needs a register whose value is not known, or leads nowhere sensible.
    Impossible,
}

impl Rule {
    /// Code that has put nothing on the stack: the return address is on top.
    pub const FRAMELESS: Self = Self::sp_plus(8);

    /// `cfa = sp + offset`, nothing saved.
    pub(crate) const fn sp_plus(offset: i32) -> Self {
        Self::Cfa { base: Register::RSP, offset, slots: [NO_SLOT; 6] }
    }
}

/// Applies [`Rule::Cfa`].
#[inline]
pub(crate) fn apply_cfa(
    base: Register,
    offset: i32,
    slots: &[i8; 6],
    registers: &mut Registers,
    memory: &mut impl Memory,
) -> Result<Step, StepError> {
    let base = registers.get(base).ok_or(StepError::Impossible)?;
    let cfa = base.wrapping_add_signed(i64::from(offset));
    // A caller's frame is at a higher address. Without this a bad rule could loop for ever.
    if cfa <= registers.sp() || cfa % 8 != 0 {
        return Err(StepError::Impossible);
    }
    let return_slot = cfa.wrapping_sub(8);
    let ip = memory.read(return_slot).ok_or(StepError::Memory(return_slot))?;
    let mut caller = *registers;
    for (register, &slot) in Register::CALLEE_SAVED.into_iter().zip(slots) {
        if slot != NO_SLOT {
            match memory.read(cfa.wrapping_add_signed(8 * i64::from(slot))) {
                Some(value) => caller.set(register, value),
                None => caller.forget(register),
            }
        }
    }
    caller.keep_survivors();
    caller.set(Register::RSP, cfa);
    caller.set(Register::RIP, ip);
    *registers = caller;
    Ok(if ip == 0 { Step::End } else { Step::Caller })
}
