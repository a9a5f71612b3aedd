//! What registers hold before each instruction, as far as that is the same on all ways there: the addresses of functions that
//! were loaded from the GOT before a loop, and sizes that are given to `memcpy`.

use crate::graph::Block;
use crate::instruction::{Instruction, Registers, Value};

/// General registers.
const COUNT: usize = 32;

/// What each general register holds; `None` when it is not known.
pub(crate) type State = [Option<Value>; COUNT];

/// What registers hold where each block starts. Every entry of a state is set once and lowered once at most, so each block is looked at
/// a bounded number of times.
pub(crate) fn at_starts(
    instructions: &[Instruction],
    blocks: &[Block],
    changed_by_calls: Registers,
) -> Vec<State> {
    let mut reached: Vec<Option<State>> = vec![None; blocks.len()];
    let mut has_entry = vec![false; blocks.len()];
    for &to in blocks.iter().flat_map(|block| &block.next) {
        has_entry[to] = true;
    }
    // Nothing is known where a function, a case of a switch or the handler of a panic starts.
    let mut work: Vec<usize> =
        (0..blocks.len()).rev().filter(|&block| block == 0 || !has_entry[block]).collect();
    for &block in &work {
        reached[block] = Some([None; COUNT]);
    }
    while let Some(block) = work.pop() {
        let Some(mut state) = reached[block] else { continue };
        for row in &instructions[blocks[block].instructions.clone()] {
            pass(row, &mut state, changed_by_calls);
        }
        for &next in &blocks[block].next {
            let lowered = match &mut reached[next] {
                Some(known) => meet(known, &state),
                unreached => {
                    *unreached = Some(state);
                    true
                }
            };
            if lowered {
                work.push(next);
            }
        }
    }
    reached.into_iter().map(|state| state.unwrap_or([None; COUNT])).collect()
}

/// What an instruction changes.
pub(crate) fn pass(row: &Instruction, state: &mut State, changed_by_calls: Registers) {
    let changed = if row.is_call() { Registers(row.writes.0 | changed_by_calls.0) } else { row.writes };
    for register in changed.general().iter() {
        state[usize::from(register)] = row.sets.filter(|_| !row.is_call());
    }
}

/// Keeps what both know; says whether that is less than before.
fn meet(known: &mut State, other: &State) -> bool {
    let mut lowered = false;
    for (known, other) in known.iter_mut().zip(other) {
        if known.is_some() && known != other {
            *known = None;
            lowered = true;
        }
    }
    lowered
}
