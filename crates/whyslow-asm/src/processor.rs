//! The processors whose code can be read. Everything behind [`Processor`] sees the same [`Instruction`]s.

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

/// How instructions are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// Intel's: the destination first. Processors with one syntax of their own have that.
    #[default]
    Intel,
    /// AT&T's: the destination last, `%` and `$` before registers and numbers.
    Att,
}

/// Turns instructions into text. Bytes that are no instruction are `(bad)`, an instruction whose end is missing is `(cut off)`.
pub(crate) trait TextWriter {
    /// The first instruction of these bytes.
    fn text(&mut self, bytes: &[u8], address: u64) -> String;
    /// A direct branch without its target, such as `jne `.
    fn before_target(&mut self, bytes: &[u8], address: u64) -> String;
}

impl Processor {
    /// By its name in `std::env::consts::ARCH`, which is what profiles keep.
    pub fn of(arch: &str) -> Option<Self> {
        match arch {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The instructions of code, one after the other and without gaps.
    pub(crate) fn decode(self, bytes: &[u8], start: u64) -> Vec<Instruction> {
        match self {
            Self::X86_64 => x86_64::decode(bytes, start),
            Self::Aarch64 => aarch64::decode(bytes, start),
        }
    }

    /// What writes its instructions.
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

    /// The register of a function's third argument, which is the size for `memcpy` and its relatives.
    pub(crate) fn third_argument(self) -> u8 {
        match self {
            Self::X86_64 => x86_64::THIRD_ARGUMENT,
            Self::Aarch64 => aarch64::THIRD_ARGUMENT,
        }
    }

    /// Registers that address the function's own part of the stack.
    pub(crate) fn is_stack_register(self, register: u8) -> bool {
        match self {
            Self::X86_64 => x86_64::is_stack_register(register),
            Self::Aarch64 => aarch64::is_stack_register(register),
        }
    }
}
