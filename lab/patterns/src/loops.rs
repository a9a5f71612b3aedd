//! Patterns in the machine code of loops.

use std::hint::black_box;

use crate::Pair;

pub const PAIRS: &[Pair] = &[
    ("not-vectorised", scales, scales_slices),
    ("bounds-checks", by_index, by_iterator),
    ("division", divides, shifts),
    ("serial-chain", one_sum, many_sums),
    ("pointer-chase", along_a_list, along_a_vec),
    ("strided-access", by_columns, by_rows),
    ("float-conversions", converts, stays_whole),
    ("small-callee", calls_for_each, computes_each),
    ("dyn-calls", through_pointers, through_an_enum),
];

fn numbers() -> Vec<u32> {
    (1..=20_000).collect()
}

#[inline(never)]
fn scales_column(to: &mut [f32], rows: &[Vec<f32>], column: usize) {
    for row in 0..rows.len() {
        to[row] = rows[row][column] * 2.5 + 1.0; // here: not-vectorised
    }
}

#[inline(never)]
fn scales() {
    let (mut to, rows) = (vec![0.0f32; 500], vec![vec![1.0f32; 4]; 500]);
    for round in 0..2_000 {
        scales_column(black_box(&mut to), black_box(&rows), black_box(round % 4));
    }
}

#[inline(never)]
fn scales_slices() {
    let (mut to, from, other) = (vec![0.0f32; 8_000], vec![1.0f32; 8_000], vec![2.0f32; 8_000]);
    for _ in 0..400 {
        for ((to, from), other) in black_box(&mut to).iter_mut().zip(black_box(&from)).zip(black_box(&other)) {
            *to = from * 2.5 + other;
        }
    }
}

#[inline(never)]
fn by_index() {
    let (numbers, places) = (numbers(), (0..20_000u32).rev().collect::<Vec<_>>());
    for _ in 0..100 {
        let mut sum = 0u32;
        for round in 0..black_box(20_000usize) {
            sum = sum.wrapping_add(black_box(&numbers)[round]).rotate_left(1) ^ places[round]; // here: bounds-checks
        }
        black_box(sum);
    }
}

#[inline(never)]
fn by_iterator() {
    let (numbers, places) = (numbers(), (0..20_000u32).rev().collect::<Vec<_>>());
    for _ in 0..100 {
        let both = black_box(&numbers).iter().zip(black_box(&places));
        black_box(both.fold(0u32, |sum, (number, place)| sum.wrapping_add(*number).rotate_left(1) ^ place));
    }
}

#[inline(never)]
fn divides() {
    let numbers = numbers();
    let by = black_box(7u64);
    for _ in 0..20 {
        let mut sum = 0u64;
        for number in black_box(&numbers) {
            sum += u64::MAX / (u64::from(*number) + by); // here: division
        }
        black_box(sum);
    }
}

#[inline(never)]
fn shifts() {
    let numbers = numbers();
    for _ in 0..100 {
        let mut sum = 0u64;
        for number in black_box(&numbers) {
            sum += u64::from(*number) >> 3;
        }
        black_box(sum);
    }
}

fn floats() -> Vec<f64> {
    (0..4_000).map(f64::from).collect()
}

#[inline(never)]
fn one_sum() {
    let floats = floats();
    for _ in 0..200 {
        let mut sum = 0.0;
        for float in black_box(&floats) {
            sum += float; // here: serial-chain
        }
        black_box(sum);
    }
}

#[inline(never)]
fn many_sums() {
    let floats = floats();
    for _ in 0..400 {
        let mut sums = [0.0; 16];
        for part in black_box(&floats).chunks_exact(16) {
            for (sum, float) in sums.iter_mut().zip(part) {
                *sum += float;
            }
        }
        black_box(sums);
    }
}

struct Link {
    value: u64,
    next: Option<Box<Link>>,
}

#[inline(never)]
fn sum_of_list(mut link: &Option<Box<Link>>) -> u64 {
    let mut sum = 0;
    while let Some(at) = link { // here: pointer-chase
        sum += at.value; // here: pointer-chase
        link = &at.next; // here: pointer-chase
    }
    sum
}

thread_local! {
    static LIST: Option<Box<Link>> = {
        // Boxes of another size keep the links far apart.
        let mut between = Vec::new();
        let mut list = None;
        for value in 0..50_000 {
            between.push(vec![0u8; 200]);
            list = Some(Box::new(Link { value, next: list }));
        }
        std::mem::forget(between);
        list
    };
}

#[inline(never)]
fn along_a_list() {
    LIST.with(|list| {
        for _ in 0..20 {
            black_box(sum_of_list(black_box(list)));
        }
    });
}

#[inline(never)]
fn along_a_vec() {
    let values = (0..50_000u64).collect::<Vec<_>>();
    for _ in 0..200 {
        black_box(black_box(&values).iter().sum::<u64>());
    }
}

const SIDE: usize = 1024;

#[inline(never)]
fn by_columns() {
    let table = black_box(vec![1u32; SIDE * SIDE]);
    for _ in 0..2 {
        for column in 0..SIDE {
            let mut sum = 0u32;
            for row in 0..SIDE {
                sum = sum.wrapping_add(table[row * SIDE + column]); // here: strided-access
            }
            black_box(sum);
        }
    }
}

#[inline(never)]
fn by_rows() {
    let table = vec![1u32; SIDE * SIDE];
    for _ in 0..10 {
        for row in black_box(&table).chunks_exact(SIDE) {
            black_box(row.iter().fold(0u32, |sum, number| sum.wrapping_add(*number)));
        }
    }
}

#[inline(never)]
fn converts() {
    let numbers = numbers();
    for _ in 0..50 {
        let mut sum = 0u64;
        for number in black_box(&numbers) {
            sum = sum.wrapping_add((*number as f64 * 1.1) as u64); // here: float-conversions
        }
        black_box(sum);
    }
}

#[inline(never)]
fn stays_whole() {
    let numbers = numbers();
    for _ in 0..200 {
        let mut sum = 0u64;
        for number in black_box(&numbers) {
            sum = sum.wrapping_add(u64::from(*number) * 11);
        }
        black_box(sum / 10);
    }
}

trait Shape {
    fn area(&self) -> u64;
}

struct Square(u64);
struct Strip(u64);

impl Shape for Square {
    fn area(&self) -> u64 {
        self.0 * self.0
    }
}

impl Shape for Strip {
    fn area(&self) -> u64 {
        self.0
    }
}

#[inline(never)]
fn through_pointers() {
    let shapes = (0..2_000u64).map(|side| -> Box<dyn Shape> { if side % 3 == 0 { Box::new(Square(side)) } else { Box::new(Strip(side)) } });
    let shapes = shapes.collect::<Vec<_>>();
    for _ in 0..500 {
        let mut sum = 0;
        for shape in black_box(&shapes) {
            sum += shape.area(); // here: dyn-calls
        }
        black_box(sum);
    }
}

enum Known {
    Square(u64),
    Strip(u64),
}

#[inline(never)]
fn through_an_enum() {
    let shapes = (0..2_000u64).map(|side| if side % 3 == 0 { Known::Square(side) } else { Known::Strip(side) }).collect::<Vec<_>>();
    for _ in 0..500 {
        let area = |shape: &Known| match shape {
            Known::Square(side) => side * side,
            Known::Strip(side) => *side,
        };
        black_box(black_box(&shapes).iter().map(area).sum::<u64>());
    }
}

#[inline(never)]
fn step(state: u64, number: u32) -> u64 {
    state.rotate_left(5) ^ u64::from(number)
}

#[inline(never)]
fn calls_for_each() {
    let numbers = numbers();
    for _ in 0..100 {
        let mut state = 1;
        for number in black_box(&numbers) {
            state = step(state, *number); // here: small-callee
        }
        black_box(state);
    }
}

#[inline(never)]
fn computes_each() {
    let numbers = numbers();
    for _ in 0..100 {
        let mut state = 1u64;
        for number in black_box(&numbers) {
            state = state.rotate_left(5) ^ u64::from(*number);
        }
        black_box(state);
    }
}
