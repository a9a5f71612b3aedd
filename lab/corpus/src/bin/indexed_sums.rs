//! Multiplies numbers by index, and checks each index.
//! planted: bounds-checks, not-vectorised
use std::hint::black_box;

#[inline(never)]
fn by_index(to: &mut [u32], ones: &[u32], others: &[u32], count: usize) {
    for at in 0..count {
        to[at] = ones[at].wrapping_mul(others[at]);
    }
}

#[inline(never)]
fn by_pairs(to: &mut [u32], ones: &[u32], others: &[u32], count: usize) {
    let pairs = ones[..count].iter().zip(&others[..count]);
    to[..count].iter_mut().zip(pairs).for_each(|(to, (one, other))| *to = one.wrapping_mul(*other));
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(23);
    let mut numbers = || (0..10_000).map(|_| random.next() as u32).collect::<Vec<u32>>();
    let (ones, others) = (numbers(), numbers());
    let mut to = vec![0; 10_000];
    let mut sum = 0u32;
    for round in 0..60_000 {
        let (ones, others) = (black_box(&ones[..]), black_box(&others[..]));
        let count = black_box(10_000 - round % 2);
        if slow {
            by_index(&mut to, ones, others, count);
        } else {
            by_pairs(&mut to, ones, others, count);
        }
        sum ^= to[round % 10_000];
    }
    println!("{sum}");
}
