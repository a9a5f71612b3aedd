//! A call tree for reading: recursion and boilerplate folded, small branches left out, listed in reading
//! order.

use std::sync::OnceLock;

use whyslow_profile::Profile;

use crate::call_tree::{CallTree, Children, TreeOptions, merge};
use crate::folding::{Folded, Folding, Folds};
use crate::growing::Repeats;
use crate::labels::Labels;
use crate::selection::{Selection, Weights};

/// A call tree whose recursion is folded: `f` calling itself 500 times is one node that says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// The tree.
    pub tree: CallTree,
    /// How often the frames that end at a node repeat.
    pub repeats: Repeats,
    /// What is folded into a node in addition to recursion.
    pub folds: Folds,
    /// For each node of the tree that was folded, its node here; empty if nothing was folded.
    pub node_of: Vec<u32>,
    /// The children of each node, computed on demand.
    children: OnceLock<Children>,
}

/// A node of an [`Outline`] that is worth showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlineItem {
    /// The node.
    pub node: u32,
    /// Its depth; children of the root have 0.
    pub depth: u32,
}

impl Outline {
    /// Merges the selected stacks and folds their recursion.
    pub fn build(profile: &Profile, selection: &Selection, options: &TreeOptions) -> Self {
        Self::from_weights(profile, &selection.weigh(profile), options)
    }

    /// The same for stacks whose weights are known already.
    pub fn from_weights(profile: &Profile, weights: &Weights, options: &TreeOptions) -> Self {
        Self::from_parts(merge(profile, weights, options, true))
    }

    /// The same, with code that only carries other code folded: start-up, thread starts, executors and
    /// similar.
    pub fn folded(profile: &Profile, weights: &Weights, options: &TreeOptions) -> Self {
        Self::folded_tree(profile, weights, &CallTree::from_weights(profile, weights, options), options)
    }

    /// The same for a tree that is known already.
    pub fn folded_tree(
        profile: &Profile,
        weights: &Weights,
        whole: &CallTree,
        options: &TreeOptions,
    ) -> Self {
        let labels = Labels::new(profile);
        let folding = Folding::new(profile, &labels, weights, options.inline);
        Self::from_whole(whole, &folding, options)
    }

    pub(crate) fn from_whole(whole: &CallTree, folding: &Folding<'_>, options: &TreeOptions) -> Self {
        let Folded { tree, repeats, folds, node_of } = folding.fold(whole, options);
        Self { tree, repeats, folds, node_of, children: OnceLock::new() }
    }

    pub(crate) fn from_parts((tree, repeats): (CallTree, Repeats)) -> Self {
        Self { tree, repeats, folds: Folds::default(), node_of: Vec::new(), children: OnceLock::new() }
    }

    /// The children of each node, heaviest first.
    pub fn children(&self) -> &Children {
        self.children.get_or_init(|| self.tree.children())
    }

    /// Value of everything.
    pub fn total_value(&self) -> u64 {
        self.tree.total_value[0]
    }

    /// The children of a node whose value is at least `min_value`, heaviest first.
    pub fn children_from(&self, node: u32, min_value: u64) -> &[u32] {
        let all = self.children().of(node);
        let kept = all.partition_point(|&child| self.tree.total_value[child as usize] >= min_value.max(1));
        &all[..kept]
    }

    /// The nodes with at least this share of everything, each before its children, heaviest branch first;
    /// without the root.
    pub fn items(&self, min_share: f64) -> Vec<OutlineItem> {
        let min_value = self.min_value(min_share);
        let mut items = Vec::new();
        let mut open = vec![OutlineItem { node: 0, depth: 0 }];
        while let Some(item) = open.pop() {
            let mut depth = 0;
            if item.node != 0 {
                items.push(item);
                depth = item.depth + 1;
            }
            let children = self.children_from(item.node, min_value);
            open.extend(children.iter().rev().map(|&node| OutlineItem { node, depth }));
        }
        items
    }

    /// The smallest value that is this share of everything.
    pub fn min_value(&self, min_share: f64) -> u64 {
        (self.total_value() as f64 * min_share.clamp(0.0, 1.0)).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growing::Repeat;
    use crate::testing;

    fn lines(folded: &str, options: &TreeOptions, min_share: f64) -> Vec<String> {
        let profile = testing::profile(folded);
        let outline = Outline::build(&profile, &Selection::default(), options);
        let shown = outline.items(min_share).into_iter().map(|item| {
            let at = item.node as usize;
            let name = CallTree::name(&profile, outline.tree.label[at]);
            let indent = " ".repeat(item.depth as usize);
            let (own, total) = (outline.tree.self_value[at], outline.tree.total_value[at]);
            let repeat = match outline.repeats.of(item.node) {
                Repeat { times: 0, .. } => String::new(),
                Repeat { frames, times, more } => {
                    format!(" {frames}×{times}{}", if more { "+" } else { "" })
                }
            };
            format!("{indent}{name} {}/{}{repeat}", own / testing::SAMPLE_NS, total / testing::SAMPLE_NS)
        });
        shown.collect()
    }

    #[test]
    fn frames_without_a_function_are_one_row_and_not_recursion() {
        let folded = "main;[libz.so];[libz.so];[libz.so];work 3";
        assert_eq!(lines(folded, &TreeOptions::default(), 0.0), ["main 0/3", " [libz.so] 0/3", "  work 3/3"]);
    }

    #[test]
    fn recursive_function_is_one_node() {
        let deep = format!("main{};work 3\nmain;f;f;work 2\nmain;f 1", ";f".repeat(500));
        assert_eq!(lines(&deep, &TreeOptions::default(), 0.0), ["main 0/6", " f 1/6 1×500", "  work 5/5"]);
    }

    #[test]
    fn recursion_that_is_partly_left_out_is_one_node() {
        let part = |times| ";f".repeat(times);
        let deep = format!("main{};[recursion left out]{};work 3", part(112), part(17));
        assert_eq!(lines(&deep, &TreeOptions::default(), 0.0), ["main 0/3", " f 0/3 1×129+", "  work 3/3"]);
        let turns = format!("main{};a;[recursion left out];b{};work 3", ";a;b".repeat(9), ";a;b".repeat(4));
        assert_eq!(
            lines(&turns, &TreeOptions::default(), 0.0),
            ["main 0/3", " a 0/3", "  b 0/3 2×14+", "   work 3/3"]
        );
    }

    #[test]
    fn functions_that_call_each_other_are_one_round() {
        let deep = format!("main{};work 3", ";a;b".repeat(200));
        assert_eq!(
            lines(&deep, &TreeOptions::default(), 0.0),
            ["main 0/3", " a 0/3", "  b 0/3 2×200", "   work 3/3"]
        );
    }

    #[test]
    fn the_same_function_elsewhere_on_the_stack_is_not_folded() {
        assert_eq!(
            lines("call;main;call;run 1", &TreeOptions::default(), 0.0),
            ["call 0/1", " main 0/1", "  call 0/1", "   run 1/1"]
        );
    }

    #[test]
    fn recursion_folds_in_inverted_trees_too() {
        let options = TreeOptions { inverted: true, ..TreeOptions::default() };
        let deep = format!("main{};work 3", ";f".repeat(20));
        assert_eq!(lines(&deep, &options, 0.0), ["work 0/3", " f 0/3 1×20", "  main 3/3"]);
    }

    #[test]
    fn small_branches_are_left_out() {
        assert_eq!(lines("main;a 97\nmain;b 3", &TreeOptions::default(), 0.05), ["main 0/100", " a 97/97"]);
        assert_eq!(lines("main;a 97\nmain;b 3", &TreeOptions::default(), 0.03).len(), 3);
    }
}
