//! The common rule of AArch64.

use super::Aarch64;
use super::registers::{CALLEE_SAVED, FP, LR, PC, SP, X19, plain_address};
use crate::cfi::{Row, compact_row};
use crate::registers::{Register, Registers};
use crate::rule::{Memory, NO_SLOT, SavedWords, Step, StepError, is_restored};

/// The common rule. With `cfa = s[base] + offset`: `s'.sp = cfa`; for each callee-saved register `r` `s'.r = *(cfa +
/// 8·slot[r])` if it has a slot, else `s'.r = s.r`; and `s'.pc = address(s'.x30)`, which removes a signature.
/// The caller's own x30 is then unknown: its call has replaced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cfa {
    /// The register that the frame is relative to.
    pub base: Register,
    /// Added to it.
    pub offset: i32,
    /// The slots of x19 to x30, in words from the cfa; `i16::MIN` if not saved.
    pub slots: [i16; 12],
}

impl Cfa {
    /// Code that has not touched the stack: the return address is in x30.
    pub const FRAMELESS: Self = Self::sp_plus(0);

    /// `*x29` is the caller's x29 and `*(x29 + 8)` the return address. The frame record may be anywhere in its frame,
    /// so the stack pointer of the caller is at least the end of the record.
    pub(super) const FRAME_POINTER: Self = Self::sp_plus(16).of_base(FP).saving(FP, -2).saving(LR, -1);

    /// `cfa = sp + offset`, nothing saved.
    pub(super) const fn sp_plus(offset: i32) -> Self {
        Self { base: SP, offset, slots: [NO_SLOT; 12] }
    }

    const fn of_base(self, base: Register) -> Self {
        Self { base, ..self }
    }

    /// The same with a slot for a register; other than callee-saved registers are ignored.
    pub(super) const fn saving(mut self, register: Register, slot: i16) -> Self {
        let at = register.0.wrapping_sub(X19.0) as usize;
        if at < self.slots.len() {
            self.slots[at] = slot;
        }
        self
    }

    /// The slot of a callee-saved register.
    pub(super) fn slot(&self, register: Register) -> Option<i16> {
        let slot = self.slots.get(usize::from(register.0.wrapping_sub(X19.0))).copied();
        slot.filter(|slot| *slot != NO_SLOT)
    }

    /// The compact form of a row, if it has one.
    pub(super) fn of(row: &Row) -> Option<Self> {
        let (base, offset, slots) = compact_row::<Aarch64, 12>(row, CALLEE_SAVED)?;
        Some(Self { base, offset, slots })
    }

    pub(super) fn saved_words(&self) -> Option<SavedWords> {
        let return_address = self.slot(LR)?;
        let frame_pointer = self.slot(FP);
        matches!(self.base, SP | FP).then_some(SavedWords { return_address, frame_pointer })
    }

    #[inline]
    pub(super) fn apply(
        &self,
        registers: &mut Registers<Aarch64>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        let base = registers.get(self.base).ok_or(StepError::Impossible)?;
        let cfa = base.wrapping_add_signed(i64::from(self.offset));
        let saved_at = |slot: i16| cfa.wrapping_add_signed(8 * i64::from(slot));
        let lr_at = self.slot(LR).map(saved_at);
        // A caller's frame is at a higher address, or at the same one if the return address is still in its register.
        // Without this check a bad rule could loop forever.
        if cfa < registers.sp() || (cfa == registers.sp() && lr_at.is_some()) || cfa % 8 != 0 {
            return Err(StepError::Impossible);
        }
        let lr = match lr_at {
            None => registers.get(LR).ok_or(StepError::Impossible)?,
            Some(address) => {
                let restored = || registers.get(LR).filter(|_| is_restored(address, registers));
                memory.read(address).or_else(restored).ok_or(StepError::Memory(address))?
            }
        };
        let mut caller = *registers;
        for (register, slot) in CALLEE_SAVED.into_iter().zip(self.slots) {
            if slot != NO_SLOT && register != LR {
                let address = saved_at(slot);
                match memory.read(address) {
                    Some(value) => caller.set(register, value),
                    None if is_restored(address, registers) => {}
                    None => caller.forget(register),
                }
            }
        }
        caller.keep_survivors();
        let ip = plain_address(lr);
        caller.set(SP, cfa);
        caller.set(PC, ip);
        *registers = caller;
        Ok(if ip == 0 { Step::End } else { Step::Caller })
    }
}

#[cfg(test)]
mod tests {
    use super::super::registers::{X0, X8};
    use super::*;
    use crate::rule::apply_signal_frame;

    fn registers(pc: u64, sp: u64, fp: u64, lr: u64) -> Registers<Aarch64> {
        let mut registers = Registers::new(pc, sp, fp);
        registers.set(LR, lr);
        registers
    }

    #[test]
    fn a_leaf_returns_by_its_link_register_and_its_caller_does_not() {
        let mut leaf = registers(0x1000, 0x7000, 0x7010, 0x2004);
        leaf.set(X0, 5);
        assert_eq!(Cfa::FRAMELESS.apply(&mut leaf, &mut |_| None), Ok(Step::Caller));
        assert_eq!((leaf.ip(), leaf.sp(), leaf.fp()), (0x2004, 0x7000, 0x7010));
        assert_eq!((leaf.get(LR), leaf.get(X0)), (None, None), "a call changes them");
        assert_eq!(Cfa::FRAMELESS.apply(&mut leaf, &mut |_| Some(1)), Err(StepError::Impossible));
    }

    #[test]
    fn a_signed_return_address_loses_its_signature() {
        let rule = Cfa::sp_plus(32).saving(FP, -4).saving(LR, -3).saving(X19, -2);
        let stack = |address: u64| match address {
            0x7000 => Some(0x7050),
            0x7008 => Some(0x002a_aaaa_0000_2004),
            0x7010 => Some(19),
            _ => None,
        };
        let mut frame = registers(0x1000, 0x7000, 0x7000, 0);
        assert_eq!(rule.apply(&mut frame, &mut { stack }), Ok(Step::Caller));
        assert_eq!((frame.ip(), frame.sp(), frame.fp()), (0xaaaa_0000_2004, 0x7020, 0x7050));
        assert_eq!(frame.get(X19), Some(19));
        let words = SavedWords { return_address: -3, frame_pointer: Some(-4) };
        assert_eq!(rule.saved_words(), Some(words));
    }

    /// After `ldp x29, x30, [sp], #32`, tables of some compilers still name the slots.
    #[test]
    fn a_restored_link_register_keeps_its_value() {
        let rule = Cfa::sp_plus(16).saving(LR, -3);
        let mut frame = registers(0x1000, 0x7000, 0x7050, 0x2004);
        assert_eq!(rule.apply(&mut frame, &mut |_| None), Ok(Step::Caller));
        assert_eq!(frame.ip(), 0x2004);
    }

    #[test]
    fn a_frame_below_or_not_aligned_is_impossible() {
        for (rule, sp) in [(Cfa::sp_plus(-16), 0x7000), (Cfa::sp_plus(4), 0x7000), (Cfa::sp_plus(0), 0x7004)]
        {
            let mut frame = registers(0x1000, sp, 0, 0x2004);
            assert_eq!(rule.apply(&mut frame, &mut |_| Some(1)), Err(StepError::Impossible));
        }
    }

    #[test]
    fn a_signal_frame_restores_every_register() {
        // Each word is its own index: siginfo 128 bytes, ucontext up to its registers 176, the fault address 8.
        let mut memory = |address: u64| Some((address - 0x1000) / 8);
        let mut frame = registers(0x77, 0x1000, 0, 0);
        assert_eq!(apply_signal_frame(&mut frame, &mut memory), Ok(Step::Caller));
        let word = |index: u64| Some((128 + 176 + 8) / 8 + index);
        assert_eq!((frame.get(X0), frame.get(X8)), (word(0), word(8)));
        assert_eq!((frame.get(FP), frame.get(LR)), (word(29), word(30)));
        assert_eq!((frame.get(SP), frame.get(PC)), (word(31), word(32)));
    }
}
