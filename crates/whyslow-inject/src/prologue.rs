//! The first instructions of a function: which ones a patch covers, and what they are elsewhere.
//!
//! ```text
//! function   [endbr64]  jmp rel32 ──► stub ──► hook                   5 bytes are overwritten, the rest stays
//! moved      the covered instructions, fixed up;  jmp rel32 ──► the first instruction that is not covered
//! ```
//! Five bytes and not fourteen: allocators' functions are short and branch early. The more is covered, the more often
//! something jumps into it.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, Mnemonic,
};

/// Bytes of `jmp rel32`.
pub(crate) const JUMP_LEN: usize = 5;

/// Why a function cannot be patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// What is there is no instruction.
    #[error("its first bytes are no instructions")]
    NoCode,
    /// A loop at the start, most likely.
    #[error("it jumps back to its own first bytes")]
    JumpedInto,
    /// There is something else behind it that would be overwritten.
    #[error("it is too short")]
    TooShort,
    /// The instructions do not work elsewhere.
    #[error("its first instructions cannot be moved")]
    NotMovable,
}

/// A function's code where it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code64<'a> {
    /// Its first byte.
    pub(crate) address: u64,
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// What lies between its end and the next function.
    pub(crate) gap: &'a [u8],
}

/// The instructions that a patch covers.
#[derive(Debug)]
pub(crate) struct Prologue {
    /// Where the patch goes: the function's address, or behind its `endbr64`.
    pub(crate) at: u64,
    /// What is there now.
    pub(crate) covered: [u8; JUMP_LEN],
    instructions: Vec<Instruction>,
    /// The first instruction that is not covered; `None` when the covered ones never get there.
    next: Option<u64>,
}

impl Prologue {
    /// Looks at a function. `parts` are pieces of the same function that lie elsewhere (`.cold`).
    pub(crate) fn of(code: Code64<'_>, parts: &[Code64<'_>]) -> Result<Self, Refusal> {
        let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        let mut at = code.address;
        let mut next = Some(at);
        while decoder.ip() < at + JUMP_LEN as u64 {
            if !decoder.can_decode() {
                // It falls off its end: the size in the symbol table is wrong.
                return Err(Refusal::TooShort);
            }
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return Err(Refusal::NoCode);
            }
            if instruction.code() == Code::Endbr64 && instruction.ip() == code.address {
                at = instruction.next_ip();
                next = Some(at);
                continue;
            }
            instructions.push(instruction);
            next = (!ends(&instruction)).then_some(instruction.next_ip());
            if next.is_none() {
                break;
            }
        }
        let end = decoder.ip();
        if end < at + JUMP_LEN as u64 && !is_fill(code, end, at + JUMP_LEN as u64) {
            return Err(Refusal::TooShort);
        }
        let offset = (at - code.address) as usize;
        let mut covered = [0; JUMP_LEN];
        let there = code.bytes.iter().chain(code.gap).skip(offset);
        for (byte, there) in covered.iter_mut().zip(there) {
            *byte = *there;
        }
        let overwritten = code.address..at + JUMP_LEN as u64;
        let jumped_into = std::iter::once(&code)
            .chain(parts)
            .any(|part| branches(*part).any(|branch| branch.spoils(code.address, &overwritten)));
        if jumped_into {
            return Err(Refusal::JumpedInto);
        }
        Ok(Self { at, covered, instructions, next })
    }

    /// The covered instructions as they must be at another address, with a jump to what follows them.
    pub(crate) fn moved_to(&self, address: u64) -> Result<Vec<u8>, Refusal> {
        let mut instructions = self.instructions.clone();
        if let Some(next) = self.next {
            let jump = Instruction::with_branch(Code::Jmp_rel32_64, next).map_err(|_| Refusal::NotMovable)?;
            instructions.push(jump);
        }
        let block = InstructionBlock::new(&instructions, address);
        BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)
            .map(|encoded| encoded.code_buffer)
            .map_err(|_| Refusal::NotMovable)
    }
}

/// A branch or call to a known address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch {
    /// Where to.
    pub(crate) target: u64,
    is_call: bool,
}

impl Branch {
    /// Whether it would land in overwritten bytes. Calling the function again is no harm, but a jump to its start may carry
    /// values in registers that a call would not keep.
    fn spoils(self, start: u64, overwritten: &std::ops::Range<u64>) -> bool {
        overwritten.contains(&self.target) && !(self.is_call && self.target == start)
    }
}

/// All direct branches and calls of a function.
pub(crate) fn branches(code: Code64<'_>) -> impl Iterator<Item = Branch> {
    instructions(code).filter_map(|instruction| {
        let is_call = match instruction.flow_control() {
            FlowControl::Call => true,
            FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::XbeginXabortXend => false,
            _ => return None,
        };
        // Zero for those that are no near branches: nothing lies there.
        Some(Branch { target: instruction.near_branch_target(), is_call })
    })
}

/// All instructions of a function, one after the other.
pub(crate) fn instructions(code: Code64<'_>) -> impl Iterator<Item = Instruction> {
    let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
}

/// Whether what follows this instruction is not reached from it.
fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
    )
}

/// Whether nothing but filling lies between two addresses: instructions that do nothing, traps, or zeros.
fn is_fill(code: Code64<'_>, from: u64, to: u64) -> bool {
    let bytes: Vec<u8> = code.bytes.iter().chain(code.gap).copied().collect();
    let Some(rest) = bytes.get((from - code.address) as usize..) else { return false };
    let needed = (to - from) as usize;
    if rest.len() < needed {
        return false;
    }
    if rest[..needed].iter().all(|byte| *byte == 0) {
        return true;
    }
    let fill = Code64 { address: from, bytes: rest, gap: &[] };
    instructions(fill)
        .take_while(|instruction| instruction.ip() < to)
        .all(|instruction| matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3))
}
