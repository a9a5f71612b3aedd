//! Instructions inside a function: which ones a patch covers, and whether code jumps into them.
//!
//! ```text
//! function   …  jmp rel32 ──► stub ──► the agent, then the covered instructions, moved  …
//! ```
//! A jump to the first covered instruction is a visit. A jump to another one would land in the patch, so there must be
//! none: no branch, no jump table, no landing pad of exceptions, no label whose address is taken.

use iced_x86::{FlowControl, Instruction, OpKind, Register};

use super::prologue::{Code64, JUMP_LEN, Prologue, Refusal, ends, instructions, is_fill};

/// A function with its pieces, as a patch inside of it must know them.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    pub(crate) code: Code64<'a>,
    /// Pieces of the same function that are elsewhere.
    pub(crate) parts: Vec<Code64<'a>>,
    /// Where exceptions land; `None` if that is unknown.
    pub(crate) landings: Option<Vec<u64>>,
}

impl Body<'_> {
    /// What a patch at an instruction covers.
    pub(crate) fn at(&self, address: u64) -> Result<Prologue, Refusal> {
        let all: Vec<Instruction> = instructions(self.piece(address)?).collect();
        let start = all.iter().position(|found| found.ip() == address).ok_or(Refusal::NoCode)?;
        self.cover(&all, start, start)
    }

    /// What a patch covers that is passed whenever the function returns here: the last instruction may be too short for
    /// it, and those before it lead nowhere else.
    pub(crate) fn before(&self, address: u64) -> Result<Prologue, Refusal> {
        const MOST: usize = JUMP_LEN;
        let all: Vec<Instruction> = instructions(self.piece(address)?).collect();
        let last = all.iter().position(|found| found.ip() == address).ok_or(Refusal::NoCode)?;
        let mut refusal = Refusal::TooShort;
        for start in (last.saturating_sub(MOST)..=last).rev() {
            if start < last && all[start].flow_control() != FlowControl::Next {
                break;
            }
            match self.cover(&all, start, last) {
                Ok(prologue) => return Ok(prologue),
                Err(found) => refusal = found,
            }
        }
        Err(refusal)
    }

    /// Where the function returns, or jumps to another one instead. `None` if that is not certain.
    pub(crate) fn exits(&self) -> Option<Vec<u64>> {
        let mut exits = Vec::new();
        for piece in self.pieces() {
            let all: Vec<Instruction> = instructions(piece).collect();
            for (row, instruction) in all.iter().enumerate() {
                let is_exit = match instruction.flow_control() {
                    FlowControl::Return => true,
                    FlowControl::UnconditionalBranch => !self.holds(instruction.near_branch_target()),
                    FlowControl::ConditionalBranch if !self.holds(instruction.near_branch_target()) => {
                        return None;
                    }
                    FlowControl::IndirectBranch => !is_jump_table(&all[..row], instruction),
                    _ => false,
                };
                if is_exit {
                    exits.push(instruction.ip());
                }
            }
        }
        Some(exits)
    }

    /// Whether whatever runs at `from` goes on to `to`, which is in the same run of instructions.
    pub(crate) fn leads(&self, from: u64, to: u64) -> bool {
        let Ok(piece) = self.piece(from) else { return false };
        let mut run = instructions(piece).skip_while(|instruction| instruction.ip() < from);
        run.find(|instruction| instruction.ip() >= to || instruction.flow_control() != FlowControl::Next)
            .is_some_and(|instruction| instruction.ip() == to)
    }

    fn pieces(&self) -> impl Iterator<Item = Code64<'_>> {
        std::iter::once(self.code).chain(self.parts.iter().copied())
    }

    fn piece(&self, address: u64) -> Result<Code64<'_>, Refusal> {
        self.pieces().find(|piece| piece.holds(address)).ok_or(Refusal::NoCode)
    }

    fn holds(&self, address: u64) -> bool {
        self.pieces().any(|piece| piece.holds(address))
    }

    /// Covers the instructions from `start` on, which must all run when the one at `last` does.
    fn cover(&self, all: &[Instruction], start: usize, last: usize) -> Result<Prologue, Refusal> {
        let at = all[start].ip();
        let until = at + JUMP_LEN as u64;
        let mut covered = Vec::new();
        for instruction in &all[start..] {
            if instruction.is_invalid() {
                return Err(Refusal::NoCode);
            }
            covered.push(*instruction);
            if instruction.next_ip() >= until || ends(instruction) {
                break;
            }
        }
        let end = covered.last().map_or(at, Instruction::next_ip);
        let piece = self.piece(at)?;
        if end < until && !is_fill(piece, end, until) {
            return Err(Refusal::TooShort);
        }
        // Up to `last`, nothing may jump in: it would pass the patch by.
        let landing = at + 1..until.max(all[last].ip() + 1);
        let only_one = covered.len() == 1 && end >= until && start == last;
        if !only_one && self.may_land_in(&landing) {
            return Err(Refusal::JumpedInto);
        }
        let bytes = piece.bytes.iter().chain(piece.gap).skip((at - piece.address) as usize);
        Prologue::of_instructions(at, bytes, covered).keeping_returns()
    }

    /// Whether code may jump into a range, other than by falling into it.
    fn may_land_in(&self, range: &std::ops::Range<u64>) -> bool {
        let Some(landings) = &self.landings else { return true };
        landings.iter().any(|landing| range.contains(landing))
            || self.pieces().any(|piece| {
                instructions(piece).any(|instruction| match instruction.flow_control() {
                    // Jump tables lead anywhere in the function. Words of other modules do not.
                    FlowControl::IndirectBranch => {
                        !(instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand())
                    }
                    FlowControl::Next => {
                        instruction.is_ip_rel_memory_operand()
                            && range.contains(&instruction.ip_rel_memory_address())
                    }
                    _ => range.contains(&instruction.near_branch_target()),
                })
            })
    }
}

/// Whether an indirect jump stays in its function: its target was computed from a table of offsets or addresses.
fn is_jump_table(before: &[Instruction], jump: &Instruction) -> bool {
    const NEAR: usize = 12;
    if jump.op0_kind() == OpKind::Memory {
        return jump.memory_index() != Register::None;
    }
    let mut near = before.iter().rev().take(NEAR).take_while(|instruction| !ends(instruction));
    near.any(|instruction| {
        let reads_table = (0..instruction.op_count()).any(|operand| {
            instruction.op_kind(operand) == OpKind::Memory && instruction.memory_index() != Register::None
        });
        reads_table && instruction.memory_index_scale() >= 4
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 0x5555_0000_1000;

    fn body(bytes: &'static [u8], gap: &'static [u8]) -> Body<'static> {
        let code = Code64 { address: HERE, bytes, gap };
        Body { code, parts: Vec::new(), landings: Some(Vec::new()) }
    }

    fn at(bytes: &'static [u8], offset: u64) -> Result<u64, Refusal> {
        body(bytes, &[]).at(HERE + offset).map(|prologue| prologue.at - HERE)
    }

    #[test]
    fn plain_instructions_inside_a_function_can_be_patched() {
        // push rbx; mov rbx, rdi; add rbx, 1; mov rax, rbx; pop rbx; ret
        let code = &[0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xc3, 0x01, 0x48, 0x89, 0xd8, 0x5b, 0xc3];
        assert_eq!(at(code, 4), Ok(4));
        assert_eq!(at(code, 5), Err(Refusal::NoCode), "no instruction starts there");
        assert_eq!(at(code, 11), Err(Refusal::TooShort), "pop and ret, and other code may follow");
    }

    #[test]
    fn a_branch_to_the_first_covered_instruction_is_a_visit_and_one_behind_it_is_not() {
        // dec rdi; nop; nop; jne (to dec); ret
        assert_eq!(at(&[0x48, 0xff, 0xcf, 0x90, 0x90, 0x75, 0xf9, 0xc3], 0), Ok(0));
        // dec rdi; nop; nop; jne (to the first nop); ret
        assert_eq!(at(&[0x48, 0xff, 0xcf, 0x90, 0x90, 0x75, 0xfc, 0xc3], 0), Err(Refusal::JumpedInto));
    }

    #[test]
    fn an_instruction_as_long_as_the_patch_may_be_jumped_around() {
        // mov eax, 1; jmp rdi
        assert_eq!(at(&[0xb8, 1, 0, 0, 0, 0xff, 0xe7], 0), Ok(0));
        // dec rdi; nop; nop; jmp rdi: anywhere
        assert_eq!(at(&[0x48, 0xff, 0xcf, 0x90, 0x90, 0xff, 0xe7], 0), Err(Refusal::JumpedInto));
    }

    #[test]
    fn a_call_is_covered_if_it_does_not_return_into_the_patch() {
        // nop; call +0x100; ret
        assert_eq!(at(&[0x90, 0xe8, 0, 1, 0, 0, 0xc3], 0), Ok(0));
        // call rax; mov rbx, rax; ret
        assert_eq!(at(&[0xff, 0xd0, 0x48, 0x89, 0xc3, 0xc3], 0), Err(Refusal::NotMovable));
    }

    #[test]
    fn landing_pads_and_labels_whose_address_is_taken_are_kept() {
        let plain = &[0x48, 0xff, 0xcf, 0x90, 0x90, 0xc3];
        for (landings, expected) in [
            (Some(vec![HERE + 3]), Err(Refusal::JumpedInto)),
            (Some(vec![HERE]), Ok(())),
            (None, Err(Refusal::JumpedInto)),
        ] {
            let body = Body { landings, ..body(plain, &[]) };
            assert_eq!(body.at(HERE).map(drop), expected);
        }
        // lea rax, [rip-6] (the second byte); dec rdi; ret
        let taken = &[0x48, 0xff, 0xcf, 0x90, 0x90, 0x48, 0x8d, 0x05, 0xf7, 0xff, 0xff, 0xff, 0xc3];
        assert_eq!(at(taken, 0), Err(Refusal::JumpedInto));
    }

    #[test]
    fn a_return_is_covered_with_what_leads_to_it() {
        // add rsp, 8; pop rbx; pop rbp; ret; other code
        let code = &[0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3, 0x31, 0xc0, 0xc3];
        assert_eq!(body(code, &[]).before(HERE + 6).map(|prologue| prologue.at - HERE), Ok(0));
        // test edi, edi; je (to pop rbp); add rsp, 8; pop rbp; ret; other code
        let joined = &[0x85, 0xff, 0x74, 0x04, 0x48, 0x83, 0xc4, 0x08, 0x5d, 0xc3, 0x31, 0xc0, 0xc3];
        assert_eq!(body(joined, &[]).before(HERE + 9).map(drop), Err(Refusal::JumpedInto));
        // ret, and padding
        let padded = body(&[0x31, 0xc0, 0xc3], &[0x90; 8]);
        assert_eq!(padded.before(HERE + 2).map(|prologue| prologue.at - HERE), Ok(2));
    }

    #[test]
    fn a_function_ends_at_returns_and_tail_jumps() {
        // test edi, edi; je +1; ret; jmp +0x100
        let code = &[0x85, 0xff, 0x74, 0x01, 0xc3, 0xe9, 0, 1, 0, 0];
        assert_eq!(body(code, &[]).exits(), Some(vec![HERE + 4, HERE + 5]));
        // movsxd rax, [rcx+rdi*4]; add rax, rcx; jmp rax; ret
        let table = &[0x48, 0x63, 0x04, 0xb9, 0x48, 0x01, 0xc8, 0xff, 0xe0, 0xc3];
        assert_eq!(body(table, &[]).exits(), Some(vec![HERE + 9]));
        // mov rax, [rdi]; jmp [rax+0x18]: a method that another object has
        let tail = &[0x48, 0x8b, 0x07, 0xff, 0x60, 0x18];
        assert_eq!(body(tail, &[]).exits(), Some(vec![HERE + 3]));
        // je +0x100: nobody knows
        assert_eq!(body(&[0x0f, 0x84, 0, 1, 0, 0, 0xc3], &[]).exits(), None);
    }
}
