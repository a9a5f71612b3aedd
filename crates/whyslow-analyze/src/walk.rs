//! Walks the tree of stacks depth first, without recursion.

use whyslow_profile::{Profile, StackId};

const NONE: u32 = u32::MAX;

/// The direction of a step.
pub(crate) enum Step {
    /// On the way in, before its callees.
    Enter,
    /// On the way out, after them.
    Leave,
}

/// Visits every stack that has samples at or below it (`used`), callers around their callees.
pub(crate) fn walk(profile: &Profile, used: &[u64], mut visit: impl FnMut(StackId, Step)) {
    let stacks = profile.stacks.len();
    let mut first_child = vec![NONE; stacks];
    let mut next_sibling = vec![NONE; stacks];
    let mut first_root = NONE;
    for stack in (0..stacks).rev().filter(|&stack| used[stack] > 0) {
        let first = match profile.stacks.parent(StackId::from(stack)) {
            Some(parent) => &mut first_child[parent.index()],
            None => &mut first_root,
        };
        next_sibling[stack] = std::mem::replace(first, stack as u32);
    }

    let mut at = first_root;
    while at != NONE {
        visit(StackId(at), Step::Enter);
        let child = first_child[at as usize];
        if child != NONE {
            at = child;
            continue;
        }
        loop {
            visit(StackId(at), Step::Leave);
            let next = next_sibling[at as usize];
            if next != NONE {
                at = next;
                break;
            }
            match profile.stacks.parent(StackId(at)) {
                Some(parent) => at = parent.0,
                None => return,
            }
        }
    }
}
