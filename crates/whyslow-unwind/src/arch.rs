//! What the folder of each processor provides. Everything else is written once, for any [`Arch`], and compiled for
//! each: a walk chooses its processor once, not at every frame.

use std::fmt::Debug;

use whyslow_numbers::RelativeAddress;
use whyslow_processor::Processor;

use crate::cfi::Row;
use crate::image::Image;
use crate::registers::{Register, Registers};
use crate::rule::{Memory, Rule, SavedWords, Step, StepError};

/// The unwinding rules of a processor: [`crate::X86_64`] or [`crate::Aarch64`].
pub trait Arch: Copy + Eq + Debug + Send + Sync + 'static {
    /// Which it is.
    const PROCESSOR: Processor;

    /// The values of all registers, by their DWARF numbers.
    type Values: Copy + Eq + Debug + AsRef<[u64]> + AsMut<[u64]> + Send + Sync;
    /// Zeros.
    const ZEROS: Self::Values;
    /// The instruction pointer.
    const IP: Register;
    /// The stack pointer.
    const SP: Register;
    /// The frame pointer.
    const FP: Register;
    /// The column of the tables that leads to the caller's instruction pointer.
    const RETURN_ADDRESS: Register;
    /// A column that is not a register: whether the return address is signed.
    const SIGN_STATE: Option<Register> = None;
    /// A set of bits: the registers that a call preserves, with the stack and instruction pointers.
    const SURVIVORS: u64;
    /// The kernel's number of each register in the masks of its samples.
    const PERF: &[(u64, Register)];
    /// The registers in the order of the kernel's `ucontext`.
    const CONTEXT: &[Register];
    /// The bytes from the stack pointer of a signal handler's return code to these registers.
    const CONTEXT_AT: u64;
    /// The return code of signal handlers, and the offset of its system call.
    const TRAMPOLINE: (&[u8], u64);

    /// The common rule, in a compact form.
    type Cfa: Copy + Eq + Debug + Send + Sync;
    /// The rule of code that has not touched the stack.
    const FRAMELESS: Rule<Self>;

    /// The compact form of a row of the tables, if it has one.
    fn compact(row: &Row) -> Option<Self::Cfa>;

    /// Applies the common rule.
    fn apply(
        cfa: &Self::Cfa,
        registers: &mut Registers<Self>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError>;

    /// The register that a rule is relative to.
    fn base(cfa: &Self::Cfa) -> Register;

    /// The words that a step by this rule reads for the caller's instruction and frame pointers. `None` for rules that
    /// need more than the instruction, stack and frame pointers and these words, or that lead to interrupted code.
    fn saved_words(rule: &Rule<Self>) -> Option<SavedWords>;

    /// The rule for an address in a linker stub.
    fn plt_rule(image: &Image, address: RelativeAddress) -> Option<Rule<Self>>;

    /// The rule for an address that no table covers, from the code around it. `innermost` code was interrupted there;
    /// other code has made a call and has set up its frame.
    fn untabled_rule(image: Option<&Image>, address: RelativeAddress, innermost: bool) -> Self::Cfa;

    /// The possible distances of the frame pointer above the stack pointer in the body of a function, from its first
    /// instructions. Empty if it does not set up a frame pointer.
    fn frame_pointer_distances(code: &[u8]) -> Vec<u64>;

    /// The address that a direct call leads to, from the bytes that end at its return address.
    fn call_target(before: &[u8], return_address: u64) -> Option<u64>;

    /// Whether the bytes that end at a return address can be a call instruction.
    fn is_after_call(before: &[u8]) -> bool;

    /// The address in a saved return address, which may be signed.
    fn plain_address(saved: u64) -> u64;
}
