//! Finds loops and their nesting with Tarjan's method, in almost linear time for any code.
//!
//! A depth-first walk numbers the blocks. An edge to a block that the walk is still inside is a back edge,
//! and its target is the head of a loop. From the innermost head outwards, each loop takes the blocks that
//! reach its back edges without passing its head. Loops found earlier count as one block. A block that can be
//! entered around the head does not make its loop larger.

/// A loop of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// The block that starts every iteration.
    pub head: usize,
    /// The loop around it.
    pub parent: Option<usize>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Its blocks outside inner loops, in the order of their addresses.
    pub blocks: Vec<usize>,
    /// Whether it contains no loop.
    pub is_innermost: bool,
}

/// The loops of a graph, outer ones before inner ones, and the innermost loop of each node.
pub(crate) fn find(edges: &[Vec<usize>]) -> (Vec<Loop>, Vec<Option<usize>>) {
    let walk = Walk::of(edges);
    let heads = heads(edges, &walk);
    let mut loops: Vec<Loop> = Vec::new();
    let mut loop_of_head = vec![None; edges.len()];
    // Heads of outer loops come first in the walk.
    for &node in &walk.order {
        if !heads.is_head[node] {
            continue;
        }
        let parent = heads.of[node].and_then(|head: usize| loop_of_head[head]);
        let depth = parent.map_or(1, |parent: usize| loops[parent].depth + 1);
        if let Some(parent) = parent {
            loops[parent].is_innermost = false;
        }
        loop_of_head[node] = Some(loops.len());
        loops.push(Loop { head: node, parent, depth, blocks: Vec::new(), is_innermost: true });
    }
    let innermost: Vec<Option<usize>> = (0..edges.len())
        .map(|node| loop_of_head[node].or_else(|| heads.of[node].and_then(|head| loop_of_head[head])))
        .collect();
    for (node, found) in innermost.iter().enumerate() {
        if let Some(found) = found {
            loops[*found].blocks.push(node);
        }
    }
    (loops, innermost)
}

/// The order of a depth-first walk over all nodes.
struct Walk {
    /// Nodes in the order in which they are reached.
    order: Vec<usize>,
    /// A node's position in that order.
    number: Vec<usize>,
    /// The last number reached from a node.
    last: Vec<usize>,
}

impl Walk {
    fn of(edges: &[Vec<usize>]) -> Self {
        let unseen = usize::MAX;
        let mut walk =
            Self { order: Vec::new(), number: vec![unseen; edges.len()], last: vec![0; edges.len()] };
        let mut has_entry = vec![false; edges.len()];
        for &to in edges.iter().flatten() {
            has_entry[to] = true;
        }
        let entries = (0..edges.len()).filter(|&node| node == 0 || !has_entry[node]);
        // Nodes that only a cycle leads to are walked last.
        for root in entries.chain(0..edges.len()) {
            if walk.number[root] != unseen {
                continue;
            }
            let mut open = vec![(root, 0)];
            walk.reach(root);
            while let Some((node, edge)) = open.last_mut() {
                let node = *node;
                if let Some(&to) = edges[node].get(*edge) {
                    *edge += 1;
                    if walk.number[to] == unseen {
                        walk.reach(to);
                        open.push((to, 0));
                    }
                } else {
                    walk.last[node] = walk.order.len() - 1;
                    open.pop();
                }
            }
        }
        walk
    }

    fn reach(&mut self, node: usize) {
        self.number[node] = self.order.len();
        self.order.push(node);
    }

    /// Whether the walk was inside `outer` when it reached `inner`.
    fn is_inside(&self, inner: usize, outer: usize) -> bool {
        (self.number[outer]..=self.last[outer]).contains(&self.number[inner])
    }
}

struct Heads {
    is_head: Vec<bool>,
    /// The head of the innermost loop around a node. For a head, that of the loop around its own.
    of: Vec<Option<usize>>,
}

fn heads(edges: &[Vec<usize>], walk: &Walk) -> Heads {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for &to in targets {
            before[to].push(from);
        }
    }
    let mut heads = Heads { is_head: vec![false; edges.len()], of: vec![None; edges.len()] };
    // A node of a known loop points to its head, directly or through other nodes.
    let mut merged: Vec<usize> = (0..edges.len()).collect();
    let mut taken_by = vec![usize::MAX; edges.len()];
    for &head in walk.order.iter().rev() {
        let mut body = Vec::new();
        for &from in &before[head] {
            if !walk.is_inside(from, head) {
                continue;
            }
            heads.is_head[head] = true;
            let from = find_merged(&mut merged, from);
            if from != head && taken_by[from] != head {
                taken_by[from] = head;
                body.push(from);
            }
        }
        let mut next = 0;
        while let Some(&node) = body.get(next) {
            next += 1;
            for &from in &before[node] {
                // The node's own back edges were followed when its loop was found.
                if walk.is_inside(from, node) {
                    continue;
                }
                let from = find_merged(&mut merged, from);
                if from != head && taken_by[from] != head && walk.is_inside(from, head) {
                    taken_by[from] = head;
                    body.push(from);
                }
            }
        }
        for node in body {
            heads.of[node] = Some(head);
            merged[node] = head;
        }
    }
    heads
}

fn find_merged(merged: &mut [usize], node: usize) -> usize {
    let mut root = node;
    while merged[root] != root {
        root = merged[root];
    }
    let mut at = node;
    while merged[at] != root {
        at = std::mem::replace(&mut merged[at], root);
    }
    root
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(edges: &[Vec<usize>]) -> Vec<(usize, Option<usize>, u32, Vec<usize>)> {
        find(edges).0.into_iter().map(|row| (row.head, row.parent, row.depth, row.blocks)).collect()
    }

    #[test]
    fn a_loop_around_another() {
        // 0 → 1 → 2 → 3 → 2, 3 → 4 → 1, 4 → 5
        let edges = [vec![1], vec![2], vec![3], vec![2, 4], vec![1, 5], vec![]];
        assert_eq!(shape(&edges), [(1, None, 1, vec![1, 4]), (2, Some(0), 2, vec![2, 3])]);
        assert!(find(&edges).0[1].is_innermost && !find(&edges).0[0].is_innermost);
    }

    #[test]
    fn a_block_can_be_its_own_loop_and_two_ways_back_are_one_loop() {
        assert_eq!(shape(&[vec![1], vec![1, 2], vec![]]), [(1, None, 1, vec![1])]);
        let edges = [vec![1], vec![2, 3], vec![1], vec![1, 4], vec![]];
        assert_eq!(shape(&edges), [(1, None, 1, vec![1, 2, 3])]);
    }

    #[test]
    fn blocks_after_a_loop_or_on_its_exits_are_not_in_it() {
        // 1 → 2 → 1; 2 → 3 (a panic), 1 → 4 (the end)
        let edges = [vec![1], vec![2, 4], vec![1, 3], vec![], vec![]];
        assert_eq!(shape(&edges), [(1, None, 1, vec![1, 2])]);
        assert_eq!(find(&edges).1, [None, Some(0), Some(0), None, None]);
    }

    #[test]
    fn an_unreachable_cycle_is_a_loop_too() {
        assert_eq!(shape(&[vec![], vec![2], vec![1]]), [(1, None, 1, vec![1, 2])]);
    }

    proptest! {
        #[test]
        fn any_graph_has_loops_whose_parents_come_first(
            edges in (1_usize..60).prop_flat_map(|nodes| {
                prop::collection::vec(prop::collection::vec(0..nodes, 0..4), nodes)
            }),
        ) {
            let (loops, innermost) = find(&edges);
            for (index, row) in loops.iter().enumerate() {
                prop_assert!(row.parent.is_none_or(|parent| parent < index));
                prop_assert!(row.blocks.contains(&row.head));
            }
            let in_loops: usize = loops.iter().map(|row| row.blocks.len()).sum();
            prop_assert_eq!(in_loops, innermost.iter().flatten().count());
        }
    }
}
