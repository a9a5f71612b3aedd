//! One stack frame larger than any recorder copies.
//!
//! Run: `bigframe [MS=1000]`.
//!
//! THE KNOWN ANSWER: spin has 100 % self time, and each of its stacks is spin < holder < caller < main, where the frame
//! of `holder` is 150 KB.

use std::hint::black_box;

const STEPS_PER_MS: u64 = 600_000;

#[inline(never)]
fn spin(steps: u64, mut x: u64) -> u64 {
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
fn holder(steps: u64) -> u64 {
    let mut room = [1_u8; 150 * 1024];
    black_box(&mut room);
    let x = spin(steps, 1);
    x ^ u64::from(black_box(&room)[77])
}

#[inline(never)]
fn caller(steps: u64) -> u64 {
    holder(steps) ^ black_box(1)
}

fn main() {
    let ms = std::env::args().nth(1).map_or(1000, |a| a.parse::<u64>().expect("a number"));
    black_box(caller(ms * STEPS_PER_MS));
    println!("truth spin=1");
}
