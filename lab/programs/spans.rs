//! Marks spans with known shares of CPU time on two threads, with the crate whyslow-mark.
//!
//! Run: `spans [MS=1000] [work|fork|exec|abort|wait]`; MS is fixed work, about one millisecond of CPU time each, half on each
//! thread. `fork` marks ten spans `forked` in a child without exec. `exec` starts itself again, which marks spans `started` for MS
//! milliseconds. `abort` marks ten spans `before` and crashes. `wait` marks a span `waiting` every millisecond for MS milliseconds.
//!
//! THE KNOWN ANSWER: of the time, outer has 37.5 % and alpha within it 25 %, on thread `left`; beta has 12.5 %, on thread `right`.
//! There are 100 spans of each name and 1,000 moments `tick`. The counter `round` goes from 0 to 99. The same without a recorder.

#[path = "../../crates/whyslow-mark/src/lib.rs"]
#[allow(dead_code, unexpected_cfgs)]
mod whyslow_mark;

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

const STEPS_PER_MS: u64 = 600_000;
const ROUNDS: u64 = 100;

unsafe extern "C" {
    safe fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    safe fn _exit(code: i32) -> !;
}

#[inline(never)]
fn spin(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

/// The lengths of the rounds differ, so that no sampling clock falls into step. Their sum is fixed.
fn unit(round: u64, steps: u64) -> u64 {
    let unit = steps / (4 * ROUNDS);
    unit - unit / 4 + unit / 2 * (round * 37 % ROUNDS) / (ROUNDS - 1)
}

fn left(steps: u64) {
    let mut x = 1;
    for round in 0..ROUNDS {
        let unit = unit(round, steps);
        whyslow_mark::counter("round", round as i64);
        {
            let _outer = whyslow_mark::span_with("outer", || format!("round={round}"));
            {
                let _alpha = whyslow_mark::span("alpha");
                x = spin(2 * unit, x);
            }
            x = spin(unit, x);
        }
        x = spin(unit, x);
    }
}

fn right(steps: u64) {
    let mut x = 2;
    for round in 0..ROUNDS {
        let unit = unit(round, steps);
        {
            let _beta = whyslow_mark::span("beta");
            x = spin(unit, x);
        }
        x = spin(3 * unit, x);
        for _ in 0..10 {
            whyslow_mark::moment("tick");
        }
    }
}

fn work(ms: u64) {
    let steps = ms * STEPS_PER_MS / 2;
    let start = |name: &str, work: fn(u64)| {
        std::thread::Builder::new().name(name.to_owned()).spawn(move || work(steps)).expect("a thread")
    };
    let threads = [start("left", left), start("right", right)];
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    println!("truth outer=0.375 alpha=0.25 beta=0.125");
    println!("outer {ROUNDS}\nalpha {ROUNDS}\nbeta {ROUNDS}\ntick {}", 10 * ROUNDS);
}

fn ten(name: &str) {
    for _ in 0..10 {
        let _span = whyslow_mark::span(name);
    }
}

fn repeat(name: &str, ms: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(ms) {
        let _span = whyslow_mark::span(name);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let ms = arguments.next().map_or(1000, |text| text.parse().expect("a number"));
    let what = arguments.next().unwrap_or_else(|| "work".to_owned());
    match what.as_str() {
        "work" => work(ms),
        "fork" => {
            ten("parent");
            let child = fork();
            if child == 0 {
                ten("forked");
                _exit(0);
            }
            let mut status = 0;
            // SAFETY: `status` is this function's own.
            unsafe { waitpid(child, &mut status, 0) };
        }
        "exec" => {
            let program = std::env::current_exe().expect("its own name");
            Command::new(program).args([&ms.to_string(), "started"]).status().expect("started");
        }
        "abort" => {
            ten("before");
            std::process::abort();
        }
        "wait" => repeat("waiting", ms),
        name => repeat(name, ms),
    }
}
