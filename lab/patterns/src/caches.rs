//! Patterns of simulated caches: what is used together is not together in memory.

use std::hint::black_box;

use crate::Recorded;

pub const PAIRS: &[Recorded] = &[
    ("poor-locality", "cache", sums_columns, sums_rows),
];

/// A column touches so many lines of 64 bytes: more than fit into a first-level cache.
const SIDE: usize = 1536;
/// More than a power of two, so that a column is not in a few sets of the cache.
const WIDTH: usize = SIDE + 16;

#[inline(never)]
fn sums_columns() {
    let table = black_box(vec![1u32; SIDE * WIDTH]);
    for column in 0..SIDE {
        let mut sum = 0u32;
        for row in 0..SIDE {
            sum = sum.wrapping_add(table[row * WIDTH + column]); // here: poor-locality
        }
        black_box(sum);
    }
}

#[inline(never)]
fn sums_rows() {
    let table = black_box(vec![1u32; SIDE * WIDTH]);
    for row in 0..SIDE {
        let mut sum = 0u32;
        for column in 0..SIDE {
            sum = sum.wrapping_add(table[row * WIDTH + column]);
        }
        black_box(sum);
    }
}
