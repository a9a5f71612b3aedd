//! A walk becomes a number: nodes (caller, return address) that every thread and forked child shares.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use whyslow_heap_wire::area::Node;
use whyslow_heap_wire::record::MOST_STACK;

/// Sets of slots; one is a cache line.
const SETS: usize = 1 << 14;
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

/// The hash of a walk, root first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) u64, pub(crate) u64);

impl Hash {
    /// The hash of no frame, different for every generation of modules and for stacks that end early.
    pub(crate) fn new(generation: u16, cut: bool) -> Self {
        let seed = 0x6A09_E667_F3BC_C908 ^ (u64::from(generation) << 1) ^ u64::from(cut);
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), seed.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    #[inline(always)]
    pub(crate) fn with(self, address: u64) -> Self {
        Self(
            (self.0.rotate_left(23) ^ address).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            (self.1.rotate_left(29) ^ address.wrapping_mul(0xA24B_AED4_963E_E407))
                .wrapping_mul(0xD6E8_FEB8_6659_FD93),
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
        &self.sets[(hash.1 >> 50) as usize & (SETS - 1)].0
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
