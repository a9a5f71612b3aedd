//! Folds code that only carries other code: start-up, thread starts, executors, panic catching, forwarded
//! calls.
//!
//! ```text
//! carried = in a family of `whyslow_profile::Carrier`, and without notable self time
//! region  = adjacent carried nodes, at least MIN_FRAMES deep; it becomes one node per family
//! ```
//! The callees of a region hang from its node, added up by function: with rayon the same work runs on many
//! paths. Values do not change. Two such nodes become one if almost everything of the outer goes into the
//! inner.

use whyslow_profile::{Carrier, LocationId, Profile, StackId};

use crate::call_tree::{CallTree, TreeOptions};
use crate::growing::{Ends, Growing, Repeats};
use crate::labels::{self, Label, Labels};
use crate::selection::Weights;

/// A function with a larger self share is always shown.
const NOTABLE_SHARE: f64 = 0.01;
/// Shorter chains are easier to read than their folded form.
const MIN_FRAMES: u32 = 3;

/// What a node of a folded tree stands for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fold {
    /// How many frames it stands for on the deepest stack; 0 if nothing is folded.
    pub frames: u32,
    /// Their families, one bit for each code.
    families: u32,
}

impl Fold {
    /// The families in words, outermost first: `thread start, rayon`.
    pub fn words(self) -> String {
        let has = |carrier: &Carrier| self.families & bit(*carrier) != 0;
        let speaks = Carrier::all().filter(has).any(|carrier| !carrier.says_nothing());
        let words = Carrier::all().filter(has).filter(|carrier| !(speaks && carrier.says_nothing()));
        words.map(Carrier::word).collect::<Vec<_>>().join(", ")
    }
}

/// What the nodes of a folded tree stand for. Few are folded.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Folds {
    /// Up to the last node that is folded.
    of_nodes: Vec<Fold>,
}

impl Folds {
    /// What a node stands for.
    pub fn of(&self, node: u32) -> Fold {
        self.of_nodes.get(node as usize).copied().unwrap_or_default()
    }

    /// Whether anything is folded, recursion aside.
    pub fn any(&self) -> bool {
        self.of_nodes.iter().any(|fold| fold.frames > 0)
    }
}

fn bit(carrier: Carrier) -> u32 {
    1 << carrier.code()
}

/// Which functions are folded for some weights.
pub(crate) struct Folding<'a> {
    labels: &'a Labels,
    /// The family of each label number; `None` for labels that are not folded.
    family: Vec<Option<Carrier>>,
    /// Values up to this are not worth a separate branch.
    small: u64,
}

impl<'a> Folding<'a> {
    pub(crate) fn new(profile: &Profile, labels: &'a Labels, weights: &Weights, inline: bool) -> Self {
        let mut own = vec![0u64; labels.len()];
        for (stack, &value) in weights.value.iter().enumerate().filter(|(_, value)| **value > 0) {
            let location: LocationId = profile.stacks.location(StackId::from(stack));
            let own = &mut own[labels.innermost(profile, location, inline) as usize];
            *own = own.saturating_add(value);
        }
        let small = (weights.total_value as f64 * NOTABLE_SHARE) as u64;
        let family = (0u32..).zip(own).map(|(code, own)| {
            let label = labels.label(code);
            let named = matches!(label, Label::Function(_)) && own <= small;
            named.then(|| labels::carrier(profile, label)).flatten()
        });
        Self { labels, family: family.collect(), small }
    }

    /// The tree with its regions and its recursion folded.
    pub(crate) fn fold(&self, whole: &CallTree, options: &TreeOptions) -> Folded {
        if self.family.iter().all(Option::is_none) {
            let (tree, repeats, node_of) = self.fold_recursion(whole, options);
            return Folded { tree, repeats, folds: Folds::default(), node_of };
        }
        let regions = self.fold_regions(whole, options);
        if !regions.folds.any() {
            let Regions { tree, repeats, folds, node_of, .. } = regions;
            return Folded { tree, repeats, folds, node_of };
        }
        self.join_neighbours(&regions, options)
    }

    fn family_of(&self, tree: &CallTree, node: usize) -> Option<Carrier> {
        if node == 0 { None } else { self.family[self.labels.code(tree.label[node]) as usize] }
    }

    /// Whether each node is in a region.
    fn regions(&self, tree: &CallTree) -> Vec<bool> {
        let carried = (0..tree.len()).map(|node| self.family_of(tree, node).is_some()).collect::<Vec<_>>();
        let mut deepest = vec![0u32; tree.len()];
        for node in 1..tree.len() {
            if carried[node] {
                deepest[node] = deepest[tree.parent[node] as usize] + 1;
            }
        }
        for node in (1..tree.len()).rev().filter(|&node| carried[node]) {
            let parent = tree.parent[node] as usize;
            if carried[parent] {
                deepest[parent] = deepest[parent].max(deepest[node]);
            }
        }
        // The outermost node of a region knows how deep it is.
        for node in 1..tree.len() {
            let parent = tree.parent[node] as usize;
            if carried[node] && carried[parent] {
                deepest[node] = deepest[parent];
            }
        }
        deepest.into_iter().map(|frames| frames >= MIN_FRAMES).collect()
    }

    /// The tree with only its recursion folded.
    fn fold_recursion(&self, whole: &CallTree, options: &TreeOptions) -> (CallTree, Repeats, Vec<u32>) {
        let mut growing = Growing::new(self.labels, options, true);
        growing.reserve(whole.len());
        let mut ends = Ends::new(whole.len(), options);
        // Whether several nodes of the whole tree have been merged. Otherwise a node's children are new,
        // since no two children of a node have the same label.
        let mut merged = vec![false; whole.len()];
        for node in 1..whole.len() {
            let mut at = ends.of(whole.parent[node]);
            let (code, before) = (self.labels.code(whole.label[node]), growing.len());
            if merged[at.node as usize] {
                let _ = growing.step(&mut at, code, whole.inlined[node]);
            } else {
                growing.step_new(&mut at, code, whole.inlined[node]);
            }
            merged[at.node as usize] |= growing.len() == before;
            ends.push(whole.parent[node], at);
            growing.add(at.node, whole.self_value[node]);
        }
        growing.add(0, whole.self_value[0]);
        drop(merged);
        let node_of = ends.into_nodes();
        let (tree, repeats) = growing.finish();
        (tree, repeats, node_of)
    }

    /// One node per region and family.
    fn fold_regions(&self, whole: &CallTree, options: &TreeOptions) -> Regions {
        let in_region = self.regions(whole);
        let mut growing = Growing::new(self.labels, options, true);
        growing.reserve(whole.len());
        let mut ends = Ends::new(whole.len(), options);
        // The family of each node's region, and its frames so far.
        let mut inside: Vec<Option<(Carrier, u32)>> = vec![None; whole.len()];
        let mut folds: Vec<Fold> = Vec::new();
        // The function of a folded node that stands for a single function.
        let mut only: Vec<Option<Label>> = Vec::new();
        for node in 1..whole.len() {
            let parent = whole.parent[node] as usize;
            let mut at = ends.of(whole.parent[node]);
            match in_region[node].then(|| self.family_of(whole, node)).flatten() {
                None => {
                    let _ = growing.step(&mut at, self.labels.code(whole.label[node]), whole.inlined[node]);
                }
                Some(family) => {
                    let (family, frames) = match inside[parent] {
                        Some((around, frames)) if family.joins(around) => (around, frames + 1),
                        _ => {
                            let _ = growing.step(&mut at, self.labels.code(Label::Carried(family)), false);
                            (family, 1)
                        }
                    };
                    inside[node] = Some((family, frames));
                    let place = at.node as usize;
                    if place >= folds.len() {
                        folds.resize(place + 1, Fold::default());
                        only.resize(place + 1, None);
                        only[place] = Some(whole.label[node]);
                    }
                    only[place] = only[place].filter(|label| *label == whole.label[node]);
                    folds[place].frames = folds[place].frames.max(frames);
                    folds[place].families |= bit(family);
                }
            }
            ends.push(whole.parent[node], at);
            growing.add(at.node, whole.self_value[node]);
        }
        growing.add(0, whole.self_value[0]);
        let node_of = ends.into_nodes();
        let (tree, repeats) = growing.finish();
        Regions { tree, repeats, folds: Folds { of_nodes: folds }, node_of, only }
    }

    /// Joins a folded node with its folded child if nothing else below it is worth showing, and undoes
    /// foldings of one frame.
    fn join_neighbours(&self, regions: &Regions, options: &TreeOptions) -> Folded {
        let Regions { tree, repeats, folds, only, node_of } = regions;
        let joins = |node: usize| {
            let parent = tree.parent[node] as usize;
            folds.of(node as u32).frames > 0
                && folds.of(parent as u32).frames > 0
                && repeats.of(node as u32).times < 2
                && tree.total_value[parent] - tree.total_value[node] <= self.small
        };
        let mut label = tree.label.clone();
        let mut joined: Vec<Fold> = (0u32..).map(|node| folds.of(node)).take(tree.len()).collect();
        for node in (1..tree.len()).rev().filter(|&node| joins(node)) {
            let parent = tree.parent[node] as usize;
            joined[parent].frames += joined[node].frames;
            joined[parent].families |= joined[node].families;
        }
        for node in 1..tree.len() {
            if let (1, Some(Some(function))) = (joined[node].frames, only.get(node).copied()) {
                label[node] = function;
                joined[node] = Fold::default();
            }
        }
        let mut growing = Growing::new(self.labels, options, false);
        let mut ends = Ends::new(tree.len(), options);
        let mut all = Repeats::default();
        let mut folds = vec![Fold::default()];
        for node in 1..tree.len() {
            let mut at = ends.of(tree.parent[node]);
            if !joins(node) {
                let _ = growing.step(&mut at, self.labels.code(label[node]), tree.inlined[node]);
                let (place, repeat) = (at.node as usize, repeats.of(node as u32));
                if repeat.times > all.of(at.node).times {
                    *all.of_mut(at.node) = repeat;
                }
                folds.resize(folds.len().max(place + 1), Fold::default());
                folds[place].frames = folds[place].frames.max(joined[node].frames);
                folds[place].families |= joined[node].families;
            }
            ends.push(tree.parent[node], at);
            growing.add(at.node, tree.self_value[node]);
        }
        growing.add(0, tree.self_value[0]);
        let node_of = node_of.iter().map(|&node| ends.of(node).node).collect();
        let folds = Folds { of_nodes: folds };
        Folded { tree: growing.finish().0, repeats: all, folds, node_of }
    }
}

/// A folded tree.
pub(crate) struct Folded {
    pub(crate) tree: CallTree,
    pub(crate) repeats: Repeats,
    pub(crate) folds: Folds,
    /// For each node of the whole tree, its node here.
    pub(crate) node_of: Vec<u32>,
}

/// A tree with folded regions.
struct Regions {
    tree: CallTree,
    repeats: Repeats,
    folds: Folds,
    /// For each node of the whole tree, its node here.
    node_of: Vec<u32>,
    /// The function of a folded node that stands for a single function, up to the last one.
    only: Vec<Option<Label>>,
}

#[cfg(test)]
mod tests {
    use crate::call_tree::{CallTree, TreeOptions};
    use crate::outline::Outline;
    use crate::selection::Selection;
    use crate::testing::{self, SAMPLE_NS};

    fn lines(folded: &str, inverted: bool) -> Vec<String> {
        let profile = testing::profile(folded);
        let options = TreeOptions { inverted, ..TreeOptions::default() };
        let outline = Outline::folded(&profile, &Selection::default().weigh(&profile), &options);
        let shown = outline.items(0.0).into_iter().map(|item| {
            let at = item.node as usize;
            let fold = outline.folds.of(item.node);
            let name = match fold.frames {
                0 => CallTree::name(&profile, outline.tree.label[at]).into_owned(),
                frames => format!("[{} {frames}]", fold.words()),
            };
            let (own, total) = (outline.tree.self_value[at], outline.tree.total_value[at]);
            let times = outline.repeats.of(item.node).times;
            let repeat = if times > 1 { format!(" ×{times}") } else { String::new() };
            let indent = " ".repeat(item.depth as usize);
            format!("{indent}{name} {}/{}{repeat}", own / SAMPLE_NS, total / SAMPLE_NS)
        });
        shown.collect()
    }

    const STARTS: &str = "_start;__libc_start_main;__libc_start_call_main;std::rt::lang_start";
    const WORKER: &str =
        "clone3;start_thread;std::thread::lifecycle::spawn;__rust_try;rayon_core::registry::main_loop";

    #[test]
    fn chain_of_carriers_becomes_one_node() {
        let folded = format!("{STARTS};app::main;app::work 90\n{STARTS};app::main;app::rest 10");
        assert_eq!(
            lines(&folded, false),
            ["[start-up 4] 0/100", " app::main 0/100", "  app::work 90/90", "  app::rest 10/10"]
        );
    }

    #[test]
    fn adds_up_the_same_work_on_many_executor_paths() {
        let join = "rayon_core::join::join;rayon_core::unwind::halt;rayon::iter::helper";
        let other = "rayon_core::join::join;rayon_core::job::execute;rayon::iter::helper";
        let folded = format!(
            "w: {WORKER};{join};{other};app::render 30\nw: {WORKER};{other};{join};{join};app::render 60
             w: {WORKER};{other};app::left 10"
        );
        assert_eq!(
            lines(&folded, false),
            ["[thread start, rayon 14] 0/100", " app::render 90/90", " app::left 10/10"]
        );
    }

    #[test]
    fn keeps_families_separate_where_their_weights_differ() {
        let folded = format!(
            "w: {WORKER};app::a 50\nt: clone3;start_thread;std::thread::lifecycle::spawn;tokio::runtime::run;app::b 50"
        );
        assert_eq!(
            lines(&folded, false),
            [
                "[thread start 4] 0/100",
                " rayon_core::registry::main_loop 0/50",
                "  app::a 50/50",
                " tokio::runtime::run 0/50",
                "  app::b 50/50"
            ]
        );
    }

    #[test]
    fn never_hides_your_code_or_code_with_self_time() {
        let folded = format!(
            "w: {WORKER};app::a;core::iter::map;core::iter::fold;core::ops::function::call 95\nw: {WORKER} 5"
        );
        assert_eq!(
            lines(&folded, false),
            [
                "[thread start 4] 0/100",
                " rayon_core::registry::main_loop 5/100",
                "  app::a 0/95",
                "   core::iter::map 0/95",
                "    core::iter::fold 0/95",
                "     core::ops::function::call 95/95",
            ]
        );
    }

    #[test]
    fn recursion_through_an_executor_is_one_round() {
        let round = "app::sort;rayon_core::join::join;rayon_core::unwind::halt;rayon::iter::helper";
        let folded = format!("{round};{round};{round};app::sort;app::less 9");
        assert_eq!(
            lines(&folded, false),
            ["app::sort 0/9", " [rayon 3] 0/9 ×3", "  app::sort 0/9", "   app::less 9/9"]
        );
    }

    #[test]
    fn callers_are_folded_too() {
        let folded = format!("{STARTS};app::main;app::work 9");
        assert_eq!(lines(&folded, true), ["app::work 0/9", " app::main 0/9", "  [start-up 4] 9/9"]);
    }

    #[test]
    fn very_deep_stacks_fold_without_recursion() {
        let deep =
            format!("{WORKER}{};app::work 9", ";rayon::iter::helper;rayon_core::join::join".repeat(4000));
        assert_eq!(lines(&format!("w: {deep}"), false), ["[thread start, rayon 8005] 0/9", " app::work 9/9"]);
    }
}
