//! Patterns of sharing between threads.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;

use crate::{Pair, compute};

pub const PAIRS: &[Pair] = &[
    ("arc-traffic", clones_the_handle, borrows_the_handle),
    ("atomic-traffic", counts_together, counts_alone),
    ("tiny-tasks", many_small_tasks, some_large_tasks),
    ("spin-waiting", spins, waits),
];

#[inline(never)]
fn two(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(&work);
        scope.spawn(&work);
    });
}

#[inline(never)]
fn clones_the_handle() {
    let shared = Arc::new(7u64);
    two(|| {
        for _ in 0..50_000 {
            black_box(**black_box(&Arc::clone(&shared))); // here: arc-traffic
        }
    });
}

#[inline(never)]
fn borrows_the_handle() {
    let shared = Arc::new(7u64);
    two(|| {
        for _ in 0..5_000_000 {
            black_box(*black_box(&*shared));
        }
    });
}

#[inline(never)]
fn counts_together() {
    let count = AtomicU64::new(0);
    two(|| {
        for _ in 0..50_000 {
            count.fetch_add(1, Ordering::Relaxed); // here: atomic-traffic
        }
    });
    black_box(count);
}

#[inline(never)]
fn counts_alone() {
    let count = AtomicU64::new(0);
    two(|| {
        let own = (0..3_000_000u64).fold(0, |sum, one| sum + black_box(one));
        count.fetch_add(own, Ordering::Relaxed);
    });
    black_box(count);
}

#[inline(never)]
fn many_small_tasks() {
    let numbers = (0..100_000u64).collect::<Vec<_>>();
    let sum = numbers.par_iter().with_max_len(1).map(|number| black_box(*number)).sum::<u64>(); // here: tiny-tasks
    black_box(sum);
}

#[inline(never)]
fn some_large_tasks() {
    let sum = (0..8u64).into_par_iter().map(|_| compute(500_000)).sum::<u64>();
    black_box(sum);
}

#[inline(never)]
fn spins() {
    let ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            ready.store(true, Ordering::Release);
        });
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now(); // here: spin-waiting
        }
    });
}

#[inline(never)]
fn waits() {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| compute(1_000_000));
        black_box(thread.join().unwrap());
    });
}
