//! Three functions, one of which can do more or less work: two runs that differ only in it.
//!
//! Run: `changed [MS=1000] [PERCENT=100]`. MS is fixed work, about one millisecond
//! of CPU time each. PERCENT is how much of its usual work `beta` does.
//!
//! THE KNOWN ANSWER: alpha 50, beta 30 × PERCENT / 100, gamma 20 parts, all self time. From PERCENT 100 to PERCENT p, beta
//! changes by the factor p / 100, and the others do not change.
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

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let steps = numbers.next().unwrap_or(1000) * STEPS_PER_MS;
    let percent = numbers.next().unwrap_or(100);
    let (mut x, mut usual) = (black_box(1), 0);
    while usual < steps {
        let unit = 3_000 + x % 4_096;
        x = alpha(5 * unit, x);
        x = beta(3 * unit * percent / 100, x);
        x = gamma(2 * unit, x);
        usual += 10 * unit;
    }
    let beta = 0.3 * percent as f64 / 100.0;
    let all = 0.7 + beta;
    println!("truth alpha={} beta={} gamma={}", 0.5 / all, beta / all, 0.2 / all);
}
