//! Basic blocks, and the edges between them.
//!
//! ```text
//! a block starts  at the first instruction, at every branch target, after every branch
//! a block ends    at a branch, a return, a trap, a call that never returns, before the next start
//! ```
//! The code does not show the targets of a jump through a table. A block without a known predecessor may be one of its
//! cases. So all such jumps lead to one extra node, the switch, and the switch leads to all such blocks.

use std::ops::Range;

use crate::instruction::{Destination, Flow, Instruction};

/// Instructions that execute one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its instructions, by index in the body.
    pub instructions: Range<usize>,
    /// The blocks that may execute next.
    pub next: Vec<usize>,
    /// Whether it ends in a jump through a table.
    pub is_switch: bool,
    /// Its innermost loop.
    pub in_loop: Option<usize>,
}

/// Splits instructions into blocks. `never_returns` says whether a call does not return.
pub(crate) fn blocks(instructions: &[Instruction], never_returns: impl Fn(usize) -> bool) -> Vec<Block> {
    let at = |address: u64| instructions.binary_search_by_key(&address, |row| row.address).ok();
    let mut starts = vec![false; instructions.len() + 1];
    let mut ends = vec![false; instructions.len()];
    if let Some(first) = starts.first_mut() {
        *first = true;
    }
    for (index, row) in instructions.iter().enumerate() {
        let (target, ends_here) = match row.flow {
            Flow::Next => (None, false),
            Flow::Jump(Destination::Code(target)) | Flow::Branch(target) => (at(target), true),
            Flow::Call(_) => (None, never_returns(index)),
            Flow::Jump(_) | Flow::Return | Flow::Stop | Flow::Bad => (None, true),
        };
        if let Some(target) = target {
            starts[target] = true;
        }
        if ends_here {
            ends[index] = true;
            starts[index + 1] = true;
        }
    }
    let first_of: Vec<usize> = (0..instructions.len()).filter(|&index| starts[index]).collect();
    let block_at = |index: usize| first_of.binary_search(&index).ok();
    let mut blocks: Vec<Block> = Vec::with_capacity(first_of.len());
    for (number, &first) in first_of.iter().enumerate() {
        let end = first_of.get(number + 1).copied().unwrap_or(instructions.len());
        let last = &instructions[end - 1];
        let following = (end < instructions.len()).then_some(number + 1);
        let jumped = |target: u64| at(target).and_then(block_at);
        let mut next: Vec<usize> = match last.flow {
            Flow::Branch(target) => jumped(target).into_iter().chain(following).collect(),
            Flow::Jump(Destination::Code(target)) => jumped(target).into_iter().collect(),
            Flow::Jump(_) | Flow::Return | Flow::Stop | Flow::Bad => Vec::new(),
            Flow::Next | Flow::Call(_) if ends[end - 1] => Vec::new(),
            Flow::Next | Flow::Call(_) => following.into_iter().collect(),
        };
        next.dedup();
        let is_switch = is_switch(&instructions[first..end]);
        blocks.push(Block { instructions: first..end, next, is_switch, in_loop: None });
    }
    blocks
}

/// Whether a block ends in a jump through a table: to an address loaded by an index.
fn is_switch(block: &[Instruction]) -> bool {
    let Some((last, before)) = block.split_last() else { return false };
    let by_index =
        |row: &Instruction| row.memory.is_some_and(|memory| memory.index.is_some() && memory.is_read);
    match last.flow {
        Flow::Jump(Destination::Memory) => by_index(last),
        // mov eax, [table+index*4]; add rax, table; jmp rax
        Flow::Jump(Destination::Register(_)) => before.iter().rev().take(6).any(by_index),
        _ => false,
    }
}

/// The edges of all blocks, then those of the switch.
pub(crate) fn edges(blocks: &[Block]) -> Vec<Vec<usize>> {
    let mut edges: Vec<Vec<usize>> = blocks.iter().map(|block| block.next.clone()).collect();
    let mut has_entry = vec![false; blocks.len()];
    for &to in blocks.iter().flat_map(|block| &block.next) {
        has_entry[to] = true;
    }
    if !blocks.iter().any(|block| block.is_switch) {
        return edges;
    }
    let switch = blocks.len();
    for (from, block) in edges.iter_mut().zip(blocks) {
        if block.is_switch {
            from.push(switch);
        }
    }
    edges.push((1..blocks.len()).filter(|&block| !has_entry[block]).collect());
    edges
}
