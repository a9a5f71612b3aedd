//! A mirror of the trails that a ring's writer keeps (see [`whyslow_agent_wire::record`]), and the numbers of
//! its stacks.
//!
//! A number stands for one stack of this ring. It is found by a 128-bit hash over the frames. A trail holds a
//! hash for each of its prefixes, so a stack that shares most of its frames with another one costs only the
//! few frames that differ.

use std::num::NonZeroU32;

use whyslow_agent_wire::record::{MOST_TRAIL, SHORT_TRAIL, Stack};

use crate::ids::{Generation, RingStack};
use crate::shelf::Shelf;

/// Maximum number of frames of a stack.
const MOST_FRAMES: usize = 1 << 23;

/// A hash of a stack, from its root to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hash(u64, u64);

impl Hash {
    fn root(root: Root) -> Self {
        let start = Self(0x6A09_E667_F3BC_C908, 0xBB67_AE85_84CA_A73B);
        start.with(u64::from(root.generation.0) << 1 | u64::from(root.cut))
    }

    /// The hash of this stack plus one callee frame.
    #[inline(always)]
    fn with(self, frame: u64) -> Self {
        let fold = |value: u64, factor: u64| {
            let product = u128::from(value ^ frame) * u128::from(factor);
            (product as u64) ^ ((product >> 64) as u64)
        };
        Self(fold(self.0, 0x9E37_79B9_7F4A_7C15), fold(self.1, 0xD6E8_FEB8_6659_FD93).rotate_left(29))
    }
}

/// A list of frames, outermost first. Each prefix has a hash, and a node once it is needed.
#[derive(Debug)]
struct Trail {
    root: Root,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    frame: u64,
    hash: Hash,
    node: Option<NonZeroU32>,
}

/// The root of a stack, before its first frame.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    /// The module generation of its frames.
    pub generation: Generation,
    /// The stack is truncated: it does not begin at the root.
    pub cut: bool,
}

impl Trail {
    #[inline]
    fn hash(&self, len: usize) -> Hash {
        match len.checked_sub(1) {
            Some(last) => self.rows[last].hash,
            None => Hash::root(self.root),
        }
    }
}

/// A stack: a frame, and its caller's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    /// The caller's stack; `None` for a stack without frames.
    pub caller: Option<RingStack>,
    /// A return address: the address minus one is inside the call.
    pub frame: u64,
    /// The root of the stack.
    pub root: Root,
}

/// The number of a ring's trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TrailNumber(usize);

/// A [`Node`] in 16 bytes: each stack needs several.
#[derive(Debug, Clone, Copy)]
struct PackedNode {
    frame: u64,
    /// The caller's number; [`NO_CALLER`] for none.
    caller: u32,
    /// The generation, and in the lowest bit whether the stack is truncated.
    root: u32,
}

const NO_CALLER: u32 = u32::MAX;

impl From<Node> for PackedNode {
    fn from(Node { caller, frame, root }: Node) -> Self {
        let caller = caller.map_or(NO_CALLER, |caller| caller.0);
        Self { frame, caller, root: root.generation.0 << 1 | u32::from(root.cut) }
    }
}

impl From<PackedNode> for Node {
    fn from(PackedNode { frame, caller, root }: PackedNode) -> Self {
        let root = Root { generation: Generation(root >> 1), cut: root & 1 != 0 };
        Self { caller: (caller != NO_CALLER).then_some(RingStack(caller)), frame, root }
    }
}

/// The trails of one ring, and all stacks that they have held.
#[derive(Debug)]
pub(crate) struct Trails {
    trails: Vec<Trail>,
    generation: Generation,
    /// The stack of the next allocation: a trail, and how many of its frames.
    current: (TrailNumber, usize),
    /// Its number, once requested.
    number: Option<RingStack>,
    known: Known,
    /// Stacks by number. Callers come before their callees.
    nodes: Shelf<PackedNode>,
}

impl Default for Trails {
    fn default() -> Self {
        let empty = || Trail { root: Root::default(), rows: Vec::new() };
        Self {
            trails: (0..=MOST_TRAIL).map(|_| empty()).collect(),
            generation: Generation(0),
            current: (TrailNumber(0), 0),
            number: None,
            known: Known::default(),
            nodes: Shelf::default(),
        }
    }
}

impl Trails {
    /// Sets the module generation of the frames that follow.
    pub(crate) fn set_generation(&mut self, generation: u64) {
        // One of a node's 32 bits is used for the truncation flag.
        self.generation = Generation(generation as u32 & u32::MAX >> 1);
    }

    /// Applies a `STACK`; its fresh frames come outermost first. Returns false if it is invalid.
    #[inline]
    pub(crate) fn follow(&mut self, stack: Stack, fresh: impl ExactSizeIterator<Item = u64>) -> bool {
        let Stack { cut, kept, .. } = stack;
        let (from, to) = (TrailNumber(stack.from), TrailNumber(stack.to));
        let len = kept + fresh.len();
        if kept > self.trails[from.0].rows.len() || len > MOST_FRAMES {
            return false;
        }
        self.number = None;
        if fresh.len() == 0 {
            self.current = (from, kept);
            return true;
        }
        if to.0 != 0 && len > SHORT_TRAIL || from != to && !self.copy(from, to, kept) {
            return false;
        }
        let trail = &mut self.trails[to.0];
        if kept == 0 {
            trail.root = Root { generation: self.generation, cut };
        }
        trail.rows.truncate(kept);
        let mut hash = trail.hash(kept);
        trail.rows.extend(fresh.map(|frame| {
            hash = hash.with(frame);
            Row { frame, hash, node: None }
        }));
        self.current = (to, len);
        true
    }

    #[cold]
    fn copy(&mut self, from: TrailNumber, to: TrailNumber, len: usize) -> bool {
        let Ok([from, to]) = self.trails.get_disjoint_mut([from.0, to.0]) else { return false };
        // Only a short part is ever copied: copying more would cost more than sending the frames.
        if len > SHORT_TRAIL {
            return false;
        }
        to.root = from.root;
        to.rows.clear();
        to.rows.extend_from_slice(&from.rows[..len]);
        true
    }

    /// The number of the current stack.
    #[inline]
    pub(crate) fn current(&mut self) -> RingStack {
        if let Some(number) = self.number {
            return number;
        }
        let (trail, len) = self.current;
        let trail = &self.trails[trail.0];
        let hash = trail.hash(len.min(trail.rows.len()));
        let number = self.known.get(hash).unwrap_or_else(|| self.add(hash));
        self.number = Some(number);
        number
    }

    /// Numbers the current stack, and those of its prefixes that have no number in this trail.
    #[cold]
    fn add(&mut self, hash: Hash) -> RingStack {
        let (trail, len) = self.current;
        let Trail { root, rows } = &mut self.trails[trail.0];
        let rows = &mut rows[..len];
        let first = rows.iter().rposition(|row| row.node.is_some()).map_or(0, |last| last + 1);
        let mut number = match first.checked_sub(1).and_then(|last| rows[last].node) {
            Some(node) => RingStack(node.get() - 1),
            None => push(&mut self.nodes, Node { caller: None, frame: 0, root: *root }),
        };
        for row in &mut rows[first..] {
            number = push(&mut self.nodes, Node { caller: Some(number), frame: row.frame, root: *root });
            row.node = NonZeroU32::new(number.0.wrapping_add(1));
        }
        self.known.insert(hash, number);
        number
    }

    /// The stack with a number.
    pub(crate) fn node(&self, number: RingStack) -> Node {
        let nothing = Node { caller: None, frame: 0, root: Root::default() };
        self.nodes.get(number.index()).map_or(nothing, |&node| node.into())
    }
}

fn push(nodes: &mut Shelf<PackedNode>, node: Node) -> RingStack {
    RingStack::from(nodes.push(node.into()))
}

/// Numbers by hash, with linear probing. 96 bits of the hash are compared: the probability that two of a
/// million stacks are confused is below one in 10^16.
#[derive(Debug, Default)]
struct Known {
    /// The first half of the hash; the upper half of the second half and the number plus one.
    slots: Vec<[u64; 2]>,
    len: usize,
}

const NUMBER: u64 = 0xffff_ffff;

impl Known {
    /// The slot of a hash, or the empty slot where it would go.
    #[inline]
    fn find(&self, [first, second]: [u64; 2]) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = first as usize & mask;
        loop {
            let found = self.slots[at];
            if found[1] == 0 {
                return Err(at);
            }
            if found[0] == first && (found[1] ^ second) & !NUMBER == 0 {
                return Ok(at);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn get(&self, hash: Hash) -> Option<RingStack> {
        if self.slots.is_empty() {
            return None;
        }
        self.find([hash.0, hash.1]).ok().map(|at| RingStack((self.slots[at][1] as u32).wrapping_sub(1)))
    }

    fn insert(&mut self, hash: Hash, number: RingStack) {
        if self.len >= self.slots.len() / 4 * 3 {
            let len = (2 * self.slots.len()).max(32);
            for slot in std::mem::replace(&mut self.slots, vec![[0; 2]; len]) {
                self.put(slot);
            }
        }
        self.put([hash.0, (hash.1 & !NUMBER) | u64::from(number.0.wrapping_add(1))]);
        self.len += 1;
    }

    fn put(&mut self, slot: [u64; 2]) {
        if slot[1] != 0
            && let Err(at) = self.find(slot)
        {
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(trails: &mut Trails, from: usize, to: usize, kept: usize, fresh: &[u64]) -> RingStack {
        let stack = Stack { from, to, cut: false, kept, fresh: fresh.len() };
        assert!(trails.follow(stack, fresh.iter().copied()));
        trails.current()
    }

    impl Trails {
        fn frames(&self, number: RingStack) -> Vec<u64> {
            let node = self.node(number);
            let Some(caller) = node.caller else { return Vec::new() };
            let mut frames = self.frames(caller);
            frames.push(node.frame);
            frames
        }
    }

    #[test]
    fn a_deeper_stack_costs_only_what_is_new() {
        let mut trails = Trails::default();
        follow(&mut trails, 0, 0, 0, &[1, 2]);
        for depth in 1..1000 {
            follow(&mut trails, 0, 0, depth, &[7, 2]);
        }
        assert!(trails.nodes.len() < 2100, "{}", trails.nodes.len());
    }

    #[test]
    fn a_stack_has_one_number_in_all_trails() {
        let mut trails = Trails::default();
        let first = follow(&mut trails, 0, 1, 0, &[10, 20, 30]);
        let longer = follow(&mut trails, 1, 1, 3, &[40]);
        assert_ne!(first, longer);
        // A prefix of a trail, without changing it.
        assert_eq!(follow(&mut trails, 1, 1, 3, &[]), first);
        assert_eq!(follow(&mut trails, 1, 1, 4, &[]), longer);
        // In another trail, and from scratch.
        assert_eq!(follow(&mut trails, 1, 2, 2, &[30]), first);
        assert_eq!(follow(&mut trails, 0, 7, 0, &[10, 20, 30, 40]), longer);
        assert_eq!(trails.frames(longer), [10, 20, 30, 40]);
        // The same addresses in another generation are another stack.
        trails.set_generation(1);
        let later = follow(&mut trails, 0, 1, 0, &[10, 20, 30]);
        assert_ne!(later, first);
        assert_eq!(trails.frames(later), [10, 20, 30]);
        assert_eq!(trails.node(later).root, Root { generation: Generation(1), cut: false });
    }

    #[test]
    fn a_node_is_small_and_round_trips() {
        assert_eq!(size_of::<PackedNode>(), 16);
        for caller in [None, Some(RingStack(7))] {
            for cut in [false, true] {
                let root = Root { generation: Generation(u32::MAX >> 1), cut };
                let node = Node { caller, frame: u64::MAX, root };
                assert_eq!(Node::from(PackedNode::from(node)), node);
            }
        }
    }

    #[test]
    fn rejects_invalid_stacks() {
        let mut trails = Trails::default();
        let stack = Stack { from: 0, to: 0, cut: false, kept: 1, fresh: 0 };
        assert!(!trails.follow(stack, [].into_iter()));
        assert!(!trails.follow(Stack { kept: MOST_FRAMES, ..stack }, [1].into_iter()));
        assert!(!trails.follow(Stack { to: 1, kept: 0, ..stack }, vec![1; SHORT_TRAIL + 1].into_iter()));
        assert!(trails.follow(Stack { kept: 0, ..stack }, vec![1; SHORT_TRAIL + 1].into_iter()));
        assert!(!trails.follow(Stack { to: 1, kept: SHORT_TRAIL + 1, ..stack }, [1].into_iter()));
        let mut trails = Trails::default();
        let number = trails.current();
        assert!(trails.frames(number).is_empty());
    }

    #[test]
    fn many_stacks_keep_their_numbers() {
        let mut trails = Trails::default();
        let numbers: Vec<RingStack> =
            (0..5000).map(|frame| follow(&mut trails, 0, 1, 0, &[7, frame])).collect();
        let again: Vec<RingStack> =
            (0..5000).map(|frame| follow(&mut trails, 0, 1, 0, &[7, frame])).collect();
        assert_eq!(numbers, again);
        assert!(numbers.is_sorted_by(|one, other| one < other));
    }
}
