//! Stacks merged by call path.

use std::borrow::Cow;

use whyslow_profile::{Carrier, CodeKind, Profile, StackId};

use crate::growing::{Cursor, Growing, Outward, Repeats};
use crate::labels::{self, Label, Labels};
use crate::selection::{Selection, Weights};

/// How stacks become a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeOptions {
    /// Whether inlined functions are separate nodes; otherwise they are part of the function they were
    /// inlined into.
    pub inline: bool,
    /// Whether the innermost frame comes first: the root's children are where the time was spent, and below
    /// each are its callers.
    pub inverted: bool,
    /// How many frames of each stack are used, counted from the root of the tree. Deeper frames count at the
    /// last node used.
    pub max_depth: usize,
    /// In an inverted tree, branches with a smaller share of everything may be cut short; deeper frames count
    /// at the last node used. It keeps such trees small without a visible difference.
    pub least_share: f64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { inline: true, inverted: false, max_depth: usize::MAX, least_share: 0.0001 }
    }
}

/// Stacks merged by call path: a tree as columns. A parent's row comes before its children's; node 0 is the
/// root.
///
/// `total_value = self_value + Σ total_value of the children`, for every node.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTree {
    /// The node one step nearer to the root: the caller, or the callee in an inverted tree. 0 for the root
    /// itself.
    pub parent: Vec<u32>,
    /// What the node stands for.
    pub label: Vec<Label>,
    /// Whether the compiler inlined this function into its caller, everywhere it is merged into this node.
    pub inlined: Vec<bool>,
    /// Value of the samples whose path ends at this node: its innermost frame, or in an inverted tree its
    /// outermost.
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

    /// The same nodes, with a part of each stack's value.
    pub(crate) fn part(profile: &Profile, weights: &Weights, part: Vec<u64>, options: &TreeOptions) -> Self {
        // The set of nodes depends on the counts, and in an inverted tree also on all values.
        if options.inverted {
            let labels = Labels::new(profile);
            let mut growing = Growing::new(&labels, options, false);
            growing.outwards(profile, from_inside(profile, weights, &part));
            return growing.finish().0;
        }
        Self::from_weights(profile, &Weights { value: part, ..weights.clone() }, options)
    }

    /// The name to show for a node's label.
    pub fn name(profile: &Profile, label: Label) -> Cow<'_, str> {
        labels::name(profile, label)
    }

    /// The kind of a label's code.
    pub fn kind(profile: &Profile, label: Label) -> CodeKind {
        labels::kind(profile, label)
    }

    /// The carrier family of a label, if its code only carries other code.
    pub fn carrier(profile: &Profile, label: Label) -> Option<Carrier> {
        labels::carrier(profile, label)
    }

    /// The number of nodes, including the root.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// True when there is nothing but the root.
    pub fn is_empty(&self) -> bool {
        self.len() <= 1
    }

    /// The children of every node, heaviest first; equal ones in the order in which they were found.
    pub fn children(&self) -> Children {
        self.children_from(0)
    }

    /// The same, without the children whose value is less than `least`.
    pub fn children_from(&self, least: u64) -> Children {
        let mut nodes: Vec<u32> = (1u32..)
            .zip(&self.total_value[1..])
            .filter(|(_, total)| **total >= least)
            .map(|(node, _)| node)
            .collect();
        let parent = |node: u32| self.parent[node as usize];
        let weight = |node: u32| std::cmp::Reverse(self.total_value[node as usize]);
        if nodes.len() < self.len() / SPARSE {
            nodes.sort_by_key(|&node| (parent(node), weight(node)));
            let (mut parents, mut starts) = (Vec::new(), Vec::new());
            for (at, &node) in (0u32..).zip(&nodes) {
                if parents.last() != Some(&parent(node)) {
                    parents.push(parent(node));
                    starts.push(at);
                }
            }
            starts.push(nodes.len() as u32);
            return Children { parents: Some(parents), starts, nodes };
        }
        let mut starts = vec![0u32; self.len() + 1];
        for &node in &nodes {
            starts[parent(node) as usize + 1] += 1;
        }
        for node in 0..self.len() {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut sorted = vec![0; nodes.len()];
        for node in nodes {
            let at = &mut next[parent(node) as usize];
            sorted[*at as usize] = node;
            *at += 1;
        }
        for range in starts.windows(2) {
            sorted[range[0] as usize..range[1] as usize].sort_by_key(|&node| weight(node));
        }
        Children { parents: None, starts, nodes: sorted }
    }
}

/// If fewer than one in this many nodes are listed, only their parents have an entry.
const SPARSE: usize = 4;

/// The children of every node of a [`CallTree`], heaviest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// The nodes with an entry in `starts`, in order; `None` if every node has one.
    parents: Option<Vec<u32>>,
    starts: Vec<u32>,
    nodes: Vec<u32>,
}

impl Children {
    /// The children of one node.
    pub fn of(&self, node: u32) -> &[u32] {
        let row = match &self.parents {
            None => node as usize,
            Some(parents) => match parents.binary_search(&node) {
                Ok(row) => row,
                Err(_) => return &[],
            },
        };
        &self.nodes[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}

/// Merges stacks by call path. With `fold`, recursion is folded into the nodes of its first round, and the
/// repeat counts are known.
pub(crate) fn merge(
    profile: &Profile,
    weights: &Weights,
    options: &TreeOptions,
    fold: bool,
) -> (CallTree, Repeats) {
    let labels = Labels::new(profile);
    let mut growing = Growing::new(&labels, options, fold);
    if options.inverted {
        growing.outwards(profile, from_inside(profile, weights, &weights.value));
    } else {
        let used = weights.used_stacks(profile);
        if !fold
            && options.max_depth == usize::MAX
            && let Some(codes) = labels.distinct_by_location(profile, options.inline)
        {
            return (growing.copy(profile, weights, &used, &codes), Repeats::default());
        }
        growing.reserve(used.iter().filter(|used| **used).count());
        let mut ends = vec![Cursor::default(); profile.stacks.len()];
        for stack in (0..profile.stacks.len()).filter(|&stack| used[stack]) {
            let id = StackId::from(stack);
            let mut at = profile.stacks.parent(id).map_or(Cursor::default(), |parent| ends[parent.index()]);
            growing.descend(profile, &mut at, profile.stacks.location(id));
            ends[stack] = at;
            growing.add(at.node, weights.value[stack]);
        }
    }
    growing.finish()
}

/// Every stack that counts, at its innermost frame.
fn from_inside(profile: &Profile, weights: &Weights, adds: &[u64]) -> Vec<Outward> {
    let stacks = (0..profile.stacks.len()).filter(|&stack| weights.count[stack] > 0);
    let outward = |stack: usize| Outward {
        at: Cursor::default(),
        next: Some(StackId::from(stack)),
        value: weights.value[stack],
        adds: adds[stack],
    };
    stacks.map(outward).collect()
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
    fn stacks_of_functions_and_of_addresses_give_the_same_tree() {
        // First every location is another function, so the tree copies the stacks. Then two locations are one
        // function.
        let functions = "main;a;b 10\nmain;c 5\nmain;a 2";
        assert_eq!(
            built(functions, &TreeOptions::default()),
            ["all 0/17", " main 0/17", "  a 2/12", "   b 10/10", "  c 5/5"]
        );
        let mut profile = testing::profile("main;a;b 10\nmain;c 5\nmain;a 2\nmain;d;b 1");
        let named = |name: &str| {
            let of = |row: &whyslow_profile::Function| profile.text(row.name) == name;
            profile.functions.iter().position(of).expect("it is there")
        };
        let (a, d) = (named("a"), named("d"));
        profile.functions[d] = profile.functions[a].clone();
        let tree = CallTree::build(&profile, &Selection::default(), &TreeOptions::default());
        assert_eq!(text(&profile, &tree), ["all 0/18", " main 0/18", "  a 2/13", "   b 11/11", "  c 5/5"]);
    }

    #[test]
    fn few_children_are_listed_as_many_are() {
        let folded = (1..200).map(|at| format!("main;f{};g{at} {}\n", at % 7, at % 31)).collect::<String>();
        let profile = testing::profile(&folded);
        let tree = CallTree::build(&profile, &Selection::default(), &TreeOptions::default());
        let all = tree.children();
        for least in [1, 20, 25, 30, 31, 1_000, 100_000] {
            let few = tree.children_from(least * SAMPLE_NS);
            for node in 0..tree.len() as u32 {
                let heavy = |child: &u32| tree.total_value[*child as usize] >= least * SAMPLE_NS;
                let expected = all.of(node).iter().copied().filter(heavy).collect::<Vec<_>>();
                assert_eq!(few.of(node), expected, "node {node}, from {least}");
            }
        }
    }

    #[test]
    fn lists_children_from_a_minimum_value() {
        let profile = testing::profile("main;a 10\nmain;b 5\nmain;c 2");
        let tree = CallTree::build(&profile, &Selection::default(), &TreeOptions::default());
        let count = |least: u64| tree.children_from(least * SAMPLE_NS).of(1).len();
        assert_eq!([count(0), count(3), count(10), count(11)], [3, 2, 1, 0]);
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
