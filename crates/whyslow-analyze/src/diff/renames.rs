//! Functions with another name on each side that are one function: the same callers, callees or lines.
//!
//! ```text
//! overlap of two sets of weights   sum of min(a, b) over their keys, each set scaled to 1
//! evidence                         overlap of callers + overlap of callees + shared source lines, each from 0 to 1
//! ```
//! Only functions outside of libraries that are worth reporting are considered, and only if each is the other's best
//! match: a few samples of libc come and go by chance.

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::CodeKind;

use super::matching::Pair;
use super::paths::{Functions, Merged};
use super::rows::Row;
use super::runs::Runs;
use crate::labels::{self, Label, Labels};

/// Functions below this share of their side are left alone.
const MIN_SHARE: f64 = 0.005;
/// Callers, callees or lines that agree at least this much are the same.
const SAME: f64 = 0.8;
/// Evidence against: callers that agree less than this are other callers.
const OTHER: f64 = 0.2;

/// Pairs functions that only one side has with those that replace them. Returns how many pairs it made.
pub(super) fn join(
    pairs: &mut Vec<Pair>,
    rows: [&[Row<'_>]; 2],
    sides: [&Runs<'_>; 2],
    inline: bool,
) -> usize {
    let mut joined = 0;
    // A renamed caller becomes known before its callees are compared.
    loop {
        let lonely = [0, 1].map(|side| lonely(pairs, rows[side], sides[side], side));
        if lonely.iter().any(Vec::is_empty) {
            return joined;
        }
        let found = best(pairs, rows, sides, inline, &lonely);
        if found.is_empty() {
            return joined;
        }
        joined += found.len();
        pairs.retain(|&(old, new)| {
            let taken = |&(one, other): &(usize, usize)| {
                (old == Some(one) && new.is_none()) || (new == Some(other) && old.is_none())
            };
            !found.iter().any(taken)
        });
        pairs.extend(found.into_iter().map(|(old, new)| (Some(old), Some(new))));
    }
}

/// The rows that only this side has and that may have been renamed.
fn lonely(pairs: &[Pair], rows: &[Row<'_>], runs: &Runs<'_>, side: usize) -> Vec<usize> {
    let alone = pairs.iter().filter_map(|&pair| match (side, pair) {
        (0, (Some(row), None)) | (1, (None, Some(row))) => Some(row),
        _ => None,
    });
    let least = MIN_SHARE * runs.mean_whole() * runs.count() as f64;
    let counts = |row: &usize| {
        let total = rows[*row].total.iter().flatten().map(|estimate| estimate.value as f64).sum::<f64>();
        let kind = labels::kind(&runs.profile, rows[*row].place.label);
        let is_nameless =
            matches!(rows[*row].place.label, Label::Function(id) if labels::is_nameless(&runs.profile, id));
        total >= least
            && !is_nameless
            && matches!(kind, CodeKind::Yours | CodeKind::Dependency | CodeKind::Unknown)
    };
    alone.filter(counts).collect()
}

/// What is known of a function that only one side has.
#[derive(Default)]
struct Neighbours<'p> {
    callers: FxHashMap<Option<u32>, f64>,
    callees: FxHashMap<Option<u32>, f64>,
    lines: FxHashSet<&'p str>,
}

/// Pairs of which each is the other's best match.
fn best(
    pairs: &[Pair],
    rows: [&[Row<'_>]; 2],
    sides: [&Runs<'_>; 2],
    inline: bool,
    lonely: &[Vec<usize>; 2],
) -> Vec<(usize, usize)> {
    let place = |side: usize, row: Option<usize>| row.map(|row| rows[side][row].place);
    let functions = Functions::new(pairs.iter().map(|&(old, new)| [place(0, old), place(1, new)]).collect());
    let merged = Merged::new(sides, &functions, inline);
    let [before, after] = [0, 1].map(|side: usize| {
        let row_of: FxHashMap<u32, usize> = (0u32..)
            .zip(pairs)
            .filter_map(|(at, &(old, new))| Some((at, if side == 0 { old } else { new }?)))
            .filter(|(at, row)| {
                let (old, new) = pairs[*at as usize];
                (old.is_none() || new.is_none()) && lonely[side].contains(row)
            })
            .collect();
        neighbours(&merged, sides[side], side, inline, &row_of, rows[side])
    });
    let evidence = |old: usize, new: usize| {
        let file = rows[0][old].item.file_name();
        let is_alike = file.is_some() && file == rows[1][new].item.file_name();
        evidence(&before[&old], &after[&new], is_alike)
    };
    let best_of = |candidates: &[usize], evidence: &dyn Fn(usize) -> f64| {
        let mut scored = candidates.iter().map(|&row| (evidence(row), row)).collect::<Vec<_>>();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        match scored[..] {
            [(first, row), (second, _), ..] if first > second => Some((first, row)),
            [(first, row)] => Some((first, row)),
            _ => None,
        }
        .filter(|(score, _)| *score > 0.0)
    };
    let found = lonely[0].iter().filter_map(|&old| {
        let (_, new) = best_of(&lonely[1], &|new| evidence(old, new))?;
        let (_, back) = best_of(&lonely[0], &|old| evidence(old, new))?;
        (back == old).then_some((old, new))
    });
    found.collect()
}

/// How much speaks for one function under two names; 0 if not enough. Without common callees or lines, the callers
/// must be the same, and the file too.
fn evidence(old: &Neighbours<'_>, new: &Neighbours<'_>, is_alike: bool) -> f64 {
    let callers = overlap(&old.callers, &new.callers);
    let callees = overlap(&old.callees, &new.callees);
    let shared = old.lines.intersection(&new.lines).count() as f64;
    let lines = shared / old.lines.len().min(new.lines.len()).max(1) as f64;
    let is_same = lines >= SAME || callees >= SAME || (callers >= SAME && is_alike);
    if is_same && (callers >= OTHER || lines >= SAME) { callers + callees + lines } else { 0.0 }
}

fn overlap(one: &FxHashMap<Option<u32>, f64>, other: &FxHashMap<Option<u32>, f64>) -> f64 {
    let [whole, other_whole] =
        [one, other].map(|weights| weights.values().sum::<f64>().max(f64::MIN_POSITIVE));
    let common =
        one.iter().filter_map(|(key, weight)| Some((weight / whole).min(other.get(key)? / other_whole)));
    common.sum()
}

fn neighbours<'p>(
    merged: &Merged,
    runs: &'p Runs<'_>,
    side: usize,
    inline: bool,
    row_of: &FxHashMap<u32, usize>,
    rows: &[Row<'_>],
) -> FxHashMap<usize, Neighbours<'p>> {
    let mut found: FxHashMap<usize, Neighbours<'p>> =
        row_of.values().map(|&row| (row, Neighbours::default())).collect();
    let mut total = vec![0.0; merged.len()];
    for node in (0..merged.len()).rev() {
        total[node] += merged.own[side].iter().map(|own| own[node] as f64).sum::<f64>();
        let parent = merged.parent[node] as usize;
        if node > 0 {
            total[parent] += total[node];
        }
        let [function, caller] = [merged.function[node], merged.function[parent]];
        if node == 0 || total[node] == 0.0 || function == caller {
            continue;
        }
        let row = |function: Option<u32>| row_of.get(&function?).copied();
        if let Some(row) = row(function) {
            *found.entry(row).or_default().callers.entry(caller).or_default() += total[node];
        }
        if let Some(row) = row(caller) {
            *found.entry(row).or_default().callees.entry(function).or_default() += total[node];
        }
    }
    let profile = &*runs.profile;
    let labels = Labels::new(profile);
    let row_of_code: FxHashMap<u32, usize> =
        row_of.values().map(|&row| (labels.code(rows[row].place.label), row)).collect();
    for location in 0..profile.locations.len() {
        for frame in labels::shown(profile, location.into(), inline) {
            let row = row_of_code.get(&labels.code(Label::Function(frame.function)));
            let text = frame.file.and_then(|file| profile.sources.get(file, frame.line));
            let text = text.map(|text| profile.text(text).trim()).filter(|text| text.len() > 3);
            if let (Some(row), Some(text)) = (row, text) {
                found.entry(*row).or_default().lines.insert(text);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use whyslow_profile::Profile;

    use crate::diff::{Diff, Side};
    use crate::labels;
    use crate::selection::Selection;
    use crate::testing;

    /// Rows of functions with another name, as `old→new verdict`.
    fn renamed(before: &str, after: &str) -> Vec<String> {
        let [before, after] = [before, after].map(testing::profile);
        let selection = Selection::default();
        let side = |profile| Side { profile, selection: &selection };
        let diff = Diff::build(side(&before), side(&after), true);
        let name =
            |profile: &Profile, place: crate::diff::Place| labels::name(profile, place.label).into_owned();
        let shown = diff.rows.iter().filter_map(|row| {
            let [old, new] = [name(&before, row.before?), name(&after, row.after?)];
            (old != new).then(|| format!("{old}→{new} {}", row.own.verdict.label()))
        });
        let mut shown = shown.collect::<Vec<_>>();
        shown.sort();
        shown
    }

    #[test]
    fn a_renamed_function_is_one_row() {
        assert_eq!(
            renamed(
                "app::main;app::parse;app::lex 300\napp::main;app::parse 400\napp::main;app::hash 200",
                "app::main;app::parse_all;app::lex 310\napp::main;app::parse_all 390\napp::main;app::hash 205"
            ),
            ["app::parse→app::parse_all undecided"]
        );
    }

    #[test]
    fn a_renamed_caller_leads_to_its_renamed_callee() {
        assert_eq!(
            renamed(
                "app::main;app::f@m.rs:3;app::g@m.rs:9 500\napp::main;app::f@m.rs:3 300",
                "app::main;app::x@m.rs:3;app::y@m.rs:9 505\napp::main;app::x@m.rs:3 310"
            ),
            ["app::f→app::x undecided", "app::g→app::y undecided"]
        );
    }

    #[test]
    fn functions_with_other_callers_or_several_candidates_stay_apart() {
        assert!(
            renamed(
                "app::main;app::a;app::f 500\napp::main;app::a 100\napp::main;app::b 100",
                "app::main;app::b;app::g 500\napp::main;app::a 100\napp::main;app::b 100"
            )
            .is_empty()
        );
        assert!(renamed("app::main;app::f 500", "app::main;app::g 250\napp::main;app::h 250").is_empty());
        // Functions of libraries come and go with the samples.
        assert!(renamed("app::main;std::f 500", "app::main;std::g 500").is_empty());
    }
}
