//! A walk becomes a number: nodes (caller, return address) that every thread and forked child shares.

#![expect(unsafe_code, reason = "a hint to the processor")]

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use whyslow_heap_wire::area::Node;
use whyslow_heap_wire::record::MOST_STACK;

/// Sets of slots; one is a cache line.
const SETS: usize = 1 << 15;
const WAYS: usize = 4;

/// Numbers of whole walks by their hash, so that a known stack is one look. 96 bits of hash decide: that two of a
/// million stacks are taken for each other has a chance of less than one in 10^16.
#[derive(Debug)]
pub struct Memo {
    sets: [Set; SETS],
}

#[repr(align(64))]
#[derive(Debug)]
struct Set([[AtomicU64; 2]; WAYS]);

impl Default for Memo {
    fn default() -> Self {
        Self::new()
    }
}

/// The hash of a stack from a frame to its root: two polynomials in the frames' addresses,
///
/// ```text
/// hash(frame, caller…) = mix(frame) + P · hash(caller…)
/// ```
/// so that a walk can add frames up from the leaf, and put them before a root part whose hash it remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) u64, pub(crate) u64);

const P: Hash = Hash(0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93);

#[inline(always)]
fn mix(address: u64) -> u64 {
    let product = address.wrapping_mul(0xA24B_AED4_963E_E407);
    product ^ (product >> 32)
}

impl Hash {
    /// The hash of no frame, different for every generation of modules and for stacks that end early.
    pub(crate) fn new(generation: u16, cut: bool) -> Self {
        let seed = 0x6A09_E667_F3BC_C908 ^ (u64::from(generation) << 1) ^ u64::from(cut);
        Self(mix(seed), mix(!seed))
    }

    /// The hash of a frame that this is the caller of.
    #[inline(always)]
    pub(crate) fn with(self, address: u64) -> Self {
        let mixed = mix(address);
        Self(mixed.wrapping_add(P.0.wrapping_mul(self.0)), mixed.wrapping_add(P.1.wrapping_mul(self.1)))
    }
}

/// The leaf's part of a stack, while it is walked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf {
    sum: Hash,
    power: Hash,
}

impl Leaf {
    pub(crate) const NOTHING: Self = Self { sum: Hash(0, 0), power: Hash(1, 1) };

    /// With the next frame towards the root.
    #[inline(always)]
    pub(crate) fn then(&mut self, address: u64) {
        let mixed = mix(address);
        self.sum.0 = self.sum.0.wrapping_add(mixed.wrapping_mul(self.power.0));
        self.sum.1 = self.sum.1.wrapping_add(mixed.wrapping_mul(self.power.1));
        self.power.0 = self.power.0.wrapping_mul(P.0);
        self.power.1 = self.power.1.wrapping_mul(P.1);
    }

    /// The hash of the whole stack, whose rest has this one.
    #[inline(always)]
    pub(crate) fn on(self, root: Hash) -> Hash {
        Hash(
            self.sum.0.wrapping_add(self.power.0.wrapping_mul(root.0)),
            self.sum.1.wrapping_add(self.power.1.wrapping_mul(root.1)),
        )
    }
}

impl Memo {
    /// An empty one. All bytes are zero, so that a static takes no space in a file.
    pub const fn new() -> Self {
        Self { sets: [const { Set([const { [const { AtomicU64::new(0) }; 2] }; WAYS]) }; SETS] }
    }

    /// Forgets everything.
    pub fn forget(&self) {
        for word in self.sets.iter().flat_map(|set| &set.0).flatten() {
            word.store(0, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn set(&self, hash: Hash) -> &[[AtomicU64; 2]; WAYS] {
        &self.sets[(hash.1 >> 49) as usize & (SETS - 1)].0
    }

    /// Begins to load what [`Self::find`] will look at.
    #[inline(always)]
    pub(crate) fn expect(&self, hash: Hash) {
        // SAFETY: a hint, to an address that is there.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(self.set(hash).as_ptr().cast()) };
    }

    #[inline(always)]
    pub(crate) fn find(&self, hash: Hash) -> Option<u32> {
        for slot in self.set(hash) {
            let first = slot[0].load(Ordering::Relaxed);
            if (first ^ hash.0) >> 32 == 0 && slot[1].load(Ordering::Relaxed) ^ first == hash.1 {
                return Some(first as u32).filter(|id| *id != 0);
            }
        }
        None
    }

    /// Remembers a number in place of any other of the same set.
    pub(crate) fn insert(&self, hash: Hash, id: u32) {
        let set = self.set(hash);
        let empty = set.iter().position(|slot| slot[0].load(Ordering::Relaxed) == 0);
        let slot = &set[empty.unwrap_or(hash.0 as usize % WAYS)];
        let first = (hash.0 & !0xffff_ffff) | u64::from(id);
        slot[0].store(first, Ordering::Relaxed);
        slot[1].store(hash.1 ^ first, Ordering::Relaxed);
    }
}

/// The shared nodes. Nothing waits here: a forked child of a busy parent finds no lock taken.
#[derive(Debug, Clone, Copy)]
pub struct Stacks<'a> {
    /// The first node of each chain; 0 for none. A power of two of them.
    pub heads: &'a [AtomicU32],
    /// The nodes; row 0 is not used.
    pub nodes: &'a [Node],
    /// How many rows were given out.
    pub used: &'a AtomicU32,
    /// The numbers of whole walks.
    pub memo: &'a Memo,
}

impl Stacks<'_> {
    /// The caller of a node.
    pub(crate) fn caller(&self, id: u32) -> u32 {
        self.nodes.get(id as usize).map_or(0, |node| node.caller.load(Ordering::Relaxed))
    }

    /// The node for an address called from another node; 0 when there is no room.
    pub(crate) fn intern(&self, caller: u32, address: u64) -> u32 {
        let mixed = (address ^ u64::from(caller).wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let Some(head) = self.heads.get((mixed >> 40) as usize & (self.heads.len() - 1)) else { return 0 };
        let mut first = head.load(Ordering::Acquire);
        if let Some(known) = self.search(first, 0, caller, address) {
            return known;
        }
        let mut id = self.used.fetch_add(1, Ordering::Relaxed);
        if id == 0 {
            id = self.used.fetch_add(1, Ordering::Relaxed);
        }
        let Some(node) = self.nodes.get(id as usize).filter(|_| id <= MOST_STACK) else {
            // Give the number back, so that the counter does not run over.
            self.used.fetch_sub(1, Ordering::Relaxed);
            return 0;
        };
        node.address.store(address, Ordering::Relaxed);
        node.caller.store(caller, Ordering::Relaxed);
        loop {
            node.next.store(first, Ordering::Relaxed);
            match head.compare_exchange_weak(first, id, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return id,
                Err(newer) => {
                    // Another thread was quicker, maybe with the same node; ours then stays unused.
                    if let Some(known) = self.search(newer, first, caller, address) {
                        return known;
                    }
                    first = newer;
                }
            }
        }
    }

    /// Looks in a chain from `first` up to, not including, `end`.
    fn search(&self, first: u32, end: u32, caller: u32, address: u64) -> Option<u32> {
        let mut at = first;
        while at != end {
            let node = self.nodes.get(at as usize)?;
            if node.address.load(Ordering::Relaxed) == address
                && node.caller.load(Ordering::Relaxed) == caller
            {
                return Some(at);
            }
            at = node.next.load(Ordering::Relaxed);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_one_hash_wherever_it_is_joined() {
        let stack = [0x40_1000u64, 0x40_2345, 0x7fff_1234_5678, 0x40_1000, 0x40_9999];
        let mut roots = [Hash::new(3, false); 6];
        for at in (0..5).rev() {
            roots[at] = roots[at + 1].with(stack[at]);
        }
        for joined in 0..=5 {
            let mut leaf = Leaf::NOTHING;
            stack[..joined].iter().for_each(|address| leaf.then(*address));
            assert_eq!(leaf.on(roots[joined]), roots[0]);
        }
        assert_ne!(Hash::new(3, true).with(1), Hash::new(3, false).with(1));
        assert_ne!(Hash::new(3, true).with(1).with(2), Hash::new(3, true).with(2).with(1));
    }
}
