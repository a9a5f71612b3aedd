//! The AArch64 part of unwinding.

mod plt;
mod prologue;
mod registers;
mod rule;
mod trampoline;

use whyslow_numbers::RelativeAddress;
use whyslow_processor::Processor;

pub use self::registers::{FP, LR, PC, SP, X0, X8, X19};
pub use self::rule::Cfa;
use crate::arch::Arch;
use crate::cfi::Row;
use crate::image::Image;
use crate::registers::{Register, Registers};
use crate::rule::{Memory, Rule, SavedWords, Step, StepError};

/// Unwinds AArch64 stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aarch64;

impl Arch for Aarch64 {
    const PROCESSOR: Processor = Processor::Aarch64;

    type Values = [u64; registers::COUNT];
    const ZEROS: Self::Values = [0; registers::COUNT];
    const IP: Register = PC;
    const SP: Register = SP;
    const FP: Register = FP;
    const RETURN_ADDRESS: Register = LR;
    const SIGN_STATE: Option<Register> = Some(registers::SIGN_STATE);
    const SURVIVORS: u64 = registers::SURVIVORS;
    const PERF: &[(u64, Register)] = &registers::PERF;
    const CONTEXT: &[Register] = &registers::CONTEXT;
    /// `siginfo`, the `ucontext` up to its `sigcontext`, and the fault address there.
    const CONTEXT_AT: u64 = 128 + 176 + 8;
    const TRAMPOLINE: (&[u8], u64) = (&trampoline::CODE, trampoline::SYSTEM_CALL);

    type Cfa = Cfa;
    const FRAMELESS: Rule<Self> = Rule::Cfa(Cfa::FRAMELESS);

    fn compact(row: &Row) -> Option<Cfa> {
        Cfa::of(row)
    }

    #[inline]
    fn apply(
        cfa: &Cfa,
        registers: &mut Registers<Self>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        cfa.apply(registers, memory)
    }

    fn base(cfa: &Cfa) -> Register {
        cfa.base
    }

    fn saved_words(rule: &Rule<Self>) -> Option<SavedWords> {
        match rule {
            Rule::Cfa(cfa) => cfa.saved_words(),
            // The size of the frame comes from the code.
            Rule::Unknown | Rule::EndOfStack | Rule::SignalFrame | Rule::Unusual(_) => None,
        }
    }

    fn plt_rule(image: &Image, address: RelativeAddress) -> Option<Rule<Self>> {
        plt::cfa(image, address).map(Rule::Cfa)
    }

    fn untabled_rule(image: Option<&Image>, address: RelativeAddress, innermost: bool) -> Cfa {
        let code = |image: &Image| prologue::cfa_at(image, address, innermost);
        image.and_then(code).unwrap_or(Cfa::FRAME_POINTER)
    }

    fn frame_pointer_distances(code: &[u8]) -> Vec<u64> {
        prologue::frame_pointer_distances(code)
    }

    fn call_target(before: &[u8], return_address: u64) -> Option<u64> {
        prologue::call_target(before, return_address)
    }

    fn is_after_call(before: &[u8]) -> bool {
        prologue::is_after_call(before)
    }

    fn plain_address(saved: u64) -> u64 {
        registers::plain_address(saved)
    }
}
