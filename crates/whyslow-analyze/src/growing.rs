//! A call tree while stacks are added to it.

use std::ops::ControlFlow;

use rustc_hash::FxHashMap;
use whyslow_profile::{LocationId, Profile, StackId};

use crate::call_tree::{CallTree, TreeOptions};
use crate::labels::{Label, Labels};

/// Cycles of more functions than this are not recognised as recursion.
const LONGEST_CYCLE: usize = 4;

/// How often the last frames of a node's path came again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// How many frames make one round: 1 when a function calls itself.
    pub frames: u32,
    /// Rounds on the deepest stack; 0 and 1 are no recursion.
    pub times: u32,
}

/// Locations per stack in the first round of [`Growing::outwards`]; each round has twice those of the one before.
const FIRST_ROUND: usize = 4;

/// A stack that is added to the tree from the inside out.
pub(crate) struct Outward {
    /// Where it has got to in the tree.
    pub(crate) at: Cursor,
    /// The frames still to come: this one and its callers.
    pub(crate) next: Option<StackId>,
    /// What it weighs.
    pub(crate) value: u64,
}

/// Where a stack has got to in the tree.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) node: u32,
    depth: u32,
    repeat: Repeat,
    since_repeat: u32,
}

/// The child of a node that was found last; the only one as long as there are not several.
#[derive(Debug, Clone, Copy)]
struct LastChild {
    /// Its label's number; `u32::MAX` when there is no child.
    code: u32,
    node: u32,
    several: bool,
}

impl LastChild {
    const NONE: Self = Self { code: u32::MAX, node: 0, several: false };
}

pub(crate) struct Growing<'a> {
    labels: &'a Labels,
    options: &'a TreeOptions,
    fold: bool,
    tree: CallTree,
    repeats: Vec<Repeat>,
    /// Node by parent node (high half) and label number (low half), for nodes with several children.
    nodes: FxHashMap<u64, u32>,
    /// The child found last under each node: most stacks repeat the path before them.
    last: Vec<LastChild>,
}

impl<'a> Growing<'a> {
    /// A tree of only its root. With `fold`, recursion stays at the nodes of its first round.
    pub(crate) fn new(labels: &'a Labels, options: &'a TreeOptions, fold: bool) -> Self {
        let tree = CallTree {
            parent: vec![0],
            label: vec![Label::Root],
            inlined: vec![false],
            self_value: vec![0],
            total_value: Vec::new(),
        };
        Self {
            labels,
            options,
            fold,
            tree,
            repeats: vec![Repeat::default()],
            nodes: FxHashMap::default(),
            last: vec![LastChild::NONE],
        }
    }

    /// Makes room for about so many nodes.
    pub(crate) fn reserve(&mut self, nodes: usize) {
        self.tree.parent.reserve(nodes);
        self.tree.label.reserve(nodes);
        self.tree.inlined.reserve(nodes);
        self.tree.self_value.reserve(nodes);
        self.repeats.reserve(nodes);
        self.last.reserve(nodes);
    }

    /// Goes down one frame. Breaks when the tree is not to be deeper.
    #[inline]
    pub(crate) fn step(&mut self, at: &mut Cursor, code: u32, inlined: bool) -> ControlFlow<()> {
        if at.depth as usize >= self.options.max_depth {
            return ControlFlow::Break(());
        }
        at.depth = at.depth.saturating_add(1);
        if self.fold && self.again(at, code, inlined) {
            return ControlFlow::Continue(());
        }
        at.node = self.child(at.node, code, inlined);
        at.since_repeat += 1;
        ControlFlow::Continue(())
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
    /// Seen from the inside, stacks share few frames: a tree of all of them would have about as many nodes as all stacks
    /// have frames together. So all of them go on in rounds, and after each those end that stand at a node with too
    /// little value to matter.
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
                    self.add(stack.at.node, stack.value);
                }
                !ends
            });
            round = round.saturating_mul(2);
        }
    }

    /// Goes down the frames of so many locations, innermost first.
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

    /// When this frame completes another round of the last frames, goes back to the end of the first round.
    fn again(&mut self, at: &mut Cursor, code: u32, inlined: bool) -> bool {
        let label = self.labels.label(code);
        // The nodes up from here, and one place for each frame of two rounds.
        let mut up = [at.node; 2 * LONGEST_CYCLE];
        for index in 1..up.len() {
            up[index] = self.tree.parent[up[index - 1] as usize];
        }
        let label_of = |index: usize| self.tree.label[up[index] as usize];
        let round = (1..=LONGEST_CYCLE).find(|&frames| {
            label_of(frames - 1) == label && (1..frames).all(|i| label_of(i - 1) == label_of(frames + i - 1))
        });
        let Some(round) = round else { return false };
        let frames = round as u32;
        let continues = at.repeat.frames == frames && at.since_repeat + 1 == frames;
        let times = if continues { at.repeat.times + 1 } else { 2 };
        at.node = up[round - 1];
        at.repeat = Repeat { frames, times };
        at.since_repeat = 0;
        self.tree.inlined[at.node as usize] &= inlined;
        // Nobody knows whether code without a function is one function that calls itself.
        if (0..round).any(|index| {
            !matches!(self.tree.label[up[index] as usize], Label::Function(_) | Label::Carried(_))
        }) {
            return true;
        }
        let most = &mut self.repeats[at.node as usize];
        if times > most.times {
            *most = at.repeat;
        }
        true
    }

    /// The node for this label under `parent`.
    fn child(&mut self, parent: u32, code: u32, inlined: bool) -> u32 {
        let last = self.last[parent as usize];
        let next = self.tree.parent.len() as u32;
        let key = |code: u32| u64::from(parent) << 32 | u64::from(code);
        let node = if last.code == code {
            last.node
        } else if last.code == u32::MAX {
            next
        } else {
            if !last.several {
                self.nodes.insert(key(last.code), last.node);
            }
            *self.nodes.entry(key(code)).or_insert(next)
        };
        let several = last.several || last.code != code && last.code != u32::MAX;
        if node == next {
            self.tree.parent.push(parent);
            self.tree.label.push(self.labels.label(code));
            self.tree.inlined.push(inlined);
            self.tree.self_value.push(0);
            self.repeats.push(Repeat::default());
            self.last.push(LastChild::NONE);
        } else {
            self.tree.inlined[node as usize] &= inlined;
        }
        self.last[parent as usize] = LastChild { code, node, several };
        node
    }

    /// Adds up the totals.
    pub(crate) fn finish(self) -> (CallTree, Vec<Repeat>) {
        let mut tree = self.tree;
        let mut total = tree.self_value.clone();
        for node in (1..tree.len()).rev() {
            let parent = tree.parent[node] as usize;
            total[parent] = total[parent].saturating_add(total[node]);
        }
        tree.total_value = total;
        (tree, self.repeats)
    }
}
