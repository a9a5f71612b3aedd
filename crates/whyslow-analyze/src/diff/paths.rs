//! The call trees of both sides merged into one, including paths that only one side has.
//!
//! ```text
//! path          functions from the outside in; each is matched with that of the other side
//! self value    the larger of before and after, at the end of the path
//! total value   self value + total values of the callees: so it adds up, and every path has room for both sides
//! ```

use rustc_hash::FxHashMap;
use whyslow_profile::{Function, FunctionId, Profile, StringId, Unit};

use super::rows::{Place, functions};
use super::runs::Runs;
use super::several::Series;
use super::statistics::{Change, Estimate};
use super::{decided, paired};
use crate::call_tree::{CallTree, TreeOptions};
use crate::labels::{self, Label};

/// Call paths of both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Paths {
    /// The functions that the labels of `tree` stand for, from one side or both.
    pub profile: Profile,
    /// The place of each of these functions, as `[before, after]`.
    pub places: Vec<[Option<Place>; 2]>,
    /// The paths.
    pub tree: CallTree,
    /// What changed at the end of each path, by node.
    pub own: Vec<Change>,
    /// The change of each path with everything below it, by node.
    pub total: Vec<Change>,
}

/// Functions of both sides, matched.
pub(super) struct Functions {
    /// The place of each.
    places: Vec<[Option<Place>; 2]>,
    /// The row of each label, per side.
    row_of: [FxHashMap<Label, u32>; 2],
}

impl Functions {
    pub(super) fn new(places: Vec<[Option<Place>; 2]>) -> Self {
        let rows = |side: usize| {
            let rows = (0u32..).zip(&places).filter_map(|(row, places)| Some((places[side]?.label, row)));
            rows.collect()
        };
        Self { row_of: [rows(0), rows(1)], places }
    }

    pub(super) fn matched(sides: [&Runs<'_>; 2], inline: bool) -> Self {
        let rows = sides.map(|runs| functions(runs, inline));
        let pairs = paired([&rows[0], &rows[1]], sides, inline);
        let place = |side: usize, row: Option<usize>| row.map(|row| rows[side][row].place);
        Self::new(pairs.iter().map(|&(old, new)| [place(0, old), place(1, new)]).collect())
    }
}

/// A tree of matched functions, with each run's value at the end of each path.
pub(super) struct Merged {
    pub parent: Vec<u32>,
    /// The row of the function; `None` at the root.
    pub function: Vec<Option<u32>>,
    inlined: Vec<bool>,
    /// Per side and run, by node.
    pub own: [Vec<Vec<u64>>; 2],
}

impl Merged {
    pub(super) fn new(sides: [&Runs<'_>; 2], functions: &Functions, inline: bool) -> Self {
        let options = TreeOptions { inline, ..TreeOptions::default() };
        let mut merged = Self {
            parent: vec![0],
            function: vec![None],
            inlined: vec![true],
            own: [Vec::new(), Vec::new()],
        };
        let mut node_of: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for (side, runs) in sides.into_iter().enumerate() {
            for weights in &runs.weights {
                let tree = CallTree::from_weights(&runs.profile, weights, &options);
                let mut own = vec![0u64; merged.parent.len()];
                own[0] = tree.self_value[0];
                let mut places = vec![0u32; tree.len()];
                for node in 1..tree.len() {
                    let Some(&function) = functions.row_of[side].get(&tree.label[node]) else { continue };
                    let parent = places[tree.parent[node] as usize];
                    let place = *node_of.entry((parent, function)).or_insert_with(|| {
                        merged.parent.push(parent);
                        merged.function.push(Some(function));
                        merged.inlined.push(true);
                        own.push(0);
                        merged.parent.len() as u32 - 1
                    });
                    places[node] = place;
                    let at = place as usize;
                    merged.inlined[at] &= tree.inlined[node];
                    own[at] = own[at].saturating_add(tree.self_value[node]);
                }
                merged.own[side].push(own);
            }
        }
        let nodes = merged.parent.len();
        merged.own.iter_mut().flatten().for_each(|own| own.resize(nodes, 0));
        merged
    }

    pub(super) fn len(&self) -> usize {
        self.parent.len()
    }

    /// The total of each node, from the self values.
    fn with_callees(&self, own: &[u64]) -> Vec<u64> {
        let mut total = own.to_vec();
        for node in (1..self.len()).rev() {
            let parent = self.parent[node] as usize;
            total[parent] = total[parent].saturating_add(total[node]);
        }
        total
    }
}

/// What one sample of each run stands for, on average.
pub(super) fn grains(runs: &Runs<'_>, unit: Unit) -> Vec<f64> {
    let runs = runs.chances.iter().zip(&runs.weights);
    runs.map(|(chance, weights)| chance.whole(weights, unit).grain).collect()
}

/// Judges numbers of the runs of both sides together. A run without samples gets the grain of the others.
pub(super) fn judged(
    columns: &[Vec<Vec<u64>>; 2],
    grains: &[Vec<f64>; 2],
    rows: usize,
    whole: f64,
) -> Vec<Change> {
    let known = grains.iter().flatten().copied().find(|grain| *grain > 0.0).unwrap_or(0.0);
    let side = |side: usize, row: usize| {
        let runs = columns[side].iter().zip(&grains[side]);
        let grain = |grain: f64| if grain > 0.0 { grain } else { known };
        runs.map(|(column, own)| Estimate { value: column[row], grain: grain(*own) }).collect()
    };
    let series = |row: usize| Series { before: side(0, row), after: side(1, row) };
    decided(&(0..rows).map(series).collect::<Vec<_>>(), whole)
}

impl Paths {
    /// Merges the paths of both sides and judges what changed.
    pub fn of_runs(before: &Runs<'_>, after: &Runs<'_>, inline: bool) -> Self {
        let sides = [before, after];
        let functions = Functions::matched(sides, inline);
        let merged = Merged::new(sides, &functions, inline);
        let unit = before.metric().map_or(Unit::Nanoseconds, |metric| metric.unit);
        let grains = sides.map(|runs| grains(runs, unit));
        let totals = [0, 1].map(|side: usize| {
            merged.own[side].iter().map(|own| merged.with_callees(own)).collect::<Vec<_>>()
        });
        let whole = before.mean_whole();
        let own = judged(&merged.own, &grains, merged.len(), whole);
        let total = judged(&totals, &grains, merged.len(), whole);
        let self_value = own.iter().map(|change| change.before.max(change.after)).collect::<Vec<_>>();
        let tree = CallTree {
            total_value: merged.with_callees(&self_value),
            self_value,
            label: merged
                .function
                .iter()
                .map(|row| row.map_or(Label::Root, |row| Label::Function(FunctionId(row))))
                .collect(),
            inlined: merged
                .inlined
                .iter()
                .zip(&merged.function)
                .map(|(inlined, row)| *inlined && row.is_some())
                .collect(),
            parent: merged.parent,
        };
        Self { profile: named(&functions, sides, 1), places: functions.places, tree, own, total }
    }

    /// The names of a path, outermost first.
    pub fn names(&self, node: u32) -> Vec<String> {
        let mut names = Vec::new();
        let mut at = node;
        while at != 0 {
            names.push(labels::name(&self.profile, self.tree.label[at as usize]).into_owned());
            at = self.tree.parent[at as usize];
        }
        names.reverse();
        names
    }

    /// The paths with a change at their end: decided ones first, largest difference first, then the others
    /// that differ.
    pub fn by_own(&self) -> Vec<u32> {
        let differs = |node: &u32| self.own[*node as usize].difference() != 0;
        let mut nodes = (1..self.tree.len() as u32).filter(differs).collect::<Vec<_>>();
        nodes.sort_by(|a, b| super::by_difference(&self.own[*a as usize], &self.own[*b as usize]));
        nodes
    }
}

/// A profile that holds only the functions, with the names of the preferred side where both have them.
pub(super) fn named(functions: &Functions, sides: [&Runs<'_>; 2], preferred: usize) -> Profile {
    let mut profile = Profile::default();
    let mut strings: FxHashMap<String, StringId> = FxHashMap::default();
    for places in &functions.places {
        let known =
            [preferred, 1 - preferred].map(|side| Some((&sides[side].profile, places[side].as_ref()?)));
        let Some((from, place)) = known.into_iter().flatten().next() else { continue };
        let mut text = |text: &str| match strings.get(text) {
            Some(id) => *id,
            None => *strings.entry(text.to_owned()).or_insert(profile.strings.push(text)),
        };
        let row = match place.label {
            Label::Function(id) => from.functions.get(id.index()),
            _ => None,
        };
        let name = text(&labels::name(from, place.label));
        profile.functions.push(Function {
            name,
            raw_name: name,
            crate_name: row.and_then(|row| row.crate_name).map(|id| text(from.text(id))),
            kind: row.map_or_else(|| labels::kind(from, place.label), |row| row.kind),
            file: place.file.map(|file| text(from.text(file))),
            line: place.line,
            module: None,
        });
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{Side, Verdict};
    use crate::selection::Selection;
    use crate::testing;

    fn paths(before: &[Profile], after: &[Profile]) -> Paths {
        let selection = Selection::default();
        fn sides<'p>(profiles: &'p [Profile], selection: &'p Selection) -> Vec<Side<'p>> {
            profiles.iter().map(|profile| Side { profile, selection }).collect()
        }
        let runs = [before, after].map(|profiles| Runs::new(sides(profiles, &selection)));
        Paths::of_runs(&runs[0], &runs[1], true)
    }

    /// Nodes as `path: before→after verdict, width`, in samples.
    fn lines(paths: &Paths) -> Vec<String> {
        let line = |node: u32| {
            let at = node as usize;
            let (change, width) = (&paths.total[at], paths.tree.total_value[at] / testing::SAMPLE_NS);
            let [before, after] = [change.before, change.after].map(|value| value / testing::SAMPLE_NS);
            format!("{}: {before}→{after} {}, {width}", paths.names(node).join(";"), change.verdict.label())
        };
        let mut lines = (0..paths.tree.len() as u32).map(line).collect::<Vec<_>>();
        lines.sort();
        lines
    }

    #[test]
    fn keeps_paths_that_only_one_side_has() {
        let before = testing::profile("main;a;std::old 100\nmain;a 50\nmain;b 200");
        let after = testing::profile("main;a;std::new 300\nmain;a 50\nmain;b 200");
        assert_eq!(
            lines(&paths(&[before], &[after])),
            [
                ": 350→550 more, 650",
                "main: 350→550 more, 650",
                "main;a: 150→350 more, 450",
                "main;a;std::new: 0→300 more, 300",
                "main;a;std::old: 100→0 less, 100",
                "main;b: 200→200 undecided, 200",
            ]
        );
    }

    #[test]
    fn judges_each_path_by_all_runs() {
        let run = |on_path: u64, noise: u64| {
            testing::profile(&format!(
                "main;a;f {}\nmain;b;f {}\nmain;c {}",
                on_path + noise,
                400 - noise,
                300 + 2 * noise
            ))
        };
        let before = [3, 7, 0, 5, 9].map(|noise| run(200, noise));
        let after = [6, 1, 8, 4, 2].map(|noise| run(300, noise));
        let paths = paths(&before, &after);
        let called = paths.by_own().into_iter().filter(|node| paths.own[*node as usize].verdict.is_claim());
        let called = called.map(|node| paths.names(node).join(";")).collect::<Vec<_>>();
        assert_eq!(called, ["main;a;f"]);
        let node = paths.by_own()[0] as usize;
        let ratio = paths.own[node].ratio.unwrap();
        assert!(ratio.low < 1.5 && 1.5 < ratio.high && paths.own[node].verdict == Verdict::More, "{ratio:?}");
    }
}
