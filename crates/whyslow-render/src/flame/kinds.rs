//! The share of each kind of code in a picture, and the kinds' names in the legend.

use whyslow_analyze::CallTree;
use whyslow_profile::{CodeKind, Profile};

/// The kinds in legend order, with their names there. `flame.css` has their colours as classes `k0`, `k1`, …
/// by position in this list.
pub(super) const KINDS: [(CodeKind, &str); 7] = [
    (CodeKind::Yours, "your code"),
    (CodeKind::Dependency, "dependency"),
    (CodeKind::Std, "std"),
    (CodeKind::Allocator, "allocator"),
    (CodeKind::Kernel, "kernel"),
    (CodeKind::Runtime, "runtime"),
    (CodeKind::Unknown, "unknown"),
];

/// The colour class of entries that are not code: the root and the placeholder for missing frames.
pub(super) const NO_CODE: usize = KINDS.len();

/// The colour class of a kind.
pub(super) fn class(kind: Option<CodeKind>) -> usize {
    kind.and_then(|kind| KINDS.iter().position(|(known, _)| *known == kind)).unwrap_or(NO_CODE)
}

/// For each row of [`KINDS`], the value of the samples taken in such code, or `None` if the tree has no such
/// code. In a tree of callers these are the root's children.
pub(super) fn self_values(tree: &CallTree, profile: &Profile, callers: bool) -> [Option<u64>; KINDS.len()] {
    let mut sums = [None; KINDS.len()];
    for (node, &label) in tree.label.iter().enumerate().skip(1) {
        let value = match (callers, tree.parent[node]) {
            (false, _) => tree.self_value[node],
            (true, 0) => tree.total_value[node],
            (true, _) => 0,
        };
        let class = class(Some(CallTree::kind(profile, label)));
        let sum: &mut Option<u64> = &mut sums[class];
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
    sums
}
