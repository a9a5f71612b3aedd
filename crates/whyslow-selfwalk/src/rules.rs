//! The process-wide cache of what one step computes.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::Rule;

/// Marks an exact program counter: the frame was interrupted there, it did not make a call.
pub(crate) const EXACT: u64 = 1 << 63;

const SLOTS: usize = 1 << 15;

/// The rules of a process by return address. Any number of threads read and write it without waiting. A slot
/// is two words. The first is the address mixed with the second, so a torn pair matches nothing.
#[derive(Debug)]
pub struct Rules {
    slots: [[AtomicU64; 2]; SLOTS],
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

impl Rules {
    /// No rules. All bytes are zero, so a static takes no space in the file.
    pub const fn new() -> Self {
        Self { slots: [const { [const { AtomicU64::new(0) }; 2] }; SLOTS] }
    }

    /// Clears all rules, because a module was unloaded.
    pub fn forget(&self) {
        for slot in &self.slots {
            slot[0].store(0, Ordering::Relaxed);
            slot[1].store(0, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn slot(key: u64) -> usize {
        // Written so that the shift to a slot's 16 bytes is part of it.
        (((key << 4) ^ (key >> 11)) as usize & ((SLOTS - 1) << 4)) >> 4
    }

    #[inline(always)]
    fn get(&self, at: usize, key: u64) -> Option<Rule> {
        let slot = &self.slots[at & (SLOTS - 1)];
        let rule = slot[1].load(Ordering::Relaxed);
        (slot[0].load(Ordering::Relaxed) ^ rule == key).then_some(Rule(rule))
    }

    /// The rule for a return address (or, marked [`EXACT`], a program counter).
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<Rule> {
        let at = Self::slot(key);
        self.get(at, key).or_else(|| self.get(at ^ 1, key))
    }

    /// Stores a rule. The previous one moves to the neighbouring slot.
    pub(crate) fn insert(&self, key: u64, rule: Rule) {
        let at = Self::slot(key);
        let (slot, neighbour) = (&self.slots[at], &self.slots[at ^ 1]);
        let old = slot[1].load(Ordering::Relaxed);
        neighbour[0].store(slot[0].load(Ordering::Relaxed), Ordering::Relaxed);
        neighbour[1].store(old, Ordering::Relaxed);
        slot[0].store(key ^ rule.0, Ordering::Relaxed);
        slot[1].store(rule.0, Ordering::Relaxed);
    }
}
