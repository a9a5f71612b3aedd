//! Threads and processes that live shorter than the time between two samples, next to one that lives long.
//!
//! Run: `short_lived [MS=1000]`; MS is fixed work, about one millisecond of CPU time each. The
//! threads are named `short`, the forked processes `short-child`. Each works for 0.6 ms and exits.
//!
//! THE KNOWN ANSWER: of the time in the three functions, thread_work has 30 %, process_work 30 %, long_work
//! 40 %. Creating threads and processes takes additional time: `thread_us`, `process_us` and `all_us` are
//! the CPU time that the system accounts to the short threads, to the short processes, and to everything.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;

const STEPS_PER_MS: u64 = 600_000;
/// 0.6 ms.
const STEPS_OF_SHORT: u64 = STEPS_PER_MS * 6 / 10;

const THREAD_CPU_TIME: i32 = 3;
const PROCESS_CPU_TIME: i32 = 2;
const OF_CHILDREN: i32 = -1;
const SET_NAME: i32 = 15;

#[repr(C)]
#[derive(Default)]
struct Time {
    seconds: i64,
    fraction: i64,
}

#[repr(C)]
#[derive(Default)]
struct Usage {
    user: Time,
    system: Time,
    others: [i64; 14],
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
    fn prctl(option: i32, name: *const u8) -> i32;
    fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    fn getrusage(who: i32, usage: *mut Usage) -> i32;
}

#[inline(never)]
fn long_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

#[inline(never)]
fn thread_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 11;
        x ^= x >> 9;
        x ^= x << 19;
        left -= 1;
    }
    black_box(x)
}

#[inline(never)]
fn process_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 12;
        x ^= x >> 25;
        x ^= x << 27;
        left -= 1;
    }
    black_box(x)
}

fn cpu_us(clock: i32) -> u64 {
    let mut time = Time::default();
    // SAFETY: `time` is a valid place for the result.
    unsafe { clock_gettime(clock, &raw mut time) };
    (time.seconds * 1_000_000 + time.fraction / 1000) as u64
}

fn children_us() -> u64 {
    let mut usage = Usage::default();
    // SAFETY: `usage` has the layout and the size of the system's structure.
    unsafe { getrusage(OF_CHILDREN, &raw mut usage) };
    let us = |time: &Time| time.seconds * 1_000_000 + time.fraction;
    (us(&usage.user) + us(&usage.system)) as u64
}

fn short_process() {
    // SAFETY: there is only one thread at this time, and the child uses only its own stack before it exits.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: the name is zero-terminated. The child exits without running the parent's exit handlers.
        unsafe {
            prctl(SET_NAME, c"short-child".as_ptr().cast());
            black_box(process_work(STEPS_OF_SHORT, 1));
            _exit(0)
        }
    }
    let mut status = -1;
    // SAFETY: `status` is a valid place for the result.
    unsafe { waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child ends well");
}

fn main() {
    let ms = std::env::args().nth(1).map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let of_each = ms * STEPS_PER_MS * 3 / 10 / STEPS_OF_SHORT;
    let thread_us = AtomicU64::new(0);
    for turn in 0..of_each {
        // The long part runs in pieces between the short ones, so that a busy machine affects all of them.
        black_box(long_work(STEPS_OF_SHORT * 4 / 3, turn));
        std::thread::scope(|scope| {
            let work = || {
                black_box(thread_work(STEPS_OF_SHORT, 1));
                thread_us.fetch_add(cpu_us(THREAD_CPU_TIME), Ordering::Relaxed);
            };
            Builder::new().name("short".to_owned()).spawn_scoped(scope, work).expect("a thread");
        });
        short_process();
    }
    println!("thread_us {}", thread_us.load(Ordering::Relaxed));
    println!("process_us {}", children_us());
    println!("all_us {}", cpu_us(PROCESS_CPU_TIME) + children_us());
    println!("truth thread_work=0.3 process_work=0.3 long_work=0.4");
}
