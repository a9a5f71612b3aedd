//! Measures the cost of an allocation and its free: with the bare system allocator, and with whyslow-alloc
//! around it while nothing is watched, in a scope, in a scope with stacks, and with a profiler.
//!
//! ```text
//! cargo run --release -p whyslow-alloc --example alloc_cost
//! ```

#![expect(unsafe_code, reason = "the bare allocator and libc's clock are called directly")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use whyslow_alloc::{Alloc, Profiler, Scope};

#[global_allocator]
static ALLOC: Alloc = Alloc::system();

const ROUNDS: usize = 41;
const CALLS: u32 = 200_000;

/// CPU time of this thread in nanoseconds. It does not include other work on the machine.
fn cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is this function's own.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds per call.
fn once(mut work: impl FnMut()) -> f64 {
    let start = cpu_ns();
    for _ in 0..CALLS {
        work();
    }
    (cpu_ns() - start) / f64::from(CALLS)
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Allocates and frees through an allocator.
fn pair(allocator: &impl GlobalAlloc) {
    let layout = Layout::new::<[u64; 6]>();
    // SAFETY: the layout is not empty, and the block is freed with the same layout.
    unsafe {
        let block = black_box(allocator.alloc(black_box(layout)));
        allocator.dealloc(block, layout);
    }
}

/// Calls something below this many frames.
#[inline(never)]
fn below(frames: u32, work: &mut dyn FnMut()) {
    if frames == 0 {
        work();
    } else {
        below(black_box(frames - 1), work);
        black_box(());
    }
}

fn main() {
    // Alternating, so that other work on the machine affects both.
    let (bare, off): (Vec<f64>, Vec<f64>) =
        (0..ROUNDS).map(|_| (once(|| pair(&System)), once(|| pair(&ALLOC)))).unzip();
    println!("nanoseconds for an allocation and its free:");
    println!("  the system's allocator       {:8.2}", median(bare));
    println!("  nothing watched              {:8.2}", median(off));
    let through = || drop(black_box(Box::new([0u64; 6])));
    let rounds = || median((0..9).map(|_| once(through)).collect());
    println!("  Box, nothing watched         {:8.2}", rounds());
    let other = std::thread::spawn(|| {
        let _scope = Scope::new();
        std::thread::park();
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    println!("  Box, another thread's scope  {:8.2}", rounds());
    other.thread().unpark();
    let _ = other.join();
    {
        let _scope = Scope::new();
        println!("  Box, a scope                 {:8.2}", rounds());
    }
    for frames in [0, 30] {
        below(frames, &mut || {
            let _scope = Scope::with_stacks();
            println!("  Box, stacks, +{frames:2} frames      {:8.2}", rounds());
        });
        below(frames, &mut || {
            let _profiler = Profiler::builder().testing().build();
            println!("  Box, profiler, +{frames:2} frames    {:8.2}", rounds());
        });
        let _profiler = Profiler::builder().testing().build();
        let fresh = median((0..9).map(|_| once(|| below(frames, &mut || through()))).collect());
        println!("  Box, profiler, {frames:2} new frames {fresh:8.2}");
    }
}
