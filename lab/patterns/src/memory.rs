//! Patterns of allocating, copying and freeing.

use std::hint::black_box;

use crate::{Pair, compute};

pub const PAIRS: &[Pair] = &[
    ("allocator-heavy", boxes, boxes_kept),
    ("vec-growth", grows, has_capacity),
    ("clone-heavy", clones, borrows),
    ("drop-heavy", drops, drops_little),
    ("memory-copies", moves, refers),
    ("front-removal", takes_from_the_front, takes_from_the_back),
    ("page-faults", fresh_buffers, one_buffer),
    ("collect-then-iterate", collects, iterates),
];

#[inline(never)]
fn boxes() {
    for round in 0..20_000u64 {
        black_box(Box::new([round; 6])); // here: allocator-heavy
    }
}

#[inline(never)]
fn boxes_kept() {
    let mut kept = Box::new([0u64; 6]);
    for round in 0..400_000 {
        kept.fill(round);
        black_box(&mut kept);
    }
}

#[inline(never)]
fn grows() {
    for _ in 0..2_000 {
        let mut rows = Vec::new();
        for row in 0..200u64 {
            rows.push(black_box(row)); // here: vec-growth
        }
        black_box(&rows);
    }
}

#[inline(never)]
fn has_capacity() {
    for _ in 0..200 {
        let mut rows = Vec::with_capacity(20_000);
        for row in 0..20_000u64 {
            rows.push(black_box(row));
        }
        black_box(&rows);
    }
}

#[derive(Clone)]
struct Customer {
    names: Vec<String>,
    cities: Vec<String>,
}

fn customer() -> Customer {
    let texts = |word: &str| (0..20).map(|number| format!("{word} {number}")).collect();
    Customer { names: texts("name"), cities: texts("city") }
}

#[inline(never)]
fn clones() {
    let customer = customer();
    for _ in 0..1_000 {
        let copy = customer.clone(); // here: clone-heavy
        black_box(copy.names.len() + copy.cities.len());
    }
}

#[inline(never)]
fn borrows() {
    let customer = customer();
    for _ in 0..100_000 {
        let copy = black_box(&customer);
        black_box(copy.names.iter().map(String::len).sum::<usize>() + copy.cities.len());
    }
}

struct Tree {
    left: Option<Box<Tree>>,
    right: Option<Box<Tree>>,
    value: u64,
}

fn tree(depth: u32, value: u64) -> Option<Box<Tree>> {
    (depth > 0).then(|| Box::new(Tree { left: tree(depth - 1, value * 2), right: tree(depth - 1, value * 2 + 1), value }))
}

#[inline(never)]
fn forget_slowly(trees: Vec<Option<Box<Tree>>>) {
    drop(trees); // here: drop-heavy
}

#[inline(never)]
fn drops() {
    let trees = (0..8).map(|_| tree(11, 1)).collect::<Vec<_>>();
    black_box(trees[0].as_ref().map(|tree| tree.value + u64::from(tree.left.is_some()) + u64::from(tree.right.is_some())));
    forget_slowly(trees);
}

#[inline(never)]
fn drops_little() {
    let trees = (0..8).map(|_| tree(3, 1)).collect::<Vec<_>>();
    black_box(compute(2_000_000));
    drop(trees);
}

#[derive(Clone, Copy)]
struct Large([u64; 512]);

#[inline(never)]
fn by_value(large: Large) -> u64 {
    black_box(&large).0[7]
}

#[inline(never)]
fn moves() {
    let all = vec![Large([1; 512]); 64];
    let mut sum = 0;
    for _ in 0..300 {
        for large in &all {
            sum += by_value(*black_box(large)); // here: memory-copies
        }
    }
    black_box(sum);
}

#[inline(never)]
fn by_reference(large: &Large) -> u64 {
    black_box(large).0[7]
}

#[inline(never)]
fn refers() {
    let all = vec![Large([1; 512]); 64];
    let mut sum = 0;
    for _ in 0..20_000 {
        for large in &all {
            sum += by_reference(black_box(large));
        }
    }
    black_box(sum);
}

#[inline(never)]
fn takes_from_the_front() {
    let mut queue = (0..20_000u64).collect::<Vec<_>>();
    let mut sum = 0;
    while !queue.is_empty() {
        sum += queue.remove(0); // here: front-removal
    }
    black_box(sum);
}

#[inline(never)]
fn takes_from_the_back() {
    for _ in 0..200 {
        let mut queue = (0..20_000u64).collect::<Vec<_>>();
        let mut sum = 0;
        while let Some(next) = queue.pop() {
            sum += black_box(next);
        }
        black_box(sum);
    }
}

#[inline(never)]
fn fresh_buffers() {
    // The allocator would keep smaller ones.
    for _ in 0..2 {
        let mut buffer = vec![0u8; 40 << 20];
        for page in buffer.chunks_mut(4096) {
            page[0] = 1; // here: page-faults
        }
        black_box(&buffer);
    }
}

#[inline(never)]
fn one_buffer() {
    let mut buffer = vec![0u8; 4 << 20];
    for round in 0..3_000u32 {
        for page in buffer.chunks_mut(4096) {
            page[0] = round as u8;
        }
        black_box(&buffer);
    }
}

#[inline(never)]
fn collects() {
    let rows = (0..1_000u64).collect::<Vec<_>>();
    for _ in 0..2_000 {
        let even = black_box(&rows).iter().filter(|row| *row % 3 == 0).collect::<Vec<_>>(); // here: collect-then-iterate
        black_box(even.iter().copied().sum::<u64>());
    }
}

#[inline(never)]
fn iterates() {
    let rows = (0..1_000u64).collect::<Vec<_>>();
    for _ in 0..5_000 {
        black_box(black_box(&rows).iter().filter(|row| *row % 3 == 0).sum::<u64>());
    }
}
