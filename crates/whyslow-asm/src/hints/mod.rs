//! Hints: avoidable costs in hot loops.
//!
//! A hint is weighted by the samples of its loop, never by how many instructions show it: a vectorised loop
//! keeps a scalar tail that hardly runs, and a check that never fails leads to code that never runs. So each
//! loop is examined separately, and only those of its blocks whose instructions have about as many samples as
//! the rest of the loop.
//!
//! Each family of hints has its own file. It examines one [`Place`], which is a loop or the code outside
//! loops, and adds the hints it finds.

mod advice;
mod arithmetic;
mod calls;
mod chain;
mod checks;
mod counted;
mod memory;
mod spin;
#[cfg(test)]
mod tests;

use whyslow_profile::Host;

pub use self::advice::Advice;
pub(crate) use self::arithmetic::{computes, in_the_way, packed};
use crate::body::Body;
use crate::instruction::Instruction;
use crate::weights::Weights;

/// The smallest part of the body's samples of a loop with hints: a twentieth.
const NOTABLE_LOOP: u64 = 20;
/// The smallest part of the loop's samples of a slow instruction: a tenth.
const NOTABLE_COST: u64 = 10;

/// Samples of a slow instruction fall on up to this many instructions after it, because processors retire a
/// few at a time.
pub const LATE: usize = 2;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $id:literal,)*) => {
        /// What a hint is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its id in JSON.
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$kind => $id,)*
                }
            }
        }
    };
}

kinds! {
    /// One number at a time although several would fit into a vector register.
    ScalarLoop "scalar-loop",
    /// Vectors narrower than those of the processor.
    NarrowVectors "narrow-vectors",
    /// A multiplication and an addition, on a processor that can do both in one instruction.
    NoFusedMultiplyAdd "no-fused-multiply-add",
    /// Indices are checked against a length in every iteration.
    BoundsCheck "bounds-check",
    /// Sums and products are checked for overflow in every iteration.
    OverflowCheck "overflow-check",
    /// Divisions.
    Division "division",
    /// Square roots.
    SquareRoot "square-root",
    /// Calls to memcpy, memmove, memset, memcmp.
    MemoryCall "memory-call",
    /// Memory is allocated or freed.
    Allocation "allocation",
    /// Atomic operations.
    LockedInstruction "locked-instruction",
    /// Calls through a pointer.
    IndirectCall "indirect-call",
    /// Values are stored to the stack and loaded again in every iteration.
    Spills "spills",
    /// A call to a small function that could be inlined.
    SmallCallee "small-callee",
    /// Another call in an innermost loop.
    CallInLoop "call-in-loop",
    /// Each access is far from the previous one.
    StridedAccess "strided-access",
    /// Vectors are gathered from many places in memory.
    Gather "gather",
    /// Conversions between integers and floating-point numbers.
    FloatConversion "float-conversion",
    /// `rep movs` or `rep stos`.
    RepeatedString "repeated-string",
    /// Each iteration waits for the arithmetic of the previous one.
    SerialChain "serial-chain",
    /// Each iteration waits for an address that the previous one loaded.
    PointerChase "pointer-chase",
    /// Jumps through a table.
    JumpTable "jump-table",
    /// The loop only looks at memory until another thread changes it.
    SpinWait "spin-wait",
    /// A branch that the processor often mispredicts.
    UnpredictableBranch "unpredictable-branch",
}

/// Why a loop is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A check of each index may leave the loop, so the compiler did not vectorise it.
    IndexChecks,
    /// A check of each result for overflow may leave the loop, so the compiler did not vectorise it.
    OverflowChecks,
    /// It may end the program in the middle of the loop, so the compiler did not vectorise it.
    EarlyExit,
    /// Floating-point numbers are added in the order of the source, so the compiler did not vectorise it.
    OrderOfSums,
    /// Each result is computed from the previous one by more than one kind of operation, as in a hash or a
    /// polynomial. Several accumulators would change the result.
    Recurrence,
    /// Each iteration looks up the next state by the current one and the input, as in an automaton.
    StateTable,
    /// It computes little for the memory that it reads and writes.
    FewOperations,
    /// The checked index depends on data, as in a table of states or a merge. No iterator replaces it.
    IndexFromData,
    /// Each iteration waits for the previous one, and the processor executes the checks in that time.
    HiddenByChain,
}

/// An avoidable cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// What it is about.
    pub kind: Kind,
    /// The loop; none for code outside loops.
    pub in_loop: Option<usize>,
    /// Samples of that loop, including callees, without inner loops; 0 without samples.
    pub loop_weight: u64,
    /// Samples of the instructions that show it. For slow instructions the next ones count too, because
    /// samples fall on the instruction that waits.
    pub weight: u64,
    /// The addresses of the instructions that show it.
    pub addresses: Vec<u64>,
    /// Why the code is so, if known.
    pub cause: Option<Cause>,
    /// What it is, in one sentence.
    pub sentence: String,
    /// What to do.
    pub advice: Advice,
}

/// The capabilities of the machine that ran the code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    features: Vec<String>,
}

impl Machine {
    /// A machine with these processor features, by the kernel's names.
    pub fn new(features: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { features: features.into_iter().map(Into::into).collect() }
    }

    /// The machine of a recording. An unknown one has no features.
    pub fn of(host: &Host) -> Self {
        Self { features: host.features.clone() }
    }

    /// The widest vectors of the processor in bytes; `None` if its features are unknown. Early processors with AVX have
    /// wide vectors for floating-point numbers only.
    pub fn vector_bytes(&self, are_integers: bool) -> Option<u8> {
        if self.features.is_empty() {
            None
        } else if self.has("avx512f") {
            Some(64)
        } else if self.has("avx2") || (self.has("avx") && !are_integers) {
            Some(32)
        } else {
            Some(16)
        }
    }

    fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }
}

/// Finds avoidable costs, heaviest first. Without samples, every loop counts as hot and hints have no weight.
pub fn hints(body: &Body, weights: &Weights, machine: &Machine) -> Vec<Hint> {
    let mut found = Vec::new();
    let total = weights.total().max(1);
    let is_known = weights.are_known();
    let is_notable = |place: &Place<'_>| place.weight.saturating_mul(NOTABLE_LOOP) >= total;
    for (index, in_loop) in body.loops.iter().enumerate() {
        let place = Place::new(body, weights, machine, Some(index), &in_loop.blocks);
        if !is_known || is_notable(&place) {
            place.add_hints(&mut found);
        }
    }
    let outside: Vec<usize> =
        (0..body.blocks.len()).filter(|&block| body.blocks[block].in_loop.is_none()).collect();
    let place = Place::new(body, weights, machine, None, &outside);
    if is_known && is_notable(&place) {
        place.add_hints(&mut found);
    }
    found.sort_by_key(|hint| {
        (std::cmp::Reverse(hint.loop_weight), hint.in_loop, std::cmp::Reverse(hint.weight), hint.kind)
    });
    found
}

/// A loop without its inner loops, or the code outside loops.
struct Place<'b> {
    body: &'b Body,
    weights: &'b Weights,
    machine: &'b Machine,
    in_loop: Option<usize>,
    /// Samples of its blocks, including callees.
    weight: u64,
    /// Blocks that run in most iterations.
    warm: Vec<usize>,
    is_innermost: bool,
}

impl<'b> Place<'b> {
    fn new(
        body: &'b Body,
        weights: &'b Weights,
        machine: &'b Machine,
        in_loop: Option<usize>,
        blocks: &[usize],
    ) -> Self {
        let size = |block: usize| body.blocks[block].instructions.len() as u64;
        let of = |block: usize| {
            let range = body.blocks[block].instructions.clone();
            range.map(|index| weights.at(index)).fold(0, u64::saturating_add)
        };
        let known = weights.are_known();
        let (weight, count) = blocks.iter().fold((0_u64, 0_u64), |(weight, count), &block| {
            (weight.saturating_add(of(block)), count + size(block))
        });
        // A block runs rarely if its instructions have less than an eighth of the samples of the loop's
        // average instruction.
        let is_warm = |block: usize| {
            !known
                || u128::from(of(block)) * u128::from(count) * 8
                    >= u128::from(weight.max(1)) * u128::from(size(block))
        };
        // Samples pile up after slow instructions. A block that no iteration can skip runs as often as the
        // loop, even with few samples.
        let passed =
            in_loop.filter(|_| known).map(|index| body.blocks_of_every_iteration(index)).unwrap_or_default();
        let is_warm = |block: usize| passed.contains(&block) || is_warm(block);
        let warm: Vec<usize> = blocks.iter().copied().filter(|&block| is_warm(block)).collect();
        let is_innermost = in_loop.is_some_and(|index| body.loops[index].is_innermost);
        Self { body, weights, machine, in_loop, weight, warm, is_innermost }
    }

    fn add_hints(&self, found: &mut Vec<Hint>) {
        calls::add(self, found);
        arithmetic::add(self, found);
        if self.in_loop.is_some() {
            let waits = found.iter().any(|hint| {
                hint.in_loop == self.in_loop && matches!(hint.kind, Kind::PointerChase | Kind::SerialChain)
            });
            checks::add(self, waits, found);
            memory::add(self, found);
            found.extend(spin::spin_wait(self));
        }
    }

    /// The instructions of warm blocks, with their indices.
    fn instructions(&self) -> impl Iterator<Item = (usize, &'b Instruction)> + '_ {
        let ranges = self.warm.iter().map(|&block| self.body.blocks[block].instructions.clone());
        ranges.flatten().map(|index| (index, &self.body.instructions[index]))
    }

    /// Whether there is a call in a warm block.
    fn calls_something(&self) -> bool {
        self.instructions().any(|(_, row)| row.is_call())
    }

    /// Indices of the instructions that `is` accepts.
    fn like(&self, is: impl Fn(&Instruction) -> bool) -> Vec<usize> {
        self.instructions().filter(|(_, row)| is(row)).map(|(index, _)| index).collect()
    }

    fn hint(&self, kind: Kind, shown_by: &[usize], sentence: String, advice: Advice) -> Hint {
        let weight = shown_by.iter().map(|&index| self.weights.at(index)).fold(0, u64::saturating_add);
        Hint {
            kind,
            in_loop: self.in_loop,
            loop_weight: self.weight,
            weight,
            addresses: shown_by.iter().map(|&index| self.body.instructions[index].address).collect(),
            cause: None,
            sentence,
            advice,
        }
    }

    /// A hint about slow instructions, if they have enough of the samples. The instructions after a slow one
    /// count with it, because its samples fall there.
    fn costly(&self, kind: Kind, shown_by: &[usize], sentence: String, advice: Advice) -> Option<Hint> {
        if shown_by.is_empty() {
            return None;
        }
        let mut counted: Vec<usize> = shown_by.iter().flat_map(|&index| index..=index + LATE).collect();
        counted.sort_unstable();
        counted.dedup();
        counted.retain(|index| *index < self.body.instructions.len());
        let weight = counted.iter().map(|&index| self.weights.at(index)).fold(0, u64::saturating_add);
        let enough = !self.weights.are_known() || weight.saturating_mul(NOTABLE_COST) >= self.weight.max(1);
        enough.then(|| Hint { weight, ..self.hint(kind, shown_by, sentence, advice) })
    }

    /// "The loop" or "The function".
    fn subject(&self) -> &'static str {
        match (self.in_loop, self.is_innermost) {
            (Some(_), true) => "The innermost loop",
            (Some(_), false) => "The loop",
            (None, _) => "The function",
        }
    }
}

/// "a division" or "3 divisions".
fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { one.to_owned() } else { format!("{number} {many}") }
}
