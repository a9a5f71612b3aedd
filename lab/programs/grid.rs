//! Sums a matrix of 2,000 x 2,000 32-bit numbers along and across memory, with `Vec`'s indices and a generic function.
//!
//! Run: `grid`
//!
//! THE KNOWN ANSWER, with lines of 64 bytes and a first-level cache of 32 or 48 KiB: `along` misses 250,000 times, once
//! per 16 numbers; `across` misses 4,000,000 times, once per number.

use std::hint::black_box;

const SIDE: usize = 2000;

struct Grid<T> {
    cells: Vec<T>,
}

impl<T: Copy + Into<u64>> Grid<T> {
    #[inline(always)]
    fn cell(&self, row: usize, column: usize) -> u64 {
        self.cells[row * SIDE + column].into()
    }

    #[inline(never)]
    fn along(&self) -> u64 {
        let mut sum = 0;
        for row in 0..SIDE {
            for column in 0..SIDE {
                sum = black_box(sum + self.cell(row, column));
            }
        }
        sum
    }

    #[inline(never)]
    fn across(&self) -> u64 {
        let mut sum = 0;
        for column in 0..SIDE {
            for row in 0..SIDE {
                sum = black_box(sum + self.cell(row, column));
            }
        }
        sum
    }
}

fn main() {
    let grid = Grid { cells: (0..(SIDE * SIDE) as u32).collect() };
    assert_eq!(black_box(&grid).along(), black_box(&grid).across());
    println!("sum {}", grid.cells.len());
}
