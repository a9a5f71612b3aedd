//! Fills new lists, each from nothing, although their length is known.
//! planted: vec-growth
//! also: page-faults, allocator-heavy
fn bucket(slow: bool, length: usize, seed: u64) -> Vec<u64> {
    let mut list = if slow { Vec::new() } else { Vec::with_capacity(length) };
    let mut value = seed;
    for _ in 0..length {
        value = value.rotate_left(7) ^ 0x9e37_79b9;
        list.push(value);
    }
    list
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut sum = 0u64;
    for round in 0..600_000 {
        let list = bucket(slow, std::hint::black_box(70), round);
        sum = sum.wrapping_add(list[(round % 70) as usize]);
    }
    println!("{sum}");
}
