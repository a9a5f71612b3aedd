//! What each round of a loop takes over from the one before.
//!
//! ```text
//! before a round   every register holds the value of its own origin
//! an instruction   what it writes has the origins of all that it reads, with one more operation behind each
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

/// What a register holds: a chain per origin, in the order of origins. There are 64 registers, so there are never more.
type Held = Vec<Chain>;

/// The chains of a loop's warm blocks, as if these ran one after the other.
pub(super) fn chains(place: &Place<'_>) -> Vec<Chain> {
    let own = |origin: u8| vec![Chain { origin, ..Chain::default() }];
    let mut held: Vec<Held> = (0..64).map(own).collect();
    for (index, row) in place.instructions() {
        let written = Registers(row.writes.general().0 | row.writes.vector().0);
        if written.is_empty() {
            continue;
        }
        let after = follow(row, index, &held);
        // An access that moves its base adds to it, whatever else it does.
        let moved = row.memory.filter(|memory| memory.moves_base.is_some()).and_then(|memory| memory.base);
        for register in written.iter().filter(|register| Some(*register) != moved) {
            held[usize::from(register)].clone_from(&after);
        }
    }
    let own = |(register, chains): (usize, Held)| {
        let is_own = |chain: &Chain| usize::from(chain.origin) == register;
        chains.into_iter().find(is_own).filter(|chain| chain.length() > 0 || chain.is_mixed)
    };
    held.into_iter().enumerate().filter_map(own).collect()
}

/// What the written registers hold after an instruction.
fn follow(row: &Instruction, index: usize, held: &[Held]) -> Held {
    if row.sets.is_some() {
        return Held::new();
    }
    let from = |registers: Registers, change: &dyn Fn(&mut Chain)| {
        let mut all = Held::new();
        for register in registers.iter() {
            for &chain in held.get(usize::from(register)).into_iter().flatten() {
                let mut chain = chain;
                change(&mut chain);
                match all.binary_search_by_key(&chain.origin, |known| known.origin) {
                    Ok(at) if all[at].length() < chain.length() => all[at] = chain,
                    Ok(at) => all[at].is_mixed |= chain.is_mixed,
                    Err(at) => all.insert(at, chain),
                }
            }
        }
        all
    };
    let is_float = matches!(row.lanes, Lanes::ScalarFloat | Lanes::PackedFloat(_));
    let (general, vector) = (row.reads.general(), row.reads.vector());
    match row.operation {
        Operation::Copy if row.memory.is_some_and(|memory| memory.is_read) => {
            let registers =
                row.memory.into_iter().flat_map(|memory| memory.base.into_iter().chain(memory.index));
            let address = registers.fold(Registers::default(), Registers::with);
            match row.lanes {
                Lanes::General => from(address, &|chain| {
                    chain.loads += 1;
                    chain.last = index;
                }),
                _ => Held::new(),
            }
        }
        Operation::Copy => from(if is_float { vector } else { general }, &|_| {}),
        _ if is_float => from(vector, &|chain| {
            chain.float += 1;
            chain.last = index;
        }),
        Operation::Multiply => from(general, &|chain| {
            chain.multiplications += 1;
            chain.is_mixed = true;
            chain.last = index;
        }),
        Operation::Add => from(general, &|_| {}),
        _ => from(general, &|chain| chain.is_mixed = true),
    }
}
