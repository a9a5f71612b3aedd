//! Measures how much of a block was never written. New blocks are filled with bytes that programs are
//! unlikely to write, and checked at the end.
//!
//! A table keeps the requested sizes, since the allocator knows only rounded ones. A block that finds no
//! place in the table is not checked.

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use whyslow_agent_wire::fill::{Untouched, fill_byte};
use whyslow_agent_wire::handshake::hook;
use whyslow_agent_wire::record::MOST_FILLED;

use crate::area::Area;
use crate::{link, modules, real, sys};

/// A filled block. Only one thread owns a block at a time, so a row has one user.
struct Row {
    block: AtomicU64,
    size: AtomicU64,
}

/// Rows: 128 MB of address space. Only touched pages take memory.
const ROWS: usize = 1 << 23;
/// How far from its own row a block's entry may be.
const REACH: usize = 64;
/// In [`Row::block`]: never used, released, about to be filled.
const EMPTY: u64 = 0;
const LEFT: u64 = 1;
const TAKEN: u64 = 2;

static TABLE: AtomicPtr<Row> = AtomicPtr::new(ptr::null_mut());

fn rows(block: u64) -> impl Iterator<Item = &'static Row> {
    let mut table = TABLE.load(Acquire);
    if table.is_null() {
        let new = sys::pages_for_good(ROWS * size_of::<Row>()).cast();
        table = match TABLE.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
            Ok(_) => {
                if let Some(area) = Area::get() {
                    area.header().table_len.store((ROWS * size_of::<Row>()) as u64, Relaxed);
                    area.header().table_start.store(new as u64, Release);
                }
                new
            }
            Err(other) => {
                // SAFETY: it was mapped just now, and no other code has its address.
                unsafe { sys::unmap(new as usize, ROWS * size_of::<Row>()) };
                other
            }
        };
    }
    let start = (block >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 41;
    let reach = if table.is_null() { 0 } else { REACH };
    // SAFETY: the index is inside the table, which is never unmapped. Zero bytes are valid rows.
    (0..reach).map(move |step| unsafe { &*table.add((start + step) % ROWS) })
}

/// Stores a filled block.
pub fn remember(block: u64, size: u64) {
    for row in rows(block) {
        let now = row.block.load(Relaxed);
        if now <= LEFT && row.block.compare_exchange(now, TAKEN, Acquire, Relaxed).is_ok() {
            row.size.store(size, Relaxed);
            row.block.store(block, Release);
            return;
        }
    }
}

fn row_of(block: u64) -> Option<&'static Row> {
    for row in rows(block) {
        match row.block.load(Acquire) {
            found if found == block => return Some(row),
            EMPTY => return None,
            _ => {}
        }
    }
    None
}

/// Removes a block and returns its size.
pub fn forget(block: u64) -> Option<u64> {
    let row = row_of(block)?;
    let size = row.size.load(Relaxed);
    row.block.store(LEFT, Release);
    Some(size)
}

/// The same where possibly no block was ever filled.
pub fn forget_if_any(block: u64) {
    if !TABLE.load(Acquire).is_null() {
        forget(block);
    }
}

/// Whether `realloc` is glibc's own. Then the bytes that a block gains may be filled: nothing else can
/// enlarge a block, and the program has to ask before it uses more than it requested. Calls of jemalloc's
/// `xallocx` and mimalloc's `mi_expand` are not hooked.
pub fn realloc_is_glibcs() -> bool {
    const NO: u32 = 1;
    const YES: u32 = 2;
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    match ANSWER.load(Relaxed) {
        0 => {
            let (libc, realloc) = (link::glibc_version(), real::of(hook::REALLOC));
            // SAFETY: libc is not unloaded.
            let module = libc.and_then(|libc| unsafe { modules::find(Area::get()?, libc as usize as u64) });
            let is_libcs = module.zip(realloc).is_some_and(|(libc, realloc)| {
                libc.holds(realloc.address()) || real::is(hook::LIBC + hook::REALLOC, realloc)
            });
            ANSWER.store(if is_libcs { YES } else { NO }, Relaxed);
            is_libcs
        }
        answer => answer == YES,
    }
}

/// Fills a new block.
///
/// # Safety
/// It has `size` bytes, and no other code has it.
pub unsafe fn fill_new(block: u64, size: u64) {
    // SAFETY: the caller upholds the same contract.
    unsafe { fill_from(0, block, size) };
}

/// A filled block of `was` bytes is now at `block` with another size. Fills its new bytes, or gives up
/// tracking it.
///
/// # Safety
/// Same as [`fill_new`].
pub unsafe fn fill_grown(was: u64, block: u64, size: u64) {
    if size <= was || realloc_is_glibcs() {
        // SAFETY: the caller upholds the same contract.
        unsafe { fill_from(was, block, size) };
    }
}

/// # Safety
/// Same as [`fill_new`].
unsafe fn fill_from(was: u64, block: u64, size: u64) {
    if size > MOST_FILLED {
        return;
    }
    for offset in was.min(size)..size {
        // SAFETY: the byte is in the block, which no other code has.
        unsafe { *((block + offset) as *mut u8) = fill_byte(offset) };
    }
    remember(block, size);
}

/// How many bytes of a block were never written. `None` if it was not filled.
///
/// # Safety
/// If it was filled, it is still allocated and the caller owns it.
pub unsafe fn never_written(block: u64) -> Option<u64> {
    let size = row_of(block)?.size.load(Relaxed);
    let mut untouched = Untouched::default();
    for offset in 0..size {
        // SAFETY: the block is still allocated and has at least this size: a block that is freed or shrunk is
        // removed from the table.
        untouched.add(unsafe { ptr::read_volatile((block + offset) as *const u8) });
    }
    Some(untouched.bytes())
}
