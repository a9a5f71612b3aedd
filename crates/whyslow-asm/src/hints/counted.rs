//! Registers that follow from the number of iterations alone: counters, and sums of them and of what does not change.

use super::Place;
use crate::instruction::{Instruction, Operation, Registers, Step};

/// What is known of the registers in a loop.
pub(super) struct Counted {
    /// Registers that change.
    changed: Registers,
    /// Those of them that do not follow from the number of iterations.
    by_data: Registers,
}

impl Counted {
    /// Whether an instruction uses a counter, and nothing else that changes.
    pub(super) fn count(&self, row: &Instruction) -> bool {
        let used = row.reads.general().and(self.changed);
        !used.is_empty() && used.and(self.by_data).is_empty()
    }
}

/// Finds the counters of an innermost loop. In other loops, all registers that change count as data.
pub(super) fn counted(place: &Place<'_>) -> Counted {
    let body = place.body;
    let all = place.in_loop.map_or(&[][..], |index| &body.loops[index].blocks);
    let rows = || all.iter().flat_map(|&block| body.blocks[block].instructions.clone());
    let changed = rows().fold(0, |changed, at| changed | body.instructions[at].writes.0);
    let changed = Registers(changed).general();
    let Some(index) = place.in_loop.filter(|_| place.is_innermost) else {
        return Counted { changed, by_data: changed };
    };
    let passed = body.blocks_of_every_iteration(index);
    let is_passed = |at: usize| body.block_of(at).is_some_and(|block| passed.contains(&block));
    let mut by_data = Registers::default();
    // Each round finds registers that use those of the round before.
    loop {
        let before = by_data;
        for at in rows() {
            let row = &body.instructions[at];
            if !is_passed(at) || !is_sum(row, changed, by_data) {
                by_data = Registers(by_data.0 | row.writes.general().0);
            }
        }
        if by_data == before {
            return Counted { changed, by_data };
        }
    }
}

/// Whether what an instruction writes is a sum of counters, constants and registers that do not change.
fn is_sum(row: &Instruction, changed: Registers, by_data: Registers) -> bool {
    let used = row.reads.general();
    match row.step {
        Some(Step::By(_)) => true,
        Some(Step::ByRegister(by)) => !changed.has(by),
        None => {
            // A sum with a carry and a conditional copy depend on a comparison.
            let is_conditional = row.reads.has(Registers::FLAGS);
            let adds = matches!(row.operation, Operation::Copy | Operation::Add) && !is_conditional;
            adds && row.memory.is_none_or(|memory| !memory.is_read) && used.and(by_data).is_empty()
        }
    }
}
