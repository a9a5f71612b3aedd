//! The mapped area, and what the collector asked for.

use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU8};

use whyslow_heap_wire::area::{self, Header, ModuleEntry, RingHeader};
use whyslow_heap_wire::left_out::{LeftOut, MOST_LEFT_OUT};

use crate::sys;

/// Where the area is mapped; null as long as it is not, and after it was given up.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Where chunks of rings are mapped, and the table of unwind information; null for what is not.
static CHUNKS: [AtomicPtr<u8>; area::CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; area::CHUNKS];
static UNWIND: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// The area of this process: [`area::FIRST_LEN`] bytes that stay mapped for good.
#[derive(Clone, Copy)]
pub struct Area(NonNull<u8>);

/// The words of one ring. They stay mapped for good.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct RingWords(NonNull<u64>);

impl RingWords {
    /// Writes the word with this number; the ring goes round.
    ///
    /// # Safety
    /// The caller owns the ring, the word is not published yet, and the collector has read the one whose place it takes.
    #[inline(always)]
    pub unsafe fn put(self, number: u64, word: u64) {
        // SAFETY: the index stays in the ring, which is mapped; nobody else reads or writes this word now, by the caller's promise.
        unsafe { self.0.add(number as usize % area::RING_WORDS).write(word) };
    }
}

impl Area {
    /// The area, if there is one.
    #[inline]
    pub fn get() -> Option<Area> {
        NonNull::new(BASE.load(Acquire)).map(Area)
    }

    /// Begins to use an area of which the first part is mapped here. The file is open for the last time.
    ///
    /// # Safety
    /// [`area::FIRST_LEN`] bytes of the area's file are mapped at `base`, from its beginning, and stay so for good.
    pub unsafe fn set(base: NonNull<u8>, file: i32) {
        // SAFETY: the words of the first chunk lie in what is mapped.
        CHUNKS[0].store(unsafe { base.add(area::WORDS_AT) }.as_ptr(), Relaxed);
        let len = Area(base).header().unwind_len.load(Acquire) as usize;
        if len > 0
            && let Some(table) = sys::map_shared(file, area::UNWIND_AT, len)
        {
            UNWIND.store(table.as_ptr(), Relaxed);
        }
        BASE.store(base.as_ptr(), Release);
    }

    /// Never uses it again. It stays mapped: others may be in it.
    pub fn give_up() {
        BASE.store(ptr::null_mut(), Release);
    }

    /// # Safety
    /// A `T` lies at this place of the area's layout, and consists of atomics.
    unsafe fn at<T>(self, offset: usize) -> &'static T {
        // SAFETY: the area is mapped for good; for the place, the caller's promise.
        unsafe { self.0.add(offset).cast().as_ref() }
    }

    #[inline]
    pub fn header(self) -> &'static Header {
        // SAFETY: the layout's.
        unsafe { self.at(0) }
    }

    /// The collector's search table for unwind information, if there is one. It was complete before the agent had the area.
    pub fn unwind_table(self) -> Option<&'static [u8]> {
        let table = NonNull::new(UNWIND.load(Relaxed))?;
        let len = self.header().unwind_len.load(Relaxed) as usize;
        // SAFETY: so many bytes were mapped for good, and nobody writes to them any more.
        Some(unsafe { slice::from_raw_parts(table.as_ptr(), len) })
    }

    pub fn ring(self, ring: usize) -> &'static RingHeader {
        // SAFETY: there are so many headers, one behind the other.
        unsafe { self.at(area::ring_header_at(ring % area::MOST_RINGS)) }
    }

    /// The words of a ring; none if there is no room for them.
    pub fn ring_words(self, ring: usize) -> Option<RingWords> {
        let number = ring / area::CHUNK_RINGS;
        for (later, chunk) in CHUNKS.iter().enumerate().take(number + 1) {
            if chunk.load(Acquire).is_null() {
                map_chunk(later)?;
            }
        }
        let chunk = NonNull::new(CHUNKS.get(number)?.load(Acquire))?;
        // SAFETY: a chunk has room for the words of its rings.
        Some(RingWords(unsafe { chunk.add(area::ring_words_at(ring)) }.cast()))
    }

    pub fn filter(self) -> &'static [AtomicU8; area::FILTER_LEN] {
        // SAFETY: the layout's.
        unsafe { self.at(area::FILTER_AT) }
    }

    /// Programs that are not recorded.
    pub fn left_out(self) -> &'static [LeftOut; MOST_LEFT_OUT] {
        // SAFETY: the layout's.
        unsafe { self.at(area::LEFT_AT) }
    }

    /// Writes a module behind the `used` bytes of the list. Where the list ends then; none if there is no room.
    ///
    /// # Safety
    /// The caller has the list's lock, and `used` is what the list says.
    pub unsafe fn write_module(self, used: usize, entry: ModuleEntry, path: &[u8]) -> Option<usize> {
        let len = size_of::<ModuleEntry>() + path.len().next_multiple_of(8);
        if used.checked_add(len)? > area::MODULES_LEN {
            return None;
        }
        // SAFETY: the bytes lie in the part for modules, behind all that is complete, and the lock keeps others away.
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

    /// Whether the collector still wants anything.
    pub fn enabled(self) -> bool {
        self.header().enabled.load(Relaxed) != 0
    }
}

/// Maps a chunk by means of the last page of the one before it: the file is closed.
fn map_chunk(number: usize) -> Option<()> {
    const PAGE: usize = 4096;
    let before = CHUNKS.get(number.checked_sub(1)?)?.load(Acquire) as usize;
    let page = sys::map_again(before + area::CHUNK_LEN - PAGE, PAGE + area::CHUNK_LEN)?;
    // SAFETY: what was mapped is a page longer than a chunk.
    let chunk = unsafe { page.add(PAGE) }.as_ptr();
    // Another thread may have been faster.
    if CHUNKS[number].compare_exchange(ptr::null_mut(), chunk, AcqRel, Acquire).is_err() {
        // SAFETY: it was mapped just now, and nobody knows of it.
        unsafe { sys::unmap(page.as_ptr() as usize, PAGE + area::CHUNK_LEN) };
    }
    Some(())
}
