//! The supported processors. All code outside their folders sees the same [`Instruction`]s.

use crate::instruction::{Instruction, Registers};
use crate::{aarch64, x86_64};

/// A kind of processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Processor {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

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

impl Processor {
    /// The processor by its name in `std::env::consts::ARCH`, which profiles store.
    pub fn of(arch: &str) -> Option<Self> {
        match arch {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Decodes code into instructions without gaps.
    pub(crate) fn decode(self, bytes: &[u8], start: u64) -> Vec<Instruction> {
        match self {
            Self::X86_64 => x86_64::decode(bytes, start),
            Self::Aarch64 => aarch64::decode(bytes, start),
        }
    }

    /// The writer of its instructions.
    pub(crate) fn writer(self, syntax: Syntax) -> Box<dyn TextWriter> {
        match self {
            Self::X86_64 => Box::new(x86_64::Writer::new(syntax)),
            Self::Aarch64 => Box::new(aarch64::Writer),
        }
    }

    /// Registers that a called function may change.
    pub(crate) fn changed_by_calls(self) -> Registers {
        match self {
            Self::X86_64 => x86_64::CHANGED_BY_CALLS,
            Self::Aarch64 => aarch64::CHANGED_BY_CALLS,
        }
    }

    /// The register of the third argument: the size for `memcpy` and similar functions.
    pub(crate) fn third_argument(self) -> u8 {
        match self {
            Self::X86_64 => x86_64::THIRD_ARGUMENT,
            Self::Aarch64 => aarch64::THIRD_ARGUMENT,
        }
    }

    /// Whether a register addresses the function's stack frame.
    pub fn is_stack_register(self, register: u8) -> bool {
        match self {
            Self::X86_64 => x86_64::is_stack_register(register),
            Self::Aarch64 => aarch64::is_stack_register(register),
        }
    }
}
