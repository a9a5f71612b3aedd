//! A Vec that grows, boxes, strings, and a cycle of Rc that is never freed.
//!
//! Run: `heap_vec [ELEMENTS=1000]`.
//!
//! THE KNOWN ANSWER: the numbers that it prints. `grow_vec` pushes to an empty Vec, on the line that
//! `line_grow_vec` gives. It counts its first allocation and every growth by watching the capacity.
//! `right_size` reserves and never grows. `rc_cycle` leaks two blocks: one definitely, the other indirectly.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

#[derive(Default)]
struct Claims {
    allocations: usize,
    bytes: usize,
    grown: usize,
}

#[inline(never)]
fn grow_vec(elements: u64, claims: &mut Claims) -> u32 {
    let mut numbers: Vec<u64> = Vec::new();
    let mut capacity = 0;
    let line = line!() + 2;
    for number in 0..elements {
        numbers.push(number);
        if numbers.capacity() != capacity {
            claims.grown += usize::from(capacity != 0);
            capacity = numbers.capacity();
            claims.allocations += 1;
            claims.bytes += 8 * capacity;
        }
    }
    black_box(&numbers);
    line
}

#[inline(never)]
fn right_size(elements: u64) {
    let mut numbers: Vec<u64> = Vec::with_capacity(elements as usize);
    numbers.extend(0..elements);
    black_box(&numbers);
}

#[inline(never)]
fn boxes() {
    for number in 0..100u64 {
        black_box(Box::new([number; 4]));
    }
}

struct Node {
    next: RefCell<Option<Rc<Node>>>,
    _payload: [u64; 4],
}

#[inline(never)]
fn rc_cycle() -> usize {
    let first = Rc::new(Node { next: RefCell::new(None), _payload: [1; 4] });
    let second = Rc::new(Node { next: RefCell::new(Some(Rc::clone(&first))), _payload: [2; 4] });
    *first.next.borrow_mut() = Some(second);
    black_box(&first);
    // Two counts before the value.
    size_of::<Node>() + 2 * size_of::<usize>()
}

/// Overwrites old values in the unused part of the stack.
#[inline(never)]
fn forget() {
    black_box([0u8; 32768]);
}

fn main() {
    let elements = std::env::args().nth(1).map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let mut claims = Claims::default();
    let line = grow_vec(elements, &mut claims);
    right_size(elements);
    boxes();
    let node = rc_cycle();
    forget();
    let Claims { allocations, bytes, grown } = claims;
    println!("line_grow_vec {line}");
    println!(
        "site grow_vec allocations={allocations} frees={allocations} bytes_allocated={bytes} grown={grown} growth_chains=1 largest_grown={last} bytes_grown_to={last}",
        last = 8 * elements.next_power_of_two().max(4)
    );
    println!("site right_size allocations=1 frees=1 bytes_allocated={} grown=0 temporary=1", 8 * elements);
    println!("site boxes allocations=100 frees=100 bytes_allocated=3200 temporary=100");
    println!("site rc_cycle allocations=2 frees=0 bytes_allocated={} live_at_exit_blocks=2 definitely_lost_blocks=1 definitely_lost_bytes={node} indirectly_lost_blocks=1 indirectly_lost_bytes={node}", 2 * node);
}
