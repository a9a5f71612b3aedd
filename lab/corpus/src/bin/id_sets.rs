//! Joins two lists of numbers by a HashMap with its default hasher.
//! planted: small-key-map, sip-hash
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

fn join<H: BuildHasher + Default>(orders: &[(u64, u64)], users: &[u64]) -> u64 {
    let mut spent: HashMap<u64, u64, H> = HashMap::with_capacity_and_hasher(users.len() * 2, H::default());
    spent.extend(users.iter().map(|user| (*user, 0)));
    for (user, amount) in orders {
        if let Some(sum) = spent.get_mut(user) {
            *sum += amount;
        }
    }
    spent.values().max().copied().unwrap_or(0)
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(31);
    let users: Vec<u64> = (0..5_000).map(|_| random.below(10_000)).collect();
    let orders: Vec<(u64, u64)> = (0..2_000_000).map(|_| (random.below(10_000), random.below(50))).collect();
    let mut most = 0;
    for _ in 0..12 {
        most += if slow { join::<std::hash::RandomState>(&orders, &users) } else { join::<BuildHasherDefault<Fold>>(&orders, &users) };
    }
    println!("{most}");
}
