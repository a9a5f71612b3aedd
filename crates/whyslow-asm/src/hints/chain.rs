//! What each round of a loop takes over from the one before.
//!
//! ```text
//! before a round   every register holds the value of its own origin
//! an instruction   what it writes has the origin of what it reads, with one more operation behind it
//! after a round    a register with its own origin and operations behind it is a chain: the next round waits for it
//! ```

use super::Place;
use crate::instruction::{Instruction, Lanes, Operation, Registers};

/// A register whose value is worked out from its value of the round before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Chain {
    origin: u8,
    /// Floating-point operations that follow each other.
    pub(super) float: usize,
    /// Integer multiplications that follow each other.
    pub(super) multiplications: usize,
    /// Loads whose addresses depend on each other.
    pub(super) loads: usize,
    /// Whether there is more in it than integer additions.
    pub(super) is_mixed: bool,
    /// The last instruction of it.
    pub(super) last: usize,
}

impl Chain {
    fn length(&self) -> usize {
        self.float + self.multiplications + self.loads
    }
}

/// The chains of a loop's warm blocks, as if these ran one after the other.
pub(super) fn chains(place: &Place<'_>) -> Vec<Chain> {
    let mut held: [Option<Chain>; 64] =
        std::array::from_fn(|origin| Some(Chain { origin: origin as u8, ..Chain::default() }));
    for (index, row) in place.instructions() {
        let after = follow(row, index, &held);
        let written = row.writes.general().iter().chain(row.writes.vector().iter());
        for register in written {
            held[usize::from(register)] = after;
        }
    }
    let own = |(register, chain): (usize, Option<Chain>)| {
        chain.filter(|chain| usize::from(chain.origin) == register && (chain.length() > 0 || chain.is_mixed))
    };
    held.into_iter().enumerate().filter_map(own).collect()
}

/// What the written registers hold after an instruction.
fn follow(row: &Instruction, index: usize, held: &[Option<Chain>; 64]) -> Option<Chain> {
    if row.sets.is_some() {
        return None;
    }
    let longest = |registers: Registers| {
        let chains =
            registers.iter().filter_map(|register| held.get(usize::from(register)).copied().flatten());
        // A register that is written again goes on with itself where that is as long.
        chains.max_by_key(|chain| (chain.length(), row.writes.has(chain.origin)))
    };
    let is_float = matches!(row.lanes, Lanes::ScalarFloat | Lanes::PackedFloat(_));
    match row.operation {
        Operation::Copy if row.memory.is_some_and(|memory| memory.is_read) => {
            let memory = row.memory?;
            let address =
                memory.base.into_iter().chain(memory.index).fold(Registers::default(), Registers::with);
            let chain = longest(address)?;
            (row.lanes == Lanes::General).then_some(Chain { loads: chain.loads + 1, last: index, ..chain })
        }
        Operation::Copy => longest(if is_float { row.reads.vector() } else { row.reads.general() }),
        _ if is_float => {
            let chain = longest(row.reads.vector())?;
            Some(Chain { float: chain.float + 1, last: index, ..chain })
        }
        Operation::Multiply => {
            let chain = longest(row.reads.general())?;
            let multiplications = chain.multiplications + 1;
            Some(Chain { multiplications, is_mixed: true, last: index, ..chain })
        }
        Operation::Add => longest(row.reads.general()),
        _ => longest(row.reads.general()).map(|chain| Chain { is_mixed: true, ..chain }),
    }
}
