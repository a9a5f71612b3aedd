//! A serial part, then two threads.
//!
//! Run: `serial [MS=300]`; each thread works for this much CPU time, so that a busy machine only makes the run longer.
//!
//! THE KNOWN ANSWER: for `parse_us` microseconds only the main thread runs, in `parse`. Then for `render_us`
//! microseconds two threads run `render`, both until the same point in time, and the main thread waits for them.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The work is in the function itself, so that it is charged to no other.
macro_rules! works {
    ($name:ident) => {
        #[inline(never)]
        fn $name(is_over: &dyn Fn() -> bool) {
            let mut x = 1u64;
            while !is_over() {
                for _ in 0..100_000 {
                    x ^= x << 13;
                    x ^= x >> 7;
                }
            }
            black_box((stringify!($name), x));
        }
    };
}

works!(parse);
works!(render);

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

/// The CPU time that this thread has used.
fn cpu_time() -> Duration {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = [0; 2];
    // SAFETY: the array has the layout of `timespec`.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time[0] as u64, time[1] as u32)
}

fn timed(name: &str, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("{name}_us {}", start.elapsed().as_micros());
}

fn main() {
    let ms = std::env::args().nth(1).map_or(300, |a| a.parse().expect("milliseconds"));
    let time = Duration::from_millis(ms);
    timed("parse", || parse(&|| cpu_time() >= time));
    timed("render", || {
        let missing = AtomicU32::new(2);
        let render_until_all_are_done = || {
            let is_done = Cell::new(false);
            render(&|| {
                if !is_done.get() && cpu_time() >= time {
                    is_done.set(true);
                    missing.fetch_sub(1, Ordering::Relaxed);
                }
                missing.load(Ordering::Relaxed) == 0
            });
        };
        std::thread::scope(|scope| {
            scope.spawn(render_until_all_are_done);
            scope.spawn(render_until_all_are_done);
        });
    });
}
