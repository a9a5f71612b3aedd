//! Chains of inlined functions whose order is known: one plain, one generic.
//!
//! Run: `inlined [MS=1000]`.
//!
//! THE KNOWN ANSWER, outermost first: `plain` has a > b > c > d inlined into it and 60 % of the time, nearly all of it self
//! time of d; `generic` has outer > middle > Doubling::turn inlined into it and 40 %, nearly all self time of turn.

use std::hint::black_box;

const STEPS_PER_MS: u64 = 600_000;

#[inline(never)]
fn plain(steps: u64, x: u64) -> u64 {
    a(steps, x) | 1
}

#[inline(always)]
fn a(steps: u64, x: u64) -> u64 {
    b(steps, x ^ 0xa)
}

#[inline(always)]
fn b(steps: u64, x: u64) -> u64 {
    c(steps, x ^ 0xb0)
}

#[inline(always)]
fn c(steps: u64, x: u64) -> u64 {
    d(steps, x ^ 0xc00)
}

#[inline(always)]
fn d(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

trait Turn {
    fn turn(&self, steps: u64, x: u64) -> u64;
}

struct Doubling(u64);

impl Turn for Doubling {
    #[inline(always)]
    fn turn(&self, steps: u64, mut x: u64) -> u64 {
        x ^= self.0;
        let mut left = steps;
        while left > 0 {
            x ^= x << 11;
            x ^= x >> 9;
            x ^= x << 19;
            left -= 1;
        }
        black_box(x)
    }
}

#[inline(always)]
fn middle<T: Turn>(turn: &T, steps: u64, x: u64) -> u64 {
    turn.turn(steps, x ^ 0xd000)
}

#[inline(always)]
fn outer<T: Turn>(turn: &T, steps: u64, x: u64) -> u64 {
    middle(turn, steps, x ^ 0xe_0000)
}

#[inline(never)]
fn generic<T: Turn>(turn: &T, steps: u64, x: u64) -> u64 {
    outer(turn, steps, x) | 1
}

fn main() {
    let ms = std::env::args().nth(1).map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let (mut x, mut left) = (1, ms * STEPS_PER_MS / 10);
    while left > 0 {
        let unit = (3_000 + x % 4_096).min(left);
        x = plain(6 * unit, x);
        x = generic(&Doubling(black_box(2)), 4 * unit, x);
        left -= unit;
    }
    println!("inlined plain a b c d");
    println!("inlined generic outer middle turn");
    println!("truth plain=0.6 generic=0.4");
}
