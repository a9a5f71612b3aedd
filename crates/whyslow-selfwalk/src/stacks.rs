//! Stacks as numbers: nodes (caller, return address) that every thread shares.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of an unknown stack.
pub const NO_STACK: u32 = 0;

/// A stack: this return address, called from the caller's stack. The outermost frame has `caller` 0.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Node {
    /// The return address in the lower 48 bits, the module generation above. The generation changes when a
    /// module is unloaded.
    pub address: AtomicU64,
    /// The caller's node.
    pub caller: AtomicU32,
    /// The next node of the same chain.
    pub next: AtomicU32,
}

impl Node {
    /// The return address.
    pub fn return_address(&self) -> u64 {
        self.address.load(Ordering::Relaxed) & ((1 << 48) - 1)
    }

    /// The module generation.
    pub fn generation(&self) -> u16 {
        (self.address.load(Ordering::Relaxed) >> 48) as u16
    }
}

/// The shared nodes. There is no lock, so a forked child of a busy parent never finds one taken.
#[derive(Debug, Clone, Copy)]
pub struct Stacks<'a> {
    /// The first node of each chain. 0 for none. Their number is a power of two.
    pub heads: &'a [AtomicU32],
    /// The nodes. Row 0 is not used.
    pub nodes: &'a [Node],
    /// How many rows were handed out.
    pub used: &'a AtomicU32,
}

impl Stacks<'_> {
    /// The node for an address called from another node. 0 if there is no room.
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
        let Some(node) = self.nodes.get(id as usize) else {
            // Undo the increment, so that the counter does not overflow.
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
                    // Another thread was faster, possibly with the same node. Then this node is never used.
                    if let Some(known) = self.search(newer, first, caller, address) {
                        return known;
                    }
                    first = newer;
                }
            }
        }
    }

    /// Searches a chain from `first` up to, not including, `end`.
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
