//! What registers hold before each instruction, as far as that is the same on all ways there: the addresses of functions that
//! were loaded from the GOT before a loop, and sizes that are given to `memcpy`.

use crate::graph::Block;
use crate::instruction::{Instruction, Operation, Registers, Step, Value};

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
    let value = if row.is_call() { None } else { row.sets.or_else(|| followed(row, state)) };
    let base = row.memory.filter(|memory| memory.moves_base.is_some()).and_then(|memory| memory.base);
    for register in changed.general().iter() {
        state[usize::from(register)] = value.filter(|_| base != Some(register));
    }
}

/// What an instruction makes of an address that is known: processors whose instructions are short put addresses together in two steps.
fn followed(row: &Instruction, state: &State) -> Option<Value> {
    let address = |register: u8| match state.get(usize::from(register)) {
        Some(Some(Value::Address(address))) => Some(*address),
        _ => None,
    };
    match (row.step, row.memory, row.operation) {
        (Some(Step::By(bytes)), None, _) => {
            let only = row.writes.general();
            Some(Value::Address(address(only.iter().next()?)?.wrapping_add_signed(bytes)))
        }
        (_, Some(memory), Operation::Copy)
            if memory.is_read && memory.index.is_none() && memory.size == 8 =>
        {
            Some(Value::LoadedFrom(address(memory.base?)?.wrapping_add_signed(memory.displacement)))
        }
        _ => None,
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
