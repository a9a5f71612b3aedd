//! A large number of threads or processes alive at the same time.
//!
//! Run: `many threads [COUNT=1000] [MS=1000]` or `many processes [COUNT=200] [MS=1000]`; MS is the work of all together.
//!
//! THE KNOWN ANSWER: all of them exist at once before the first starts to work,
//! each does the same amount, all in `work`. The threads are named `many-N`.

use std::hint::black_box;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};

const STEPS_PER_MS: u64 = 600_000;

#[inline(never)]
fn work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

fn threads(count: u64, steps: u64) {
    let barrier = Arc::new(Barrier::new(count as usize));
    let all: Vec<_> = (0..count)
        .map(|i| {
            let barrier = Arc::clone(&barrier);
            let body = move || {
                barrier.wait();
                work(steps / count, i + 1)
            };
            std::thread::Builder::new().name(format!("many-{i}")).stack_size(64 * 1024).spawn(body)
        })
        .collect();
    for thread in all {
        black_box(thread.expect("a thread").join().expect("no panic"));
    }
}

fn processes(count: u64, steps: u64) {
    let program = std::env::current_exe().expect("the own path");
    let share = (steps / count).to_string();
    let mut all: Vec<Child> = (0..count)
        .map(|_| {
            let mut command = Command::new(&program);
            command.args(["one", &share]).stdin(Stdio::piped()).spawn().expect("a process")
        })
        .collect();
    for child in &mut all {
        child.stdin.take().expect("a pipe").write_all(b"go").expect("the child waits");
    }
    for mut child in all {
        assert!(child.wait().expect("a child").success());
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_else(|| "threads".into());
    let mut numbers = arguments.map(|a| a.parse::<u64>().expect("a number"));
    if mode == "one" {
        // Ends when the parent closes the pipe, once all children exist.
        std::io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
        black_box(work(numbers.next().expect("steps"), 1));
        return;
    }
    let count = numbers.next().unwrap_or(if mode == "threads" { 1000 } else { 200 });
    let steps = numbers.next().unwrap_or(1000) * STEPS_PER_MS;
    if mode == "threads" {
        threads(count, steps)
    } else {
        processes(count, steps)
    }
    println!("{mode} {count}");
    println!("truth work=1");
}
