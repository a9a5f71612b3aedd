//! The layout of frames: order of siblings, depth, position, and which frames are too narrow to draw.

use whyslow_analyze::CallTree;

/// A frame that is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placed {
    /// Its node in the tree.
    pub node: u32,
    /// Steps from the root.
    pub depth: u32,
    /// The value to its left.
    pub start: u64,
    /// Its total value: it covers `start .. start + value`.
    pub value: u64,
    /// Value of the samples that end here.
    pub self_value: u64,
}

/// The frames of a picture, depth first: a frame precedes its children, and siblings go from left to right.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Layout {
    pub frames: Vec<Placed>,
    /// The value that the whole width stands for.
    pub total: u64,
    /// Number of rows that all frames need.
    pub rows: u32,
    /// Number of nodes left out because they are narrower than the minimum. Nodes without any value do not
    /// count.
    pub hidden: u64,
    /// Their value in all, each sample counted once.
    pub hidden_value: u64,
}

impl Layout {
    /// Places every node whose value is at least `minimum`.
    ///
    /// Siblings go heaviest first: the hottest path runs along the left edge, and slivers gather on the right
    /// instead of splitting the wide frames. Nodes that are too narrow are therefore always at the end of a
    /// row of siblings, so leaving them out moves nothing.
    pub(super) fn new(tree: &CallTree, minimum: u64) -> Self {
        let minimum = minimum.max(1);
        let children = tree.children_from(minimum);
        let mut layout = Self { total: tree.total_value[0], ..Self::default() };
        // Nodes still to place, the next one on top. Not recursive: recorded stacks can be deeper than our
        // own stack.
        let mut pending = vec![(0u32, 0u32, 0u64, layout.total)];
        while let Some((node, depth, start, room)) = pending.pop() {
            let at = node as usize;
            let value = tree.total_value[at].min(room);
            layout.frames.push(Placed {
                node,
                depth,
                start,
                value,
                self_value: tree.self_value[at].min(value),
            });
            layout.rows = layout.rows.max(depth + 1);

            let first = pending.len();
            let mut left = start;
            let end = start + value;
            // The part that is neither the node's self value nor in a child that is wide enough.
            let mut hidden = tree.total_value[at].saturating_sub(tree.self_value[at]);
            for &child in children.of(node) {
                let wanted = tree.total_value[child as usize];
                hidden = hidden.saturating_sub(wanted);
                // A tree whose children outweigh their parent is invalid, but must not spill over its
                // neighbours.
                let room = end - left;
                pending.push((child, depth + 1, left, room));
                left += wanted.min(room);
            }
            layout.hidden_value += hidden;
            pending[first..].reverse();
        }
        let weighty = tree.total_value.iter().filter(|value| **value > 0).count();
        layout.hidden = weighty.saturating_sub(layout.frames.len()) as u64;
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_analyze::Label;
    use whyslow_profile::FunctionId;

    /// Builds a tree from rows of (parent, function, total); a self value is the total minus the children.
    fn tree(rows: &[(u32, u32, u64)]) -> CallTree {
        let total: Vec<u64> = rows.iter().map(|row| row.2).collect();
        let mut own = total.clone();
        for (parent, _, value) in &rows[1..] {
            own[*parent as usize] -= value;
        }
        CallTree {
            parent: rows.iter().map(|row| row.0).collect(),
            label: rows
                .iter()
                .enumerate()
                .map(|(at, row)| if at == 0 { Label::Root } else { Label::Function(FunctionId(row.1)) })
                .collect(),
            inlined: vec![false; rows.len()],
            self_value: own,
            total_value: total,
        }
    }

    #[test]
    fn siblings_are_placed_heaviest_first() {
        let tree = tree(&[(0, 0, 100), (0, 3, 15), (0, 1, 60), (0, 2, 25), (2, 9, 50)]);
        let layout = Layout::new(&tree, 1);
        let seen: Vec<_> = layout.frames.iter().map(|f| (f.node, f.depth, f.start, f.value)).collect();
        assert_eq!(seen, [(0, 0, 0, 100), (2, 1, 0, 60), (4, 2, 0, 50), (3, 1, 60, 25), (1, 1, 85, 15)]);
        assert_eq!((layout.rows, layout.hidden), (3, 0));
    }

    #[test]
    fn narrow_frames_and_their_callees_are_hidden_and_counted() {
        let tree = tree(&[(0, 0, 1000), (0, 1, 990), (0, 2, 9), (2, 3, 9), (3, 4, 8), (1, 5, 5)]);
        let layout = Layout::new(&tree, 10);
        assert_eq!(layout.frames.len(), 2);
        assert_eq!(layout.hidden, 4);
        assert_eq!(layout.hidden_value, 14);
        assert_eq!(layout.frames[1].self_value, 985, "self stays true when children are hidden");
    }

    #[test]
    fn children_that_outweigh_their_parent_stay_inside_it() {
        let mut tree = tree(&[(0, 0, 100), (0, 1, 60), (0, 2, 40), (1, 3, 30), (1, 4, 30)]);
        tree.total_value[3] = 500;
        let layout = Layout::new(&tree, 1);
        for frame in &layout.frames {
            assert!(frame.start + frame.value <= 100);
        }
    }
}
