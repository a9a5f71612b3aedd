//! The collector's answer: pages of code, what hooks call, and bytes to write over code.

use core::ptr;

use whyslow_heap_wire::VERSION;
use whyslow_heap_wire::handshake::{PATCH_LEN, Page, Patch, Real, Welcome, hook};

use crate::sys::protection::{EXECUTE, READ, WRITE};
use crate::{real, sys};

const PAGE: u64 = 4096;

/// An answer whose pages are mapped.
pub struct Prepared<'a> {
    first: Welcome,
    pages: Reader<'a>,
    reals: Reader<'a>,
    patches: Reader<'a>,
}

/// Reads the answer, makes sure that the code to be patched is what the collector saw, and maps the pages. None: nothing was done.
pub fn prepare(welcome: &[u8]) -> Option<Prepared<'_>> {
    let mut reader = Reader(welcome);
    let first: Welcome = reader.take()?;
    if first.version != VERSION {
        return None;
    }
    let pages = reader;
    for _ in 0..first.pages {
        reader.page()?;
    }
    let reals = reader;
    reader.skip(first.reals as usize * size_of::<Real>())?;
    let patches = reader;
    each(patches, first.patches, |patch: Patch| fits(&patch))?;
    let mut unmapped = pages;
    for count in 0..first.pages {
        let (page, bytes) = unmapped.page()?;
        if !put_page(&page, bytes) {
            remove_pages(pages, count);
            return None;
        }
    }
    Some(Prepared { first, pages, reals, patches })
}

impl Prepared<'_> {
    /// Tells the hooks what they call, and writes over the code. False: the code is as it was.
    pub fn apply(&self) -> bool {
        let known = each(self.reals, self.first.reals, |row: Real| (row.hook as usize) < hook::COUNT);
        if known.is_none() {
            return false;
        }
        let is_preloaded = |row: &Real| (row.hook as usize) < hook::PER_GROUP;
        self.tell(|row| !is_preloaded(row));
        let mut done = 0;
        let all = each(self.patches, self.first.patches, |patch: Patch| {
            let written = write(&patch, &patch.bytes);
            done += u32::from(written);
            written
        });
        if all.is_none() {
            each(self.patches, done, |patch: Patch| write(&patch, &patch.expected));
            return false;
        }
        // These worked all the time, and must not depend on what may be taken back.
        self.tell(is_preloaded);
        true
    }

    fn tell(&self, wanted: impl Fn(&Real) -> bool) {
        each(self.reals, self.first.reals, |row: Real| {
            if wanted(&row) {
                real::set(row.hook as usize, row.address);
            }
            true
        });
    }

    /// Where its first page is, and how long; none if nothing has to be done.
    pub fn page(&self) -> Option<(u64, u64)> {
        let mut pages = self.pages;
        let (page, _) = if self.first.pages > 0 { pages.page()? } else { return None };
        Some((page.at, u64::from(page.len).next_multiple_of(PAGE)))
    }

    /// Takes the pages away again.
    pub fn undo(&self) {
        remove_pages(self.pages, self.first.pages);
    }
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
