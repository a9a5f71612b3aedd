//! Adds up products by index, and checks each index.
//! planted: bounds-checks, not-vectorised
use std::hint::black_box;

#[inline(never)]
fn by_index(ones: &[u32], others: &[u32], count: usize) -> u32 {
    let mut sum = 0u32;
    for at in 0..count {
        sum = sum.wrapping_add(ones[at].wrapping_mul(others[at]));
    }
    sum
}

#[inline(never)]
fn by_pairs(ones: &[u32], others: &[u32], count: usize) -> u32 {
    let pairs = ones[..count].iter().zip(&others[..count]);
    pairs.fold(0u32, |sum, (one, other)| sum.wrapping_add(one.wrapping_mul(*other)))
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(23);
    let mut numbers = || (0..10_000).map(|_| random.next() as u32).collect::<Vec<u32>>();
    let (ones, others) = (numbers(), numbers());
    let mut sum = 0u32;
    for round in 0..60_000 {
        let (ones, others) = (black_box(&ones[..]), black_box(&others[..]));
        let count = black_box(10_000 - round % 2);
        sum ^= if slow { by_index(ones, others, count) } else { by_pairs(ones, others, count) };
    }
    println!("{sum}");
}
