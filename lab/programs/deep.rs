//! Recursion that holds a large stack while all the time is spent in the leaf.
//!
//! Run: `deep [DEPTH=500] [MS=1000]`; a frame has about 640 bytes, so the default is 320 KB of stack.
//!
//! THE KNOWN ANSWER: leaf has 100 % self time, and each of its stacks is leaf
//! < down × (DEPTH + 1) < main. The outer frames exist for the whole run.

use std::hint::black_box;

const STEPS_PER_MS: u64 = 600_000;

#[inline(never)]
fn leaf(steps: u64, mut x: u64) -> u64 {
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
fn down(depth: u64, steps: u64) -> u64 {
    let mut room = [depth + 1; 76];
    black_box(&mut room);
    let x = if depth == 0 { leaf(steps, room[0]) } else { down(depth - 1, steps) };
    x ^ black_box(&room)[75]
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let depth = numbers.next().unwrap_or(500);
    let steps = numbers.next().unwrap_or(1000) * STEPS_PER_MS;
    black_box(down(depth, steps));
    println!("frames down={}", depth + 1);
    println!("truth leaf=1");
}
