//! Patterns of the heap: how often memory is allocated, how long it is held, how much of it is used.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Mutex;

use crate::{Recorded, compute};

pub const PAIRS: &[Recorded] = &[
    ("allocation-in-loop", "--heap", makes_a_buffer_per_item, keeps_the_buffer),
    ("short-lived-allocations", "--heap", boxes_every_part, keeps_parts_on_the_stack),
    ("many-small-blocks", "--heap", builds_a_tree_of_boxes, builds_a_tree_in_a_vec),
    ("unused-capacity", "heap --unused", reserves_too_much, reserves_what_it_needs),
    ("leaks", "--heap", forgets_blocks, frees_blocks),
    ("memory-grows", "--heap", keeps_every_answer, keeps_the_last_answers),
    ("memory-saw-tooth", "--heap", builds_and_drops, builds_once),
    ("peak-by-one-line", "--heap", loads_all_at_once, loads_in_pieces),
];

#[inline(never)]
fn makes_a_buffer_per_item() {
    for item in 0..20_000u64 {
        let buffer = vec![item; 100]; // here: allocation-in-loop
        black_box(&buffer);
    }
}

#[inline(never)]
fn keeps_the_buffer() {
    let mut buffer = Vec::new();
    for item in 0..20_000u64 {
        buffer.clear();
        buffer.resize(100, item);
        black_box(&buffer);
    }
}

struct Node {
    inner: [Option<Box<Node>>; 2],
    value: u64,
}

#[inline(never)]
fn tree(depth: u32) -> Box<Node> {
    let inner = [(); 2].map(|()| (depth > 0).then(|| tree(depth - 1)));
    Box::new(Node { inner, value: 1 }) // here: many-small-blocks
}

fn count(node: &Node) -> u64 {
    node.value + node.inner.iter().flatten().map(|inner| count(inner)).sum::<u64>()
}

#[inline(never)]
fn builds_a_tree_of_boxes() {
    black_box(count(&tree(18)));
}

#[inline(never)]
fn builds_a_tree_in_a_vec() {
    let depth = 18;
    let nodes = (0..(2u64 << depth) - 1).map(|index| (1u64, 2 * index + 1, 2 * index + 2)).collect::<Vec<_>>();
    black_box(nodes.iter().map(|node| node.0).sum::<u64>());
}

#[inline(never)]
fn boxes_every_part() {
    for item in 0..5_000u64 {
        let one = Box::new(item); // here: short-lived-allocations
        black_box(&one);
        drop(one);
        let other = Box::new(item as u32);
        black_box(&other);
        drop(other);
        let third = Box::new([item; 2]);
        black_box(&third);
        drop(third);
        let fourth = Box::new([item; 3]);
        black_box(&fourth);
        drop(fourth);
        let fifth = Box::new([item; 4]);
        black_box(&fifth);
        drop(fifth);
        let sixth = Box::new([item; 5]);
        black_box(&sixth);
    }
}

#[inline(never)]
fn keeps_parts_on_the_stack() {
    for item in 0..5_000u64 {
        black_box((item, item as u32, [item; 2], [item; 3]));
        black_box(([item; 4], [item; 5]));
    }
}

#[inline(never)]
fn reserves_too_much() {
    for item in 0..100u64 {
        let mut row = Vec::with_capacity(10_000); // here: unused-capacity
        row.extend([item; 10]);
        black_box(&row);
    }
    black_box(compute(100_000));
}

#[inline(never)]
fn reserves_what_it_needs() {
    for item in 0..100u64 {
        let mut row = Vec::with_capacity(10);
        row.extend([item; 10]);
        black_box(&row);
    }
    black_box(compute(100_000));
}

#[inline(never)]
fn forgets_blocks() {
    for _ in 0..10 {
        std::mem::forget(black_box(vec![1u8; 10_000])); // here: leaks
    }
    black_box(compute(200_000));
}

#[inline(never)]
fn frees_blocks() {
    for _ in 0..10 {
        drop(black_box(vec![1u8; 10_000]));
    }
    black_box(compute(200_000));
}

/// Never freed: in such a short run, that would look like a drop.
static ANSWERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

#[inline(never)]
fn keeps_every_answer() {
    ANSWERS.lock().unwrap().push(vec![1; 400_000]); // here: memory-grows
    black_box(compute(800_000));
}

#[inline(never)]
fn keeps_the_last_answers() {
    let mut answers = ANSWERS.lock().unwrap();
    if answers.len() < 50 { answers.push(vec![1; 400_000]) } else { answers.rotate_left(1) }
    drop(answers);
    black_box(compute(800_000));
}

#[inline(never)]
fn builds_and_drops() {
    let mut parts = Vec::new();
    for _ in 0..40 {
        parts.push(vec![1u8; 1_000_000]); // here: memory-saw-tooth
        black_box(compute(500_000));
    }
    black_box(&parts);
}

thread_local! {
    static PARTS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

#[inline(never)]
fn builds_once() {
    PARTS.with_borrow_mut(|parts| {
        for part in 0..40 {
            match parts.get_mut(part) {
                Some(part) => part.fill(2),
                None => parts.push(vec![1; 1_000_000]),
            }
            black_box(compute(500_000));
        }
    });
}

#[inline(never)]
fn loads_all_at_once() {
    thread_local! {
        static ALL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    ALL.with_borrow_mut(|all| {
        if all.is_empty() {
            *all = vec![1; 100_000_000]; // here: peak-by-one-line
        }
        black_box(all.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>());
    });
    black_box(compute(500_000));
}

#[inline(never)]
fn loads_in_pieces() {
    for piece in 0..60u8 {
        let bytes = vec![piece; 100_000];
        black_box(bytes.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>());
    }
    black_box(compute(500_000));
}
