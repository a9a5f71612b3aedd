//! The work that all these programs do: the same allocations, with every allocation function of Rust, in functions with known names.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

/// Blocks that are still live at the end, per function.
const KEPT: usize = 3;

/// Plain blocks of 64 bytes: all but three are freed at once.
#[inline(never)]
pub fn plain(times: usize) {
    for number in 0..times {
        let block = black_box(Box::new([number; 8]));
        if number < KEPT {
            Box::leak(block);
        }
    }
}

/// Zeroed blocks.
#[inline(never)]
pub fn zeroed(times: usize) {
    for number in 0..times {
        let block = black_box(vec![0u8; 100 + number]);
        if number < KEPT {
            block.leak();
        }
    }
}

#[repr(align(128))]
struct Aligned {
    _numbers: [u64; 16],
}

/// Blocks with a large alignment. Aborts if one is misaligned.
#[inline(never)]
pub fn aligned(times: usize) {
    for number in 0..times {
        let block = black_box(Box::new(Aligned { _numbers: [number as u64; 16] }));
        assert!(std::ptr::from_ref(&*block).addr() % 128 == 0, "a block is not aligned");
        if number < KEPT {
            Box::leak(block);
        }
    }
}

/// Every Vec is created with 10 numbers and grown once, to 1,000.
#[inline(never)]
pub fn grown(times: usize) {
    for number in 0..times {
        let mut numbers: Vec<u64> = Vec::with_capacity(10);
        numbers.push(number as u64);
        black_box(&mut numbers).reserve_exact(999);
        assert!(numbers[0] == number as u64, "a block has lost its contents");
        black_box(&numbers);
        if number < KEPT {
            numbers.leak();
        }
    }
}

/// Runs all of them in this thread and in `threads - 1` others, and prints their counts.
pub fn run(allocator: &str) {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let threads: usize = arguments.next().unwrap_or(1);
    let times: usize = arguments.next().unwrap_or(1000);
    let all = || {
        plain(times);
        zeroed(times);
        aligned(times);
        grown(times);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(all);
        }
        all();
    });
    let site = |name: &str,
                allocations: usize,
                bytes: usize,
                left: usize,
                bytes_left: usize,
                grown: usize| {
        let [allocations, bytes, left, bytes_left, grown, temporary] =
            [allocations, bytes, left, bytes_left, grown, times - KEPT].map(|number| number * threads);
        let frees = allocations - left;
        println!(
            "site {name} allocations={allocations} frees={frees} bytes_allocated={bytes} temporary={temporary} live_at_exit_blocks={left} live_at_exit_bytes={bytes_left} grown={grown}"
        );
    };
    let sizes = |count: usize| (0..count).map(|number| 100 + number).sum();
    println!("{allocator}");
    site("plain", times, 64 * times, KEPT, 64 * KEPT, 0);
    site("zeroed", times, sizes(times), KEPT, sizes(KEPT), 0);
    site("aligned", times, 128 * times, KEPT, 128 * KEPT, 0);
    site("grown", 2 * times, (80 + 8000) * times, KEPT, 8000 * KEPT, times);
}

/// An allocator written entirely in Rust: it hands out consecutive memory and never reuses any.
pub struct Bump;

const ROOM: usize = 1 << 30;

#[repr(align(4096))]
struct Arena(std::cell::UnsafeCell<[u8; ROOM]>);

// SAFETY: every byte of it is handed out once.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(std::cell::UnsafeCell::new([0; ROOM]));
static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

// SAFETY: blocks lie in the arena, are aligned, and do not overlap.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        use std::sync::atomic::Ordering::Relaxed;
        let mut start = NEXT.load(Relaxed);
        loop {
            let place = start.next_multiple_of(layout.align());
            let end = place.saturating_add(layout.size());
            if end > ROOM {
                return std::ptr::null_mut();
            }
            match NEXT.compare_exchange_weak(start, end, Relaxed, Relaxed) {
                // SAFETY: the place is inside the arena.
                Ok(_) => return unsafe { ARENA.0.get().cast::<u8>().add(place) },
                Err(now) => start = now,
            }
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
