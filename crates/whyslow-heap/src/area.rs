//! The shared area as the collector sees it. Another process writes into it, perhaps a hostile one, at any time: all
//! access is by atomics, every index is checked, and nothing read is believed.

#![expect(unsafe_code, reason = "shared memory is reached through raw pointers, only in this file")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use whyslow_heap_wire::VERSION;
use whyslow_heap_wire::area::{
    AREA_LEN, FILTER_AT, FILTER_LEN, Header, LEFT_AT, MODULES_AT, MODULES_LEN, MOST_RINGS, RING_WORDS,
    RingHeader, UNWIND_AT, UNWIND_LEN, ring_header_at, ring_words_at,
};
use whyslow_heap_wire::left_out::{LeftOut, MOST_LEFT_OUT};

/// The words of one ring.
pub type RingWords = [AtomicU64; RING_WORDS];

/// A mapped area.
#[derive(Debug)]
pub struct Area {
    map: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the mapping belongs to the value, and all access to it goes through atomics.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// A new, empty area. Nobody can make it shorter or longer, so that reading it cannot fault.
    pub fn create() -> io::Result<Self> {
        // SAFETY: the name is a C string; the call has no other preconditions.
        let fd = unsafe {
            libc::memfd_create(c"whyslow-heap".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let len = libc::off_t::try_from(AREA_LEN).map_err(io::Error::other)?;
        // SAFETY: plain system calls on our own descriptor.
        let sealed = unsafe {
            libc::ftruncate(file.as_raw_fd(), len) == 0
                && libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)
                    == 0
        };
        if !sealed {
            return Err(io::Error::last_os_error());
        }
        let area = Self::map(file)?;
        area.header().version.store(VERSION, Ordering::Relaxed);
        Ok(area)
    }

    /// Maps an area that someone else made.
    ///
    /// # Errors
    /// When the file is not of the right length or can become shorter.
    pub fn map(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: plain system calls on our own descriptor; `stat` is plain data.
        let (len, seals) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(file.as_raw_fd(), &raw mut stat) != 0 {
                return Err(io::Error::last_os_error());
            }
            (stat.st_size, libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS))
        };
        if usize::try_from(len) != Ok(AREA_LEN) || seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(io::Error::other("not an area"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice; the file is as long as the mapping, for good.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                AREA_LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { map, file })
    }

    /// The area's descriptor.
    pub fn file(&self) -> io::Result<OwnedFd> {
        // SAFETY: the descriptor is open as long as `self` lives.
        unsafe { BorrowedFd::borrow_raw(self.file.as_raw_fd()) }.try_clone_to_owned()
    }

    /// The area again if another process still has it, `None` if nobody has.
    ///
    /// A file with writable mappings cannot be sealed against writing; so without our own, sealing tells.
    pub fn unless_alone(self) -> Option<Self> {
        let file = self.file().ok()?;
        drop(self);
        // SAFETY: a plain system call on our own descriptor.
        let alone = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) == 0 };
        if alone { None } else { Self::map(file).ok() }
    }

    /// A part of the mapping.
    ///
    /// # Safety
    /// `at` must be aligned for `T`, `at + size_of::<T>()` at most `AREA_LEN`, and `T` must consist of atomics, for
    /// which any bytes are valid.
    unsafe fn part<T>(&self, at: usize) -> &T {
        // SAFETY: the caller promises bounds, alignment and kind; the mapping lives as long as `self`.
        unsafe { self.map.add(at).cast::<T>().as_ref() }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the header is at the start, and is made of atomics.
        unsafe { self.part(0) }
    }

    /// Leaves a search table for unwind information to the agent, before it has the area. One that is too long is left out.
    pub fn set_unwind_table(&self, table: &[u8]) {
        if table.is_empty() || table.len() > UNWIND_LEN {
            return;
        }
        // SAFETY: the part is long enough, and nobody else has the area yet.
        unsafe {
            let part = self.map.add(UNWIND_AT).cast::<u8>().as_ptr();
            std::ptr::copy_nonoverlapping(table.as_ptr(), part, table.len());
        }
        self.header().unwind_len.store(table.len() as u64, Ordering::Release);
    }

    /// The header of a ring.
    pub fn ring(&self, ring: usize) -> Option<&RingHeader> {
        // SAFETY: `ring` is in bounds, headers are aligned there, and are made of atomics.
        (ring < MOST_RINGS).then(|| unsafe { self.part(ring_header_at(ring)) })
    }

    /// The words of a ring.
    pub fn words(&self, ring: usize) -> Option<&RingWords> {
        // SAFETY: `ring` is in bounds; words are aligned there.
        (ring < MOST_RINGS).then(|| unsafe { self.part(ring_words_at(ring)) })
    }

    /// The filter of sampled blocks.
    pub fn filter(&self) -> &[AtomicU8; FILTER_LEN] {
        // SAFETY: the filter lies wholly inside; bytes need no alignment.
        unsafe { self.part(FILTER_AT) }
    }

    /// Programs that are not recorded.
    pub fn left_out(&self) -> &[LeftOut; MOST_LEFT_OUT] {
        const { assert!(LEFT_AT.is_multiple_of(align_of::<LeftOut>())) };
        // SAFETY: they lie wholly inside, are aligned there, and are made of atomics.
        unsafe { self.part(LEFT_AT) }
    }

    /// The modules, as words.
    pub fn modules(&self) -> &[AtomicU64; MODULES_LEN / 8] {
        const { assert!(MODULES_AT.is_multiple_of(8)) };
        // SAFETY: the modules lie wholly inside, at a multiple of 8.
        unsafe { self.part(MODULES_AT) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), AREA_LEN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_given_up_only_when_nobody_else_has_it() {
        let ours = Area::create().expect("area");
        let theirs = Area::map(ours.file().expect("file")).expect("mapped");
        theirs.header().lost_events.store(7, Ordering::Relaxed);
        let ours = ours.unless_alone().expect("someone else has it");
        assert_eq!(ours.header().lost_events.load(Ordering::Relaxed), 7);
        drop(theirs);
        assert!(ours.unless_alone().is_none());
    }

    #[test]
    fn nothing_lies_beyond_the_ends() {
        let area = Area::create().expect("area");
        assert!(area.ring(MOST_RINGS - 1).is_some() && area.ring(MOST_RINGS).is_none());
        assert!(area.words(MOST_RINGS).is_none());
        assert_eq!(area.modules()[MODULES_LEN / 8 - 1].load(Ordering::Relaxed), 0);
        assert_eq!(area.words(MOST_RINGS - 1).expect("words")[RING_WORDS - 1].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_file_of_another_length_is_no_area() {
        let file = tempfile::tempfile().expect("file");
        assert!(Area::map(file.into()).is_err());
    }
}
