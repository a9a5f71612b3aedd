//! Classifies blocks from roots and memory. Pure: the process is behind [`Memory`].
//!
//! ```text
//! reachable    = blocks that start pointers lead to from the roots, over reachable blocks only
//! possible     = blocks that any pointers lead to from roots and reachable blocks, and that are not reachable
//! the rest, in address order: a block that is not taken yet takes all blocks that it leads to over any pointers
//!                and that are not taken; a block that was such a leader itself can still be taken by a later one
//! definite     = the remaining leaders
//! indirect     = the taken blocks
//! ```
//! So a ring of lost blocks has one definitely lost block, the one with the lowest address. If two lost
//! blocks both lead to a third, both are definitely lost.

use super::edges::Edges;
use super::index::Index;
use super::{Class, LiveBlock};

/// Memory of the inspected process.
pub trait Memory {
    /// Fills a buffer with the bytes at an address. Unreadable bytes are zero.
    fn read(&mut self, address: u64, into: &mut [u8]);

    /// Whether there is a virtual table, as C++ objects point to, at an address.
    fn is_virtual_table(&mut self, _address: u64) -> bool {
        false
    }
}

/// Which words of a root count as pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pointers {
    /// Words that point to any byte of a block.
    Any,
    /// All except those that look like the allocator's own: glibc keeps pointers to headers of free memory,
    /// and the first bytes of a header are the last bytes of the block before it.
    NotToHeaders,
}

/// A range of memory that the program can access without a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The start address.
    pub start: u64,
    /// The end address.
    pub end: u64,
    /// Which of its words count as pointers.
    pub pointers: Pointers,
}

/// Everything that the program can access without a pointer.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Roots {
    /// Memory ranges.
    pub ranges: Vec<Root>,
    /// Register values.
    pub words: Vec<u64>,
}

/// The class of each block, in the order of `blocks`. Only aligned words of 8 bytes count as pointers.
///
/// Blocks should not overlap. Of overlapping blocks, the one that starts last is found; blocks with the same
/// start are one block.
pub fn classify(blocks: &[LiveBlock], roots: &Roots, memory: &mut impl Memory) -> Vec<Class> {
    let index = Index::new(blocks);
    let edges = Edges::read(&index, roots, memory);
    mark(&index, &edges)
}

/// The state of a block while the graph is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing leads to it; later: it leads a clique of lost blocks.
    Unreached,
    Indirect,
    Possible,
    Reachable,
}

/// Computes the classes, once all pointers are known.
pub(crate) fn mark(index: &Index, edges: &Edges) -> Vec<Class> {
    let mut states = vec![State::Unreached; index.len()];
    mark_of_roots(edges, &mut states);
    mark_cliques(edges, &mut states);
    let mut classes = vec![Class::DefinitelyLost; index.all_rows().count()];
    for (row, block) in index.all_rows() {
        classes[row] = match states[block] {
            State::Unreached => Class::DefinitelyLost,
            State::Indirect => Class::IndirectlyLost,
            State::Possible => Class::PossiblyLost,
            State::Reachable => Class::Reachable,
        };
    }
    classes
}

fn mark_of_roots(edges: &Edges, states: &mut [State]) {
    let mut stack = Vec::new();
    let mut from = edges.of_roots();
    let mut from_state = State::Reachable;
    loop {
        for edge in from {
            let state = &mut states[edge.to()];
            let better = if edge.is_start() { from_state } else { State::Possible };
            if better == State::Reachable && *state != State::Reachable || *state == State::Unreached {
                *state = better;
                stack.push(edge.to());
            }
        }
        let Some(next) = stack.pop() else { return };
        from = edges.of(next);
        from_state = states[next];
    }
}

fn mark_cliques(edges: &Edges, states: &mut [State]) {
    let mut stack = Vec::new();
    for leader in 0..states.len() {
        if states[leader] != State::Unreached {
            continue;
        }
        stack.push(leader);
        while let Some(block) = stack.pop() {
            for edge in edges.of(block) {
                let to = edge.to();
                if states[to] == State::Unreached && to != leader {
                    states[to] = State::Indirect;
                    stack.push(to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
