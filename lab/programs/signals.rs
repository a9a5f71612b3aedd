//! Spends time inside signal handlers, so that stacks go through the kernel's signal frame.
//!
//! Run: `signals [MS=500] [timer|altstack|altstack-long|raise]`; MS is the work outside handlers, about half
//! of the whole. `timer`: SIGALRM interrupts `interrupted` at any instruction. `altstack`: the same, on a
//! separate stack for the handler. `altstack-long`: with handlers of 60 ms, and pauses of the same length.
//! `raise`: the program raises SIGUSR1 itself, so it is interrupted inside a system call of the C library.
//!
//! THE KNOWN ANSWER: each stack with handler_work is handler_work < on_signal < (signal frame)
//! < … < main, and with a timer the frame below the signal frame is interrupted. The program
//! counts the shares while it runs, and prints them. A timer may also hit a few other places.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const STEPS_PER_MS: u64 = 600_000;
const SIGUSR1: i32 = 10;
const SIGALRM: i32 = 14;
const SA_ONSTACK: i32 = 0x0800_0000;
const SA_RESTART: i32 = 0x1000_0000;
/// Each handler works this long, and the next timer expires this long after it.
const SLICE_MS: u64 = 2;
const LONG_SLICE_MS: u64 = 60;
static SLICE: AtomicU64 = AtomicU64::new(SLICE_MS);

#[repr(C)]
struct Action {
    handler: extern "C" fn(i32),
    mask: [u64; 16],
    flags: i32,
    restorer: usize,
}

#[repr(C)]
struct Stack {
    start: *mut u8,
    flags: i32,
    size: usize,
}

unsafe extern "C" {
    fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32;
    fn sigaltstack(new: *const Stack, old: *mut Stack) -> i32;
    fn setitimer(which: i32, new: *const [i64; 4], old: *mut [i64; 4]) -> i32;
    fn raise(signal: i32) -> i32;
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static TIMER: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn interrupted(steps: u64, mut x: u64) -> u64 {
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
fn handler_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 11;
        x ^= x >> 9;
        x ^= x << 19;
        left -= 1;
    }
    black_box(x)
}

/// Requests one SIGALRM. The handler requests the next, so that a slow machine is not flooded.
fn arm() {
    let once = [0, 0, 0, SLICE.load(Relaxed) as i64 * 1000];
    // SAFETY: the pointer is to a whole `itimerval`; the call is safe in a signal handler.
    unsafe { setitimer(0, &raw const once, std::ptr::null_mut()) };
}

extern "C" fn on_signal(_: i32) {
    let steps = SLICE.load(Relaxed) * STEPS_PER_MS;
    black_box(handler_work(steps, 1));
    HANDLED.fetch_add(steps, Relaxed);
    if TIMER.load(Relaxed) {
        arm();
    }
}

fn handle(signal: i32, on_own_stack: bool) {
    let flags = SA_RESTART | if on_own_stack { SA_ONSTACK } else { 0 };
    let action = Action { handler: on_signal, mask: [0; 16], flags, restorer: 0 };
    if on_own_stack {
        let room = Box::leak(vec![0_u8; 64 * 1024].into_boxed_slice());
        let stack = Stack { start: room.as_mut_ptr(), flags: 0, size: room.len() };
        // SAFETY: the memory is leaked, so it is valid as long as the program runs.
        unsafe { sigaltstack(&raw const stack, std::ptr::null_mut()) };
    }
    // SAFETY: the structure has the layout of the C library's, and the handler touches only atomics and its own stack.
    let result = unsafe { sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0, "the handler is set");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let ms = arguments.next().map_or(500, |a| a.parse::<u64>().expect("a number"));
    let mode = arguments.next().unwrap_or_else(|| "timer".into());

    if mode == "raise" {
        handle(SIGUSR1, false);
        for _ in 0..ms / SLICE_MS {
            black_box(interrupted(SLICE_MS * STEPS_PER_MS, 1));
            // SAFETY: the handler is set.
            unsafe { raise(SIGUSR1) };
        }
    } else {
        if mode == "altstack-long" {
            SLICE.store(LONG_SLICE_MS, Relaxed);
        }
        handle(SIGALRM, mode.starts_with("altstack"));
        TIMER.store(true, Relaxed);
        arm();
        black_box(interrupted(ms * STEPS_PER_MS, 1));
        TIMER.store(false, Relaxed);
    }

    let handled = HANDLED.load(Relaxed) as f64;
    let ordinary = (ms / SLICE_MS * SLICE_MS * STEPS_PER_MS) as f64;
    let share = handled / (handled + ordinary);
    println!("truth handler_work={share:.5} interrupted={:.5}", 1.0 - share);
}
