//! A custom inner allocator: every call reaches it unchanged.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]
#![expect(unsafe_code, reason = "an allocator is unsafe by its nature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use whyslow_alloc::{Alloc, Profiler, Scope};

struct Bare {
    allocated: AtomicU64,
    zeroed: AtomicU64,
    reallocated: AtomicU64,
    freed: AtomicU64,
}

impl Bare {
    const fn new() -> Self {
        Self {
            allocated: AtomicU64::new(0),
            zeroed: AtomicU64::new(0),
            reallocated: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }
}

/// A size that the allocator rejects.
const REFUSED: usize = 987_654_321;

// SAFETY: it passes every call on to the system allocator.
unsafe impl GlobalAlloc for Bare {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() == REFUSED {
            return std::ptr::null_mut();
        }
        self.allocated.fetch_add(u64::from(layout.align() == 64), Ordering::Relaxed);
        // SAFETY: the caller upholds the system allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.zeroed.fetch_add(u64::from(layout.align() == 64), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if new_size == REFUSED {
            return std::ptr::null_mut();
        }
        self.reallocated.fetch_add(u64::from(layout.align() == 64), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.freed.fetch_add(u64::from(layout.align() == 64), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }
}

static BARE: Bare = Bare::new();

struct ToBare;

// SAFETY: it passes every call on to `BARE`.
unsafe impl GlobalAlloc for ToBare {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract.
        unsafe { BARE.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { BARE.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { BARE.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { BARE.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOC: Alloc<ToBare> = Alloc::new(ToBare);

fn calls() -> [u64; 4] {
    [&BARE.allocated, &BARE.zeroed, &BARE.reallocated, &BARE.freed]
        .map(|number| number.load(Ordering::Relaxed))
}

/// One call of each kind, with an alignment that no other code uses.
fn call_each() {
    let layout = Layout::from_size_align(640, 64).unwrap();
    // SAFETY: each block is freed with its own layout.
    unsafe {
        let block = black_box(std::alloc::alloc(layout));
        let zeroed = black_box(std::alloc::alloc_zeroed(layout));
        assert!((0..640).all(|at| *zeroed.add(at) == 0));
        assert_eq!((block as usize % 64, zeroed as usize % 64), (0, 0));
        block.write_bytes(7, 640);
        let larger = std::alloc::realloc(block, layout, 6400);
        assert!((0..640).all(|at| *larger.add(at) == 7));
        std::alloc::dealloc(larger, Layout::from_size_align(6400, 64).unwrap());
        std::alloc::dealloc(zeroed, layout);
    }
}

/// A realloc and an alloc that fail.
fn be_refused() {
    let layout = Layout::from_size_align(64, 64).unwrap();
    // SAFETY: a block remains valid when its reallocation fails.
    unsafe {
        let block = black_box(std::alloc::alloc(layout));
        assert!(std::alloc::realloc(block, layout, REFUSED).is_null());
        let refused = Layout::from_size_align(REFUSED, 8).unwrap();
        assert!(black_box(std::alloc::alloc(refused)).is_null());
        std::alloc::dealloc(block, layout);
    }
}

/// A single test, because all numbers are those of the whole process.
#[test]
fn every_call_reaches_the_inner_allocator_whether_watched_or_not() {
    let start = calls();
    call_each();
    assert_eq!(calls(), [start[0] + 1, start[1] + 1, start[2] + 1, start[3] + 2]);

    let heap = Scope::new();
    call_each();
    assert_eq!(calls(), [start[0] + 2, start[1] + 2, start[2] + 2, start[3] + 4]);
    let stats = heap.stats();
    assert_eq!((stats.allocations, stats.reallocations, stats.frees), (3, 1, 3));
    assert_eq!((stats.bytes_allocated, stats.bytes_freed), (640 + 640 + 6400, 640 + 640 + 6400));
    assert_eq!(stats.peak_bytes, 640 + 6400);
    drop(heap);

    let _profiler = Profiler::builder().testing().build();
    let heap = Scope::with_stacks();
    be_refused();
    let stats = heap.stats();
    assert_eq!((stats.allocations, stats.frees, stats.reallocations, stats.live_bytes), (1, 1, 0, 0));
    call_each();
    assert_eq!(heap.stats().allocations, 4);
    assert_eq!(calls()[1..], [start[1] + 3, start[2] + 3, start[3] + 7]);
}
