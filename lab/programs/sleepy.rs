//! Sleeps most of the time, so that a CPU profile of it has few samples and must say so.
//!
//! Run: `sleepy [MS=1000]`; MS is the wall time. It works for about 2 % of that.
//!
//! THE KNOWN ANSWER: brief_work has all the CPU time, about 2 % of the wall time. The rest is sleep.

use std::hint::black_box;
use std::time::Duration;

const STEPS_PER_MS: u64 = 600_000;

#[inline(never)]
fn brief_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

fn main() {
    let ms = std::env::args().nth(1).map_or(1000, |a| a.parse::<u64>().expect("a number"));
    // Few and long parts: on a busy machine a thread queues for a CPU in each of them, but sleeps longer.
    let work = (ms / 100).max(1);
    for _ in 0..2 {
        black_box(brief_work(work * STEPS_PER_MS, 1));
        std::thread::sleep(Duration::from_millis((ms / 2).saturating_sub(work)));
    }
    println!("work_ms {}", 2 * work);
    println!("truth brief_work=1");
}
