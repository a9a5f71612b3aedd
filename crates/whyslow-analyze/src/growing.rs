//! Builds a call tree while stacks are added to it.

use std::ops::ControlFlow;

use rustc_hash::FxHashMap;
use whyslow_profile::{LocationId, Profile, StackId};

use crate::call_tree::{CallTree, TreeOptions};
use crate::labels::{Label, Labels};
use crate::selection::Weights;

/// Longer cycles of functions are not recognised as recursion.
const LONGEST_CYCLE: usize = 4;

/// How often the last frames of a node's path repeat.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// The number of frames in one round: 1 if a function calls itself.
    pub frames: u32,
    /// The number of rounds on the deepest stack; 0 and 1 are not recursion.
    pub times: u32,
    /// Whether a stack has more rounds, which are left out of the profile.
    pub more: bool,
}

/// How often the last frames of nodes repeat. Few nodes do.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Repeats {
    /// Up to the last node that has any.
    of_nodes: Vec<Repeat>,
}

impl Repeats {
    /// How often the last frames of a node's path repeat.
    pub fn of(&self, node: u32) -> Repeat {
        self.of_nodes.get(node as usize).copied().unwrap_or_default()
    }

    pub(crate) fn of_mut(&mut self, node: u32) -> &mut Repeat {
        let node = node as usize;
        if node >= self.of_nodes.len() {
            self.of_nodes.resize(node + 1, Repeat::default());
        }
        &mut self.of_nodes[node]
    }

    /// Whether there is any recursion.
    pub fn any(&self) -> bool {
        self.of_nodes.iter().any(|repeat| repeat.times > 1)
    }
}

/// The cursors after the frames of a tree, one per node. A cursor that is not in a recursion is only a node, and those
/// that leave a recursion share their state.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    nodes: Vec<u32>,
    states: Vec<u32>,
    distinct: Vec<(Repeat, u32)>,
    /// Empty if the depth of the tree is not limited.
    depths: Vec<u32>,
}

impl Ends {
    /// The cursor of the root, with room for this many nodes.
    pub(crate) fn new(nodes: usize, options: &TreeOptions) -> Self {
        let (mut of_nodes, mut states) = (Vec::with_capacity(nodes), Vec::with_capacity(nodes));
        of_nodes.push(0);
        states.push(0);
        let depths = if options.max_depth == usize::MAX { Vec::new() } else { vec![0] };
        Self { nodes: of_nodes, states, distinct: vec![Default::default()], depths }
    }

    pub(crate) fn of(&self, node: u32) -> Cursor {
        let node = node as usize;
        let (repeat, since_repeat) = self.distinct[self.states[node] as usize];
        Cursor {
            node: self.nodes[node],
            depth: self.depths.get(node).copied().unwrap_or(0),
            repeat,
            since_repeat,
        }
    }

    /// Adds the cursor of the next node, which is below `parent`.
    pub(crate) fn push(&mut self, parent: u32, cursor: Cursor) {
        let state = match cursor.repeat.frames {
            0 => 0,
            _ => {
                // Beyond the longest cycle, it makes no difference how far away the recursion is.
                let state = (cursor.repeat, cursor.since_repeat.min(LONGEST_CYCLE as u32));
                let before = self.states[parent as usize];
                if self.distinct[before as usize] != state {
                    self.distinct.push(state);
                    self.distinct.len() as u32 - 1
                } else {
                    before
                }
            }
        };
        self.nodes.push(cursor.node);
        self.states.push(state);
        if !self.depths.is_empty() {
            self.depths.push(cursor.depth);
        }
    }

    /// The nodes of the cursors.
    pub(crate) fn into_nodes(self) -> Vec<u32> {
        self.nodes
    }
}

/// Locations per stack in the first round of [`Growing::outwards`]; each round doubles it.
const FIRST_ROUND: usize = 4;

/// A stack that is added to the tree from the inside out.
pub(crate) struct Outward {
    /// Its current position in the tree.
    pub(crate) at: Cursor,
    /// The remaining frames: this one and its callers.
    pub(crate) next: Option<StackId>,
    /// Its weight.
    pub(crate) value: u64,
    /// The value added to its last node: all of its value, or the requested part.
    pub(crate) adds: u64,
}

/// The position of a stack in the tree.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) node: u32,
    depth: u32,
    repeat: Repeat,
    since_repeat: u32,
}

/// The children of a node, as a linked list from the last one added.
#[derive(Debug, Clone, Copy, Default)]
struct Links {
    /// The child that was added last; 0 if there is none.
    youngest: u32,
    /// The sibling that was added before this node; 0 if there is none.
    older: u32,
    /// Whether all children are in [`Growing::nodes`].
    hashed: bool,
}

/// Up to this many children are compared one by one; nodes with more use a map.
const COMPARED: usize = 8;

pub(crate) struct Growing<'a> {
    labels: &'a Labels,
    options: &'a TreeOptions,
    fold: bool,
    /// Labels are filled in by `finish`.
    tree: CallTree,
    /// The label number of each node.
    codes: Vec<u32>,
    repeats: Repeats,
    links: Vec<Links>,
    /// Node by parent node (high half) and label number (low half), for nodes with many children.
    nodes: FxHashMap<u64, u32>,
}

impl<'a> Growing<'a> {
    /// A tree with only a root. With `fold`, recursion is folded into the nodes of its first round.
    pub(crate) fn new(labels: &'a Labels, options: &'a TreeOptions, fold: bool) -> Self {
        let tree = CallTree {
            parent: vec![0],
            label: Vec::new(),
            inlined: vec![false],
            self_value: vec![0],
            total_value: Vec::new(),
        };
        Self {
            labels,
            options,
            fold,
            tree,
            codes: vec![labels.code(Label::Root)],
            repeats: Repeats::default(),
            links: vec![Links::default()],
            nodes: FxHashMap::default(),
        }
    }

    /// Reserves space for about this many nodes.
    pub(crate) fn reserve(&mut self, nodes: usize) {
        self.tree.parent.reserve(nodes);
        self.codes.reserve(nodes);
        self.tree.inlined.reserve(nodes);
        self.tree.self_value.reserve(nodes);
        self.links.reserve(nodes);
    }

    /// Goes down one frame. Breaks at the maximum depth.
    #[inline]
    pub(crate) fn step(&mut self, at: &mut Cursor, code: u32, inlined: bool) -> ControlFlow<()> {
        if at.depth as usize >= self.options.max_depth {
            return ControlFlow::Break(());
        }
        at.depth = at.depth.saturating_add(1);
        if self.fold && (self.is_left_out(at, code) || self.again(at, code, inlined)) {
            return ControlFlow::Continue(());
        }
        at.node = self.child(at.node, code, inlined);
        at.since_repeat += 1;
        ControlFlow::Continue(())
    }

    /// The same where the cursor has no such child yet, unless the frame is recursion.
    #[inline]
    pub(crate) fn step_new(&mut self, at: &mut Cursor, code: u32, inlined: bool) {
        if at.depth as usize >= self.options.max_depth {
            return;
        }
        at.depth = at.depth.saturating_add(1);
        if !(self.fold && (self.is_left_out(at, code) || self.again(at, code, inlined))) {
            at.node = self.push(at.node, code, inlined);
            at.since_repeat += 1;
        }
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    /// Goes down all frames of a location, outermost first.
    pub(crate) fn descend(&mut self, profile: &Profile, at: &mut Cursor, location: LocationId) {
        let labels = self.labels;
        labels.outermost_first(profile, location, self.options.inline, |code, inlined| {
            let _ = self.step(at, code, inlined);
        });
    }

    /// Adds stacks from the inside out.
    ///
    /// From the inside, stacks share few frames: a tree of all of them would have about as many nodes as all
    /// stacks have frames together. So the stacks advance in rounds. After each round, stacks at a node with
    /// too little value stop.
    pub(crate) fn outwards(&mut self, profile: &Profile, mut stacks: Vec<Outward>) {
        let whole = stacks.iter().fold(0u64, |sum, stack| sum.saturating_add(stack.value));
        let least = (whole as f64 * self.options.least_share) as u64;
        let mut round = FIRST_ROUND;
        let mut standing: FxHashMap<u32, u64> = FxHashMap::default();
        while !stacks.is_empty() {
            standing.clear();
            for stack in &mut stacks {
                self.outwards_by(profile, stack, round);
                let value = standing.entry(stack.at.node).or_default();
                *value = value.saturating_add(stack.value);
            }
            stacks.retain(|stack| {
                let ends = stack.next.is_none() || standing[&stack.at.node] < least;
                if ends {
                    self.add(stack.at.node, stack.adds);
                }
                !ends
            });
            round = round.saturating_mul(2);
        }
    }

    /// Goes down the frames of this many locations, innermost first.
    fn outwards_by(&mut self, profile: &Profile, stack: &mut Outward, locations: usize) {
        let labels = self.labels;
        for _ in 0..locations {
            let Some(next) = stack.next else { return };
            let location = profile.stacks.location(next);
            let more = labels.innermost_first(profile, location, self.options.inline, |code, inlined| {
                self.step(&mut stack.at, code, inlined)
            });
            stack.next = if more.is_continue() { profile.stacks.parent(next) } else { None };
        }
    }

    pub(crate) fn add(&mut self, node: u32, value: u64) {
        let sum = &mut self.tree.self_value[node as usize];
        *sum = sum.saturating_add(value);
    }

    /// Whether this frame only stands for more rounds of the last frames.
    fn is_left_out(&mut self, at: &mut Cursor, code: u32) -> bool {
        if !self.labels.is_left_out(code) || at.repeat.times < 2 || at.since_repeat >= at.repeat.frames {
            return false;
        }
        let round = (0..at.since_repeat).fold(at.node, |node, _| self.tree.parent[node as usize]);
        at.repeat.more = true;
        if self.repeats.of(round).times > 1 {
            self.repeats.of_mut(round).more = true;
        }
        true
    }

    /// If this frame completes another round of the last frames, goes back to the end of the first round.
    fn again(&mut self, at: &mut Cursor, code: u32, inlined: bool) -> bool {
        // The nodes above the cursor, one place for each frame of two rounds.
        let mut up = [at.node; 2 * LONGEST_CYCLE];
        let (round, before) = up.split_at_mut(LONGEST_CYCLE);
        let mut seen = false;
        for index in 0..LONGEST_CYCLE {
            if index > 0 {
                round[index] = self.tree.parent[round[index - 1] as usize];
            }
            seen |= self.codes[round[index] as usize] == code;
        }
        if !seen {
            return false;
        }
        let mut last = round[LONGEST_CYCLE - 1];
        for node in before {
            last = self.tree.parent[last as usize];
            *node = last;
        }
        let code_of = |index: usize| self.codes[up[index] as usize];
        let round = (1..=LONGEST_CYCLE).find(|&frames| {
            code_of(frames - 1) == code && (1..frames).all(|i| code_of(i - 1) == code_of(frames + i - 1))
        });
        let Some(round) = round else { return false };
        let frames = round as u32;
        let continues = at.repeat.frames == frames && at.since_repeat + 1 == frames;
        let times = if continues { at.repeat.times + 1 } else { 2 };
        at.node = up[round - 1];
        at.repeat = Repeat { frames, times, more: continues && at.repeat.more };
        at.since_repeat = 0;
        self.tree.inlined[at.node as usize] &= inlined;
        // Code without a function may or may not be one function that calls itself.
        let is_function = |index: usize| {
            matches!(self.labels.label(code_of(index)), Label::Function(_) | Label::Carried(_))
        };
        if !(0..round).all(is_function) {
            return true;
        }
        let most = self.repeats.of(at.node);
        if times > most.times {
            *self.repeats.of_mut(at.node) = Repeat { more: most.more || at.repeat.more, ..at.repeat };
        }
        true
    }

    /// The node for this label under `parent`.
    fn child(&mut self, parent: u32, code: u32, inlined: bool) -> u32 {
        match self.find(parent, code) {
            Some(node) => {
                self.tree.inlined[node as usize] &= inlined;
                node
            }
            None => self.push(parent, code, inlined),
        }
    }

    /// The child of a node with this label.
    fn find(&mut self, parent: u32, code: u32) -> Option<u32> {
        let key = |code: u32| u64::from(parent) << 32 | u64::from(code);
        let Links { youngest, hashed, .. } = self.links[parent as usize];
        if !hashed {
            let mut child = youngest;
            for _ in 0..COMPARED {
                if child == 0 {
                    return None;
                }
                if self.codes[child as usize] == code {
                    return Some(child);
                }
                child = self.links[child as usize].older;
            }
            child = youngest;
            while child != 0 {
                self.nodes.insert(key(self.codes[child as usize]), child);
                child = self.links[child as usize].older;
            }
            self.links[parent as usize].hashed = true;
        }
        self.nodes.get(&key(code)).copied()
    }

    /// Adds a new child.
    fn push(&mut self, parent: u32, code: u32, inlined: bool) -> u32 {
        let node = self.codes.len() as u32;
        let links = &mut self.links[parent as usize];
        let older = std::mem::replace(&mut links.youngest, node);
        if links.hashed {
            self.nodes.insert(u64::from(parent) << 32 | u64::from(code), node);
        }
        self.links.push(Links { older, ..Links::default() });
        self.codes.push(code);
        self.tree.parent.push(parent);
        self.tree.inlined.push(inlined);
        self.tree.self_value.push(0);
        node
    }

    /// The tree of stacks whose locations have one distinct label each: every used stack is a node.
    pub(crate) fn copy(
        mut self,
        profile: &Profile,
        weights: &Weights,
        used: &[bool],
        codes: &[u32],
    ) -> CallTree {
        let count = used.iter().filter(|used| **used).count();
        self.tree.parent.reserve_exact(count);
        self.tree.self_value.reserve_exact(count);
        self.codes.reserve_exact(count);
        // The nodes of stacks: the next ones, if all are used.
        let mut nodes = if count == used.len() { Vec::new() } else { vec![0u32; used.len()] };
        for stack in (0..used.len()).filter(|&stack| used[stack]) {
            let id = StackId::from(stack);
            if let Some(node) = nodes.get_mut(stack) {
                *node = self.codes.len() as u32;
            }
            let node_of = |id: StackId| nodes.get(id.index()).copied().unwrap_or(id.0 + 1);
            self.tree.parent.push(profile.stacks.parent(id).map_or(0, node_of));
            self.codes.push(codes[profile.stacks.location(id).index()]);
            self.tree.self_value.push(weights.value[stack]);
        }
        self.tree.inlined = vec![false; self.codes.len()];
        self.finish().0
    }

    /// Adds up the totals.
    pub(crate) fn finish(self) -> (CallTree, Repeats) {
        let mut tree = self.tree;
        tree.label = self.codes.iter().map(|code| self.labels.label(*code)).collect();
        let mut total = tree.self_value.clone();
        for node in (1..tree.len()).rev() {
            let parent = tree.parent[node] as usize;
            total[parent] = total[parent].saturating_add(total[node]);
        }
        tree.total_value = total;
        (tree, self.repeats)
    }
}
