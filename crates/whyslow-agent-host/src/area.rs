//! The host's side of the shared area. Another process, possibly a hostile one, writes into it at any
//! time. So all access is atomic, every index is checked, and no value is trusted.

#![expect(unsafe_code, reason = "shared memory is reached through raw pointers, only in this file")]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use whyslow_agent_wire::VERSION;
use whyslow_agent_wire::area::{
    AREA_LEN, CAUSAL_AT, CHUNK_LEN, CHUNK_RINGS, CHUNKS, FILTER_AT, FILTER_LEN, Header, LEFT_AT, MODULES_AT,
    MODULES_LEN, MOST_RINGS, RING_WORDS, RingHeader, SAMPLES_AT, UNWIND_AT, UNWIND_LEN, WORDS_AT, chunk_at,
    ring_header_at, ring_words_at,
};
use whyslow_agent_wire::causal::{
    self, ADDRESSES_AT, CAUSAL_LEN, MOST_ADDRESSES, MOST_POINTS, MOST_THREADS, Point, Round, point_at,
    round_at, thread_at,
};
use whyslow_agent_wire::left_out::{LeftOut, MOST_LEFT_OUT};
use whyslow_agent_wire::sampler::{Board, MOST_SLOTS, SAMPLES_LEN, Slot, slot_at};

/// The words of one ring.
pub type RingWords = [AtomicU64; RING_WORDS];

/// A mapped part of an area's file.
#[derive(Debug)]
struct Part {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the value, and all access to it goes through atomics.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    fn map(file: &OwnedFd, at: usize, len: usize) -> io::Result<Self> {
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses; the file is longer than the mapping
        // and cannot shrink.
        let map = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, flags, file, at as u64) }?;
        let start = NonNull::new(map.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, len })
    }

    /// The value at an offset.
    ///
    /// # Safety
    /// `at` must be aligned for `T`, `at + size_of::<T>()` must be at most the length, and `T` must consist
    /// of atomics, for which any bytes are valid.
    unsafe fn get<T>(&self, at: usize) -> &T {
        // SAFETY: the caller guarantees bounds, alignment and type; the mapping lives as long as `self`.
        unsafe { self.start.add(at).cast::<T>().as_ref() }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference to it remains.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A mapped area.
#[derive(Debug)]
pub struct Area {
    /// Everything before the words of the rings.
    first: Part,
    /// Chunks of ring words, mapped on first use. `None` if there was no room.
    chunks: Box<[OnceLock<Option<Part>>]>,
    /// CPU samples, mapped on first use. `None` if there was no room.
    samples: OnceLock<Option<Part>>,
    /// Experiments, mapped on first use. `None` if there was no room.
    causal: OnceLock<Option<Part>>,
    file: OwnedFd,
}

impl Area {
    /// A new, empty area. Its length is sealed, so reading it cannot fault.
    pub fn create() -> io::Result<Self> {
        let file =
            rustix::fs::memfd_create(c"whyslow-heap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, AREA_LEN as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let area = Self::map(file)?;
        area.header().version.store(VERSION, Ordering::Relaxed);
        Ok(area)
    }

    /// Maps an area that another process created.
    ///
    /// # Errors
    /// If the file has the wrong length, or can shrink.
    pub fn map(file: OwnedFd) -> io::Result<Self> {
        let len = rustix::fs::fstat(&file)?.st_size;
        let is_sealed =
            rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if usize::try_from(len) != Ok(AREA_LEN) || !is_sealed {
            return Err(io::Error::other("not an area"));
        }
        let first = Part::map(&file, 0, WORDS_AT)?;
        let chunks = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        Ok(Self { first, chunks, samples: OnceLock::new(), causal: OnceLock::new(), file })
    }

    /// The area's descriptor.
    pub fn file(&self) -> io::Result<OwnedFd> {
        self.file.try_clone()
    }

    /// Returns the area if another process still maps it, `None` otherwise.
    ///
    /// A file with writable mappings cannot be sealed against writing. So after this process unmaps its own
    /// mappings, an attempt to seal shows whether others exist.
    pub fn unless_alone(self) -> Option<Self> {
        let file = self.file().ok()?;
        drop(self);
        let alone = rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE).is_ok();
        if alone { None } else { Self::map(file).ok() }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the header is at the start, and consists of atomics.
        unsafe { self.first.get(0) }
    }

    /// Writes a search table for unwind information, before the agent gets the area. A table that is too long
    /// is dropped.
    pub fn set_unwind_table(&self, table: &[u8]) -> io::Result<()> {
        if table.is_empty() || table.len() > UNWIND_LEN {
            return Ok(());
        }
        let file = std::fs::File::from(self.file()?);
        std::os::unix::fs::FileExt::write_all_at(&file, table, UNWIND_AT as u64)?;
        self.header().unwind_len.store(table.len() as u64, Ordering::Release);
        Ok(())
    }

    /// The header of a ring.
    pub fn ring(&self, ring: usize) -> Option<&RingHeader> {
        // SAFETY: `ring` is in bounds, and headers are aligned there and consist of atomics.
        (ring < MOST_RINGS).then(|| unsafe { self.first.get(ring_header_at(ring)) })
    }

    /// The words of a ring. `None` if the ring does not exist, or its words cannot be mapped.
    pub fn words(&self, ring: usize) -> Option<&RingWords> {
        let number = ring / CHUNK_RINGS;
        let map = || Part::map(&self.file, chunk_at(number), CHUNK_LEN).ok();
        let chunk = self.chunks.get(number)?.get_or_init(map).as_ref()?;
        // SAFETY: the ring is in this chunk, and words are aligned there.
        Some(unsafe { chunk.get(ring_words_at(ring)) })
    }

    /// The board of the program's CPU samples. `None` if it cannot be mapped.
    pub fn board(&self) -> Option<&Board> {
        // SAFETY: the board is at the start of this part, and consists of atomics.
        Some(unsafe { self.samples()?.get(0) })
    }

    /// A slot for a CPU sample. `None` if the slot does not exist, or cannot be mapped.
    pub fn slot(&self, slot: usize) -> Option<&Slot> {
        let samples = self.samples().filter(|_| slot < MOST_SLOTS)?;
        // SAFETY: the slot is in bounds, and slots are aligned there and consist of atomics.
        Some(unsafe { samples.get(slot_at(slot)) })
    }

    fn samples(&self) -> Option<&Part> {
        self.samples.get_or_init(|| Part::map(&self.file, SAMPLES_AT, SAMPLES_LEN).ok()).as_ref()
    }

    /// The board of the program's experiments. `None` if it cannot be mapped.
    pub fn causal(&self) -> Option<&causal::Board> {
        // SAFETY: the board is at the start of this part, and consists of atomics.
        Some(unsafe { self.experiments()?.get(0) })
    }

    /// The round with a number.
    pub fn round(&self, number: u64) -> Option<&Round> {
        // SAFETY: rounds are in bounds for every number, are aligned there, and consist of atomics.
        Some(unsafe { self.experiments()?.get(round_at(number)) })
    }

    /// The delays of a thread. `None` if there is no such row.
    pub fn delayed_thread(&self, thread: usize) -> Option<&causal::Thread> {
        let part = self.experiments().filter(|_| thread < MOST_THREADS)?;
        // SAFETY: the thread is in bounds, and threads are aligned there and consist of atomics.
        Some(unsafe { part.get(thread_at(thread)) })
    }

    /// A progress point. `None` if there is no such row.
    pub fn point(&self, point: usize) -> Option<&Point> {
        let part = self.experiments().filter(|_| point < MOST_POINTS)?;
        // SAFETY: the point is in bounds, and points are aligned there and consist of atomics.
        Some(unsafe { part.get(point_at(point)) })
    }

    /// The address of the sample with this number, counted from the first one.
    pub fn sampled_address(&self, number: u64) -> Option<u64> {
        let at = ADDRESSES_AT + number as usize % MOST_ADDRESSES * 8;
        // SAFETY: words are in bounds for every number, are aligned there, and are atomic.
        Some(unsafe { self.experiments()?.get::<AtomicU64>(at) }.load(Ordering::Relaxed))
    }

    fn experiments(&self) -> Option<&Part> {
        self.causal.get_or_init(|| Part::map(&self.file, CAUSAL_AT, CAUSAL_LEN).ok()).as_ref()
    }

    /// The filter of sampled blocks.
    pub fn filter(&self) -> &[AtomicU8; FILTER_LEN] {
        // SAFETY: the filter is completely inside; bytes need no alignment.
        unsafe { self.first.get(FILTER_AT) }
    }

    /// Programs that are not recorded.
    pub fn left_out(&self) -> &[LeftOut; MOST_LEFT_OUT] {
        const { assert!(LEFT_AT.is_multiple_of(align_of::<LeftOut>())) };
        // SAFETY: the entries are completely inside, are aligned there, and consist of atomics.
        unsafe { self.first.get(LEFT_AT) }
    }

    /// The modules, as words.
    pub fn modules(&self) -> &[AtomicU64; MODULES_LEN / 8] {
        const { assert!(MODULES_AT.is_multiple_of(8)) };
        // SAFETY: the modules are completely inside, at a multiple of 8.
        unsafe { self.first.get(MODULES_AT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_dropped_only_when_no_other_process_maps_it() {
        let own = Area::create().expect("area");
        let other = Area::map(own.file().expect("file")).expect("mapped");
        other.header().lost_events.store(7, Ordering::Relaxed);
        let own = own.unless_alone().expect("another mapping exists");
        assert_eq!(own.header().lost_events.load(Ordering::Relaxed), 7);
        drop(other);
        assert!(own.unless_alone().is_none());
    }

    #[test]
    fn indices_beyond_the_ends_return_none() {
        let area = Area::create().expect("area");
        assert!(area.ring(MOST_RINGS - 1).is_some() && area.ring(MOST_RINGS).is_none());
        assert!(area.words(MOST_RINGS).is_none());
        assert_eq!(area.modules()[MODULES_LEN / 8 - 1].load(Ordering::Relaxed), 0);
        assert_eq!(area.words(MOST_RINGS - 1).expect("words")[RING_WORDS - 1].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn rejects_a_file_of_another_length() {
        let file = tempfile::tempfile().expect("file");
        assert!(Area::map(file.into()).is_err());
    }
}
