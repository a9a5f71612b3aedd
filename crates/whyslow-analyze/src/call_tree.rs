//! Stacks merged by call path.

use std::borrow::Cow;

use whyslow_profile::{Carrier, CodeKind, Profile, StackId};

use crate::growing::{Cursor, Growing, Outward, Repeat};
use crate::labels::{self, Label, Labels};
use crate::selection::{Selection, Weights};

/// How stacks become a tree.
#[derive(Debug, Clone, PartialEq)]
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
    /// In an inverted tree, branches with a smaller share of everything may not be followed to their end; what is
    /// deeper counts at the last node used. It keeps such trees small, and nobody can see the difference.
    pub least_share: f64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { inline: true, inverted: false, max_depth: usize::MAX, least_share: 0.0001 }
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
        merge(profile, weights, options, false).0
    }

    /// The name to show for a node's label.
    pub fn name(profile: &Profile, label: Label) -> Cow<'_, str> {
        labels::name(profile, label)
    }

    /// Whose code a label is.
    pub fn kind(profile: &Profile, label: Label) -> CodeKind {
        labels::kind(profile, label)
    }

    /// The family of code that only carries other code, when the label is of one.
    pub fn carrier(profile: &Profile, label: Label) -> Option<Carrier> {
        labels::carrier(profile, label)
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

/// Merges stacks by call path; with `fold`, recursion stays at the nodes of its first round.
pub(crate) fn merge(
    profile: &Profile,
    weights: &Weights,
    options: &TreeOptions,
    fold: bool,
) -> (CallTree, Vec<Repeat>) {
    let labels = Labels::new(profile);
    let mut growing = Growing::new(&labels, options, fold);
    if options.inverted {
        let stacks = (0..profile.stacks.len()).filter(|&stack| weights.count[stack] > 0);
        let stacks = stacks.map(|stack| Outward {
            at: Cursor::default(),
            next: Some(StackId::from(stack)),
            value: weights.value[stack],
        });
        growing.outwards(profile, stacks.collect());
    } else {
        let (_, used) = weights.with_callees(profile);
        growing.reserve(used.iter().filter(|&&count| count > 0).count());
        let mut ends = vec![Cursor::default(); profile.stacks.len()];
        for stack in (0..profile.stacks.len()).filter(|&stack| used[stack] > 0) {
            let id = StackId::from(stack);
            let mut at = profile.stacks.parent(id).map_or(Cursor::default(), |parent| ends[parent.index()]);
            growing.descend(profile, &mut at, profile.stacks.location(id));
            ends[stack] = at;
            growing.add(at.node, weights.value[stack]);
        }
    }
    growing.finish()
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
