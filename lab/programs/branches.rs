//! Deep recursion through two call sites, in a different pattern each time.
//!
//! Run: `branches [DEPTH=10000] [ROUNDS=100]`; a round goes DEPTH calls deep and works there for about 10 ms.
//!
//! THE KNOWN ANSWER: leaf has nearly all of the self time, and each of its stacks is leaf < descend × (DEPTH + 1) <
//! main. Both call sites of descend are on nearly every stack.

use std::hint::black_box;

const STEPS: u64 = 6_000_000;

#[inline(never)]
fn leaf(mut x: u64) -> u64 {
    let mut left = STEPS;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

#[inline(never)]
fn descend(depth: u64, mut pattern: u64) -> u64 {
    if depth == 0 {
        return leaf(pattern | 1) ^ 3;
    }
    pattern ^= pattern << 13;
    pattern ^= pattern >> 7;
    pattern ^= pattern << 17;
    if pattern & 4 == 0 {
        let below = descend(depth - 1, pattern); // one site
        black_box(below) ^ depth
    } else {
        let below = descend(depth - 1, pattern); // the other
        black_box(below) | depth
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let depth = numbers.next().unwrap_or(10_000);
    let rounds = numbers.next().unwrap_or(100);
    for round in 1..=rounds {
        black_box(descend(depth, round.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
    println!("frames {}", depth + 1);
    println!("truth leaf=1");
}
