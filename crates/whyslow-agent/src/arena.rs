//! Memory for the few allocations that the loader makes while it looks up the real allocator. Nothing of it is given back.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

const LEN: usize = 64 << 10;
/// In front of each block: its size.
const HEAD: usize = 16;

#[repr(C, align(4096))]
struct Bytes(UnsafeCell<[u8; LEN]>);

// SAFETY: every block has one owner; `USED` gives them out.
unsafe impl Sync for Bytes {}

static BYTES: Bytes = Bytes(UnsafeCell::new([0; LEN]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// A zeroed block; null when the arena is full.
pub fn allocate(size: u64, alignment: u64) -> u64 {
    let (Ok(size), alignment) = (usize::try_from(size), (alignment as usize).max(16)) else { return 0 };
    if size > LEN || alignment > 4096 || !alignment.is_power_of_two() {
        return 0;
    }
    let start = BYTES.0.get() as usize;
    let mut used = USED.load(Relaxed);
    loop {
        let at = (used + HEAD).next_multiple_of(alignment);
        let end = (at + size).next_multiple_of(16);
        if end > LEN {
            return 0;
        }
        match USED.compare_exchange_weak(used, end, Relaxed, Relaxed) {
            Ok(_) => {
                // SAFETY: the head lies in front of the block, behind the one before.
                unsafe { ptr::write((start + at - HEAD) as *mut usize, size) };
                return (start + at) as u64;
            }
            Err(now) => used = now,
        }
    }
}

/// Whether a block is from here.
#[inline]
pub fn holds(block: u64) -> bool {
    block.wrapping_sub(BYTES.0.get() as u64) < LEN as u64
}

/// Where blocks from here may begin that were given out so far.
pub fn given_out() -> impl Iterator<Item = u64> {
    let start = BYTES.0.get() as u64;
    (start..start + USED.load(Relaxed) as u64).step_by(16)
}

/// The size of a block from here; 0 for any other address.
pub fn size_of(block: u64) -> u64 {
    let start = BYTES.0.get() as u64;
    let at = block.wrapping_sub(start) as usize;
    if !(HEAD..=LEN).contains(&at) || !at.is_multiple_of(16) {
        return 0;
    }
    // SAFETY: the word lies in the arena. Who has the block got it after its size was written.
    let size = unsafe { ptr::read((block as usize - HEAD) as *const usize) };
    size.min(LEN - at) as u64
}

/// Copies a block from here.
///
/// # Safety
/// There are at least `size` bytes at `to` that are the caller's and not from here.
pub unsafe fn copy_out(block: u64, to: u64, size: u64) {
    let bytes = size.min(size_of(block)) as usize;
    // SAFETY: a block from here has that many bytes, and so has the other; `size_of` is 0 for what is not from here.
    unsafe { ptr::copy_nonoverlapping(block as *const u8, to as *mut u8, bytes) };
}
