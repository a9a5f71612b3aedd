//! A function's decoded machine code: instructions, blocks, loops and calls.

use rustc_hash::FxHashMap;
use whyslow_processor::Processor;
use whyslow_profile::Code;

use crate::graph::{self, Block};
use crate::instruction::{Destination, Flow, Instruction, Value};
use crate::loops::{self, Loop};
use crate::processor::{MachineCode as _, Syntax, TextWriter, is_stack_register};
use crate::{callee, known};

/// The target of a call or a jump that leaves its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// At this address.
    Code(u64),
    /// At the address stored here: a slot of the GOT.
    Slot(u64),
}

/// A call or jump that leaves its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Where the instruction starts.
    pub address: u64,
    /// Where the next one starts: the return address of a call.
    pub next: u64,
    /// Where it goes.
    pub target: Target,
    /// Whether it returns.
    pub is_call: bool,
}

/// A function that is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callee {
    /// Its name.
    pub name: String,
    /// Bytes of its code.
    pub size: Option<u64>,
}

/// A call, or a jump to another function (a tail call).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The instruction.
    pub instruction: usize,
    /// Where it goes, unless that is only known at run time.
    pub target: Option<Target>,
    /// The called function.
    pub callee: Option<Callee>,
    /// The third argument, if it is constant: the size for `memcpy` and similar functions.
    pub third_argument: Option<u64>,
    /// Whether it is a jump that does not return.
    pub is_tail: bool,
}

impl Call {
    /// The name of the function, if known.
    pub fn name(&self) -> Option<&str> {
        self.callee.as_ref().map(|callee| callee.name.as_str())
    }

    /// Whether a register or a table holds its target.
    pub fn is_indirect(&self) -> bool {
        self.target.is_none()
    }
}

/// The code of one function.
#[derive(Debug, Clone)]
pub struct Body {
    /// The processor that the code is for.
    pub processor: Processor,
    /// Its first address.
    pub start: u64,
    /// Its instructions, without gaps.
    pub instructions: Vec<Instruction>,
    /// Its blocks, in the order of their addresses.
    pub blocks: Vec<Block>,
    /// Its loops, outer ones before inner ones.
    pub loops: Vec<Loop>,
    /// Its calls, in the order of their addresses.
    pub calls: Vec<Call>,
    bytes: Vec<u8>,
}

impl Body {
    /// Decodes code. `name` returns the function at the target of a call or jump that leaves it.
    pub fn new(processor: Processor, code: &Code, name: impl Fn(Branch) -> Option<Callee>) -> Self {
        let start = code.start.0;
        let instructions = processor.decode(&code.bytes, start);
        let inside = |address: u64| address.wrapping_sub(start) < code.bytes.len() as u64;
        let named = |row: &Instruction, target: Target| {
            let branch = Branch { address: row.address, next: row.next(), target, is_call: row.is_call() };
            name(branch)
        };
        let mut calls: Vec<Call> = Vec::new();
        for (index, row) in instructions.iter().enumerate() {
            let (destination, is_tail) = match row.flow {
                Flow::Call(destination) => (destination, false),
                Flow::Jump(destination) => (destination, true),
                Flow::Branch(target) => (Destination::Code(target), true),
                _ => continue,
            };
            let target = match destination {
                // A recursive call is still a call.
                Destination::Code(target) if is_tail && inside(target) => continue,
                Destination::Code(target) => Some(Target::Code(target)),
                Destination::Slot(slot) => Some(Target::Slot(slot)),
                Destination::Register(_) | Destination::Memory => None,
            };
            let callee = target.and_then(|target| named(row, target));
            calls.push(Call { instruction: index, target, callee, third_argument: None, is_tail });
        }
        let never_returns = |index: usize| {
            let call = calls.binary_search_by_key(&index, |call| call.instruction).ok();
            call.and_then(|call| calls[call].name()).is_some_and(callee::never_returns)
        };
        let mut blocks = graph::blocks(&instructions, never_returns);
        // Jumps through tables do not leave the function.
        let switches: Vec<usize> =
            blocks.iter().filter(|block| block.is_switch).map(|block| block.instructions.end - 1).collect();
        calls.retain(|call| switches.binary_search(&call.instruction).is_err());

        let starts = known::at_starts(&instructions, &blocks, processor.changed_by_calls());
        let mut next = calls.iter_mut().peekable();
        let mut stored: FxHashMap<(Option<u8>, i64), Option<Value>> = FxHashMap::default();
        for (block, mut state) in blocks.iter().zip(starts) {
            for index in block.instructions.clone() {
                let row = &instructions[index];
                if let Some(call) = next.next_if(|call| call.instruction == index) {
                    let third = state[usize::from(processor.third_argument())];
                    call.third_argument = match third {
                        Some(Value::Constant(size)) => Some(size),
                        _ => None,
                    };
                    if let Flow::Call(Destination::Register(register))
                    | Flow::Jump(Destination::Register(register)) = row.flow
                    {
                        call.target = match state[usize::from(register)] {
                            Some(Value::Address(address)) => Some(Target::Code(address)),
                            Some(Value::LoadedFrom(slot)) => Some(Target::Slot(slot)),
                            _ => None,
                        };
                        call.callee = call.target.and_then(|target| named(row, target));
                    }
                }
                if let Some(memory) = row.memory.filter(|memory| memory.is_written && memory.index.is_none())
                {
                    // A store reads its base register and the stored one.
                    let others = row.reads.general().iter().filter(|register| Some(*register) != memory.base);
                    let value = others.last().and_then(|register| state[usize::from(register)]);
                    let slot = stored.entry((memory.base, memory.displacement)).or_insert(value);
                    *slot = slot.filter(|known| Some(*known) == value);
                }
                known::pass(row, &mut state, processor.changed_by_calls());
            }
        }
        // The address of a function that was loaded from the GOT before a loop may lie on the stack.
        for call in calls.iter_mut().filter(|call| call.target.is_none()) {
            let row = &instructions[call.instruction];
            let is_stack = |base: u8| is_stack_register(processor, base);
            let slot =
                row.memory.filter(|memory| memory.index.is_none() && memory.base.is_some_and(is_stack));
            let value = slot.and_then(|memory| stored.get(&(memory.base, memory.displacement)).copied()?);
            if let Some(Value::LoadedFrom(from)) = value {
                call.target = Some(Target::Slot(from));
                call.callee = named(row, Target::Slot(from));
            }
        }

        let (mut loops, innermost) = loops::find(&graph::edges(&blocks));
        for (block, found) in blocks.iter_mut().zip(&innermost) {
            block.in_loop = *found;
        }
        for index in (0..loops.len()).rev() {
            let is_switch = loops[index].head >= blocks.len();
            let mut inner =
                loops[index + 1..].iter().filter(|inner| is_switch && inner.parent == Some(index));
            let inner = inner.next().map(|inner| inner.head);
            let found = &mut loops[index];
            // The switch is the node after the last block. A loop around it starts with the first of its
            // blocks, or with an inner loop.
            found.blocks.retain(|&block| block < blocks.len());
            if is_switch {
                found.head = found.blocks.first().copied().or(inner).unwrap_or(0);
            }
        }
        Self { processor, start, instructions, blocks, loops, calls, bytes: code.bytes.clone() }
    }

    /// Whether a register addresses the function's stack frame.
    pub fn is_stack_register(&self, register: u8) -> bool {
        is_stack_register(self.processor, register)
    }

    /// One past its last address.
    pub fn end(&self) -> u64 {
        self.start.wrapping_add(self.bytes.len() as u64)
    }

    /// The instruction that has a byte at this address.
    pub fn instruction_at(&self, address: u64) -> Option<usize> {
        let offset = address.wrapping_sub(self.start);
        if offset >= self.bytes.len() as u64 {
            return None;
        }
        let after = self.instructions.partition_point(|row| row.address.wrapping_sub(self.start) <= offset);
        after.checked_sub(1)
    }

    /// The block of an instruction.
    pub fn block_of(&self, instruction: usize) -> Option<usize> {
        let after = self.blocks.partition_point(|block| block.instructions.start <= instruction);
        after.checked_sub(1).filter(|&block| self.blocks[block].instructions.contains(&instruction))
    }

    /// The innermost loop of an instruction.
    pub fn loop_of(&self, instruction: usize) -> Option<usize> {
        self.blocks[self.block_of(instruction)?].in_loop
    }

    /// The call at an instruction.
    pub fn call_at(&self, instruction: usize) -> Option<&Call> {
        let at = self.calls.binary_search_by_key(&instruction, |call| call.instruction).ok()?;
        self.calls.get(at)
    }

    /// The first and the last instruction of each loop, inner loops included.
    pub fn loop_extents(&self) -> Vec<(usize, usize)> {
        let mut extents: Vec<(usize, usize)> = self
            .loops
            .iter()
            .map(|found| {
                let ranges = || found.blocks.iter().map(|&block| &self.blocks[block].instructions);
                let first = ranges().map(|range| range.start).min().unwrap_or(0);
                (first, ranges().map(|range| range.end - 1).max().unwrap_or(0))
            })
            .collect();
        for index in (0..self.loops.len()).rev() {
            if let Some(parent) = self.loops[index].parent {
                let (first, last) = extents[index];
                extents[parent] = (extents[parent].0.min(first), extents[parent].1.max(last));
            }
        }
        extents
    }

    /// The blocks of an innermost loop that every iteration executes. For other and very large loops, only
    /// the head.
    pub(crate) fn blocks_of_every_iteration(&self, index: usize) -> Vec<usize> {
        const LARGEST: usize = 100;
        let found = &self.loops[index];
        let is_looked_at = found.is_innermost && found.blocks.len() <= LARGEST;
        let has_switch = found.blocks.iter().any(|&block| self.blocks[block].is_switch);
        if !is_looked_at || has_switch {
            return vec![found.head];
        }
        found
            .blocks
            .iter()
            .copied()
            .filter(|&block| block == found.head || !self.can_skip(found, block))
            .collect()
    }

    /// Whether an iteration of a loop can skip a block.
    fn can_skip(&self, of: &Loop, left_out: usize) -> bool {
        let mut seen = vec![left_out];
        let mut ahead = self.blocks[of.head].next.clone();
        while let Some(block) = ahead.pop() {
            if block == of.head {
                return true;
            }
            if of.blocks.contains(&block) && !seen.contains(&block) {
                seen.push(block);
                ahead.extend_from_slice(&self.blocks[block].next);
            }
        }
        false
    }

    /// All instructions as text.
    ///
    /// A branch inside the code shows the address and its distance from the start, `jne 0x1a40 <+0x2a>`. One
    /// that leaves it shows the name of its target, else the address. One through a register or a slot has
    /// the name after it. Bytes that are not an instruction are shown as `(bad)`, an incomplete instruction
    /// as `(cut off)`.
    pub fn texts(&self, syntax: Syntax) -> Vec<String> {
        let mut writer = self.processor.writer(syntax);
        let mut calls = self.calls.iter().peekable();
        let mut texts = Vec::with_capacity(self.instructions.len());
        for (index, row) in self.instructions.iter().enumerate() {
            let call = calls.next_if(|call| call.instruction == index);
            texts.push(self.text(row, call, &mut *writer));
        }
        texts
    }

    fn text(&self, row: &Instruction, call: Option<&Call>, writer: &mut dyn TextWriter) -> String {
        let offset = row.address.wrapping_sub(self.start);
        let bytes = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..)).unwrap_or(&[]);
        let name = call.and_then(Call::name);
        let inside = |target: u64| {
            let into = target.wrapping_sub(self.start);
            (into < self.bytes.len() as u64).then(|| format!("{target:#x} <+{into:#x}>"))
        };
        match row.flow {
            Flow::Branch(target)
            | Flow::Jump(Destination::Code(target))
            | Flow::Call(Destination::Code(target)) => {
                let before = writer.before_target(bytes, row.address);
                let target = inside(target)
                    .or_else(|| name.map(ToOwned::to_owned))
                    .unwrap_or_else(|| format!("{target:#x}"));
                format!("{before}{target}")
            }
            _ => match name {
                Some(name) => format!("{} → {name}", writer.text(bytes, row.address)),
                None => writer.text(bytes, row.address),
            },
        }
    }

    /// The bytes of an instruction.
    pub fn bytes_of(&self, instruction: usize) -> &[u8] {
        let Some(row) = self.instructions.get(instruction) else { return &[] };
        let offset = usize::try_from(row.address.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        self.bytes.get(offset..offset.saturating_add(row.length.into())).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whyslow_profile::{ModuleId, RelativeAddress};

    use super::*;

    fn code(start: u64, bytes: &[u8]) -> Code {
        Code { module: ModuleId(0), start: RelativeAddress(start), bytes: bytes.to_vec() }
    }

    fn body(start: u64, bytes: &[u8]) -> Body {
        Body::new(Processor::X86_64, &code(start, bytes), |branch| {
            let name = match branch.target {
                Target::Code(0x2000) => "app::parse",
                Target::Code(0x2100) => "core::panicking::panic_bounds_check",
                Target::Slot(0x3000) => "memcpy",
                _ => return None,
            };
            Some(Callee { name: name.to_owned(), size: None })
        })
    }

    fn texts(start: u64, bytes: &[u8]) -> Vec<String> {
        body(start, bytes).texts(Syntax::Intel)
    }

    #[test]
    fn intel_syntax_with_the_usual_numbers() {
        assert_eq!(texts(0, &[0x48, 0x8b, 0x44, 0xcb, 0x18]), ["mov rax, [rbx+rcx*8+0x18]"]);
        assert_eq!(texts(0, &[0x48, 0x83, 0xec, 0x28]), ["sub rsp, 0x28"]);
        assert_eq!(texts(0, &[0x8b, 0x05, 0x10, 0, 0, 0]), ["mov eax, [rip+0x10]"]);
        assert_eq!(texts(0, &[0x83, 0x00, 0x05]), ["add dword ptr [rax], 5"]);
        assert_eq!(texts(0, &[0xf3, 0x48, 0xa5]), ["rep movsq [rdi], [rsi]"]);
    }

    #[test]
    fn att_syntax_has_the_destination_last() {
        let written = body(0, &[0x48, 0x8b, 0x44, 0xcb, 0x18]).texts(Syntax::Att);
        assert_eq!(written, ["mov 0x18(%rbx,%rcx,8), %rax"]);
    }

    #[test]
    fn branches_show_where_they_go() {
        // jne to the first byte; call 0x2000; call 0x3000; jmp 0x2000.
        let bytes =
            [0x75, 0xfe, 0xe8, 0xf9, 0x0f, 0, 0, 0xe8, 0xf4, 0x1f, 0, 0, 0xe9, 0xef, 0x0f, 0, 0, 0xff, 0xd0];
        assert_eq!(
            texts(0x1000, &bytes),
            ["jne 0x1000 <+0x0>", "call app::parse", "call 0x3000", "jmp app::parse", "call rax"]
        );
    }

    #[test]
    fn bad_and_missing_bytes_are_shown() {
        assert_eq!(texts(0, &[0x06, 0x90]), ["(bad)", "nop"]);
        assert_eq!(texts(0, &[0x90, 0x48, 0x8b]), ["nop", "(cut off)"]);
        assert_eq!(texts(0, &[]), [""; 0]);
    }

    #[test]
    fn a_function_pointer_loaded_before_the_loop_is_known_in_it() {
        // 1000: mov rbx, [rip+0x1ff9] (slot 3000); 1007: mov edx, 0x40; 100c: call rbx; 100e: jmp 1007
        let bytes = [0x48, 0x8b, 0x1d, 0xf9, 0x1f, 0, 0, 0xba, 0x40, 0, 0, 0, 0xff, 0xd3, 0xeb, 0xf7];
        let body = body(0x1000, &bytes);
        let [call] = &body.calls[..] else { panic!("{:?}", body.calls) };
        assert_eq!(
            (call.name(), call.third_argument, call.target),
            (Some("memcpy"), Some(64), Some(Target::Slot(0x3000)))
        );
        assert_eq!(body.texts(Syntax::Intel)[2], "call rbx → memcpy");
        assert_eq!((body.loops.len(), body.loop_of(2), body.loop_of(0)), (1, Some(0), None));
        assert_eq!(body.loop_extents(), [(1, 3)]);
    }

    #[test]
    fn a_register_that_differs_between_paths_is_unknown() {
        // mov rbx, [3000]; test al, al; je over; mov rbx, rcx; over: call rbx
        let bytes =
            [0x48, 0x8b, 0x1d, 0xf9, 0x1f, 0, 0, 0x84, 0xc0, 0x74, 0x03, 0x48, 0x89, 0xcb, 0xff, 0xd3];
        let body = body(0x1000, &bytes);
        assert_eq!(body.calls.iter().map(Call::is_indirect).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn nothing_follows_a_panic() {
        // je 1007; call panic_bounds_check; 1007: ret
        let body = body(0x1000, &[0x74, 0x05, 0xe8, 0xf9, 0x10, 0, 0, 0xc3]);
        let next: Vec<&[usize]> = body.blocks.iter().map(|block| &block.next[..]).collect();
        assert_eq!(next, [&[2, 1][..], &[], &[]]);
    }

    #[test]
    fn a_jump_through_a_table_leads_back_to_its_loop() {
        // 0: movsxd rax, [rdx+rcx*4]; 4: add rax, rdx; 7: jmp rax; 9: inc ecx; b: jmp 0; d: dec ecx; f: jmp 0; 11: ret
        let bytes = [
            0x48, 0x63, 0x04, 0x8a, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xff, 0xc1, 0xeb, 0xf3, 0xff, 0xc9, 0xeb,
            0xef, 0xc3,
        ];
        let body = body(0, &bytes);
        assert!(body.calls.is_empty() && body.blocks[0].is_switch);
        assert_eq!(body.loops.iter().map(|found| &found.blocks[..]).collect::<Vec<_>>(), [&[0, 1, 2][..]]);
    }

    #[test]
    fn a_loop_around_a_jump_through_a_table_starts_with_a_block() {
        // 0: mov rax, [rdx+rcx*8]; 4: jmp rax; 6: mov rax, [rdx+rdi*8]; a: jmp rax; the second is only reached through the table.
        let bytes = [0x48, 0x8b, 0x04, 0xca, 0xff, 0xe0, 0x48, 0x8b, 0x04, 0xfa, 0xff, 0xe0];
        let body = body(0, &bytes);
        let found: Vec<_> = body.loops.iter().map(|found| (found.head, &found.blocks[..])).collect();
        assert_eq!(found, [(1, &[1][..])]);
    }

    #[test]
    fn finds_the_blocks_that_every_iteration_executes() {
        // 0: test al, al; 2: je 6; 4: inc ecx; 6: dec edx; 8: je d; a: test bl, bl; c: nop; d: jne 0; f: ret
        let bytes =
            [0x84, 0xc0, 0x74, 0x02, 0xff, 0xc1, 0xff, 0xca, 0x74, 0x03, 0x84, 0xdb, 0x90, 0x75, 0xf1, 0xc3];
        let body = body(0, &bytes);
        let start = |&block: &usize| body.instructions[body.blocks[block].instructions.start].address;
        let passed = body.blocks_of_every_iteration(0);
        assert_eq!(passed.iter().map(start).collect::<Vec<_>>(), [0, 6, 0xd]);
    }

    #[test]
    fn thousands_of_nested_loops_are_read() {
        const DEPTH: usize = 5000;
        // A nop per loop, then for each of them, innermost first, a jne to it.
        let mut bytes = vec![0x90; DEPTH];
        for inner in (0..DEPTH).rev() {
            let distance = inner as i64 - (bytes.len() as i64 + 6);
            bytes.extend([0x0f, 0x85]);
            bytes.extend((distance as i32).to_le_bytes());
        }
        let body = body(0, &bytes);
        assert_eq!(body.loops.len(), DEPTH);
        assert_eq!(body.loops.last().map(|found| found.depth), Some(DEPTH as u32));
        assert_eq!(body.loop_extents()[0], (0, 2 * DEPTH - 1));
        let weights = crate::Weights { own: vec![1; 2 * DEPTH], ..crate::Weights::default() };
        assert_eq!(weights.of_loops(&body)[0], 2 * DEPTH as u64);
    }

    proptest! {
        #[test]
        fn any_bytes_become_a_body_without_gaps(
            start in any::<u64>(),
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            weights in prop::collection::vec(0_u64..100, 0..600),
        ) {
            let body = Body::new(Processor::X86_64, &code(start, &bytes), |_| None);
            let mut at = start;
            for (row, text) in body.instructions.iter().zip(body.texts(Syntax::Intel)) {
                prop_assert_eq!(row.address, at);
                prop_assert!((1..=15).contains(&row.length) && !text.is_empty());
                at = row.next();
            }
            prop_assert_eq!(at, start.wrapping_add(bytes.len() as u64));
            let covered: usize = body.blocks.iter().map(|block| block.instructions.len()).sum();
            prop_assert_eq!(covered, body.instructions.len());
            let mut own = weights;
            own.resize(body.instructions.len(), 1);
            let weights = crate::Weights { own, ..crate::Weights::default() };
            let machine = crate::Machine::new(["avx2", "avx", "fma"]);
            for hint in crate::hints(&body, &weights, &machine) {
                prop_assert!(hint.weight <= weights.total() && hint.loop_weight <= weights.total());
                prop_assert!(!hint.addresses.is_empty());
            }
        }
    }
}
