//! A ring buffer of constant size, indexed by a remainder that needs no check.
//! planted: nothing
const SLOTS: usize = 256;

struct Ring {
    slots: [u64; SLOTS],
    at: usize,
}

impl Ring {
    fn put(&mut self, value: u64) -> u64 {
        self.at = (self.at + 1) % SLOTS;
        let old = self.slots[self.at];
        self.slots[self.at] = value;
        old
    }
}

#[inline(never)]
fn smooth(ring: &mut Ring, values: &[u64]) -> u64 {
    let mut sum = 0u64;
    for value in values {
        sum = sum.wrapping_add(*value).wrapping_sub(ring.put(*value));
    }
    sum
}

fn main() {
    let mut random = lab_corpus::Random(5);
    let values: Vec<u64> = (0..100_000).map(|_| random.below(1_000)).collect();
    let mut ring = Ring { slots: [0; SLOTS], at: 0 };
    let mut sum = 0u64;
    for _ in 0..5_000 {
        sum ^= smooth(&mut ring, &values);
    }
    println!("{sum}");
}
