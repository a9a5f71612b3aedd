//! A function that one build inlines into its caller and another does not: `--cfg swallowed` decides.
//!
//! Run: `swallowed [MS=1000]`.
//!
//! THE KNOWN ANSWER: `caller` 80 % including its callees, `other` 20 %. If `callee` is not inlined, it
//! has 50 of the 80. If it is inlined, all 80 are self time of `caller`. Both builds do the same work.

use std::hint::black_box;

const STEPS_PER_MS: u64 = 600_000;

#[cfg_attr(swallowed, inline(always))]
#[cfg_attr(not(swallowed), inline(never))]
fn callee(steps: u64, mut x: u64) -> u64 {
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
fn caller(unit: u64, mut x: u64) -> u64 {
    let mut left = 3 * unit;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    callee(5 * unit, black_box(x)) | 1
}

#[inline(never)]
fn other(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 12;
        x ^= x >> 25;
        x ^= x << 27;
        left -= 1;
    }
    black_box(x)
}

fn main() {
    let ms = std::env::args().nth(1).map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let (mut x, mut done) = (black_box(1), 0);
    while done < ms * STEPS_PER_MS {
        let unit = 3_000 + x % 4_096;
        x = caller(unit, x);
        x = other(2 * unit, x);
        done += 10 * unit;
    }
    println!("truth caller=0.8 other=0.2");
}
