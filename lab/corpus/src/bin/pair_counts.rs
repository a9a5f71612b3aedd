//! Counts pairs of bytes by index, and checks each index.
//! planted: bounds-checks
use std::hint::black_box;

#[inline(never)]
fn by_index(text: &[u8], counts: &mut [u32], count: usize) {
    for at in 1..count {
        let pair = usize::from(text[at - 1]) * 256 + usize::from(text[at]);
        counts[pair] += 1;
    }
}

#[inline(never)]
fn by_windows(text: &[u8], counts: &mut [u32; 65_536]) {
    for pair in text.windows(2) {
        counts[usize::from(pair[0]) * 256 + usize::from(pair[1])] += 1;
    }
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(29);
    let text: Vec<u8> = (0..100_000).map(|_| (random.next() >> 40) as u8 & 31).collect();
    let mut counts = Box::new([0u32; 65_536]);
    for _ in 0..6_000 {
        let text = black_box(&text[..]);
        if slow {
            by_index(text, black_box(&mut counts[..]), black_box(text.len()));
        } else {
            by_windows(text, black_box(&mut counts));
        }
    }
    println!("{}", counts[33]);
}
