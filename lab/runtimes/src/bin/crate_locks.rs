//! Waits for locks of parking_lot, and has an idle rayon pool.
//!
//! Run: `crate_locks [MS=100]`
//!
//! THE KNOWN ANSWER: the lines `FUNCTION_us N`: the main thread waits N microseconds in FUNCTION for a
//! lock of parking_lot: `wait_mutex` for the variable `LOCK`, `wait_rwlock` for one on the heap. The two pool threads work only briefly at the start, and are idle otherwise.

use std::sync::Arc;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

const BEFORE: Duration = Duration::from_millis(5);
static LOCK: Mutex<u32> = Mutex::new(0);

/// Keeps the main thread busy while another one takes a lock.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn timed(name: &str, wait: impl FnOnce()) {
    let start = Instant::now();
    wait();
    println!("{name}_us {}", start.elapsed().as_micros());
}

#[inline(never)]
fn wait_mutex(time: Duration) {
    let other = spawn(move || {
        let _held = LOCK.lock();
        sleep(time + BEFORE);
    });
    compute(BEFORE);
    timed("wait_mutex", || *LOCK.lock() += 1);
    other.join().unwrap();
}

#[inline(never)]
fn wait_rwlock(time: Duration) {
    let lock = Arc::new(RwLock::new(0));
    let writer = Arc::clone(&lock);
    let other = spawn(move || {
        let _held = writer.write();
        sleep(time + BEFORE);
    });
    compute(BEFORE);
    timed("wait_rwlock", || drop(lock.read()));
    other.join().unwrap();
}

#[inline(never)]
fn wait_condition(time: Duration) {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let signals = Arc::clone(&pair);
    let other = spawn(move || {
        sleep(time);
        *signals.0.lock() = true;
        signals.1.notify_one();
    });
    timed("wait_condition", || {
        let mut done = pair.0.lock();
        while !*done {
            pair.1.wait(&mut done);
        }
    });
    other.join().unwrap();
}

fn main() {
    let ms = std::env::args().nth(1).map_or(100, |a| a.parse().expect("milliseconds"));
    let time = Duration::from_millis(ms);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| rayon::join(|| compute(BEFORE), || compute(BEFORE)));
    for wait in [wait_mutex, wait_rwlock, wait_condition] {
        wait(time);
        compute(BEFORE);
    }
}
