//! Branch hints: checks that lead to a panic, jumps through tables, mispredicted branches.

use super::counted::counted;
use super::{Advice, Cause, Hint, Kind, Place, count};
use crate::callee::{Purpose, purpose};
use crate::instruction::{Flow, Registers};

pub(super) const OVERFLOW: Advice = Advice::general(
    "Build without overflow checks, or use arithmetic that wraps.",
)
.rust("Build without `overflow-checks`, or use `wrapping_add` and similar methods if wrapping is intended.")
.native("Build without `-ftrapv` and `-fsanitize=undefined`, or use unsigned types if wrapping is intended.");

const JUMP_TABLE: Advice = Advice::general(
    "If the processor mispredicts this jump (`whyslow stat` counts branch misses), group equal cases together or handle the \
     common case before the `switch`.",
)
.rust(
    "If the processor mispredicts this jump (`whyslow stat` counts branch misses), group equal cases together or handle the \
     common case before the `match`.",
);

const BOUNDS: Advice = Advice::general("Check the range once before the loop.")
    .rust(
        "Iterate over the slice instead of indexing it, take a slice of the known length before the loop, or use `zip` or \
         `chunks_exact`.",
    )
    .native("Iterate over the elements instead of calling `at`, or check the range once before the loop.")
    .fortran("Build without `-fcheck=bounds`.")
    .go("Iterate with `range`, or check the length once before the loop (`_ = values[n-1]`).");

/// `waits`: each iteration waits for the previous one.
pub(super) fn add(place: &Place<'_>, waits: bool, found: &mut Vec<Hint>) {
    let mut bounds = Checks::default();
    let mut by_data = Checks::default();
    let mut overflow = Checks::default();
    let mut follows = None;
    for (index, row) in place.instructions() {
        let Flow::Branch(_) = row.flow else { continue };
        let setter = flag_setter(place, index);
        let rows = match panic_behind(place, index) {
            Some(Purpose::BoundsPanic) => {
                let follows = follows.get_or_insert_with(|| counted(place));
                if setter.is_some_and(|at| follows.count(&place.body.instructions[at])) {
                    &mut bounds
                } else {
                    &mut by_data
                }
            }
            Some(Purpose::OverflowPanic) => &mut overflow,
            _ => continue,
        };
        rows.number += 1;
        rows.rows.extend(setter);
        rows.rows.push(index);
    }
    let hidden = waits.then_some(Cause::HiddenByChain);
    found.extend(
        bounds_check(place, &bounds, hidden)
            .or_else(|| bounds_check(place, &by_data, Some(Cause::IndexFromData))),
    );
    let Checks { number, rows: overflow } = overflow;
    if !overflow.is_empty() {
        let hint = place.hint(
            Kind::OverflowCheck,
            &overflow,
            format!(
                "{} checks {} for overflow in every iteration, {}.",
                place.subject(),
                count(number, "a result", "results"),
                part(place, &overflow)
            ),
            OVERFLOW,
        );
        found.push(Hint { cause: hidden, ..hint });
    }
    let switches: Vec<usize> = place
        .warm
        .iter()
        .map(|&block| &place.body.blocks[block])
        .filter(|block| block.is_switch)
        .map(|block| block.instructions.end - 1)
        .collect();
    found.extend(place.costly(
        Kind::JumpTable,
        &switches,
        format!("{} jumps through a table, to a target that depends on the data.", place.subject()),
        JUMP_TABLE,
    ));
    found.extend(unpredictable(place));
}

/// Checks of one kind: how many, and their instructions.
#[derive(Default)]
struct Checks {
    number: usize,
    rows: Vec<usize>,
}

fn bounds_check(place: &Place<'_>, checks: &Checks, cause: Option<Cause>) -> Option<Hint> {
    let (what, advice) = match cause {
        None | Some(Cause::HiddenByChain) => (count(checks.number, "an index", "indices"), BOUNDS),
        Some(_) => (
            count(checks.number, "an index from data", "indices from data"),
            Advice::general(
                "If the index has a known range, show it to the compiler: a mask, a remainder, or an array of constant size.",
            ),
        ),
    };
    (checks.number > 0).then(|| {
        let sentence =
            format!("{} checks {what} in every iteration, {}.", place.subject(), part(place, &checks.rows));
        Hint { cause, ..place.hint(Kind::BoundsCheck, &checks.rows, sentence, advice) }
    })
}

/// "4 of its 14 instructions".
fn part(place: &Place<'_>, shown_by: &[usize]) -> String {
    format!("{} of its {} instructions", shown_by.len(), place.instructions().count())
}

/// The panic that a branch out of the loop leads to, if any.
fn panic_behind(place: &Place<'_>, branch: usize) -> Option<Purpose> {
    let body = place.body;
    let block = body.block_of(branch)?;
    let mut found = None;
    for &exit in &body.blocks[block].next {
        if body.blocks[exit].in_loop == place.in_loop {
            continue;
        }
        // A few blocks may set up the panic.
        let mut at = exit;
        for _ in 0..4 {
            let range = body.blocks[at].instructions.clone();
            let calls = range.filter_map(|index| body.call_at(index)).filter_map(|call| call.name());
            let last = calls.map(purpose).next_back();
            if matches!(last, Some(Purpose::BoundsPanic | Purpose::OverflowPanic)) {
                found = last;
                break;
            }
            match body.blocks[at].next[..] {
                [only] => at = only,
                _ => break,
            }
        }
    }
    found
}

/// The instruction of the same block that sets the flags for a branch.
fn flag_setter(place: &Place<'_>, branch: usize) -> Option<usize> {
    let block = place.body.block_of(branch)?;
    let range = place.body.blocks[block].instructions.start..branch;
    range.rev().find(|&index| place.body.instructions[index].writes.has(Registers::FLAGS))
}

/// Branches with a fifth of all mispredictions. Events on the next instruction count too.
fn unpredictable(place: &Place<'_>) -> Option<Hint> {
    let misses = &place.weights.missed_branches;
    let at = |index: usize| misses.get(index).copied().unwrap_or(0);
    let total = misses.iter().fold(0, |sum: u64, &missed| sum.saturating_add(missed));
    let worst: Vec<usize> = place
        .instructions()
        .filter(|(_, row)| matches!(row.flow, Flow::Branch(_)))
        .map(|(index, _)| index)
        .filter(|&index| total > 0 && at(index).saturating_add(at(index + 1)).saturating_mul(5) >= total)
        .collect();
    (!worst.is_empty()).then(|| {
        place.hint(
            Kind::UnpredictableBranch,
            &worst,
            format!(
                "{} has {} that the processor often mispredicts.",
                place.subject(),
                count(worst.len(), "a branch", "branches")
            ),
            Advice::general(
                "Compute both results and select one, sort the data, or handle the common case first.",
            ),
        )
    })
}
