//! What one step from a frame to its caller computes.

use super::registers::{Register, Registers};

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
pub enum Rule {
    /// The common rule. With `cfa = s[base] + offset`: `s'.sp = cfa`, `s'.ip = *(cfa - 8)`, and for each
    /// callee-saved register `r` `s'.r = *(cfa + 8·slot[r])` if it has a slot, else `s'.r = s.r`.
    Cfa {
        /// The register that the frame is relative to.
        base: Register,
        /// Added to it.
        offset: i32,
        /// The slots of rbx, rbp, r12, r13, r14, r15, in words from the cfa; `i8::MIN` if not saved.
        slots: [i8; 6],
    },
    /// The outermost frame: there is no caller.
    EndOfStack,
    /// The kernel's signal frame: `sp` is that of its `ucontext`, which holds every register of the interrupted code.
    SignalFrame,
    /// A rule that needs DWARF expressions or unusual registers, with its number in the module's list.
    Unusual(u32),
    /// No unwind information covers this address.
    Unknown,
}

/// Marks a register that the function has not saved.
pub(crate) const NO_SLOT: i8 = i8::MIN;

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

impl Rule {
    /// Code that has pushed nothing: the return address is on top of the stack.
    pub const FRAMELESS: Self = Self::sp_plus(8);

    /// The slot of the caller's frame pointer in words from the cfa, or `Some(None)` if it is unchanged.
    /// `None` for rules that need more than the instruction, stack and frame pointers, or that lead to
    /// interrupted code. For code without a rule, the frame pointer leads to the caller.
    pub fn frame_pointer_slot(&self) -> Option<Option<i8>> {
        match *self {
            Self::Unknown => super::FRAME_POINTER.frame_pointer_slot(),
            Self::Cfa { base: Register::RSP | Register::RBP, slots, .. } => {
                Some(Some(slots[1]).filter(|slot| *slot != NO_SLOT))
            }
            _ => None,
        }
    }

    /// `cfa = sp + offset`, nothing saved.
    pub(crate) const fn sp_plus(offset: i32) -> Self {
        Self::Cfa { base: Register::RSP, offset, slots: [NO_SLOT; 6] }
    }
}

/// Applies [`Rule::SignalFrame`].
pub(crate) fn apply_signal_frame(
    registers: &mut Registers,
    memory: &mut impl Memory,
) -> Result<Step, StepError> {
    /// The offset and order of the registers in the kernel's `ucontext`.
    const REGISTERS: u64 = 40;
    const ORDER: [u8; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
    let first = registers.sp().wrapping_add(REGISTERS);
    let mut interrupted = *registers;
    for (at, number) in (0u64..).zip(ORDER) {
        let address = first.wrapping_add(8 * at);
        interrupted.set(Register(number), memory.read(address).ok_or(StepError::Memory(address))?);
    }
    *registers = interrupted;
    Ok(if registers.ip() == 0 { Step::End } else { Step::Caller })
}

/// Whether a function has already restored a register: its slot is no longer on the stack.
///
/// Compilers do not record this in their tables. Between the last `pop` and `ret` the tables still name the
/// slot, which stack copies do not contain.
#[inline]
pub(crate) fn is_restored(saved_at: u64, registers: &Registers) -> bool {
    saved_at < registers.sp()
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
    // A caller's frame is at a higher address. Without this check a bad rule could loop forever.
    if cfa <= registers.sp() || cfa % 8 != 0 {
        return Err(StepError::Impossible);
    }
    let return_slot = cfa.wrapping_sub(8);
    let ip = memory.read(return_slot).ok_or(StepError::Memory(return_slot))?;
    let mut caller = *registers;
    for (register, &slot) in Register::CALLEE_SAVED.into_iter().zip(slots) {
        if slot != NO_SLOT {
            let address = cfa.wrapping_add_signed(8 * i64::from(slot));
            match memory.read(address) {
                Some(value) => caller.set(register, value),
                None if is_restored(address, registers) => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_popped_register_keeps_its_value() {
        // At `ret`: the tables name slots for rbx and rbp below the stack pointer, and one for r12 above it.
        let stack = |address: u64| (address == 0x2000).then_some(0x99);
        let mut slots = [NO_SLOT; 6];
        (slots[0], slots[1], slots[2]) = (-3, -2, 5);
        let mut registers = Registers::new(0x77, 0x2000, 0x3000);
        registers.set(Register::RBX, 0x44);
        registers.set(Register::R12, 0x55);
        assert_eq!(apply_cfa(Register::RSP, 8, &slots, &mut registers, &mut { stack }), Ok(Step::Caller));
        assert_eq!((registers.ip(), registers.sp(), registers.bp()), (0x99, 0x2008, 0x3000));
        assert_eq!(registers.get(Register::RBX), Some(0x44));
        assert_eq!(registers.get(Register::R12), None, "its memory was not copied");
    }

    #[test]
    fn a_signal_frame_restores_every_register() {
        // Each word of the `ucontext` is its own index.
        let mut memory = |address: u64| Some((address - 0x1000) / 8);
        let mut registers = Registers::new(0x77, 0x1000, 0);
        assert_eq!(apply_signal_frame(&mut registers, &mut memory), Ok(Step::Caller));
        let gregs = |index: u64| Some(5 + index);
        assert_eq!(registers.get(Register(8)), gregs(0));
        assert_eq!(registers.get(Register::R15), gregs(7));
        assert_eq!(registers.get(Register::RBP), gregs(10));
        assert_eq!(registers.get(Register::RBX), gregs(11));
        assert_eq!(registers.get(Register::RAX), gregs(13));
        assert_eq!((Some(registers.sp()), Some(registers.ip())), (gregs(15), gregs(16)));
        let mut cut = |address: u64| (address < 0x1080).then_some(1);
        assert!(matches!(
            apply_signal_frame(&mut Registers::new(1, 0x1000, 0), &mut cut),
            Err(StepError::Memory(_))
        ));
    }
}
