//! Three functions with exactly known shares of CPU time, on one or many threads.
//!
//! Run: `ratio [THREADS=1] [MS=1000]`; MS is fixed work, about one millisecond of CPU time each, shared by all
//! threads. One thread works in `main`. Several are named `worker-0`, `worker-1`, and so on, one number each.
//!
//! THE KNOWN ANSWER: alpha 50 %, beta 30 %, gamma 20 %, all self time, called by `rounds`, the same on every thread.
//! The loops are chains of dependent shifts, so a step costs the same in each, and shares are step counts.

use std::hint::black_box;

const STEPS_PER_MS: u64 = 600_000;

#[inline(never)]
fn alpha(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

#[inline(never)]
fn beta(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 11;
        x ^= x >> 9;
        x ^= x << 19;
        left -= 1;
    }
    black_box(x)
}

#[inline(never)]
fn gamma(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 12;
        x ^= x >> 25;
        x ^= x << 27;
        left -= 1;
    }
    black_box(x)
}

/// Interleaves slices in the exact ratio. Their lengths vary, so that no sampling clock falls into step.
#[inline(never)]
fn rounds(steps: u64, mut x: u64) -> [u64; 3] {
    let mut done = [0; 3];
    while done.iter().sum::<u64>() < steps {
        let unit = 3_000 + x % 4_096;
        x = alpha(5 * unit, x);
        x = beta(3 * unit, x);
        x = gamma(2 * unit, x);
        done = [done[0] + 5 * unit, done[1] + 3 * unit, done[2] + 2 * unit];
    }
    done
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let threads = numbers.next().unwrap_or(1).max(1);
    let steps = numbers.next().unwrap_or(1000) * STEPS_PER_MS / threads;

    let done = if threads == 1 {
        vec![rounds(steps, black_box(1))]
    } else {
        let workers: Vec<_> = (0..threads)
            .map(|i| {
                let name = format!("worker-{i}");
                std::thread::Builder::new().name(name).spawn(move || rounds(steps, i + 1)).expect("a thread")
            })
            .collect();
        workers.into_iter().map(|w| w.join().expect("no panic")).collect()
    };

    let sum = |f: usize| done.iter().map(|d| d[f]).sum::<u64>() as f64;
    let all = sum(0) + sum(1) + sum(2);
    println!("truth alpha={} beta={} gamma={}", sum(0) / all, sum(1) / all, sum(2) / all);
}
