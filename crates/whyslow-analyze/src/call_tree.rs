//! Stacks merged by call path.

use std::borrow::Cow;
use std::ops::ControlFlow;

use rustc_hash::FxHashMap;
use whyslow_profile::{CodeKind, Profile, StackId};

use crate::labels::{self, Label, Labels};
use crate::selection::{Selection, Weights};

/// How stacks become a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeOptions {
    /// Whether inlined functions are nodes of their own; otherwise they are part of the function they were
    /// inlined into.
    pub inline: bool,
    /// Whether the innermost frame comes first: the root's children are where the time was spent, and below each
    /// are its callers.
    pub inverted: bool,
    /// Frames of each stack that are used, counted from the root of the tree. What is deeper counts at the last
    /// node used.
    pub max_depth: usize,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { inline: true, inverted: false, max_depth: usize::MAX }
    }
}

/// Stacks merged by call path: a tree as columns. A parent's row comes before its children's; node 0 is the root.
///
/// `total_value = self_value + Σ total_value of the children`, for every node.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTree {
    /// The node one step nearer to the root: the caller, or the callee in an inverted tree. 0 for the root itself.
    pub parent: Vec<u32>,
    /// What the node stands for.
    pub label: Vec<Label>,
    /// Whether the compiler inlined this function into its caller, everywhere it is merged into this node.
    pub inlined: Vec<bool>,
    /// Value of the samples whose path ends at this node: its innermost frame, or in an inverted tree its outermost.
    pub self_value: Vec<u64>,
    /// Value of all samples at or below this node.
    pub total_value: Vec<u64>,
}

impl CallTree {
    /// Merges the selected stacks.
    pub fn build(profile: &Profile, selection: &Selection, options: &TreeOptions) -> Self {
        Self::from_weights(profile, &selection.weigh(profile), options)
    }

    /// Merges stacks whose weights are known already.
    pub fn from_weights(profile: &Profile, weights: &Weights, options: &TreeOptions) -> Self {
        let labels = Labels::new(profile);
        let growing = Growing::new(&labels);
        if options.inverted {
            growing.inverted(profile, weights, options)
        } else {
            growing.top_down(profile, weights, options)
        }
    }

    /// The name to show for a node's label.
    pub fn name(profile: &Profile, label: Label) -> Cow<'_, str> {
        labels::name(profile, label)
    }

    /// Whose code a label is.
    pub fn kind(profile: &Profile, label: Label) -> CodeKind {
        labels::kind(profile, label)
    }

    /// How many nodes there are, the root included.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// True when there is nothing but the root.
    pub fn is_empty(&self) -> bool {
        self.len() <= 1
    }

    /// The children of every node, heaviest first; equal ones in the order they were first seen.
    pub fn children(&self) -> Children {
        let mut starts = vec![0u32; self.len() + 1];
        for &parent in self.parent.iter().skip(1) {
            starts[parent as usize + 1] += 1;
        }
        for node in 0..self.len() {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut nodes = vec![0; self.len().saturating_sub(1)];
        for (node, &parent) in (0u32..).zip(&self.parent).skip(1) {
            let at = &mut next[parent as usize];
            nodes[*at as usize] = node;
            *at += 1;
        }
        for range in starts.windows(2) {
            nodes[range[0] as usize..range[1] as usize]
                .sort_by_key(|&node| std::cmp::Reverse(self.total_value[node as usize]));
        }
        Children { starts, nodes }
    }
}

/// The children of every node of a [`CallTree`], heaviest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    starts: Vec<u32>,
    nodes: Vec<u32>,
}

impl Children {
    /// The children of one node.
    pub fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.nodes[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

/// A tree that nodes are added to.
struct Growing<'a> {
    labels: &'a Labels,
    tree: CallTree,
    /// Node by parent node (high half) and label number (low half).
    nodes: FxHashMap<u64, u32>,
    /// The child found last under each node, as label number and node: most stacks repeat the path before them.
    last: Vec<(u32, u32)>,
}

impl<'a> Growing<'a> {
    fn new(labels: &'a Labels) -> Self {
        let tree = CallTree {
            parent: vec![0],
            label: vec![Label::Root],
            inlined: vec![false],
            self_value: vec![0],
            total_value: Vec::new(),
        };
        Self { labels, tree, nodes: FxHashMap::default(), last: vec![(u32::MAX, 0)] }
    }

    /// The node for this label under `parent`.
    fn child(&mut self, parent: u32, code: u32, inlined: bool) -> u32 {
        let (last_code, last_node) = self.last[parent as usize];
        let next = self.tree.parent.len() as u32;
        let node = if last_code == code {
            last_node
        } else {
            *self.nodes.entry(u64::from(parent) << 32 | u64::from(code)).or_insert(next)
        };
        if node == next {
            self.tree.parent.push(parent);
            self.tree.label.push(self.labels.label(code));
            self.tree.inlined.push(inlined);
            self.tree.self_value.push(0);
            self.last.push((u32::MAX, 0));
        } else {
            self.tree.inlined[node as usize] &= inlined;
        }
        self.last[parent as usize] = (code, node);
        node
    }

    fn add(&mut self, node: u32, value: u64) {
        let sum = &mut self.tree.self_value[node as usize];
        *sum = sum.saturating_add(value);
    }

    fn top_down(mut self, profile: &Profile, weights: &Weights, options: &TreeOptions) -> CallTree {
        let labels = self.labels;
        let (_, used) = weights.with_callees(profile);
        // Where in the tree each stack ended, and at which depth.
        let mut ends = vec![(0u32, 0usize); profile.stacks.len()];
        for stack in (0..profile.stacks.len()).filter(|&stack| used[stack] > 0) {
            let id = StackId::from(stack);
            let (mut node, mut depth) =
                profile.stacks.parent(id).map_or((0, 0), |parent| ends[parent.index()]);
            labels.outermost_first(profile, profile.stacks.location(id), options.inline, |code, inlined| {
                if depth < options.max_depth {
                    node = self.child(node, code, inlined);
                    depth += 1;
                }
            });
            ends[stack] = (node, depth);
            self.add(node, weights.value[stack]);
        }
        self.finish()
    }

    fn inverted(mut self, profile: &Profile, weights: &Weights, options: &TreeOptions) -> CallTree {
        let labels = self.labels;
        for stack in (0..profile.stacks.len()).filter(|&stack| weights.count[stack] > 0) {
            let (mut node, mut depth) = (0, 0);
            for location in profile.locations_of(StackId::from(stack)) {
                let more = labels.innermost_first(profile, location, options.inline, |code, inlined| {
                    if depth == options.max_depth {
                        return ControlFlow::Break(());
                    }
                    node = self.child(node, code, inlined);
                    depth += 1;
                    ControlFlow::Continue(())
                });
                if more.is_break() {
                    break;
                }
            }
            self.add(node, weights.value[stack]);
        }
        self.finish()
    }

    fn finish(self) -> CallTree {
        let mut tree = self.tree;
        let mut total = tree.self_value.clone();
        for node in (1..tree.len()).rev() {
            let parent = tree.parent[node] as usize;
            total[parent] = total[parent].saturating_add(total[node]);
        }
        tree.total_value = total;
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, SAMPLE_NS};

    /// The tree as `depth name self/total`, in milliseconds.
    fn text(profile: &Profile, tree: &CallTree) -> Vec<String> {
        let children = tree.children();
        let mut lines = Vec::new();
        let mut open = vec![(0u32, 0usize)];
        while let Some((node, depth)) = open.pop() {
            let at = node as usize;
            let name = CallTree::name(profile, tree.label[at]);
            let mark = if tree.inlined[at] { "+" } else { "" };
            let (own, total) = (tree.self_value[at] / SAMPLE_NS, tree.total_value[at] / SAMPLE_NS);
            lines.push(format!("{}{mark}{name} {own}/{total}", " ".repeat(depth)));
            open.extend(children.of(node).iter().rev().map(|&child| (child, depth + 1)));
        }
        lines
    }

    fn built(folded: &str, options: &TreeOptions) -> Vec<String> {
        let profile = testing::profile(folded);
        text(&profile, &CallTree::build(&profile, &Selection::default(), options))
    }

    const FOLDED: &str = "
        main;a;b 10
        main;a 5
        main;c;+d;b 20
        [truncated];b 1
        [libfoo.so];[unknown] 2";

    #[test]
    fn paths_are_merged_and_heaviest_first() {
        assert_eq!(
            built(FOLDED, &TreeOptions::default()),
            [
                "all 0/38",
                " main 0/35",
                "  c 0/20",
                "   +d 0/20",
                "    b 20/20",
                "  a 5/15",
                "   b 10/10",
                " [libfoo.so] 0/2",
                "  [unknown] 2/2",
                " [truncated stack] 0/1",
                "  b 1/1",
            ]
        );
    }

    #[test]
    fn without_inlining_the_owner_takes_all() {
        let options = TreeOptions { inline: false, ..TreeOptions::default() };
        assert_eq!(
            built("main;c;+d;b 20\nmain;c;+d 3", &options),
            ["all 0/23", " main 0/23", "  c 3/23", "   b 20/20"]
        );
    }

    #[test]
    fn inverted_starts_at_the_leaves() {
        let options = TreeOptions { inverted: true, ..TreeOptions::default() };
        assert_eq!(
            built("main;a;b 10\nmain;a 5\nmain;c;+d;b 20", &options),
            [
                "all 0/35",
                " b 0/30",
                "  +d 0/20",
                "   c 0/20",
                "    main 20/20",
                "  a 0/10",
                "   main 10/10",
                " a 0/5",
                "  main 5/5",
            ]
        );
    }

    #[test]
    fn deeper_frames_count_at_the_last_node_used() {
        let options = TreeOptions { max_depth: 2, ..TreeOptions::default() };
        assert_eq!(
            built("main;a;b 10\nmain;c;+d;b 20", &options),
            ["all 0/30", " main 0/30", "  c 20/20", "  a 10/10"]
        );
        let options = TreeOptions { max_depth: 2, inverted: true, ..TreeOptions::default() };
        assert_eq!(
            built("main;a;b 10\nmain;c;+d;b 20", &options),
            ["all 0/30", " b 0/30", "  +d 20/20", "  a 10/10"]
        );
    }

    #[test]
    fn a_function_that_was_inlined_only_sometimes_is_not_marked() {
        assert_eq!(
            built("main;+f 1\nmain;f 1", &TreeOptions::default()),
            ["all 0/2", " main 0/2", "  f 2/2"]
        );
    }
}
