//! Arithmetic hints: scalar loops, narrow vectors, slow operations, and dependency chains.

use super::chain::{Chain, chains};
use super::checks::OVERFLOW;
use super::memory::strided;
use super::{Advice, Cause, Hint, Kind, Machine, Place, count};
use crate::body::Body;
use crate::callee::{Purpose, purpose};
use crate::instruction::{Flow, Instruction, Lanes, Operation, Registers};
use crate::vectors::Obstacle;
use crate::weights::Weights;

pub(super) fn add(place: &Place<'_>, found: &mut Vec<Hint>) {
    slow_operations(place, found);
    if place.in_loop.is_none() {
        return;
    }
    let rows = place.like(|_| true);
    let packed = packed(&place.body.instructions, &rows);
    found.extend(narrow_vectors(place, &packed));
    found.extend(no_fused_multiply_add(place));
    if !place.is_innermost || place.calls_something() {
        return;
    }
    let chains = chains(place);
    let chase = pointer_chase(place, &chains);
    let waits_for_others = place.instructions().any(|(_, row)| row.is_locked);
    if packed.is_empty() && chase.is_none() && !waits_for_others && strided(place).is_none() {
        found.extend(scalar_floats(place, &chains).or_else(|| scalar_integers(place, &chains)));
    }
    found.extend(chase);
    found.extend(serial_chain(place, &chains));
}

/// Those of the rows that compute with vectors. Beside numbers in vector registers, an operation on bits is no
/// vector code: it clears a register or a sign.
pub(crate) fn packed(instructions: &[Instruction], rows: &[usize]) -> Vec<usize> {
    let like = |is: &dyn Fn(&Instruction) -> bool| -> Vec<usize> {
        rows.iter().copied().filter(|&row| is(&instructions[row])).collect()
    };
    let packed = like(&|row| row.lanes.vector_bytes().is_some() && computes(row));
    let is_bits = |row: &usize| instructions[*row].operation == Operation::Bits;
    let has_numbers = !like(&|row| row.lanes == Lanes::ScalarFloat && computes(row)).is_empty();
    if has_numbers && packed.iter().all(is_bits) { Vec::new() } else { packed }
}

pub(crate) fn computes(row: &Instruction) -> bool {
    matches!(
        row.operation,
        Operation::Add
            | Operation::Multiply
            | Operation::MultiplyAdd
            | Operation::Divide
            | Operation::SquareRoot
            | Operation::Bits
            | Operation::Convert
            | Operation::Gather
    )
}

const FLOAT_DIVISION: Advice = Advice::general(
    "Multiply by the reciprocal if the divisor does not change and the last digit may differ.",
)
.native("Multiply by the reciprocal if the divisor does not change and the last digit may differ; `-freciprocal-math` does that.")
.fortran("Multiply by the reciprocal if the divisor does not change and the last digit may differ; `-freciprocal-math` does that.");

const DIVISION: Advice = Advice::general(
    "Divide by a constant or a power of two, use a smaller type (32 bits are faster than 64), or compute the reciprocal of a \
     loop-invariant divisor once before the loop.",
)
.rust(
    "Divide by a constant or a power of two, use a smaller type (`u32` is faster than `u64`), or compute the reciprocal of a \
     loop-invariant divisor once before the loop.",
)
.native(
    "Divide by a constant or a power of two, use a smaller type (`uint32_t` is faster than `uint64_t`), or compute the \
     reciprocal of a loop-invariant divisor once before the loop.",
);

const ATOMICS: Advice = Advice::general(
    "Count in a local variable and add it once, or give each thread its own counter.",
)
.rust(
    "Borrow instead of cloning an `Arc`, count in a local variable and add it once, or give each thread its own counter.",
)
.native(
    "Pass a `shared_ptr` by reference, count in a local variable and add it once, or give each thread its own counter.",
);

const REPEATED_STRING: Advice =
    Advice::general("Copy or fill larger pieces at once, or copy small ones as values.")
        .rust("Call `copy_from_slice` or `fill` for larger pieces, or copy small ones as values.")
        .native("Call `memcpy` or `memset` for larger pieces, or copy small ones as values.");

fn slow_operations(place: &Place<'_>, found: &mut Vec<Hint>) {
    let of = |operation: Operation| place.like(|row| row.operation == operation);
    let divisions = of(Operation::Divide);
    let are_floats = divisions.iter().all(|&index| place.body.instructions[index].lanes != Lanes::General);
    found.extend(place.costly(
        Kind::Division,
        &divisions,
        format!("{} has {}.", place.subject(), count(divisions.len(), "a division", "divisions")),
        if are_floats { FLOAT_DIVISION } else { DIVISION },
    ));
    let roots = of(Operation::SquareRoot);
    found.extend(place.costly(
        Kind::SquareRoot,
        &roots,
        format!("{} takes {}.", place.subject(), count(roots.len(), "a square root", "square roots")),
        Advice::general("Compare squares instead of distances, or take the root once at the end."),
    ));
    let conversions = of(Operation::Convert);
    found.extend(place.costly(
        Kind::FloatConversion,
        &conversions,
        format!(
            "{} converts between integers and floating-point numbers ({}).",
            place.subject(),
            count(conversions.len(), "once per iteration", "times per iteration")
        ),
        Advice::general("Keep the data in one of the two types, or convert it once before the loop."),
    ));
    let locked = place.like(|row| row.is_locked);
    found.extend(place.costly(
        Kind::LockedInstruction,
        &locked,
        format!(
            "{} has {}.",
            place.subject(),
            count(locked.len(), "an atomic operation", "atomic operations")
        ),
        ATOMICS,
    ));
    let repeated = of(Operation::RepeatedString);
    found.extend(place.costly(
        Kind::RepeatedString,
        &repeated,
        format!(
            "{} copies or fills memory with a repeated string instruction, which is slow to start.",
            place.subject()
        ),
        REPEATED_STRING,
    ));
}

/// Whether these are at least an eighth of the loop's instructions. Fewer are not worth another build.
fn is_mostly(place: &Place<'_>, shown_by: &[usize]) -> bool {
    shown_by.len() * 8 >= place.instructions().count()
}

/// A loop with fewer operations for each access to memory waits for memory, unless its data is in a cache.
const OPERATIONS_PER_ACCESS: usize = 2;

const NARROW_VECTORS: Advice =
    Advice::general("Compile it for this processor, or for the machines it will run on (x86-64-v3).")
        .rust(
            "Build with `-C target-cpu=native`, or for the machines it will run on (`-C target-cpu=x86-64-v3`), or choose at run \
             time (`multiversion`, `is_x86_feature_detected!`).",
        )
        .native(
            "Build with `-O3 -march=native`, or for the machines it will run on (`-march=x86-64-v3`), or choose at run time \
             (`__attribute__((target_clones(\"avx2\", \"default\")))`).",
        )
        .fortran(
            "Build with `-O3 -march=native`, or for the machines it will run on (`-march=x86-64-v3`).",
        );

fn narrow_vectors(place: &Place<'_>, packed: &[usize]) -> Option<Hint> {
    let rows = || packed.iter().map(|&index| &place.body.instructions[index]);
    let widest = rows().filter_map(|row| row.lanes.vector_bytes()).max()?;
    if place.instructions().any(|(_, row)| row.operation == Operation::Cipher) {
        return None;
    }
    // The width that the compiler uses with `target-cpu=native`. 64 bytes are rarely worth it, and the
    // compiler does not choose them by itself.
    let (needed, can) = match rows().any(|row| matches!(row.lanes, Lanes::PackedInteger(_))) {
        true => ("avx2", 32),
        false => ("avx", 32),
    };
    let has = if place.machine.has("avx512f") { 64 } else { can };
    // Wider vectors do not make memory faster.
    let accesses = place.like(|row| row.memory.is_some() && row.lanes.vector_bytes().is_some()).len();
    let cause = (packed.len() < OPERATIONS_PER_ACCESS * accesses).then_some(Cause::FewOperations);
    (widest < can && place.machine.has(needed) && is_mostly(place, packed)).then(|| Hint {
        cause,
        ..place.hint(
            Kind::NarrowVectors,
            packed,
            format!(
                "{} computes with {widest}-byte vectors; the processor has {has}-byte ones.",
                place.subject()
            ),
            NARROW_VECTORS,
        )
    })
}

const FUSED: Advice =
    Advice::general("Compile it for a processor with fused multiply-add; the last digit may differ.")
        .rust(
            "Write `a.mul_add(b, c)` and build with `-C target-feature=+fma` or `target-cpu=native`; Rust never fuses them by \
             itself, because the last digit may differ.",
        )
        .native(
            "Build with `-O3 -march=native` or `-mfma`: then the compiler fuses `a * b + c`, and the last digit may differ.",
        )
        .fortran(
            "Build with `-O3 -march=native` or `-mfma`: then the compiler fuses `a * b + c`, and the last digit may differ.",
        )
        .go("Build with `GOAMD64=v3`, or write `math.FMA(a, b, c)`; the last digit may differ.");

fn no_fused_multiply_add(place: &Place<'_>) -> Option<Hint> {
    /// A sum follows its product within this many instructions.
    const NEAR: usize = 12;
    let can = place.machine.has("fma") || place.machine.has("asimd");
    if !can || place.instructions().any(|(_, row)| row.operation == Operation::MultiplyAdd) {
        return None;
    }
    let is_float = |row: &Instruction| matches!(row.lanes, Lanes::ScalarFloat | Lanes::PackedFloat(_));
    let rows: Vec<(usize, &Instruction)> = place.instructions().collect();
    let mut pairs = Vec::new();
    for (at, (index, product)) in rows.iter().enumerate() {
        if product.operation != Operation::Multiply || !is_float(product) {
            continue;
        }
        let result = product.writes.vector();
        for (sum_index, sum) in rows[at + 1..].iter().take(NEAR) {
            let uses = !sum.reads.vector().and(result).is_empty();
            if uses && sum.operation == Operation::Add && is_float(sum) {
                pairs.extend([*index, *sum_index]);
                break;
            }
            if !sum.writes.vector().and(result).is_empty() {
                break;
            }
        }
    }
    let number = pairs.len() / 2;
    pairs.sort_unstable();
    pairs.dedup();
    (number > 0 && is_mostly(place, &pairs)).then(|| {
        place.hint(
            Kind::NoFusedMultiplyAdd,
            &pairs,
            format!(
                "{} multiplies and then adds ({}); the processor does both in one instruction.",
                place.subject(),
                count(number, "one pair", "pairs")
            ),
            FUSED,
        )
    })
}

fn scalar_floats(place: &Place<'_>, chains: &[Chain]) -> Option<Hint> {
    /// At least one of this many instructions has to compute.
    const DENSE: usize = 8;
    let scalar_rows = place.like(|row| row.lanes == Lanes::ScalarFloat && computes(row));
    let all = place.instructions().count();
    if scalar_rows.is_empty() || scalar_rows.len() * DENSE < all || !reads_an_array(place) {
        return None;
    }
    // Cases by the data have no vector form.
    if place.warm.len() > 4 || place.warm.iter().any(|&block| place.body.blocks[block].is_switch) {
        return None;
    }
    let sums = || chains.iter().any(|chain| chain.float > 0).then_some(Cause::OrderOfSums);
    let cause = early_end(place).or_else(sums);
    let without_cause = IN_THE_WAY.rust(
        "Give the compiler slices of the same known length and no early exit from the loop; then check again.",
    );
    Some(scalar(place, &scalar_rows, "floating-point number", cause, without_cause))
}

/// What keeps a compiler from vectorising, if nothing else is known.
const IN_THE_WAY: Advice =
    Advice::general("Leave the loop in one place only, and let its arrays not overlap; then check again.")
        .native(
            "Build with `-O3 -march=native`, declare pointers to different arrays `restrict`, and leave the loop in one place \
             only; `-fopt-info-vec-missed` (clang: `-Rpass-missed=loop-vectorize`) says what is in the way.",
        )
        .fortran(
            "Build with `-O3 -march=native`, and leave the loop in one place only; `-fopt-info-vec-missed` says what is in the \
             way.",
        )
        .go(GO_HAS_NO_VECTORS);

const GO_HAS_NO_VECTORS: &str =
    "The Go compiler does not vectorise loops: call a library with SIMD code for this one.";

const INDEX_CHECKS: Advice = Advice::general(
    "Check the range once before the loop: without the checks, the compiler can vectorise.",
)
.rust("Iterate over slices instead of indexing them: without the checks, the compiler can vectorise.")
.native("Iterate over the elements instead of calling `at`: without the checks, the compiler can vectorise.")
.fortran("Build without `-fcheck=bounds`: without the checks, the compiler can vectorise.")
.go(GO_HAS_NO_VECTORS);

const EARLY_EXIT: Advice = Advice::general(
    "Check before the loop or after it: without a way to end the program inside, the compiler can vectorise.",
)
.go(GO_HAS_NO_VECTORS);

const ORDER_OF_SUMS: Advice = Advice::general(
    "Sum into several independent variables, so that the compiler can keep them in one vector.",
)
.rust(
    "Sum into several independent variables (`chunks_exact`), so that the compiler can keep them in one vector.",
)
.native(
    "Build with `-O3 -fassociative-math -fno-signed-zeros -fno-trapping-math` if the last digit may differ, or sum into several \
     independent variables.",
)
.fortran(
    "Build with `-O3 -fassociative-math -fno-signed-zeros -fno-trapping-math` if the last digit may differ, or sum into several \
     independent variables.",
)
.go("Sum into several independent variables, so that the additions overlap.");

/// The hint for a loop that computes with one number at a time.
fn scalar(
    place: &Place<'_>,
    rows: &[usize],
    number: &str,
    cause: Option<Cause>,
    without_cause: Advice,
) -> Hint {
    let (why, advice) = match cause {
        Some(Cause::IndexChecks) => (" because each index is checked", INDEX_CHECKS),
        Some(Cause::OverflowChecks) => (" because each result is checked for overflow", OVERFLOW),
        Some(Cause::EarlyExit) => (" because the loop may end the program", EARLY_EXIT),
        Some(Cause::OrderOfSums) => (" because the sum follows the order of the source", ORDER_OF_SUMS),
        _ => ("", without_cause),
    };
    let sentence = format!("{} computes with one {number} at a time{why}.", place.subject());
    Hint { cause, ..place.hint(Kind::ScalarLoop, rows, sentence, advice) }
}

fn scalar_integers(place: &Place<'_>, chains: &[Chain]) -> Option<Hint> {
    // An iteration that depends on the previous one by more than a sum cannot be vectorised.
    let depends = chains.iter().any(|chain| chain.is_mixed || chain.loads > 0);
    if depends || place.warm.len() > 4 || ways_out(place) > 1 || !reads_an_array(place) {
        return None;
    }
    let mut loaded = Registers::default();
    let mut data = Vec::new();
    for (index, row) in place.instructions() {
        if let Some(memory) = row.memory {
            // A lookup in a table by a loaded value.
            if memory.base.into_iter().chain(memory.index).any(|register| loaded.has(register)) {
                return None;
            }
        }
        let loads = row.memory.is_some_and(|memory| memory.is_read);
        let uses = loads || !row.reads.and(loaded).general().is_empty();
        if uses && computes(row) && row.lanes == Lanes::General {
            data.push(index);
        }
        let written = row.writes.general();
        loaded = Registers(if uses { loaded.0 | written.0 } else { loaded.0 & !written.0 });
    }
    if data.is_empty() {
        return None;
    }
    let without_cause = IN_THE_WAY.rust(
        "Give the compiler slices of the same known length and no early exit from the loop; `opt-level = 3` vectorises more than \
         2 or \"s\".",
    );
    Some(scalar(place, &data, "integer", early_end(place), without_cause))
}

/// What no compiler could vectorise in an innermost loop; `None` if nothing is known.
pub(crate) fn in_the_way(body: &Body, weights: &Weights, machine: &Machine, at: usize) -> Option<Obstacle> {
    let place = Place::new(body, weights, machine, Some(at), &body.loops[at].blocks);
    let divides = |row: &Instruction| row.operation == Operation::Divide && row.lanes == Lanes::General;
    if place.calls_something() {
        Some(Obstacle::Calls)
    } else if place.instructions().any(|(_, row)| divides(row)) {
        Some(Obstacle::IntegerDivision)
    } else if chains(&place).iter().any(|chain| chain.is_mixed || chain.loads > 0) {
        Some(Obstacle::PreviousStep)
    } else if let Some(cause) = early_end(&place) {
        Obstacle::of(cause)
    } else {
        (ways_out(&place) > 1).then_some(Obstacle::SeveralExits)
    }
}

/// Whether the loop reads memory at an address that changes between iterations.
fn reads_an_array(place: &Place<'_>) -> bool {
    let changed = place.instructions().fold(0, |changed, (_, row)| changed | row.writes.0);
    place.instructions().filter_map(|(_, row)| row.memory).any(|memory| {
        let moves = |register: u8| Registers(changed).has(register);
        memory.is_read && memory.base.into_iter().chain(memory.index).any(moves)
    })
}

/// Why an exit of the loop ends the program, if one does. What is unknown is a check of an index.
fn early_end(place: &Place<'_>) -> Option<Cause> {
    let ends = exits(place).filter_map(|exit| ends_without_return(place, exit));
    let causes = ends.map(|end| match end.and_then(|row| place.body.call_at(row)?.name().map(purpose)) {
        Some(Purpose::NeverReturns) => Cause::EarlyExit,
        Some(Purpose::OverflowPanic) => Cause::OverflowChecks,
        _ => Cause::IndexChecks,
    });
    causes.max_by_key(|cause| (*cause == Cause::IndexChecks, *cause == Cause::OverflowChecks))
}

/// The number of loop exits that do not end the program.
fn ways_out(place: &Place<'_>) -> usize {
    exits(place).filter(|&exit| ends_without_return(place, exit).is_none()).count()
}

/// Blocks outside the loop that it leads to.
fn exits<'p>(place: &'p Place<'_>) -> impl Iterator<Item = usize> + 'p {
    let body = place.body;
    let next = place.warm.iter().flat_map(move |&block| &body.blocks[block].next);
    next.copied().filter(move |&next| body.blocks[next].in_loop != place.in_loop)
}

/// The call that never returns, if a block leads to one; `Some(None)` if it leads to an instruction that stops.
fn ends_without_return(place: &Place<'_>, mut block: usize) -> Option<Option<usize>> {
    let body = place.body;
    for _ in 0..4 {
        let row = &body.blocks[block];
        let last = row.instructions.end - 1;
        let ends_in_call = body.instructions[last].is_call() && row.next.is_empty();
        if ends_in_call || matches!(body.instructions[last].flow, Flow::Stop) {
            // `ud2` stands behind the call.
            let mut calls = row.instructions.clone().rev().filter(|&at| body.instructions[at].is_call());
            return Some(calls.next());
        }
        match row.next[..] {
            [only] => block = only,
            _ => return None,
        }
    }
    None
}

fn pointer_chase(place: &Place<'_>, chains: &[Chain]) -> Option<Hint> {
    let chain = chains.iter().find(|chain| chain.loads > 0)?;
    let cause = chain.is_joined.then_some(Cause::StateTable);
    let advice = match cause {
        Some(_) => Advice::general(
            "Make the table smaller, so that it fits into a cache, or advance several inputs at a time.",
        ),
        None => Advice::general(
            "Store successive elements next to each other (an array, an arena with indices), make the table smaller, or follow \
             several chains at a time.",
        )
        .rust(
            "Store successive elements next to each other (a `Vec`, an arena with indices), make the table smaller, or follow \
             several chains at a time.",
        ),
    };
    let sentence =
        format!("{} waits in every iteration for an address that the previous one loaded.", place.subject());
    Some(Hint { cause, ..place.hint(Kind::PointerChase, &[chain.last], sentence, advice) })
}

const ACCUMULATORS: Advice = Advice::general("Use several accumulators and add them up after the loop.")
    .rust("Use several accumulators (`chunks_exact`, one variable per lane) and add them up after the loop.");

const REASSOCIATE: &str = "Use several accumulators and add them up after the loop; the compiler does that with \
                           `-O3 -fassociative-math -fno-signed-zeros -fno-trapping-math`, if the last digit may differ.";

fn serial_chain(place: &Place<'_>, chains: &[Chain]) -> Option<Hint> {
    /// An operation of a chain takes about four cycles, and a processor can execute four other instructions
    /// per cycle.
    const HIDDEN_BY: usize = 16;
    let is_slow = |chain: &&Chain| chain.float + chain.multiplications > 0;
    let mut slow = chains.iter().filter(is_slow);
    let (Some(chain), None) = (slow.next(), slow.next()) else { return None };
    let length = chain.float + chain.multiplications;
    if length * HIDDEN_BY < place.instructions().count() {
        return None;
    }
    let what = if chain.float > 0 { "floating-point" } else { "multiplication" };
    let cause = (!chain.is_reduction()).then_some(Cause::Recurrence);
    let advice = match cause {
        Some(_) => {
            Advice::general("Work on several independent inputs at a time: the steps of one cannot overlap.")
        }
        None if chain.float > 0 => ACCUMULATORS.native(REASSOCIATE).fortran(REASSOCIATE),
        None => ACCUMULATORS,
    };
    let sentence = format!(
        "Each iteration waits for the {what} result of the previous one ({}).",
        count(length, "one operation", "dependent operations")
    );
    Some(Hint { cause, ..place.hint(Kind::SerialChain, &[chain.last], sentence, advice) })
}
