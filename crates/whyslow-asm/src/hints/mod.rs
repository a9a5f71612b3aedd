//! What in hot loops costs more than it must.
//!
//! A hint is weighed by the samples of its loop, never by how often an instruction is written: a vectorised loop keeps a scalar
//! tail that hardly runs, and a check that never fails leads to code that never runs. So each loop is asked by itself, and of its blocks only
//! those whose instructions have samples like the rest of the loop.
//!
//! Families of hints are in files of their own; each looks at one [`Place`], which is a loop or what is in no loop, and adds what it finds.

mod arithmetic;
mod calls;
mod chain;
mod checks;
mod memory;
#[cfg(test)]
mod tests;

use whyslow_profile::Host;

use crate::body::Body;
use crate::instruction::Instruction;
use crate::weights::Weights;

/// A loop with less of the body's samples is not worth a word: a twentieth.
const NOTABLE_LOOP: u64 = 20;
/// An instruction that is slow by itself counts when it holds this part of its loop's samples: a tenth.
const NOTABLE_COST: u64 = 10;

/// So many instructions behind one that takes long have its samples: processors finish a few at a time.
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
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name for machines.
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$kind => $id,)*
                }
            }
        }
    };
}

kinds! {
    /// One number at a time where several would fit into a vector register.
    ScalarLoop "scalar-loop",
    /// Vectors smaller than those of the processor.
    NarrowVectors "narrow-vectors",
    /// Multiplications whose results are added, on a processor that does both at once.
    NoFusedMultiplyAdd "no-fused-multiply-add",
    /// Indices are checked against a length in every round.
    BoundsCheck "bounds-check",
    /// Sums and products are checked for overflow in every round.
    OverflowCheck "overflow-check",
    /// Divisions.
    Division "division",
    /// Square roots.
    SquareRoot "square-root",
    /// Calls of memcpy, memmove, memset, memcmp.
    MemoryCall "memory-call",
    /// Memory is allocated or freed.
    Allocation "allocation",
    /// Atomic operations.
    LockedInstruction "locked-instruction",
    /// Calls of whatever a pointer says.
    IndirectCall "indirect-call",
    /// Values are put on the stack and taken back in every round.
    Spills "spills",
    /// A small function is called that could be part of the loop.
    SmallCallee "small-callee",
    /// Another call in an innermost loop.
    CallInLoop "call-in-loop",
    /// Each access is far away from the one before.
    StridedAccess "strided-access",
    /// Vectors are put together from many places in memory.
    Gather "gather",
    /// Integers become floating-point numbers, or the other way round.
    FloatConversion "float-conversion",
    /// `rep movs` or `rep stos`.
    RepeatedString "repeated-string",
    /// Every round waits for the arithmetic of the one before.
    SerialChain "serial-chain",
    /// Every round waits for what the one before has loaded.
    PointerChase "pointer-chase",
    /// Jumps through a table.
    JumpTable "jump-table",
    /// A branch that the processor often guesses wrong.
    UnpredictableBranch "unpredictable-branch",
}

/// Why a compiler does not vectorise a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A check of each index may leave the loop.
    IndexChecks,
    /// Floating-point numbers are added in the order of the source.
    OrderOfSums,
}

/// Something that costs more than it must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// What it is about.
    pub kind: Kind,
    /// The loop; none for code outside of loops.
    pub in_loop: Option<usize>,
    /// Samples of that loop, with what it calls and without loops in it; 0 when nothing was sampled.
    pub loop_weight: u64,
    /// Samples of the instructions that show it. Where those are slow by themselves the next ones count too, because processors
    /// report what waits.
    pub weight: u64,
    /// The addresses of the instructions that show it.
    pub addresses: Vec<u64>,
    /// Why the compiler has left it so, where that is known.
    pub cause: Option<Cause>,
    /// What it is, in one sentence.
    pub sentence: String,
    /// What to do.
    pub advice: String,
}

/// What the machine that ran the code can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    features: Vec<String>,
}

impl Machine {
    /// By the kernel's names of what its processor has.
    pub fn new(features: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { features: features.into_iter().map(Into::into).collect() }
    }

    /// The machine of a recording. One that is not known can do the least.
    pub fn of(host: &Host) -> Self {
        Self { features: host.features.clone() }
    }

    fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }
}

/// Finds what costs more than it must, heaviest first. Without samples every loop counts as hot, and hints have no weight.
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

/// A loop without its inner loops, or what is in no loop.
struct Place<'b> {
    body: &'b Body,
    weights: &'b Weights,
    machine: &'b Machine,
    in_loop: Option<usize>,
    /// Samples of its blocks, with what they call.
    weight: u64,
    /// Blocks that run in most rounds.
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
        // A block whose instructions have less than an eighth of the samples of the loop's average instruction runs seldom.
        let is_warm = |block: usize| {
            !known
                || u128::from(of(block)) * u128::from(count) * 8
                    >= u128::from(weight.max(1)) * u128::from(size(block))
        };
        // Samples pile up behind what is slow; a block that no round can go around runs as often as that.
        let passed =
            in_loop.filter(|_| known).map(|index| body.passed_in_every_round(index)).unwrap_or_default();
        let is_warm = |block: usize| passed.contains(&block) || is_warm(block);
        let warm: Vec<usize> = blocks.iter().copied().filter(|&block| is_warm(block)).collect();
        let is_innermost = in_loop.is_some_and(|index| body.loops[index].is_innermost);
        Self { body, weights, machine, in_loop, weight, warm, is_innermost }
    }

    fn add_hints(&self, found: &mut Vec<Hint>) {
        calls::add(self, found);
        arithmetic::add(self, found);
        if self.in_loop.is_some() {
            checks::add(self, found);
            memory::add(self, found);
        }
    }

    /// The instructions of warm blocks, with their numbers.
    fn instructions(&self) -> impl Iterator<Item = (usize, &'b Instruction)> + '_ {
        let ranges = self.warm.iter().map(|&block| self.body.blocks[block].instructions.clone());
        ranges.flatten().map(|index| (index, &self.body.instructions[index]))
    }

    /// Whether there is a call in a warm block.
    fn calls_something(&self) -> bool {
        self.instructions().any(|(_, row)| row.is_call())
    }

    /// Numbers of the instructions that are like this.
    fn like(&self, is: impl Fn(&Instruction) -> bool) -> Vec<usize> {
        self.instructions().filter(|(_, row)| is(row)).map(|(index, _)| index).collect()
    }

    fn hint(&self, kind: Kind, shown_by: &[usize], sentence: String, advice: &str) -> Hint {
        let weight = shown_by.iter().map(|&index| self.weights.at(index)).fold(0, u64::saturating_add);
        Hint {
            kind,
            in_loop: self.in_loop,
            loop_weight: self.weight,
            weight,
            addresses: shown_by.iter().map(|&index| self.body.instructions[index].address).collect(),
            cause: None,
            sentence,
            advice: advice.to_owned(),
        }
    }

    /// A hint about instructions that are slow by themselves, if they hold enough of the samples. Those behind such an instruction
    /// count with it: that is where samples of one that takes long are taken.
    fn costly(&self, kind: Kind, shown_by: &[usize], sentence: String, advice: &str) -> Option<Hint> {
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
