//! The numbers that a scope counts.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What the threads of a scope allocated and freed since it started.
///
/// A reallocation counts as an allocation of the new size and a free of the old block, in one step. It never
/// raises the peak above the larger of the two.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Allocated blocks, including reallocations.
    pub allocations: u64,
    /// Blocks that were freed or replaced by a reallocation, including those allocated before the scope
    /// started.
    pub frees: u64,
    /// Requested bytes. A reallocation counts with its new size.
    pub bytes_allocated: u64,
    /// Bytes of the blocks that were freed or replaced.
    pub bytes_freed: u64,
    /// Bytes allocated minus bytes freed. Negative if more was freed than allocated.
    pub live_bytes: i64,
    /// Blocks allocated minus blocks freed.
    pub live_blocks: i64,
    /// The max of `live_bytes`, at least 0: how far the heap rose above its level at the start.
    pub peak_bytes: u64,
    /// Allocations that were reallocations.
    pub reallocations: u64,
}

/// The same numbers while they are counted, by one or more threads.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    allocations: AtomicU64,
    frees: AtomicU64,
    bytes_allocated: AtomicU64,
    bytes_freed: AtomicU64,
    live_bytes: AtomicI64,
    peak_bytes: AtomicI64,
    reallocations: AtomicU64,
}

impl Counts {
    pub(crate) fn allocated(&self, size: u64) {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.bytes_allocated.fetch_add(size, Ordering::Relaxed);
        self.level(size as i64);
    }

    pub(crate) fn freed(&self, size: u64) {
        self.frees.fetch_add(1, Ordering::Relaxed);
        self.bytes_freed.fetch_add(size, Ordering::Relaxed);
        self.level(-(size as i64));
    }

    pub(crate) fn replaced(&self, size: u64, new_size: u64) {
        self.reallocations.fetch_add(1, Ordering::Relaxed);
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.bytes_allocated.fetch_add(new_size, Ordering::Relaxed);
        self.frees.fetch_add(1, Ordering::Relaxed);
        self.bytes_freed.fetch_add(size, Ordering::Relaxed);
        self.level(new_size as i64 - size as i64);
    }

    fn level(&self, change: i64) {
        let now = self.live_bytes.fetch_add(change, Ordering::Relaxed) + change;
        if change > 0 {
            self.peak_bytes.fetch_max(now, Ordering::Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (allocations, frees) = (load(&self.allocations), load(&self.frees));
        let (bytes_allocated, bytes_freed) = (load(&self.bytes_allocated), load(&self.bytes_freed));
        Stats {
            allocations,
            frees,
            bytes_allocated,
            bytes_freed,
            live_bytes: bytes_allocated as i64 - bytes_freed as i64,
            live_blocks: allocations as i64 - frees as i64,
            peak_bytes: self.peak_bytes.load(Ordering::Relaxed).max(0) as u64,
            reallocations: load(&self.reallocations),
        }
    }
}
