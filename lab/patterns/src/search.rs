//! Patterns of searching, sorting and calling.

use std::hint::black_box;

use crate::{Pair, compute, random};

pub const PAIRS: &[Pair] = &[
    ("linear-search", finds_each, finds_by_place),
    ("search-loop", looks_at_each, finds_by_place),
    ("sort-by-costly-key", sorts_by_new_strings, sorts_by_numbers),
    ("recursion", counts_again, counts_up),
];

struct Row {
    id: u64,
    value: u64,
}

fn rows() -> Vec<Row> {
    (0..2_000).map(|id| Row { id, value: id * 3 }).collect()
}

#[inline(never)]
fn finds_each() {
    let rows = rows();
    let mut sum = 0;
    for id in 0..2_000 {
        sum += rows.iter().find(|row| row.id == black_box(id)).map_or(0, |row| row.value); // here: linear-search
    }
    black_box(sum);
}

#[inline(never)]
fn row_of(rows: &[Row], id: u64) -> Option<&Row> {
    for row in rows { // here: search-loop
        if row.id == id {
            return Some(row);
        }
    }
    None
}

#[inline(never)]
fn looks_at_each() {
    let rows = rows();
    black_box((0..2_000).filter_map(|id| row_of(&rows, black_box(id))).map(|row| row.value).sum::<u64>());
}

#[inline(never)]
fn finds_by_place() {
    let rows = rows();
    let mut sum = 0;
    for _ in 0..100 {
        for id in 0..2_000usize {
            sum += rows.get(black_box(id)).map_or(0, |row| row.value);
        }
    }
    black_box(sum);
}

#[inline(never)]
fn sorts_by_new_strings() {
    let mut state = 7;
    let mut numbers = (0..2_000).map(|_| random(&mut state)).collect::<Vec<_>>();
    numbers.sort_by_key(|number| number.to_string()); // here: sort-by-costly-key
    black_box(&numbers);
}

#[inline(never)]
fn sorts_by_numbers() {
    let mut state = 7;
    let mut numbers = (0..2_000).map(|_| random(&mut state)).collect::<Vec<_>>();
    numbers.sort_unstable();
    black_box(&numbers);
    black_box(compute(200_000));
}

#[inline(never)]
fn fibonacci(number: u64) -> u64 {
    if number < 2 { number } else { fibonacci(number - 1) + fibonacci(black_box(number - 2)) } // here: recursion
}

#[inline(never)]
fn counts_again() {
    black_box(fibonacci(black_box(27)));
}

#[inline(never)]
fn counts_up() {
    for _ in 0..20_000 {
        let (mut one, mut other) = (0u64, 1u64);
        for _ in 0..black_box(90) {
            (one, other) = (other, one + other);
        }
        black_box(one);
    }
}
