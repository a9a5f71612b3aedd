//! Five functions whose work grows with the argument in known ways: `growth N`.
//!
//! At 16,000 the linear ones have nearly all of the time, and the quadratic and the cubic one a few per cent each.

use std::hint::black_box;

const CONSTANT: u64 = 30_000_000;

/// Does this many steps of the same work.
#[inline(always)]
fn steps(count: u64) {
    let mut state = count | 1;
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        black_box(state);
    }
}

#[inline(never)]
fn constant() {
    steps(black_box(CONSTANT));
}

#[inline(never)]
fn linear(n: u64) {
    steps(n * 18_000);
}

#[inline(never)]
fn linearithmic(n: u64) {
    steps((n as f64 * (n as f64).ln() * 1200.0) as u64);
}

#[inline(never)]
fn quadratic(n: u64) {
    steps(n * n / 8);
}

#[inline(never)]
fn cubic(n: u64) {
    steps(n * n * n / 100_000);
}

fn main() {
    let n = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("growth N");
    constant();
    linear(n);
    linearithmic(n);
    quadratic(n);
    cubic(n);
    println!("constant {CONSTANT}");
    println!("quadratic {}", n * n / 8);
}
