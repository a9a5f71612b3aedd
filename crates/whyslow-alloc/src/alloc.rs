//! The allocator that a program installs: it calls the inner allocator, and checks one number before each
//! call.

#![expect(unsafe_code, reason = "an allocator is unsafe by its nature")]

use std::alloc::{GlobalAlloc, Layout, System};

use crate::events;
use crate::watch::is_watched;

/// A global allocator that can count a program's allocations, around any other allocator.
///
/// ```
/// #[global_allocator]
/// static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// # let (_, stats) = whyslow_alloc::count(|| Box::new(1));
/// # assert_eq!(stats.allocations, 1);
/// ```
///
/// With another allocator underneath: `static ALLOC: Alloc<MiMalloc> = Alloc::new(MiMalloc);`.
#[derive(Debug, Default, Clone, Copy)]
pub struct Alloc<A = System> {
    inner: A,
}

impl Alloc {
    /// Wraps the system allocator.
    pub const fn system() -> Self {
        Self::new(System)
    }
}

impl<A> Alloc<A> {
    /// Wraps another allocator.
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }
}

// SAFETY: every call goes unchanged to the inner allocator, and counting changes no block.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Alloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_watched() {
            // SAFETY: the caller upholds the inner allocator's contract.
            return unsafe { watched_alloc(&self.inner, layout) };
        }
        // SAFETY: as above.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_watched() {
            // SAFETY: as above.
            return unsafe { watched_alloc_zeroed(&self.inner, layout) };
        }
        // SAFETY: as above.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_watched() {
            events::freed(block, layout.size());
        }
        // SAFETY: as above.
        unsafe { self.inner.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if is_watched() {
            // SAFETY: as above.
            return unsafe { watched_realloc(&self.inner, block, layout, new_size) };
        }
        // SAFETY: as above.
        unsafe { self.inner.realloc(block, layout, new_size) }
    }
}

#[cold]
#[inline(never)]
unsafe fn watched_alloc<A: GlobalAlloc>(inner: &A, layout: Layout) -> *mut u8 {
    // SAFETY: the caller upholds the inner allocator's contract.
    let block = unsafe { inner.alloc(layout) };
    events::allocated(block, layout.size());
    block
}

#[cold]
#[inline(never)]
unsafe fn watched_alloc_zeroed<A: GlobalAlloc>(inner: &A, layout: Layout) -> *mut u8 {
    // SAFETY: as above.
    let block = unsafe { inner.alloc_zeroed(layout) };
    events::allocated(block, layout.size());
    block
}

#[cold]
#[inline(never)]
unsafe fn watched_realloc<A: GlobalAlloc>(
    inner: &A,
    block: *mut u8,
    layout: Layout,
    new_size: usize,
) -> *mut u8 {
    // Once the inner allocator has the old block back, another thread may get its address.
    let old = events::replacing(block);
    // SAFETY: as above.
    let new = unsafe { inner.realloc(block, layout, new_size) };
    events::replaced(old, block, layout.size(), new, new_size);
    new
}
