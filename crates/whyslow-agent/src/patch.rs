//! The collector's answer: pages of code, the functions that hooks call, and bytes to write over code.

use core::ptr;

use whyslow_agent_wire::VERSION;
use whyslow_agent_wire::handshake::{PATCH_LEN, Page, Patch, Real, Welcome, hook};

use crate::causal::breaks;
use crate::sys::protection::{EXECUTE, READ, WRITE};
use crate::{real, sys};

const PAGE: u64 = 4096;

/// An answer with its pages mapped.
pub struct Prepared<'a> {
    first: Welcome,
    pages: Reader<'a>,
    reals: Reader<'a>,
    patches: Reader<'a>,
}

/// Reads the answer, checks that the code to patch is what the collector saw, and maps the pages. `None`:
/// nothing was changed.
///
/// # Safety
/// It is a collector's answer to this process's own hello. Its patches are for code of this process that no
/// thread executes while they are written (the program has not started, or the loader's lock is held). They
/// jump to the hooks named in the hello, and the pages hold the original starts of the patched functions.
pub unsafe fn prepare(welcome: &[u8]) -> Option<Prepared<'_>> {
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
    each(patches, first.patches, |patch: Patch| Site::find(patch).is_some())?;
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
    /// Sets the functions that hooks call, and writes over the code. False: the code is unchanged.
    pub fn apply(&self) -> bool {
        let known = each(self.reals, self.first.reals, |row: Real| (row.hook as usize) < hook::COUNT);
        if known.is_none() {
            return false;
        }
        let is_preloaded = |row: &Real| (row.hook as usize) < hook::PER_GROUP;
        self.set_hook_targets(|row| !is_preloaded(row));
        let mut done = 0;
        let all = each(self.patches, self.first.patches, |patch: Patch| {
            let written = Site::find(patch).is_some_and(|site| site.write(&patch.bytes));
            done += u32::from(written);
            written
        });
        if all.is_none() {
            each(self.patches, done, |patch: Patch| Site(patch).write(&patch.expected));
            return false;
        }
        // These hooks work already, and must not depend on patches that may be undone.
        self.set_hook_targets(is_preloaded);
        true
    }

    fn set_hook_targets(&self, wanted: impl Fn(&Real) -> bool) {
        each(self.reals, self.first.reals, |row: Real| {
            if !wanted(&row) {
                return true;
            }
            if row.hook as usize == hook::BREAKPOINT {
                breaks::add(row.address, row.point);
            } else {
                // SAFETY: the collector knows which function each hook replaces (`prepare`).
                unsafe { real::set(row.hook as usize, row.address) };
            }
            true
        });
    }

    /// Address and length of its first page. `None` if there is nothing to do.
    pub fn page(&self) -> Option<(u64, u64)> {
        let mut pages = self.pages;
        let (page, _) = if self.first.pages > 0 { pages.page()? } else { return None };
        Some((page.at, u64::from(page.len).next_multiple_of(PAGE)))
    }

    /// Unmaps the pages.
    pub fn undo(&self) {
        remove_pages(self.pages, self.first.pages);
    }
}

/// Calls `accept` for each row. `None` as soon as one is rejected.
fn each<T: Plain>(mut reader: Reader<'_>, count: u32, mut accept: impl FnMut(T) -> bool) -> Option<()> {
    for _ in 0..count {
        if !accept(reader.take()?) {
            return None;
        }
    }
    Some(())
}

fn put_page(page: &Page, bytes: &[u8]) -> bool {
    let len = u64::from(page.len).next_multiple_of(PAGE) as usize;
    if bytes.len() > len || !sys::pages_at(page.at as usize, len) {
        return false;
    }
    // SAFETY: the pages were just mapped, are long enough, and no other code knows them yet.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), page.at as *mut u8, bytes.len());
        sys::protect(page.at as usize, len, READ | EXECUTE)
    }
}

/// Unmaps the first `count` pages, which [`put_page`] has mapped and no code jumps to.
fn remove_pages(mut reader: Reader<'_>, count: u32) {
    for _ in 0..count {
        if let Some((page, _)) = reader.page() {
            // SAFETY: see above.
            unsafe { sys::unmap(page.at as usize, u64::from(page.len).next_multiple_of(PAGE) as usize) };
        }
    }
}

/// A place in the code to patch. It contains what the collector saw, or did until the patch was written.
struct Site(Patch);

impl Site {
    /// `None` if it contains something else.
    fn find(patch: Patch) -> Option<Self> {
        let len = patch.len as usize;
        let mut now = [0u8; PATCH_LEN];
        let is_there = len <= PATCH_LEN
            && sys::peek(patch.address, &mut now[..len]) == len
            && now[..len] == patch.expected[..len];
        is_there.then_some(Self(patch))
    }

    /// Writes over the code. The code stays executable during the write if the system allows it: another
    /// thread may run in the same page.
    fn write(&self, bytes: &[u8; PATCH_LEN]) -> bool {
        let Patch { address, len, .. } = self.0;
        let start = address / PAGE * PAGE;
        let pages = (address + u64::from(len)).next_multiple_of(PAGE) - start;
        let (at, pages) = (start as usize, pages as usize);
        // SAFETY: the pages hold the code. Where they are not executable during the write, no thread executes
        // them (`prepare`).
        let writable = unsafe {
            sys::protect(at, pages, READ | WRITE | EXECUTE) || sys::protect(at, pages, READ | WRITE)
        };
        if !writable {
            return false;
        }
        for (offset, byte) in bytes.iter().enumerate().take(len as usize) {
            // SAFETY: this many bytes of code were compared before, and they are writable now.
            unsafe { ptr::write_volatile((address as usize + offset) as *mut u8, *byte) };
        }
        // SAFETY: code had these permissions before.
        unsafe { sys::protect(at, pages, READ | EXECUTE) }
    }
}

/// A structure of plain numbers, for which any bytes are valid.
///
/// # Safety
/// Any bytes must be a valid value.
unsafe trait Plain: Copy {}
// SAFETY: the fields are integers and arrays of them.
unsafe impl Plain for Welcome {}
// SAFETY: as above.
unsafe impl Plain for Page {}
// SAFETY: as above.
unsafe impl Plain for Real {}
// SAFETY: as above.
unsafe impl Plain for Patch {}

/// Reads plain structures in sequence.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<T: Plain>(&mut self) -> Option<T> {
        let bytes = self.skip(size_of::<T>())?;
        // SAFETY: there are enough bytes, and any bytes are valid.
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
