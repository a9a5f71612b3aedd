//! The same additions twice: once along memory, once across it.
//!
//! Run: `strides [ROUNDS=8]`; a round sums all 16 Mi numbers (64 MB) of a table row by row, then column by column.
//!
//! THE KNOWN ANSWER: by_columns takes several times as long as by_rows, with the same
//! number of additions: over half of the time of both together on any machine with caches.

use std::hint::black_box;

const SIDE: usize = 4096;

#[inline(never)]
fn by_rows(table: &[u32]) -> u64 {
    let mut sum = 0;
    for row in 0..SIDE {
        for column in 0..SIDE {
            sum += u64::from(black_box(table[row * SIDE + column]));
        }
    }
    sum
}

#[inline(never)]
fn by_columns(table: &[u32]) -> u64 {
    let mut sum = 0;
    for column in 0..SIDE {
        for row in 0..SIDE {
            sum += u64::from(black_box(table[row * SIDE + column]));
        }
    }
    sum
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(8, |a| a.parse::<u64>().expect("a number"));
    let table: Vec<u32> = (0..(SIDE * SIDE) as u32).collect();
    for _ in 0..rounds {
        assert_eq!(by_rows(&table), by_columns(&table));
    }
    println!("additions {}", 2 * rounds * (SIDE * SIDE) as u64);
    println!("least by_columns=0.5");
}
