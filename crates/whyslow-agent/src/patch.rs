//! The collector's answer: pages of code, what hooks call, and bytes to write over code.

use core::ptr;

use whyslow_heap_wire::VERSION;
use whyslow_heap_wire::handshake::{PATCH_LEN, Page, Patch, Real, Welcome, hook};

use crate::sys::protection::{EXECUTE, READ, WRITE};
use crate::{real, sys};

const PAGE: u64 = 4096;

/// Does what the answer says, or nothing of it.
pub fn apply(welcome: &[u8]) -> Option<()> {
    let mut reader = Reader(welcome);
    let first: Welcome = reader.take()?;
    if first.version != VERSION {
        return None;
    }
    let mut pages = reader;
    for _ in 0..first.pages {
        reader.page()?;
    }
    let mut reals = reader;
    reader.skip(first.reals as usize * size_of::<Real>())?;
    let patches = reader;
    each(patches, first.patches, |patch: Patch| fits(&patch))?;
    let begin = pages;
    for count in 0..first.pages {
        let (page, bytes) = pages.page()?;
        if !put_page(&page, bytes) {
            remove_pages(begin, count);
            return None;
        }
    }
    for _ in 0..first.reals {
        let row: Real = reals.take()?;
        if (row.hook as usize) < hook::COUNT {
            real::set(row.hook as usize, row.address);
        }
    }
    let mut done = 0;
    let all = each(patches, first.patches, |patch: Patch| {
        let written = write(&patch, &patch.bytes);
        done += u32::from(written);
        written
    });
    if all.is_none() {
        each(patches, done, |patch: Patch| write(&patch, &patch.expected));
    }
    all
}

/// Goes through rows; none as soon as one is refused.
fn each<T: Copy>(mut reader: Reader, count: u32, mut accept: impl FnMut(T) -> bool) -> Option<()> {
    for _ in 0..count {
        if !accept(reader.take()?) {
            return None;
        }
    }
    Some(())
}

fn fits(patch: &Patch) -> bool {
    let len = patch.len as usize;
    if len > PATCH_LEN {
        return false;
    }
    let mut now = [0u8; PATCH_LEN];
    sys::peek(patch.address, &mut now[..len]) == len && now[..len] == patch.expected[..len]
}

fn put_page(page: &Page, bytes: &[u8]) -> bool {
    let len = u64::from(page.len).next_multiple_of(PAGE) as usize;
    if !sys::pages_at(page.at as usize, len) {
        return false;
    }
    // SAFETY: the pages were just mapped, and are long enough.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), page.at as *mut u8, bytes.len()) };
    sys::protect(page.at as usize, len, READ | EXECUTE)
}

fn remove_pages(mut reader: Reader, count: u32) {
    for _ in 0..count {
        if let Some((page, _)) = reader.page() {
            sys::unmap(page.at as usize, u64::from(page.len).next_multiple_of(PAGE) as usize);
        }
    }
}

/// Writes over code. It stays executable meanwhile if the system allows that: another thread may be in the same page.
fn write(patch: &Patch, bytes: &[u8; PATCH_LEN]) -> bool {
    let start = patch.address / PAGE * PAGE;
    let len = (patch.address + u64::from(patch.len)).next_multiple_of(PAGE) - start;
    let (at, len) = (start as usize, len as usize);
    if !sys::protect(at, len, READ | WRITE | EXECUTE) && !sys::protect(at, len, READ | WRITE) {
        return false;
    }
    for (offset, byte) in bytes[..patch.len as usize].iter().enumerate() {
        // SAFETY: the code was compared before, and is writable now.
        unsafe { ptr::write_volatile((patch.address as usize + offset) as *mut u8, *byte) };
    }
    sys::protect(at, len, READ | EXECUTE)
}

/// Reads plain structures one after the other.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<T: Copy>(&mut self) -> Option<T> {
        let bytes = self.skip(size_of::<T>())?;
        // SAFETY: long enough, and only structures of plain numbers are read.
        Some(unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) })
    }

    fn skip(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn page(&mut self) -> Option<(Page, &'a [u8])> {
        let page: Page = self.take()?;
        let bytes = self.skip((page.len as usize).next_multiple_of(8))?;
        Some((page, bytes.get(..page.len as usize)?))
    }
}
