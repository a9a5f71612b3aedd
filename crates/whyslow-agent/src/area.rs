//! The mapped area, and what the collector asked for.

use core::slice;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU64};

use whyslow_heap_wire::area::{self, Header, RingHeader};
use whyslow_heap_wire::left_out::{LeftOut, MOST_LEFT_OUT};

use crate::sys;

/// Where the area is mapped; 0 as long as it is not, and after it was given up.
pub static BASE: AtomicU64 = AtomicU64::new(0);

/// Where chunks of rings are mapped, and the table of unwind information; 0 for what is not.
static CHUNKS: [AtomicU64; area::CHUNKS] = [const { AtomicU64::new(0) }; area::CHUNKS];
static UNWIND: AtomicU64 = AtomicU64::new(0);

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

    /// Begins to use an area of which the first part is mapped here. The file is open for the last time.
    pub fn set(base: *mut u8, file: i32) {
        CHUNKS[0].store(base as u64 + area::WORDS_AT as u64, Relaxed);
        let area = Area(base as u64);
        let len = area.header().unwind_len.load(Acquire) as usize;
        if len > 0 {
            UNWIND.store(sys::map_shared(file, area::UNWIND_AT, len) as u64, Relaxed);
        }
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
        UNWIND.load(Relaxed)
    }

    pub fn ring(self, ring: usize) -> &'static RingHeader {
        self.at(area::ring_header_at(ring))
    }

    /// The words of a ring; none if there is no room for them.
    pub fn ring_words(self, ring: usize) -> Option<*mut u64> {
        let number = ring / area::CHUNK_RINGS;
        for (later, chunk) in CHUNKS.iter().enumerate().take(number + 1) {
            if chunk.load(Acquire) == 0 {
                map_chunk(later)?;
            }
        }
        let chunk = CHUNKS[number].load(Acquire) as usize;
        Some((chunk + area::ring_words_at(ring)) as *mut u64)
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

/// Maps a chunk by means of the last page of the one before it: the file is closed.
fn map_chunk(number: usize) -> Option<()> {
    const PAGE: usize = 4096;
    let before = CHUNKS[number - 1].load(Acquire) as usize;
    let page = sys::map_again(before + area::CHUNK_LEN - PAGE, PAGE + area::CHUNK_LEN)?;
    let chunk = (page + PAGE) as u64;
    // Another thread may have been faster.
    if CHUNKS[number].compare_exchange(0, chunk, AcqRel, Acquire).is_err() {
        sys::unmap(page, PAGE + area::CHUNK_LEN);
    }
    Some(())
}
