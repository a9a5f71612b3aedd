//! The first instructions of a function: which ones a patch covers, and how they run elsewhere.
//!
//! ```text
//! function   [endbr64]  jmp rel32 ──► stub ──► hook                   5 bytes are overwritten, the rest is unchanged
//! moved      the covered instructions, fixed up;  jmp rel32 ──► the first instruction that is not covered
//! ```
//! Five bytes and not fourteen: allocators' functions are short and branch early. The more bytes a patch
//! covers, the more often code jumps into them.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, MemoryOperand, Mnemonic, Register,
};

/// Bytes of `jmp rel32`.
pub(crate) const JUMP_LEN: usize = 5;

/// Why a function cannot be patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The bytes there are not an instruction.
    #[error("its first bytes are not instructions")]
    NoCode,
    /// Most likely a loop at the start.
    #[error("it jumps back to its own first bytes")]
    JumpedInto,
    /// The patch would overwrite other code after the function.
    #[error("it is too short")]
    TooShort,
    /// The instructions do not work elsewhere.
    #[error("its first instructions cannot be moved")]
    NotMovable,
}

/// A function's code at the address where it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code64<'a> {
    /// The address of its first byte.
    pub(crate) address: u64,
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// The bytes between its end and the next function.
    pub(crate) gap: &'a [u8],
}

impl Code64<'_> {
    /// Whether an address is in it.
    pub(crate) fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|into| into < self.bytes.len() as u64)
    }
}

/// The instructions that a patch covers.
#[derive(Debug)]
pub(crate) struct Prologue {
    /// Address of the patch: the function's address, or after its `endbr64`.
    pub(crate) at: u64,
    /// The bytes there now.
    pub(crate) covered: [u8; JUMP_LEN],
    instructions: Vec<Instruction>,
    /// The first instruction that is not covered; `None` if the covered instructions never reach it.
    next: Option<u64>,
}

impl Prologue {
    /// Analyses a function. `parts` are pieces of the same function that are elsewhere (`.cold`).
    pub(crate) fn of(code: Code64<'_>, parts: &[Code64<'_>]) -> Result<Self, Refusal> {
        let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        let mut at = code.address;
        let mut next = Some(at);
        while decoder.ip() < at + JUMP_LEN as u64 {
            if !decoder.can_decode() {
                // The code falls off its end: the size in the symbol table is wrong.
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

    /// These instructions, which start at `at` with these bytes.
    pub(super) fn of_instructions<'b>(
        at: u64,
        bytes: impl Iterator<Item = &'b u8>,
        instructions: Vec<Instruction>,
    ) -> Self {
        let mut covered = [0; JUMP_LEN];
        for (byte, there) in covered.iter_mut().zip(bytes) {
            *byte = *there;
        }
        let next = instructions.last().filter(|last| !ends(last)).map(Instruction::next_ip);
        Self { at, covered, instructions, next }
    }

    /// A jump instead of what a patch at `at` covers: that patch has been made already, and leads to `target`.
    pub(super) fn of_jump(at: u64, covered: [u8; JUMP_LEN], target: u64) -> Result<Self, Refusal> {
        let jump = Instruction::with_branch(Code::Jmp_rel32_64, target).map_err(|_| Refusal::NotMovable)?;
        Ok(Self { at, covered, instructions: vec![jump], next: None })
    }

    /// The same, and a covered call returns to where it would without a patch: exceptions must find the function there.
    ///
    /// ```text
    /// call target   →   push low half of the return address    mov [rsp+4], high half    jmp target
    /// ```
    pub(crate) fn keeping_returns(mut self) -> Result<Self, Refusal> {
        let is_call = |instruction: &Instruction| {
            matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall | FlowControl::XbeginXabortXend
            )
        };
        let Some(last) = self.instructions.pop() else { return Ok(self) };
        if self.instructions.iter().any(is_call) {
            return Err(Refusal::NotMovable);
        }
        if !is_call(&last) {
            self.instructions.push(last);
            return Ok(self);
        }
        let mut jump = last;
        match last.code() {
            Code::Call_rel32_64 => jump.set_code(Code::Jmp_rel32_64),
            // The stack pointer is another one then.
            Code::Call_rm64 if !uses_stack_pointer(&last) => jump.set_code(Code::Jmp_rm64),
            _ => return Err(Refusal::NotMovable),
        }
        if last.next_ip() < self.at + JUMP_LEN as u64 {
            return Err(Refusal::NotMovable);
        }
        let (low, high) = (last.next_ip() as i32, (last.next_ip() >> 32) as i32);
        let above = MemoryOperand::with_base_displ(Register::RSP, 4);
        let push = Instruction::with1(Code::Pushq_imm32, low).map_err(|_| Refusal::NotMovable)?;
        let store = Instruction::with2(Code::Mov_rm32_imm32, above, high).map_err(|_| Refusal::NotMovable)?;
        self.instructions.extend([push, store, jump]);
        self.next = None;
        Ok(self)
    }

    /// The covered instructions relocated to another address, followed by a jump to the rest of the function.
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
struct Branch {
    /// The target address.
    target: u64,
    is_call: bool,
}

impl Branch {
    /// Whether it would land in overwritten bytes. Calling the function again is harmless, but a jump to its
    /// start may carry values in registers that a call would not preserve.
    fn spoils(self, start: u64, overwritten: &std::ops::Range<u64>) -> bool {
        overwritten.contains(&self.target) && !(self.is_call && self.target == start)
    }
}

/// All direct branches and calls of a function.
fn branches(code: Code64<'_>) -> impl Iterator<Item = Branch> {
    instructions(code).filter_map(|instruction| {
        let is_call = match instruction.flow_control() {
            FlowControl::Call => true,
            FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::XbeginXabortXend => false,
            _ => return None,
        };
        // Zero for instructions that are not near branches: no code is there.
        Some(Branch { target: instruction.near_branch_target(), is_call })
    })
}

/// All instructions of a function, in order.
pub(crate) fn instructions(code: Code64<'_>) -> impl Iterator<Item = Instruction> {
    let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
}

fn uses_stack_pointer(instruction: &Instruction) -> bool {
    let operands = [instruction.memory_base(), instruction.memory_index(), instruction.op0_register()];
    operands.contains(&Register::RSP)
}

/// Whether execution never continues after this instruction.
pub(super) fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
    )
}

/// Whether there is only padding between two addresses: no-ops, traps, or zeros.
pub(super) fn is_fill(code: Code64<'_>, from: u64, to: u64) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 0x5555_0000_1000;
    const THERE: u64 = 0x5555_4000_0000;

    fn prologue_of(bytes: &[u8], gap: &[u8]) -> Result<Prologue, Refusal> {
        Prologue::of(Code64 { address: HERE, bytes, gap }, &[])
    }

    /// The moved instructions as text, with their branch targets.
    fn moved(bytes: &[u8], gap: &[u8]) -> Vec<String> {
        let bytes = prologue_of(bytes, gap).unwrap().moved_to(THERE).unwrap();
        let code = Code64 { address: THERE, bytes: &bytes, gap: &[] };
        instructions(code).map(|instruction| instruction.to_string()).collect()
    }

    #[test]
    fn plain_instructions_are_moved_whole_and_followed_by_a_jump_back() {
        // push rbx; mov rbx, rdi; sub rsp, 16; ret
        let code = [0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0xc3];
        assert_eq!(moved(&code, &[]), ["push rbx", "mov rbx,rdi", "sub rsp,10h", "jmp 0000555500001008h"]);
        assert_eq!(prologue_of(&code, &[]).unwrap().covered, [0x53, 0x48, 0x89, 0xfb, 0x48]);
    }

    #[test]
    fn endbr64_is_not_moved() {
        // endbr64; mov eax, 1; ret
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 1, 0, 0, 0, 0xc3];
        assert_eq!(prologue_of(&code, &[]).unwrap().at, HERE + 4);
        assert_eq!(moved(&code, &[]), ["mov eax,1", "jmp 0000555500001009h"]);
    }

    #[test]
    fn a_short_conditional_jump_becomes_a_long_one() {
        // test rdi, rdi; je +5; mov eax, 7; ret; xor eax, eax; ret
        let code = [0x48, 0x85, 0xff, 0x74, 0x06, 0xb8, 7, 0, 0, 0, 0xc3, 0x31, 0xc0, 0xc3];
        assert_eq!(moved(&code, &[]), ["test rdi,rdi", "je 000055550000100Bh", "jmp 0000555500001005h"]);
    }

    #[test]
    fn relative_operands_keep_their_targets() {
        // mov rax, [rip+0x100]; ret
        let code = [0x48, 0x8b, 0x05, 0, 1, 0, 0, 0xc3];
        assert_eq!(moved(&code, &[]), ["mov rax,[555500001107h]", "jmp 0000555500001007h"]);
        // jmp [rip+0x100]
        assert_eq!(moved(&[0xff, 0x25, 0, 1, 0, 0], &[]), ["jmp qword ptr [555500001106h]"]);
        // call +0x100; ret
        assert_eq!(
            moved(&[0xe8, 0, 1, 0, 0, 0xc3], &[]),
            ["call 0000555500001105h", "jmp 0000555500001005h"]
        );
    }

    #[test]
    fn a_call_that_keeps_its_return_address_is_a_jump_with_that_address_on_the_stack() {
        let moved = |bytes: &[u8]| {
            let prologue = prologue_of(bytes, &[]).unwrap().keeping_returns()?;
            let bytes = prologue.moved_to(THERE).unwrap();
            let code = Code64 { address: THERE, bytes: &bytes, gap: &[] };
            Ok(instructions(code).map(|instruction| instruction.to_string()).collect::<Vec<_>>())
        };
        let [push, store] = ["push 1009h", "mov dword ptr [rsp+4],5555h"].map(str::to_owned);
        // sub rsp, 18h; call +0x100; ret
        let direct = [0x48, 0x83, 0xec, 0x18, 0xe8, 0, 1, 0, 0, 0xc3];
        let jump = "jmp 0000555500001109h".to_owned();
        assert_eq!(moved(&direct), Ok(vec!["sub rsp,18h".to_owned(), push, store, jump]));
        // push rbx; call [rip+0x100]; ret
        let through_word = moved(&[0x53, 0xff, 0x15, 0, 1, 0, 0, 0xc3]).unwrap();
        assert_eq!(through_word.last().unwrap(), "jmp qword ptr [555500001107h]");
        // push rbx; call [rsp+8]; ret
        assert_eq!(moved(&[0x53, 0xff, 0x54, 0x24, 8, 0xc3]), Err(Refusal::NotMovable));
        // call rax; mov rbx, rax; ret: it would return into the patch
        assert_eq!(moved(&[0xff, 0xd0, 0x48, 0x89, 0xc3, 0xc3]), Err(Refusal::NotMovable));
    }

    #[test]
    fn moves_a_function_that_is_only_a_tail_jump() {
        assert_eq!(moved(&[0xe9, 0, 1, 0, 0], &[]), ["jmp 0000555500001105h"]);
    }

    #[test]
    fn a_short_function_may_use_the_padding_after_it() {
        // jmp +0x10, then padding
        for gap in [&[0x90, 0x90, 0x90][..], &[0xcc, 0xcc, 0xcc], &[0x0f, 0x1f, 0x00], &[0, 0, 0]] {
            assert_eq!(moved(&[0xeb, 0x10], gap), ["jmp 0000555500001012h"]);
        }
        assert_eq!(
            prologue_of(&[0xc3], &[0x66, 0x90, 0x66, 0x90]).unwrap().covered,
            [0xc3, 0x66, 0x90, 0x66, 0x90]
        );
    }

    #[test]
    fn refuses_a_short_function_followed_by_other_code() {
        assert_eq!(prologue_of(&[0xc3], &[]).unwrap_err(), Refusal::TooShort);
        assert_eq!(prologue_of(&[0xc3], &[0x90, 0x90]).unwrap_err(), Refusal::TooShort);
        assert_eq!(prologue_of(&[0xc3], &[0x31, 0xc0, 0xc3, 0x90]).unwrap_err(), Refusal::TooShort);
        // The code does not even end.
        assert_eq!(prologue_of(&[0x90, 0x90], &[0x90; 8]).unwrap_err(), Refusal::TooShort);
    }

    #[test]
    fn refuses_a_loop_into_the_first_bytes() {
        // dec rdi; jne -5 (itself); ret
        let to_start = [0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3];
        assert_eq!(prologue_of(&to_start, &[]).unwrap_err(), Refusal::JumpedInto);
        // push rbx; dec rdi; nop; nop; jne (to dec); ret
        let to_second = [0x53, 0x48, 0xff, 0xcf, 0x90, 0x90, 0x75, 0xf9, 0xc3];
        assert_eq!(prologue_of(&to_second, &[]).unwrap_err(), Refusal::JumpedInto);
        // endbr64; mov eax, 1; jmp endbr64
        let to_endbr = [0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 1, 0, 0, 0, 0xeb, 0xf5];
        assert_eq!(prologue_of(&to_endbr, &[]).unwrap_err(), Refusal::JumpedInto);
    }

    #[test]
    fn accepts_a_loop_after_the_overwritten_bytes() {
        // push rbx; xor eax, eax; nop; nop; dec rdi; jne (to dec); ret
        let code = [0x53, 0x31, 0xc0, 0x90, 0x90, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3];
        assert!(prologue_of(&code, &[]).is_ok());
        // sub rsp, 8; xor eax, eax; dec rdi; jne (to dec: the byte after the overwritten ones is covered as
        // well)
        let code = [0x48, 0x83, 0xec, 0x08, 0x31, 0xc0, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3];
        assert!(prologue_of(&code, &[]).is_ok());
    }

    #[test]
    fn refuses_a_cold_part_that_jumps_into_the_first_bytes() {
        let code = Code64 { address: HERE, bytes: &[0x48, 0x89, 0xf8, 0x48, 0x89, 0xf8, 0xc3], gap: &[] };
        // jmp to HERE + 3
        let cold = Code64 { address: HERE + 0x100, bytes: &[0xe9, 0xfe, 0xfe, 0xff, 0xff], gap: &[] };
        assert_eq!(Prologue::of(code, &[cold]).unwrap_err(), Refusal::JumpedInto);
        assert!(Prologue::of(code, &[]).is_ok());
    }

    #[test]
    fn a_function_that_calls_itself_can_be_patched() {
        // push rbx; mov rbx, rdi; nop; call HERE; pop rbx; ret
        let code = [0x53, 0x48, 0x89, 0xfb, 0x90, 0xe8, 0xf6, 0xff, 0xff, 0xff, 0x5b, 0xc3];
        assert!(prologue_of(&code, &[]).is_ok());
    }

    #[test]
    fn refuses_bytes_that_are_not_an_instruction() {
        assert_eq!(prologue_of(&[0x06, 0x06, 0x06, 0x06, 0x06, 0x06], &[]).unwrap_err(), Refusal::NoCode);
    }
}
