//! Dependency chains: what each iteration of a loop needs from the previous one.
//!
//! ```text
//! before an iteration   each register has itself as its only origin
//! an instruction        gives the written registers the origins of all registers it reads, with one more operation for each
//! after an iteration    a register that is its own origin, with operations in between, is a chain: the next iteration waits for it
//! ```

use super::Place;
use crate::instruction::{Instruction, Lanes, Memory, Operation, Registers};

/// A register whose value depends on its own value in the previous iteration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Chain {
    origin: u8,
    /// Dependent floating-point operations.
    pub(super) float: usize,
    /// Dependent integer multiplications.
    pub(super) multiplications: usize,
    /// Loads whose addresses depend on each other.
    pub(super) loads: usize,
    /// Whether it contains more than integer additions.
    pub(super) is_mixed: bool,
    /// The kinds of operations between the two values, a bit each.
    operations: u8,
    /// Whether other values of the same iteration go into its addresses.
    pub(super) is_joined: bool,
    /// Its last instruction.
    pub(super) last: usize,
}

const ADDS: u8 = 1;
const MULTIPLIES: u8 = 2;
const FUSES: u8 = 4;
const OTHERS: u8 = 8;

fn bit(operation: Operation) -> u8 {
    match operation {
        Operation::Add => ADDS,
        Operation::Multiply => MULTIPLIES,
        Operation::MultiplyAdd => FUSES,
        _ => OTHERS,
    }
}

impl Chain {
    /// Whether it is a sum or a product: the order of its parts does not matter, but for rounding.
    pub(super) fn is_reduction(&self) -> bool {
        [ADDS, MULTIPLIES, FUSES].contains(&self.operations)
    }

    fn length(&self) -> usize {
        self.float + self.multiplications + self.loads
    }
}

/// The chains that a register depends on, one per origin, in the order of origins. There are at most 64, one
/// per register.
type Held = Vec<Chain>;

/// The chains of a loop's warm blocks, as if the blocks ran one after the other.
pub(super) fn chains(place: &Place<'_>) -> Vec<Chain> {
    let own = |origin: u8| vec![Chain { origin, ..Chain::default() }];
    let mut held: Vec<Held> = (0..64).map(own).collect();
    let changed = place.instructions().fold(0, |changed, (_, row)| changed | row.writes.0);
    let changed = Registers(changed).general();
    for (index, row) in place.instructions() {
        let written = Registers(row.writes.general().0 | row.writes.vector().0);
        if written.is_empty() {
            continue;
        }
        let after = follow(row, index, &held, changed);
        // An access that moves its base adds to it; that is not a chain.
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

/// The registers of an address.
fn address(memory: Memory) -> Registers {
    memory.base.into_iter().chain(memory.index).fold(Registers::default(), Registers::with)
}

/// The chains of the written registers after an instruction. The loop changes the registers `changed`.
fn follow(row: &Instruction, index: usize, held: &[Held], changed: Registers) -> Held {
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
                    Ok(at) => {
                        let (mixed, joined) = (all[at].is_mixed, all[at].is_joined);
                        let operations = all[at].operations | chain.operations;
                        if all[at].length() < chain.length() {
                            all[at] = chain;
                        }
                        all[at].operations = operations;
                        all[at].is_mixed |= mixed | chain.is_mixed;
                        all[at].is_joined |= joined | chain.is_joined;
                    }
                    Err(at) => all.insert(at, chain),
                }
            }
        }
        all
    };
    let is_float = matches!(row.lanes, Lanes::ScalarFloat | Lanes::PackedFloat(_));
    let (general, vector) = (row.reads.general(), row.reads.vector());
    // A value of this iteration that is not of the chain itself.
    let joins = |registers: Registers| registers.and(changed).iter().count() > 1;
    let operation = bit(row.operation);
    match row.operation {
        Operation::Copy if row.memory.is_some_and(|memory| memory.is_read) => match row.lanes {
            Lanes::General => {
                let address = row.memory.map(address).unwrap_or_default();
                from(address, &|chain| {
                    chain.loads += 1;
                    chain.is_joined |= joins(address);
                    chain.last = index;
                })
            }
            _ => Held::new(),
        },
        Operation::Copy => from(if is_float { vector } else { general }, &|_| {}),
        _ if is_float => from(vector, &|chain| {
            chain.float += 1;
            chain.operations |= operation;
            chain.last = index;
        }),
        Operation::Multiply => from(general, &|chain| {
            chain.multiplications += 1;
            chain.is_mixed = true;
            chain.operations |= operation;
            chain.last = index;
        }),
        Operation::Add => from(general, &|chain| {
            chain.operations |= operation;
            chain.is_joined |= joins(general);
        }),
        _ => from(general, &|chain| {
            chain.is_mixed = true;
            chain.operations |= operation;
            chain.is_joined |= joins(general);
        }),
    }
}
