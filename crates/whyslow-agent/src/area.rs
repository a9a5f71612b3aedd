//! The mapped area, and what the collector asked for.

use core::slice;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU64};

use whyslow_heap_wire::area::{self, Header, RingHeader};
use whyslow_heap_wire::left_out::{LeftOut, MOST_LEFT_OUT};

/// Where the area is mapped; 0 as long as it is not, and after it was given up.
pub static BASE: AtomicU64 = AtomicU64::new(0);

/// The area of this process.
#[derive(Clone, Copy)]
pub struct Area(u64);

impl Area {
    /// The area, if there is one.
    #[inline]
    pub fn get() -> Option<Area> {
        match BASE.load(Acquire) {
            0 => None,
            base => Some(Area(base)),
        }
    }

    /// Begins to use an area that is mapped here.
    pub fn set(base: *mut u8) {
        BASE.store(base as u64, Release);
    }

    /// Never uses it again. It stays mapped: others may be in it.
    pub fn give_up() {
        BASE.store(0, Release);
    }

    fn at<T>(self, offset: usize) -> &'static T {
        // SAFETY: the area is mapped for good, the offsets are those of its layout, and all in it are atomics.
        unsafe { &*((self.0 as usize + offset) as *const T) }
    }

    fn all<T>(self, offset: usize, count: usize) -> &'static [T] {
        // SAFETY: as in `at`.
        unsafe { slice::from_raw_parts((self.0 as usize + offset) as *const T, count) }
    }

    #[inline]
    pub fn header(self) -> &'static Header {
        self.at(0)
    }

    /// Where the collector's search table for unwind information is; 0 when there is none.
    pub fn unwind_table(self) -> u64 {
        if self.header().unwind_len.load(Acquire) == 0 { 0 } else { self.0 + area::UNWIND_AT as u64 }
    }

    pub fn ring(self, ring: usize) -> &'static RingHeader {
        self.at(area::ring_header_at(ring))
    }

    pub fn ring_words(self, ring: usize) -> *mut u64 {
        (self.0 as usize + area::ring_words_at(ring)) as *mut u64
    }

    pub fn filter(self) -> &'static [AtomicU8] {
        self.all(area::FILTER_AT, area::FILTER_LEN)
    }

    /// Programs that are not recorded.
    pub fn left_out(self) -> &'static [LeftOut] {
        self.all(area::LEFT_AT, MOST_LEFT_OUT)
    }

    /// Where modules are written.
    pub fn modules(self) -> *mut u8 {
        (self.0 as usize + area::MODULES_AT) as *mut u8
    }

    pub fn flags(self) -> u32 {
        self.header().flags.load(Relaxed)
    }

    /// Whether the collector still wants anything.
    pub fn enabled(self) -> bool {
        self.header().enabled.load(Relaxed) != 0
    }
}
