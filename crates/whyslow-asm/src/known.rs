//! The values of registers before each instruction, as far as they are the same on all paths: addresses of
//! functions that were loaded from the GOT before a loop, and sizes passed to `memcpy`.

use crate::graph::Block;
use crate::instruction::{Instruction, Operation, Registers, Step, Value};

/// The number of general registers.
const COUNT: usize = 32;

/// The value of each general register; `None` if unknown.
pub(crate) type State = [Option<Value>; COUNT];

/// The register values at the start of each block. Each entry of a state is set at most once and cleared at
/// most once, so each block is visited a bounded number of times.
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
    // Nothing is known at the start of a function, of a switch case or of a panic handler.
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

/// Applies an instruction to the state.
pub(crate) fn pass(row: &Instruction, state: &mut State, changed_by_calls: Registers) {
    let changed = if row.is_call() { Registers(row.writes.0 | changed_by_calls.0) } else { row.writes };
    let value = if row.is_call() { None } else { row.sets.or_else(|| followed(row, state)) };
    let base = row.memory.filter(|memory| memory.moves_base.is_some()).and_then(|memory| memory.base);
    for register in changed.general().iter() {
        state[usize::from(register)] = value.filter(|_| base != Some(register));
    }
}

/// The result of an instruction on a known address: processors with short instructions build addresses in two
/// steps.
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

/// Keeps the values that both states agree on. Returns whether any was dropped.
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
