//! Spends its time on allocating and freeing small blocks in a loop.
//!
//! Run: `allocations [LINES=25000000]`.
//!
//! THE KNOWN ANSWER: make_line makes 3 allocations per line and frees them. Over 90 % of the
//! time is under it, and over half of the time is in malloc, realloc, free and their callees.

use std::hint::black_box;

#[inline(never)]
fn make_line(number: u64) -> usize {
    let name = black_box(vec![b'n'; 24 + (number % 40) as usize]);
    let value = black_box(Box::new([number; 6]));
    let both = black_box(vec![value[0] as u8; name.len() + 48]);
    both.len()
}

#[inline(never)]
fn make_lines(count: u64) -> usize {
    (0..count).map(make_line).fold(0, usize::wrapping_add)
}

fn main() {
    let lines = std::env::args().nth(1).map_or(25_000_000, |a| a.parse::<u64>().expect("a number"));
    black_box(make_lines(lines));
    println!("allocations {}", 3 * lines);
    println!("least make_line=0.9");
}
