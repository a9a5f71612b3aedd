//! Patterns of waiting: for locks, for time, for the executor's own threads.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::{Recorded, compute};

pub const PAIRS: &[Recorded] = &[
    ("lock-contention", "--off-cpu", counts_under_one_lock, counts_per_thread),
    ("blocking-in-async", "--off-cpu", sleeps_on_a_worker, awaits_a_timer),
    ("mostly-waiting", "--off-cpu", asks_again_after_a_while, computes_and_rarely_sleeps),
];

#[inline(never)]
fn counts_under_one_lock() {
    let total = Mutex::new(0u64);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut total = total.lock().expect("nobody panics"); // here: lock-contention
                    *total ^= compute(100_000);
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
    });
}

#[inline(never)]
fn counts_per_thread() {
    let total = Mutex::new(0u64);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut own = 0;
                for _ in 0..20 {
                    own ^= compute(100_000);
                    thread::sleep(Duration::from_micros(200));
                }
                *total.lock().expect("nobody panics") ^= own;
            });
        }
    });
}

fn on_two_workers(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime").block_on(work);
}

async fn reads_slowly() {
    black_box(compute(100_000));
    thread::sleep(Duration::from_millis(5)); // here: blocking-in-async
}

#[inline(never)]
fn sleeps_on_a_worker() {
    on_two_workers(async {
        let tasks = (0..10).map(|_| tokio::spawn(reads_slowly())).collect::<Vec<_>>();
        for task in tasks {
            task.await.expect("nobody panics");
        }
    });
}

#[inline(never)]
fn awaits_a_timer() {
    on_two_workers(async {
        let tasks = (0..10).map(|_| {
            tokio::spawn(async {
                black_box(compute(1_000_000));
                tokio::time::sleep(Duration::from_millis(5)).await;
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("nobody panics");
        }
    });
}

#[inline(never)]
fn asks_again_after_a_while() {
    let done = AtomicU64::new(0);
    while done.fetch_add(1, Ordering::Relaxed) < 2 {
        thread::sleep(Duration::from_millis(60)); // here: mostly-waiting
    }
}

#[inline(never)]
fn computes_and_rarely_sleeps() {
    for _ in 0..10 {
        black_box(compute(2_000_000));
        thread::sleep(Duration::from_micros(100));
    }
}
