//! One function between its callers and its callees, before and after.
//!
//! If it is recursive, a sample counts for the caller of the outermost call and for the callee of the
//! innermost one.

use rustc_hash::FxHashMap;
use whyslow_profile::{FunctionId, Profile, Unit};

use super::by_difference;
use super::paths::{Functions, Merged, grains, judged, named};
use super::runs::Runs;
use super::statistics::Change;
use crate::function_filter::FunctionFilter;
use crate::labels::{self, Label};

/// Some functions with their callers and callees.
#[derive(Debug, Clone, PartialEq)]
pub struct Focus {
    /// The functions that the labels stand for.
    pub profile: Profile,
    /// Their names.
    pub names: Vec<String>,
    /// Their self value.
    pub own: Change,
    /// Their total value, with everything they call.
    pub total: Change,
    /// Their callers and the cost of those calls, largest first.
    pub callers: Vec<(Label, Change)>,
    /// Their callees and their cost, largest first.
    pub callees: Vec<(Label, Change)>,
}

impl Focus {
    /// The functions that `wanted` selects; `None` if neither side has one.
    pub fn of_runs(
        before: &Runs<'_>,
        after: &Runs<'_>,
        inline: bool,
        wanted: &FunctionFilter,
    ) -> Option<Self> {
        let sides = [before, after];
        let functions = Functions::matched(sides, inline);
        let label = |row: u32| Label::Function(FunctionId(row));
        // A renamed function is found by both names.
        let [old, profile] = [0, 1].map(|side| named(&functions, sides, side));
        let [by_old, by_new] = [&old, &profile]
            .map(|names| wanted.selected(names, (0..names.functions.len() as u32).map(label)));
        let is_wanted = by_old.iter().zip(&by_new).map(|(old, new)| *old || *new).collect::<Vec<_>>();
        if !is_wanted.contains(&true) {
            return None;
        }
        let merged = Merged::new(sides, &functions, inline);
        let wanted = |node: usize| merged.function[node].is_some_and(|row| is_wanted[row as usize]);
        // For each node: the caller of the outermost call around it, and the callee of the innermost one.
        let mut callers = Keys::default();
        let mut callees = Keys::default();
        for node in 0..merged.len() {
            let parent = merged.parent[node] as usize;
            let inside = node > 0 && callers.of_node.get(parent).is_some_and(|caller| *caller != Keys::NONE);
            callers.push(match (wanted(node), inside) {
                (_, true) => Key::Of(parent),
                (true, false) => Key::New(merged.function[parent]),
                (false, false) => Key::None,
            });
            callees.push(match (wanted(node), inside) {
                (false, true) if wanted(parent) => Key::New(merged.function[node]),
                (false, true) => Key::Of(parent),
                _ => Key::None,
            });
        }
        let unit = before.metric().map_or(Unit::Nanoseconds, |metric| metric.unit);
        let grains = sides.map(|runs| grains(runs, unit));
        let judge = |keys: &Keys| {
            let columns =
                [0, 1].map(|side: usize| merged.own[side].iter().map(|own| keys.sums(own)).collect());
            let changes = judged(&columns, &grains, keys.rows.len(), before.mean_whole());
            let rows =
                keys.rows.iter().zip(changes).filter(|(_, change)| change.before.max(change.after) > 0);
            let mut rows =
                rows.map(|(row, change)| (row.map_or(Label::Root, label), change)).collect::<Vec<_>>();
            rows.sort_by(|a, b| by_difference(&a.1, &b.1));
            rows
        };
        let of_all = |sum: fn(&Keys, &Keys, usize) -> bool| {
            let column = |own: &Vec<u64>| {
                let nodes = (0..own.len()).filter(|node| sum(&callers, &callees, *node));
                vec![nodes.fold(0u64, |sum, node| sum.saturating_add(own[node]))]
            };
            let columns = [0, 1].map(|side: usize| merged.own[side].iter().map(column).collect());
            judged(&columns, &grains, 1, before.mean_whole())[0]
        };
        let names = (0u32..).zip(&is_wanted).filter(|(_, wanted)| **wanted);
        let names = names.map(|(row, _)| labels::name(&profile, label(row)).into_owned()).collect();
        Some(Self {
            names,
            own: of_all(|callers, callees, node| {
                callers.of_node[node] != Keys::NONE && callees.of_node[node] == Keys::NONE
            }),
            total: of_all(|callers, _, node| callers.of_node[node] != Keys::NONE),
            callers: judge(&callers),
            callees: judge(&callees),
            profile,
        })
    }
}

/// What a node counts for.
enum Key {
    None,
    /// The same as this node.
    Of(usize),
    /// This function, or the root.
    New(Option<u32>),
}

/// Functions, and which of them each node counts for.
#[derive(Default)]
struct Keys {
    rows: Vec<Option<u32>>,
    row_of: FxHashMap<Option<u32>, u32>,
    of_node: Vec<u32>,
}

impl Keys {
    const NONE: u32 = u32::MAX;

    fn push(&mut self, key: Key) {
        let row = match key {
            Key::None => Self::NONE,
            Key::Of(node) => self.of_node[node],
            Key::New(function) => *self.row_of.entry(function).or_insert_with(|| {
                self.rows.push(function);
                self.rows.len() as u32 - 1
            }),
        };
        self.of_node.push(row);
    }

    fn sums(&self, own: &[u64]) -> Vec<u64> {
        let mut sums = vec![0u64; self.rows.len()];
        for (row, value) in self.of_node.iter().zip(own) {
            if let Some(sum) = sums.get_mut(*row as usize) {
                *sum = sum.saturating_add(*value);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::Side;
    use crate::selection::Selection;
    use crate::testing::{self, SAMPLE_NS};

    #[test]
    fn finds_direct_callers_and_callees() {
        let before = testing::profile("main;a;f;g 100\nmain;a;f 50\nmain;b;f;g;f;h 30\nmain;c 500");
        let after = testing::profile("main;a;f;g 400\nmain;a;f 50\nmain;b;f;g;f;h 30\nmain;c 500");
        let selection = Selection::default();
        let runs = |profile| Runs::new(vec![Side { profile, selection: &selection }]);
        let focus = Focus::of_runs(&runs(&before), &runs(&after), true, &FunctionFilter::new("^f$")).unwrap();
        let rows = |rows: &[(Label, Change)]| {
            let line = |(label, change): &(Label, Change)| {
                let name = labels::name(&focus.profile, *label);
                format!(
                    "{name} {}→{} {}",
                    change.before / SAMPLE_NS,
                    change.after / SAMPLE_NS,
                    change.verdict.label()
                )
            };
            rows.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(rows(&focus.callers), ["a 150→450 more", "b 30→30 undecided"]);
        assert_eq!(rows(&focus.callees), ["g 100→400 more", "h 30→30 undecided"]);
        let pair = |change: &Change| (change.before / SAMPLE_NS, change.after / SAMPLE_NS);
        assert_eq!((pair(&focus.own), pair(&focus.total)), ((50, 50), (180, 480)));
        assert_eq!(Focus::of_runs(&runs(&before), &runs(&after), true, &FunctionFilter::new("^x$")), None);
    }
}
