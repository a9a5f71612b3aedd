//! Small loops with known machine code, which `whyslow asm` must describe correctly.
//!
//! Run: `kernels [SECONDS=2] [NAME]`; every kernel, or the one with that name, runs for its share of the CPU
//! time, so that a busy machine only makes the run longer.
//!
//! THE KNOWN ANSWER: the hints for each kernel, listed in `crates/whyslow/tests/truth/asm.rs`. All kernels run equally long.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LENGTH: usize = 4096;

/// Floating-point sums keep their order: one number at a time, each waits for the previous one.
#[inline(never)]
fn sum_slice(values: &[f32]) -> f32 {
    values.iter().sum()
}

/// Integers can be added in any order.
#[inline(never)]
fn sum_integers(values: &[u32]) -> u32 {
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value))
}

/// One check before the loop is enough: the index only grows.
#[inline(never)]
fn sum_by_index(values: &[u64], count: usize) -> u64 {
    let mut sum = 0_u64;
    for index in 0..count {
        sum = sum.wrapping_add(values[index]);
    }
    sum
}

/// The indices come from memory, so each is checked.
#[inline(never)]
fn look_up(table: &[u32], indices: &[u32]) -> u32 {
    let mut sum = 0_u32;
    for index in indices {
        sum = sum.wrapping_add(table[*index as usize]);
    }
    sum
}

/// Products that are summed in order.
#[inline(never)]
fn dot_product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Elements are independent: vectorised.
#[inline(never)]
fn saxpy(factor: f32, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.iter().zip(y) {
        *y += factor * x;
    }
}

/// One number of each 256 bytes.
#[inline(never)]
fn strided_walk(values: &[u32]) -> u32 {
    values.iter().step_by(64).fold(0, |sum, value| sum.wrapping_add(*value))
}

/// A reduction whose order does not matter, in eight separate lanes.
#[inline(never)]
fn sum_in_lanes(values: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    for chunk in values.chunks_exact(16) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    lanes.iter().sum()
}

/// Division by a number that is only known at run time.
#[inline(never)]
fn divide(values: &[u64], by: u64) -> u64 {
    values.iter().fold(0_u64, |sum, value| sum.wrapping_add(value / by))
}

/// Integers become floating-point numbers.
#[inline(never)]
fn convert(values: &[u64], scale: f64) -> u64 {
    values.iter().fold(0_u64, |sum, value| sum.wrapping_add((*value as f64 * scale) as u64))
}

/// Every step multiplies the previous result.
#[inline(never)]
fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Every step needs the index that the previous one loaded.
#[inline(never)]
fn follow_links(next: &[u32; LENGTH]) -> usize {
    let mut at = 0;
    for _ in 0..LENGTH {
        at = next[at & (LENGTH - 1)] as usize;
    }
    at
}

/// An atomic operation per element.
#[inline(never)]
fn count_shared(values: &[u32], counter: &AtomicU64) {
    for value in values {
        counter.fetch_add(u64::from(*value), Ordering::Relaxed);
    }
}

/// A call through a function pointer per element.
#[inline(never)]
fn call_pointers(functions: &[fn(u64) -> u64]) -> u64 {
    functions.iter().fold(0, |sum, function| function(sum))
}

/// A block of memory per element.
#[inline(never)]
fn allocate(values: &[u64]) -> usize {
    values.iter().map(|value| black_box(Box::new(*value))).filter(|value| **value > 3).count()
}

/// A large value is moved per element.
#[inline(never)]
fn move_large(values: &[[u8; 1024]], into: &mut [[u8; 1024]]) {
    for (value, into) in values.iter().zip(into) {
        *black_box(into) = *black_box(value);
    }
}

/// A square root per element.
#[inline(never)]
fn square_roots(values: &[f32], into: &mut [f32]) {
    for (value, into) in values.iter().zip(into) {
        *into = value.sqrt();
    }
}

/// A call of a function of a few bytes per element, and an inlined function that leaves only its instructions.
#[inline(never)]
fn call_small(values: &[u64]) -> u64 {
    values.iter().fold(0, |sum, value| small(step_once(sum, *value)))
}

#[inline(never)]
fn small(value: u64) -> u64 {
    value ^ (value >> 7)
}

#[inline(always)]
fn step_once(sum: u64, value: u64) -> u64 {
    sum.wrapping_mul(5).wrapping_add(value)
}

/// A function of many instructions per element.
#[inline(never)]
fn call_large(values: &[u64]) -> u64 {
    values.iter().fold(0, |sum, value| sum.wrapping_add(large(*value)))
}

#[inline(never)]
fn large(value: u64) -> u64 {
    let mut mixed = value;
    for constant in [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(constant).rotate_left(17);
        mixed ^= mixed >> 31;
    }
    mixed
}

fn next_number(value: u64) -> u64 {
    value.wrapping_mul(3) + 1
}

fn other_number(value: u64) -> u64 {
    value ^ 0x55
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

/// The CPU time that this thread has used.
fn cpu_time() -> Duration {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = [0; 2];
    // SAFETY: the array has the layout of `timespec`.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time[0] as u64, time[1] as u32)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(2.0, |text| text.parse::<f64>().expect("a number of seconds"));
    let wanted = arguments.next();
    let floats: Vec<f32> = (0..LENGTH).map(|value| value as f32).collect();
    let mut sums = floats.clone();
    let integers: Vec<u32> = (0..LENGTH as u32).collect();
    let table: Vec<u32> = (0..(LENGTH * 64) as u32).collect();
    let longs: Vec<u64> = (1..=LENGTH as u64).collect();
    let bytes: Vec<u8> = (0..LENGTH).map(|value| value as u8).collect();
    let links: [u32; LENGTH] = std::array::from_fn(|at| ((at * 1031 + 7) % LENGTH) as u32);
    let functions: Vec<fn(u64) -> u64> = (0..LENGTH)
        .map(|at| if at % 2 == 0 { next_number } else { other_number } as fn(u64) -> u64)
        .collect();
    let mut roots = floats.clone();
    let blocks = vec![[1_u8; 1024]; 64];
    let mut copies = vec![[0_u8; 1024]; 64];
    let counter = AtomicU64::new(0);
    let mut kernels: Vec<(&str, Box<dyn FnMut()>)> = vec![
        ("sum_slice", Box::new(|| _ = black_box(sum_slice(black_box(&floats))))),
        ("sum_integers", Box::new(|| _ = black_box(sum_integers(black_box(&integers))))),
        ("sum_by_index", Box::new(|| _ = black_box(sum_by_index(black_box(&longs), black_box(LENGTH))))),
        ("look_up", Box::new(|| _ = black_box(look_up(black_box(&integers), black_box(&integers))))),
        ("dot_product", Box::new(|| _ = black_box(dot_product(black_box(&floats), black_box(&floats))))),
        ("saxpy", Box::new(|| saxpy(black_box(0.5), black_box(&floats), black_box(&mut sums)))),
        ("strided_walk", Box::new(|| _ = black_box(strided_walk(black_box(&table))))),
        ("sum_in_lanes", Box::new(|| _ = black_box(sum_in_lanes(black_box(&floats))))),
        ("divide", Box::new(|| _ = black_box(divide(black_box(&longs), black_box(7))))),
        ("convert", Box::new(|| _ = black_box(convert(black_box(&longs), black_box(0.5))))),
        ("hash_bytes", Box::new(|| _ = black_box(hash_bytes(black_box(&bytes))))),
        ("follow_links", Box::new(|| _ = black_box(follow_links(black_box(&links))))),
        ("count_shared", Box::new(|| count_shared(black_box(&integers), &counter))),
        ("call_pointers", Box::new(|| _ = black_box(call_pointers(black_box(&functions))))),
        ("allocate", Box::new(|| _ = black_box(allocate(black_box(&longs))))),
        ("move_large", Box::new(|| move_large(black_box(&blocks), black_box(&mut copies)))),
        ("square_roots", Box::new(|| square_roots(black_box(&floats), black_box(&mut roots)))),
        ("call_small", Box::new(|| _ = black_box(call_small(black_box(&longs))))),
        ("call_large", Box::new(|| _ = black_box(call_large(black_box(&longs))))),
    ];
    kernels.retain(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted == name));
    let each = Duration::from_secs_f64(seconds / kernels.len().max(1) as f64);
    for (_, kernel) in &mut kernels {
        let end = cpu_time() + each;
        while cpu_time() < end {
            for _ in 0..20 {
                kernel();
            }
        }
    }
    println!("kernels {}", kernels.len());
}
