//! What the folders of the processors have. All code outside of them sees the same [`Instruction`]s.

use whyslow_processor::Processor;

use crate::instruction::{Instruction, Registers};
use crate::{aarch64, x86_64};

/// The syntax of instructions as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// Intel's: the destination first. Processors with only one syntax use that.
    #[default]
    Intel,
    /// AT&T's: the destination last, `%` and `$` before registers and numbers.
    Att,
}

/// Writes instructions as text. Bytes that are not an instruction are `(bad)`, an incomplete instruction is
/// `(cut off)`.
pub(crate) trait TextWriter {
    /// The first instruction of these bytes.
    fn text(&mut self, bytes: &[u8], address: u64) -> String;
    /// A direct branch without its target, such as `jne `.
    fn before_target(&mut self, bytes: &[u8], address: u64) -> String;
}

/// The machine code of a processor.
pub(crate) trait MachineCode {
    /// Decodes code into instructions without gaps.
    fn decode(self, bytes: &[u8], start: u64) -> Vec<Instruction>;
    /// Registers that a called function may change.
    fn changed_by_calls(self) -> Registers;
    /// The register of the third argument: the size for `memcpy` and similar functions.
    fn third_argument(self) -> u8;
    /// The writer of its instructions.
    fn writer(self, syntax: Syntax) -> Box<dyn TextWriter>;
}

impl MachineCode for Processor {
    fn decode(self, bytes: &[u8], start: u64) -> Vec<Instruction> {
        match self {
            Self::X86_64 => x86_64::decode(bytes, start),
            Self::Aarch64 => aarch64::decode(bytes, start),
        }
    }

    fn changed_by_calls(self) -> Registers {
        match self {
            Self::X86_64 => x86_64::CHANGED_BY_CALLS,
            Self::Aarch64 => aarch64::CHANGED_BY_CALLS,
        }
    }

    fn third_argument(self) -> u8 {
        match self {
            Self::X86_64 => x86_64::THIRD_ARGUMENT,
            Self::Aarch64 => aarch64::THIRD_ARGUMENT,
        }
    }

    fn writer(self, syntax: Syntax) -> Box<dyn TextWriter> {
        match self {
            Self::X86_64 => Box::new(x86_64::Writer::new(syntax)),
            Self::Aarch64 => Box::new(aarch64::Writer),
        }
    }
}

/// Whether a register of a processor addresses the function's stack frame.
pub(crate) fn is_stack_register(processor: Processor, register: u8) -> bool {
    match processor {
        Processor::X86_64 => x86_64::is_stack_register(register),
        Processor::Aarch64 => aarch64::is_stack_register(register),
    }
}
