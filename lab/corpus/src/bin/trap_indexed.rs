//! Multiplies numbers by index. The compiler checks the length once and vectorises the loop.
//! planted: nothing
use std::hint::black_box;

#[inline(never)]
fn by_index(to: &mut [u32], ones: &[u32], others: &[u32], count: usize) {
    for at in 0..count {
        to[at] = ones[at].wrapping_mul(others[at]);
    }
}

fn main() {
    let mut random = lab_corpus::Random(23);
    let mut numbers = || (0..10_000).map(|_| random.next() as u32).collect::<Vec<u32>>();
    let (ones, others) = (numbers(), numbers());
    let mut to = vec![0; 10_000];
    let mut sum = 0u32;
    for round in 0..300_000 {
        let (ones, others) = (black_box(&ones[..]), black_box(&others[..]));
        by_index(&mut to, ones, others, black_box(10_000 - round % 2));
        sum ^= to[round % 10_000];
    }
    println!("{sum}");
}
