//! The common rule of x86-64.

use super::X86_64;
use super::registers::{CALLEE_SAVED, RBP, RIP, RSP};
use crate::cfi::{Row, compact_row};
use crate::registers::{Register, Registers};
use crate::rule::{self, Memory, SavedWords, Step, StepError, is_restored};

/// The common rule. With `cfa = s[base] + offset`: `s'.sp = cfa`, `s'.ip = *(cfa - 8)`, and for each callee-saved
/// register `r` `s'.r = *(cfa + 8·slot[r])` if it has a slot, else `s'.r = s.r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cfa {
    /// The register that the frame is relative to.
    pub base: Register,
    /// Added to it.
    pub offset: i32,
    /// The slots of rbx, rbp, r12, r13, r14, r15, in words from the cfa; `i8::MIN` if not saved.
    pub slots: [i8; 6],
}

/// Marks a register that the function has not saved.
const NO_SLOT: i8 = i8::MIN;

impl Cfa {
    /// Code that has pushed nothing: the return address is on top of the stack.
    pub const FRAMELESS: Self = Self::sp_plus(8);

    /// `*rbp` is the caller's rbp and `*(rbp + 8)` the return address.
    pub(super) const FRAME_POINTER: Self =
        Self { base: RBP, offset: 16, slots: [NO_SLOT, -2, NO_SLOT, NO_SLOT, NO_SLOT, NO_SLOT] };

    /// After `push rbp`: the old rbp is on top of the stack.
    pub(super) const PUSHED: Self = Self { base: RSP, ..Self::FRAME_POINTER };

    /// `cfa = sp + offset`, nothing saved.
    pub(super) const fn sp_plus(offset: i32) -> Self {
        Self { base: RSP, offset, slots: [NO_SLOT; 6] }
    }

    /// The compact form of a row, if it has one.
    pub(super) fn of(row: &Row) -> Option<Self> {
        const SAVED: [Register; 7] = {
            let [rbx, rbp, r12, r13, r14, r15] = CALLEE_SAVED;
            [rbx, rbp, r12, r13, r14, r15, RIP]
        };
        let (base, offset, [saved @ .., return_address]) = compact_row::<X86_64, 7>(row, SAVED)?;
        let mut slots = [NO_SLOT; 6];
        for (slot, saved) in slots.iter_mut().zip(saved) {
            if saved != rule::NO_SLOT {
                *slot = i8::try_from(saved).ok().filter(|slot| *slot != NO_SLOT)?;
            }
        }
        (return_address == -1).then_some(Self { base, offset, slots })
    }

    #[inline]
    pub(super) fn saved_words(&self) -> Option<SavedWords> {
        let frame_pointer = Some(i16::from(self.slots[1])).filter(|_| self.slots[1] != NO_SLOT);
        matches!(self.base, RSP | RBP).then_some(SavedWords { return_address: -1, frame_pointer })
    }

    #[inline]
    pub(super) fn apply(
        &self,
        registers: &mut Registers<X86_64>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        let base = registers.get(self.base).ok_or(StepError::Impossible)?;
        let cfa = base.wrapping_add_signed(i64::from(self.offset));
        // A caller's frame is at a higher address. Without this check a bad rule could loop forever.
        if cfa <= registers.sp() || cfa % 8 != 0 {
            return Err(StepError::Impossible);
        }
        let return_slot = cfa.wrapping_sub(8);
        let ip = memory.read(return_slot).ok_or(StepError::Memory(return_slot))?;
        let mut caller = *registers;
        for (register, slot) in CALLEE_SAVED.into_iter().zip(self.slots) {
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
        caller.set(RSP, cfa);
        caller.set(RIP, ip);
        *registers = caller;
        Ok(if ip == 0 { Step::End } else { Step::Caller })
    }
}

#[cfg(test)]
mod tests {
    use super::super::registers::{R12, R15, RAX, RBX};
    use super::*;
    use crate::rule::apply_signal_frame;

    #[test]
    fn a_popped_register_keeps_its_value() {
        // At `ret`: the tables name slots for rbx and rbp below the stack pointer, and one for r12 above it.
        let stack = |address: u64| (address == 0x2000).then_some(0x99);
        let mut cfa = Cfa::FRAMELESS;
        (cfa.slots[0], cfa.slots[1], cfa.slots[2]) = (-3, -2, 5);
        let mut registers = Registers::<X86_64>::new(0x77, 0x2000, 0x3000);
        registers.set(RBX, 0x44);
        registers.set(R12, 0x55);
        assert_eq!(cfa.apply(&mut registers, &mut { stack }), Ok(Step::Caller));
        assert_eq!((registers.ip(), registers.sp(), registers.fp()), (0x99, 0x2008, 0x3000));
        assert_eq!(registers.get(RBX), Some(0x44));
        assert_eq!(registers.get(R12), None, "its memory was not copied");
    }

    #[test]
    fn a_signal_frame_restores_every_register() {
        // Each word of the `ucontext` is its own index.
        let mut memory = |address: u64| Some((address - 0x1000) / 8);
        let mut registers = Registers::<X86_64>::new(0x77, 0x1000, 0);
        assert_eq!(apply_signal_frame(&mut registers, &mut memory), Ok(Step::Caller));
        let gregs = |index: u64| Some(5 + index);
        assert_eq!(registers.get(Register(8)), gregs(0));
        assert_eq!(registers.get(R15), gregs(7));
        assert_eq!(registers.get(RBP), gregs(10));
        assert_eq!(registers.get(RBX), gregs(11));
        assert_eq!(registers.get(RAX), gregs(13));
        assert_eq!((Some(registers.sp()), Some(registers.ip())), (gregs(15), gregs(16)));
        let mut cut = |address: u64| (address < 0x1080).then_some(1);
        assert!(matches!(
            apply_signal_frame(&mut Registers::<X86_64>::new(1, 0x1000, 0), &mut cut),
            Err(StepError::Memory(_))
        ));
    }
}
