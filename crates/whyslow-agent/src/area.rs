//! The shared memory area, and what the collector requests through it.

use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU8};

use whyslow_agent_wire::area::{self, Header, HeapRequest, ModuleEntry, RingHeader};
use whyslow_agent_wire::left_out::{LeftOut, MOST_LEFT_OUT};
use whyslow_agent_wire::purpose::Purposes;

use crate::sys;

/// Where the area is mapped. Null before it is mapped and after it was given up.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Where the chunks of rings and the unwind table are mapped. Null for those that are not.
static CHUNKS: [AtomicPtr<u8>; area::CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; area::CHUNKS];
static UNWIND: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// This process's area: [`area::FIRST_LEN`] bytes that are never unmapped.
#[derive(Clone, Copy)]
pub struct Area(NonNull<u8>);

/// The words of one ring. They are never unmapped.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct RingWords(NonNull<u64>);

impl RingWords {
    /// Writes the word with this number. Numbers wrap around the ring.
    ///
    /// # Safety
    /// The caller owns the ring, the word is not published yet, and the collector has read the word it
    /// overwrites.
    #[inline(always)]
    pub unsafe fn put(self, number: u64, word: u64) {
        // SAFETY: the index is inside the ring, which is mapped. The caller guarantees that no other code
        // reads or writes this word now.
        unsafe { self.0.add(number as usize % area::RING_WORDS).write(word) };
    }
}

impl Area {
    /// The area, if one is in use.
    #[inline]
    pub fn get() -> Option<Area> {
        NonNull::new(BASE.load(Acquire)).map(Area)
    }

    /// Starts to use an area whose first part is mapped here. The caller closes the file afterwards.
    ///
    /// # Safety
    /// The first [`area::FIRST_LEN`] bytes of the area's file are mapped at `base` and are never unmapped.
    pub unsafe fn set(base: NonNull<u8>, file: i32) {
        // SAFETY: the words of the first chunk lie inside the mapped part.
        CHUNKS[0].store(unsafe { base.add(area::WORDS_AT) }.as_ptr(), Relaxed);
        let len = Area(base).header().unwind_len.load(Acquire) as usize;
        if len > 0
            && let Some(table) = sys::map_shared(file, area::UNWIND_AT, len)
        {
            UNWIND.store(table.as_ptr(), Relaxed);
        }
        BASE.store(base.as_ptr(), Release);
    }

    /// Stops using the area for good. It remains mapped: other threads may be using it right now.
    pub fn give_up() {
        BASE.store(ptr::null_mut(), Release);
    }

    /// # Safety
    /// The layout has a `T` at this offset, and `T` consists of atomics.
    unsafe fn at<T>(self, offset: usize) -> &'static T {
        // SAFETY: the area is never unmapped. The caller guarantees the offset.
        unsafe { self.0.add(offset).cast().as_ref() }
    }

    #[inline]
    pub fn header(self) -> &'static Header {
        // SAFETY: the header is at offset 0 of the layout.
        unsafe { self.at(0) }
    }

    /// The collector's search table for unwind information, if there is one. The collector completes it
    /// before it hands out the area.
    pub fn unwind_table(self) -> Option<&'static [u8]> {
        let table = NonNull::new(UNWIND.load(Relaxed))?;
        let len = self.header().unwind_len.load(Relaxed) as usize;
        // SAFETY: `len` bytes are mapped there and never unmapped, and nothing writes to them any more.
        Some(unsafe { slice::from_raw_parts(table.as_ptr(), len) })
    }

    pub fn ring(self, ring: usize) -> &'static RingHeader {
        // SAFETY: the layout has `MOST_RINGS` headers in a row.
        unsafe { self.at(area::ring_header_at(ring % area::MOST_RINGS)) }
    }

    /// The words of a ring, or `None` if there is no room for them.
    pub fn ring_words(self, ring: usize) -> Option<RingWords> {
        let number = ring / area::CHUNK_RINGS;
        for (later, chunk) in CHUNKS.iter().enumerate().take(number + 1) {
            if chunk.load(Acquire).is_null() {
                map_chunk(later)?;
            }
        }
        let chunk = NonNull::new(CHUNKS.get(number)?.load(Acquire))?;
        // SAFETY: a chunk has room for the words of all its rings.
        Some(RingWords(unsafe { chunk.add(area::ring_words_at(ring)) }.cast()))
    }

    pub fn filter(self) -> &'static [AtomicU8; area::FILTER_LEN] {
        // SAFETY: the layout has the filter at this offset.
        unsafe { self.at(area::FILTER_AT) }
    }

    /// Programs that are not recorded.
    pub fn left_out(self) -> &'static [LeftOut; MOST_LEFT_OUT] {
        // SAFETY: the layout has these entries at this offset.
        unsafe { self.at(area::LEFT_AT) }
    }

    /// Appends a module after the `used` bytes of the list. Returns the new end of the list, or `None` if
    /// there is no room.
    ///
    /// # Safety
    /// The caller holds the list's lock, and `used` is the length that the list states.
    pub unsafe fn write_module(self, used: usize, entry: ModuleEntry, path: &[u8]) -> Option<usize> {
        let len = size_of::<ModuleEntry>() + path.len().next_multiple_of(8);
        if used.checked_add(len)? > area::MODULES_LEN {
            return None;
        }
        // SAFETY: the bytes lie in the module part, after all complete entries, and the lock keeps other
        // writers out.
        unsafe {
            let to = self.0.add(area::MODULES_AT + used);
            to.cast().write_unaligned(entry);
            to.add(size_of::<ModuleEntry>()).copy_from_nonoverlapping(NonNull::from(path).cast(), path.len());
        }
        Some(used + len)
    }

    pub fn flags(self) -> u32 {
        self.header().flags.load(Relaxed)
    }

    /// What the agent is for.
    pub fn purposes(self) -> Purposes {
        Purposes::of_bits(self.header().purposes.load(Relaxed))
    }

    /// How to record allocations.
    pub fn heap(self) -> &'static HeapRequest {
        &self.header().heap
    }

    /// Bits of [`area::heap_flag`].
    pub fn heap_flags(self) -> u32 {
        self.heap().flags.load(Relaxed)
    }

    /// Whether the collector still wants records.
    pub fn enabled(self) -> bool {
        self.header().enabled.load(Relaxed) != 0
    }
}

/// Maps a chunk through the last page of the chunk before it, because the file is closed.
fn map_chunk(number: usize) -> Option<()> {
    const PAGE: usize = 4096;
    let before = CHUNKS.get(number.checked_sub(1)?)?.load(Acquire) as usize;
    let page = sys::map_again(before + area::CHUNK_LEN - PAGE, PAGE + area::CHUNK_LEN)?;
    // SAFETY: the new mapping is one page longer than a chunk.
    let chunk = unsafe { page.add(PAGE) }.as_ptr();
    // Another thread may have mapped it first.
    if CHUNKS[number].compare_exchange(ptr::null_mut(), chunk, AcqRel, Acquire).is_err() {
        // SAFETY: it was mapped just now, and no other code has its address.
        unsafe { sys::unmap(page.as_ptr() as usize, PAGE + area::CHUNK_LEN) };
    }
    Some(())
}
