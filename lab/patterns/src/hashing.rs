//! Patterns of maps and sets.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

use crate::{Pair, compute, random};

pub const PAIRS: &[Pair] = &[
    ("sip-hash", hashes_words, hashes_numbers_fast),
    ("small-key-map", hashes_numbers, hashes_numbers_fast),
    ("map-growth", map_grows, map_has_capacity),
    ("btree-search", searches_a_tree, searches_a_slice),
];

#[inline(never)]
fn hashes_words() {
    let words = (0..1_000).map(|number| format!("a rather long word {number}")).collect::<Vec<_>>();
    let counts = words.iter().map(|word| (word.as_str(), 1u32)).collect::<HashMap<_, _>>();
    let mut sum = 0;
    for _ in 0..50 {
        for word in &words {
            sum += counts.get(black_box(word.as_str())).copied().unwrap_or(0); // here: sip-hash
        }
    }
    black_box(sum);
}

#[inline(never)]
fn hashes_numbers() {
    let counts = (0..1_000u64).map(|number| (number * 7919, number)).collect::<HashMap<_, _>>();
    let mut sum = 0;
    for _ in 0..100 {
        for number in 0..1_000u64 {
            sum += counts.get(&black_box(number * 7919)).copied().unwrap_or(0); // here: small-key-map
        }
    }
    black_box(sum);
}

#[derive(Default)]
struct Fast(u64);

impl Hasher for Fast {
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

#[inline(never)]
fn hashes_numbers_fast() {
    let counts = (0..1_000u64).map(|number| (number * 7919, number));
    let counts = counts.collect::<HashMap<u64, u64, BuildHasherDefault<Fast>>>();
    let mut sum = 0;
    for _ in 0..300 {
        for number in 0..1_000u64 {
            sum += counts.get(&black_box(number * 7919)).copied().unwrap_or(0);
        }
    }
    black_box(sum);
}

#[inline(never)]
fn map_grows() {
    for _ in 0..20 {
        let mut map = HashMap::<u64, u64, BuildHasherDefault<Fast>>::default();
        for number in 0..5_000u64 {
            map.insert(number * 7919, number); // here: map-growth
        }
        black_box(&map);
    }
}

#[inline(never)]
fn map_has_capacity() {
    for _ in 0..20 {
        let mut map = HashMap::<u64, u64, BuildHasherDefault<Fast>>::with_capacity_and_hasher(5_000, BuildHasherDefault::default());
        for number in 0..5_000u64 {
            map.insert(number * 7919, number);
        }
        black_box(&map);
        black_box(compute(40_000));
    }
}

#[inline(never)]
fn searches_a_tree() {
    let mut state = 1;
    let tree = (0..100_000).map(|_| (random(&mut state), 1u64)).collect::<BTreeMap<_, _>>();
    let mut sum = 0;
    for _ in 0..100_000 {
        sum += tree.get(&random(&mut state)).copied().unwrap_or(1); // here: btree-search
    }
    black_box(sum);
}

#[inline(never)]
fn searches_a_slice() {
    let numbers = (0..100_000u64).map(|number| number * 7919).collect::<Vec<_>>();
    let mut state = 1;
    let mut sum = 0;
    for _ in 0..50_000 {
        sum += numbers.partition_point(|number| *number < random(&mut state) % 791_900_000);
    }
    black_box(sum);
}
