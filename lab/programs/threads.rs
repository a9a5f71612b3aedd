//! Hundreds of threads that live for a few milliseconds each.
//!
//! Run: `threads [COUNT=400] [MS=1000]`; MS is the work of all threads together, at most 16 threads
//! live at once. Threads with an even number are named `even-N`. The odd ones have no own name.
//!
//! THE KNOWN ANSWER: even_work 75 %, odd_work 25 % (for an even COUNT); each even thread does three times an odd one's work.

use std::hint::black_box;
use std::thread::{Builder, JoinHandle};

const STEPS_PER_MS: u64 = 600_000;
const AT_ONCE: u64 = 16;

#[inline(never)]
fn even_work(steps: u64, mut x: u64) -> u64 {
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
fn odd_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 11;
        x ^= x >> 9;
        x ^= x << 19;
        left -= 1;
    }
    black_box(x)
}

fn start(number: u64, unit: u64) -> JoinHandle<u64> {
    if number.is_multiple_of(2) {
        Builder::new().name(format!("even-{number}")).spawn(move || even_work(3 * unit, number + 1))
    } else {
        Builder::new().spawn(move || odd_work(unit, number + 1))
    }
    .expect("a thread")
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let count = numbers.next().unwrap_or(400);
    let steps = numbers.next().unwrap_or(1000) * STEPS_PER_MS;
    let (even, odd) = (count.div_ceil(2), count / 2);
    let unit = steps / (3 * even + odd);

    let mut running = std::collections::VecDeque::new();
    for number in 0..count {
        if running.len() as u64 == AT_ONCE {
            let oldest: JoinHandle<u64> = running.pop_front().expect("not empty");
            black_box(oldest.join().expect("no panic"));
        }
        running.push_back(start(number, unit));
    }
    for thread in running {
        black_box(thread.join().expect("no panic"));
    }

    let all = (3 * even + odd) as f64;
    println!("threads {count}");
    println!("truth even_work={} odd_work={}", 3.0 * even as f64 / all, odd as f64 / all);
}
