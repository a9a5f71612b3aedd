//! Functions that the compiler now inlines into their callers, or no longer does: their time is in another
//! row, and nothing got slower.
//!
//! Where debug info records inlining, such functions keep their rows. Without it, a missing function counts
//! as inlined into its callers if their self value gained what it lost and their total value is unchanged.

use rustc_hash::FxHashMap;

use super::paths::{Functions, Merged};
use super::runs::Runs;
use super::statistics::{Change, Verdict};
use super::{DiffRow, Place};

/// The share of a function's loss that the gain of its callers must explain.
const EXPLAINED: f64 = 0.9;

/// Time that is now in another function.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The functions that only one side has, as `[before, after]`.
    pub callees: Vec<[Option<Place>; 2]>,
    /// The function that contains them on the other side.
    pub caller: [Option<Place>; 2],
    /// Whether they were inlined into it; otherwise they were inlined before and are separate functions now.
    pub swallowed: bool,
    /// Their self value on the side that has them.
    pub value: u64,
    /// What the caller's self value gained or lost.
    pub difference: i128,
}

/// Finds what only moved, and marks the rows. Rows must be functions.
pub(super) fn find(rows: &mut [DiffRow], sides: [&Runs<'_>; 2], inline: bool) -> Vec<Move> {
    let mut moves = Vec::new();
    if !(0..2).any(|side| may_have_moved(rows, side)) {
        return moves;
    }
    let functions = Functions::new(rows.iter().map(|row| [row.before, row.after]).collect());
    let merged = Merged::new(sides, &functions, inline);
    for side in 0..2 {
        moves.extend(from_side(rows, &merged, side));
    }
    moves
}

fn is_only(row: &DiffRow, side: usize) -> bool {
    let there = [row.before.is_some(), row.after.is_some()];
    there[side] && !there[1 - side]
}

/// The verdict on a caller's self value if it now contains functions that only `side` has.
fn gain(side: usize) -> Verdict {
    if side == 0 { Verdict::More } else { Verdict::Less }
}

/// Whether only this side has some function, and another function's self value gained.
fn may_have_moved(rows: &[DiffRow], side: usize) -> bool {
    rows.iter().any(|row| is_only(row, side) && row.own.verdict.is_claim())
        && rows.iter().any(|row| !is_only(row, side) && row.own.verdict == gain(side))
}

/// Functions that only this side has and that others contain on the other side.
fn from_side(rows: &mut [DiffRow], merged: &Merged, side: usize) -> Vec<Move> {
    let runs = merged.own[side].len().max(1) as u64;
    let mean =
        |node: usize| merged.own[side].iter().fold(0u64, |sum, own| sum.saturating_add(own[node])) / runs;
    // For each missing function, how much of it lies below which remaining function; missing functions in
    // between are skipped.
    let mut survivor = vec![None::<u32>; merged.len()];
    let mut lost: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    for node in 1..merged.len() {
        let Some(function) = merged.function[node] else { continue };
        if !is_only(&rows[function as usize], side) {
            survivor[node] = Some(function);
            continue;
        }
        survivor[node] = survivor[merged.parent[node] as usize];
        if let Some(caller) = survivor[node] {
            *lost.entry((caller, function)).or_default() += mean(node);
        }
    }
    let mut callers = lost.keys().map(|(caller, _)| *caller).collect::<Vec<_>>();
    callers.sort_unstable();
    callers.dedup();
    callers.retain(|caller| {
        let callees = lost.iter().filter(|((of, _), _)| of == caller).map(|((_, callee), _)| *callee);
        took_in(rows, *caller, &callees.collect::<Vec<_>>(), lost_by(&lost, *caller), side)
    });
    let explained = |callee: u32| {
        let found = lost.iter().filter(|((caller, of), _)| *of == callee && callers.contains(caller));
        let found = found.map(|(_, value)| *value as f64).sum::<f64>();
        let own = &rows[callee as usize].own;
        found >= EXPLAINED * own.before.max(own.after) as f64
    };
    let mut moves = Vec::new();
    let mut moved = Vec::new();
    for &caller in &callers {
        let mut callees =
            lost.iter().filter(|((of, _), value)| *of == caller && **value > 0).collect::<Vec<_>>();
        callees.sort_by_key(|((_, callee), value)| (std::cmp::Reverse(**value), *callee));
        let whole = lost_by(&lost, caller);
        let open = callees
            .iter()
            .filter(|((_, callee), _)| !explained(*callee))
            .map(|(_, value)| **value)
            .sum::<u64>();
        if open as f64 > (1.0 - EXPLAINED) * whole as f64 {
            continue;
        }
        let callees = callees.into_iter().map(|((_, callee), _)| *callee).filter(|callee| explained(*callee));
        let callees = callees.collect::<Vec<_>>();
        let places = |row: u32| [rows[row as usize].before, rows[row as usize].after];
        moves.push(Move {
            callees: callees.iter().map(|callee| places(*callee)).collect(),
            caller: places(caller),
            swallowed: side == 0,
            value: whole,
            difference: rows[caller as usize].own.difference(),
        });
        moved.push((caller, callees));
    }
    for (caller, callees) in moved {
        rows[caller as usize].own.verdict = Verdict::Moved;
        if let Some(charged) = &mut rows[caller as usize].charged {
            charged.verdict = Verdict::Moved;
        }
        for callee in callees {
            let row = &mut rows[callee as usize];
            let say = |change: &mut Change| {
                if change.verdict.is_claim() {
                    change.verdict = Verdict::Moved;
                }
            };
            say(&mut row.own);
            row.total.iter_mut().chain(&mut row.charged).for_each(say);
        }
    }
    moves
}

fn lost_by(lost: &FxHashMap<(u32, u32), u64>, caller: u32) -> u64 {
    lost.iter().filter(|((of, _), _)| *of == caller).map(|(_, value)| *value).sum()
}

/// Whether a function's self value gained what others lost, within their intervals, while its total value is
/// unchanged.
fn took_in(rows: &[DiffRow], caller: u32, callees: &[u32], lost: u64, side: usize) -> bool {
    let row = &rows[caller as usize];
    let squared = |change: &Change| change.margin.unwrap_or(0.0).powi(2);
    let margin = callees
        .iter()
        .fold(squared(&row.own), |sum, callee| sum + squared(&rows[*callee as usize].own))
        .sqrt();
    let gained = row.own.difference().unsigned_abs() as f64;
    row.own.verdict == gain(side)
        && row.total.is_none_or(|total| !total.verdict.is_claim())
        && (gained - lost as f64).abs() <= margin
}

#[cfg(test)]
mod tests {
    use whyslow_profile::Profile;

    use super::*;
    use crate::diff::{Diff, Side};
    use crate::labels;
    use crate::selection::Selection;
    use crate::testing;

    fn compared(before: &Profile, after: &Profile) -> Diff {
        let selection = Selection::default();
        let side = |profile| Side { profile, selection: &selection };
        Diff::build(side(before), side(after), true)
    }

    /// What moved as `callees into|out of caller`, and the verdicts as `name verdict`.
    fn found(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
        let [before, after] = [before, after].map(testing::profile);
        let diff = compared(&before, &after);
        let name = |[old, new]: [Option<Place>; 2]| match (old, new) {
            (_, Some(place)) => labels::name(&after, place.label).into_owned(),
            (place, None) => labels::name(&before, place.unwrap().label).into_owned(),
        };
        let moves = diff.moves.iter().map(|one| {
            let callees = one.callees.iter().map(|callee| name(*callee)).collect::<Vec<_>>().join(" ");
            let direction = if one.swallowed { "into" } else { "out of" };
            format!("{callees} {direction} {}", name(one.caller))
        });
        let claims = diff.rows.iter().filter(|row| row.own.verdict != Verdict::Undecided);
        let claims =
            claims.map(|row| format!("{} {}", name([row.before, row.after]), row.own.verdict.label()));
        let mut claims = claims.collect::<Vec<_>>();
        claims.sort();
        (moves.collect(), claims)
    }

    #[test]
    fn callee_inlined_into_its_caller_moved() {
        let [apart, one] = ["main;f;g 500\nmain;f 300\nmain;h 200", "main;f 805\nmain;h 198"];
        assert_eq!(
            found(apart, one),
            (vec!["g into f".to_owned()], vec!["f moved".to_owned(), "g moved".to_owned()])
        );
        assert_eq!(
            found(one, apart),
            (vec!["g out of f".to_owned()], vec!["f moved".to_owned(), "g moved".to_owned()])
        );
    }

    #[test]
    fn follows_chains_of_callees_and_several_callers() {
        let before = "main;f;g;k 300\nmain;f;g 200\nmain;f 300\nmain;h;k 100\nmain;h 200";
        let (moves, claims) = found(before, "main;f 790\nmain;h 303");
        assert_eq!(moves, ["k g into f", "k into h"]);
        assert!(claims.iter().all(|claim| claim.ends_with("moved")), "{claims:?}");
    }

    #[test]
    fn caller_that_gained_more_than_was_lost_is_slower() {
        let (moves, claims) = found("main;f;g 500\nmain;f 300", "main;f 1400");
        assert_eq!((moves.len(), claims.contains(&"f more".to_owned())), (0, true));
    }

    #[test]
    fn missing_function_is_not_part_of_one_that_does_not_call_it() {
        let (moves, claims) = found("main;f;g 500\nmain;h 300", "main;h 800\nmain;f 3");
        assert_eq!((moves.len(), claims), (0, vec!["g less".to_owned(), "h more".to_owned()]));
    }
}
