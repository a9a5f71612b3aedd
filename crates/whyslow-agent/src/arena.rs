//! Memory for the few allocations that the loader makes while it looks up the real allocator. It is never
//! freed.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

const LEN: usize = 64 << 10;
/// The size of a block is stored in front of it.
const HEAD: usize = 16;

#[repr(C, align(4096))]
struct Bytes(UnsafeCell<[u8; LEN]>);

// SAFETY: each block has one owner, because `USED` hands out disjoint ranges.
unsafe impl Sync for Bytes {}

static BYTES: Bytes = Bytes(UnsafeCell::new([0; LEN]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// A zeroed block, or null when the arena is full.
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
                // SAFETY: the head lies in front of this block and after the previous one.
                unsafe { ptr::write((start + at - HEAD) as *mut usize, size) };
                return (start + at) as u64;
            }
            Err(now) => used = now,
        }
    }
}

/// Whether a block belongs to the arena.
#[inline]
pub fn holds(block: u64) -> bool {
    block.wrapping_sub(BYTES.0.get() as u64) < LEN as u64
}

/// All addresses at which a block handed out so far may start.
pub fn given_out() -> impl Iterator<Item = u64> {
    let start = BYTES.0.get() as u64;
    (start..start + USED.load(Relaxed) as u64).step_by(16)
}

/// The size of an arena block. 0 for any other address.
pub fn size_of(block: u64) -> u64 {
    let start = BYTES.0.get() as u64;
    let at = block.wrapping_sub(start) as usize;
    if !(HEAD..=LEN).contains(&at) || !at.is_multiple_of(16) {
        return 0;
    }
    // SAFETY: the word lies in the arena. Its size was written before the block was handed out.
    let size = unsafe { ptr::read((block as usize - HEAD) as *const usize) };
    size.min(LEN - at) as u64
}

/// Copies an arena block.
///
/// # Safety
/// The caller owns at least `size` bytes at `to`, outside the arena.
pub unsafe fn copy_out(block: u64, to: u64, size: u64) {
    let bytes = size.min(size_of(block)) as usize;
    // SAFETY: both blocks have that many bytes. `size_of` is 0 for blocks outside the arena.
    unsafe { ptr::copy_nonoverlapping(block as *const u8, to as *mut u8, bytes) };
}
