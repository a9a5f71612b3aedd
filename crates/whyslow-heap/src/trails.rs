//! What a ring's writer remembers of its stacks, kept likewise here (see [`whyslow_heap_wire::record`]), and the stacks' numbers.
//!
//! A number stands for one stack of this ring. It is found by a hash of 128 bits over the frames, of which a trail holds one for each
//! beginning of it: so a stack that shares most of its frames with another one costs a look at the few that differ.

use whyslow_heap_wire::record::{MOST_TRAIL, Stack};

/// Frames that a stack may have.
const MOST_FRAMES: usize = 1 << 23;

/// A hash of a stack from its root to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hash(u64, u64);

impl Hash {
    fn root(generation: u16, cut: bool) -> Self {
        Self(0x6A09_E667_F3BC_C908, 0xBB67_AE85_84CA_A73B).with(u64::from(generation) << 1 | u64::from(cut))
    }

    /// Of this stack and a frame that it calls.
    #[inline(always)]
    fn with(self, frame: u64) -> Self {
        let fold = |value: u64, factor: u64| {
            let product = u128::from(value ^ frame) * u128::from(factor);
            (product as u64) ^ ((product >> 64) as u64)
        };
        Self(fold(self.0, 0x9E37_79B9_7F4A_7C15), fold(self.1, 0xD6E8_FEB8_6659_FD93).rotate_left(29))
    }
}

/// A list of frames, outermost first, and the hash of each beginning of it.
#[derive(Debug)]
struct Trail {
    root: Root,
    frames: Vec<u64>,
    hashes: Vec<Hash>,
}

#[derive(Debug, Clone, Copy)]
struct Root {
    generation: u16,
    cut: bool,
}

impl Root {
    fn hash(self) -> Hash {
        Hash::root(self.generation, self.cut)
    }
}

impl Trail {
    fn new() -> Self {
        Self { root: Root { generation: 0, cut: false }, frames: Vec::new(), hashes: Vec::new() }
    }

    #[inline]
    fn hash(&self, len: usize) -> Hash {
        len.checked_sub(1).map_or_else(|| self.root.hash(), |last| self.hashes[last])
    }
}

/// A stack that was met for the first time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NewStack {
    /// The modules that its frames belong to.
    pub generation: u16,
    /// It does not begin at the root.
    pub cut: bool,
    /// Outermost first: addresses of which one less is inside the call.
    pub frames: Box<[u64]>,
}

/// The trails of one ring.
#[derive(Debug)]
pub(crate) struct Trails {
    trails: Vec<Trail>,
    generation: u16,
    /// The stack of what is made next: how much of which trail.
    current: (usize, usize),
    /// Its number, once it was asked for.
    number: Option<u32>,
    known: Known,
    /// Stacks that were met first, by number, until somebody takes them.
    new: Vec<Option<NewStack>>,
}

impl Default for Trails {
    fn default() -> Self {
        Self {
            trails: (0..=MOST_TRAIL).map(|_| Trail::new()).collect(),
            generation: 0,
            current: (0, 0),
            number: None,
            known: Known::default(),
            new: Vec::new(),
        }
    }
}

impl Trails {
    /// The frames that follow belong to these modules.
    pub(crate) fn set_generation(&mut self, generation: u64) {
        self.generation = generation as u16;
    }

    /// Does what a `STACK` says; its fresh frames come outermost first. False if it says what cannot be.
    #[inline]
    pub(crate) fn follow(&mut self, stack: Stack, fresh: impl ExactSizeIterator<Item = u64>) -> bool {
        let Stack { from, to, cut, kept, .. } = stack;
        let len = kept + fresh.len();
        if kept > self.trails[from].frames.len() || len > MOST_FRAMES {
            return false;
        }
        self.number = None;
        if fresh.len() == 0 {
            self.current = (from, kept);
            return true;
        }
        if from != to {
            self.copy(from, to, kept);
        }
        let trail = &mut self.trails[to];
        if kept == 0 {
            trail.root = Root { generation: self.generation, cut };
        }
        trail.frames.truncate(kept);
        trail.hashes.truncate(kept);
        let mut hash = trail.hash(kept);
        trail.frames.reserve(fresh.len());
        trail.hashes.reserve(fresh.len());
        for frame in fresh {
            hash = hash.with(frame);
            trail.frames.push(frame);
            trail.hashes.push(hash);
        }
        self.current = (to, len);
        true
    }

    #[cold]
    fn copy(&mut self, from: usize, to: usize, len: usize) {
        if let Ok([from, to]) = self.trails.get_disjoint_mut([from, to]) {
            to.root = from.root;
            to.frames.clear();
            to.frames.extend_from_slice(&from.frames[..len]);
            to.hashes.clear();
            to.hashes.extend_from_slice(&from.hashes[..len]);
        }
    }

    /// The number of the stack of what is made now.
    #[inline]
    pub(crate) fn current(&mut self) -> u32 {
        if let Some(number) = self.number {
            return number;
        }
        let (trail, len) = self.current;
        let hash = self.trails[trail].hash(len.min(self.trails[trail].hashes.len()));
        let number = self.known.get(hash).unwrap_or_else(|| self.number_of(hash));
        self.number = Some(number);
        number
    }

    #[cold]
    fn number_of(&mut self, hash: Hash) -> u32 {
        let (trail, len) = self.current;
        let Trail { root, frames, .. } = &self.trails[trail];
        let number = self.new.len() as u32;
        let frames = frames.iter().take(len).copied().collect();
        self.new.push(Some(NewStack { generation: root.generation, cut: root.cut, frames }));
        self.known.insert(hash, number);
        number
    }

    /// The stack with this number, the first time that it is asked for.
    pub(crate) fn take(&mut self, number: u32) -> Option<NewStack> {
        self.new.get_mut(number as usize)?.take()
    }
}

/// Numbers by hash: a table in which a hash lies where it leads to, or behind it. 96 bits of the hash decide: that two of a million stacks
/// are taken for each other has a chance of less than one in 10^16.
#[derive(Debug, Default)]
struct Known {
    /// The first half of the hash; the upper half of the other one and the number plus one.
    slots: Vec<[u64; 2]>,
    len: usize,
}

const NUMBER: u64 = 0xffff_ffff;

impl Known {
    /// Where a hash is, or the empty place where it would be.
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
    fn get(&self, hash: Hash) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.find([hash.0, hash.1]).ok().map(|at| (self.slots[at][1] as u32).wrapping_sub(1))
    }

    fn insert(&mut self, hash: Hash, number: u32) {
        if self.len >= self.slots.len() / 4 * 3 {
            let len = (2 * self.slots.len()).max(32);
            for slot in std::mem::replace(&mut self.slots, vec![[0; 2]; len]) {
                self.put(slot);
            }
        }
        self.put([hash.0, (hash.1 & !NUMBER) | u64::from(number.wrapping_add(1))]);
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

    fn follow(trails: &mut Trails, from: usize, to: usize, kept: usize, fresh: &[u64]) -> u32 {
        let stack = Stack { from, to, cut: false, kept, fresh: fresh.len() };
        assert!(trails.follow(stack, fresh.iter().copied()));
        trails.current()
    }

    #[test]
    fn a_stack_has_one_number_wherever_it_comes_from() {
        let mut trails = Trails::default();
        let first = follow(&mut trails, 0, 1, 0, &[10, 20, 30]);
        let longer = follow(&mut trails, 1, 1, 3, &[40]);
        assert_ne!(first, longer);
        // The beginning of a trail, without changing it.
        assert_eq!(follow(&mut trails, 1, 1, 3, &[]), first);
        assert_eq!(follow(&mut trails, 1, 1, 4, &[]), longer);
        // In another trail, and afresh.
        assert_eq!(follow(&mut trails, 1, 2, 2, &[30]), first);
        assert_eq!(follow(&mut trails, 0, 7, 0, &[10, 20, 30, 40]), longer);
        assert_eq!(trails.take(longer).expect("new").frames[..], [10, 20, 30, 40]);
        assert_eq!(trails.take(longer), None);
        // The same addresses at another time are another stack.
        trails.set_generation(1);
        let later = follow(&mut trails, 0, 1, 0, &[10, 20, 30]);
        assert_ne!(later, first);
        assert_eq!(trails.take(later).expect("new").generation, 1);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut trails = Trails::default();
        let stack = Stack { from: 0, to: 0, cut: false, kept: 1, fresh: 0 };
        assert!(!trails.follow(stack, [].into_iter()));
        assert!(!trails.follow(Stack { kept: MOST_FRAMES, ..stack }, [1].into_iter()));
        let number = trails.current();
        assert_eq!(trails.take(number).expect("nothing").frames.len(), 0);
    }

    #[test]
    fn many_stacks_keep_their_numbers() {
        let mut trails = Trails::default();
        let numbers: Vec<u32> = (0..5000).map(|frame| follow(&mut trails, 0, 1, 0, &[7, frame])).collect();
        let again: Vec<u32> = (0..5000).map(|frame| follow(&mut trails, 0, 1, 0, &[7, frame])).collect();
        assert_eq!(numbers, again);
        assert_eq!(numbers, (0..5000).collect::<Vec<u32>>());
    }
}
