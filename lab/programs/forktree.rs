//! A tree of processes, created by fork and by fork + exec, with a known split of CPU time.
//!
//! Run: `forktree [MS=1000]`; MS is the work of all processes together.
//!
//! THE KNOWN ANSWER: 10 processes with 10 % each. The root works in root_work (10 %), its forked child in forked_work (10 %),
//! two executed `branch` processes in branch_work (20 %), and their three executed `leaf` children each in leaf_work (60 %).

use std::hint::black_box;
use std::process::{Child, Command, exit};

const STEPS_PER_MS: u64 = 600_000;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

#[inline(never)]
fn root_work(steps: u64, mut x: u64) -> u64 {
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
fn forked_work(steps: u64, mut x: u64) -> u64 {
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
fn branch_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 12;
        x ^= x >> 25;
        x ^= x << 27;
        left -= 1;
    }
    black_box(x)
}

#[inline(never)]
fn leaf_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 14;
        x ^= x >> 13;
        x ^= x << 15;
        left -= 1;
    }
    black_box(x)
}

fn start(role: &str, ms: u64) -> Child {
    let program = std::env::current_exe().expect("the own path");
    Command::new(program).arg(ms.to_string()).arg(role).spawn().expect("a child")
}

fn finish(mut child: Child) {
    if !child.wait().expect("the child").success() {
        exit(1);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let ms = arguments.next().map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let role = arguments.next().unwrap_or_default();
    let steps = ms * STEPS_PER_MS / 10;

    match role.as_str() {
        "leaf" => drop(black_box(leaf_work(steps, 1))),
        "branch" => {
            let leaves: Vec<Child> = (0..3).map(|_| start("leaf", ms)).collect();
            black_box(branch_work(steps, 1));
            leaves.into_iter().for_each(finish);
        }
        _ => {
            // SAFETY: there is only one thread, and the child uses only its own stack before it exits.
            let forked = unsafe { fork() };
            if forked == 0 {
                black_box(forked_work(steps, 1));
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { _exit(0) }
            }
            let branches: Vec<Child> = (0..2).map(|_| start("branch", ms)).collect();
            black_box(root_work(steps, 1));
            branches.into_iter().for_each(finish);
            let mut status = -1;
            // SAFETY: `status` is a valid place for the result.
            unsafe { waitpid(forked, &raw mut status, 0) };
            assert_eq!(status, 0, "the forked child ends well");
            println!("processes 10");
            println!("truth root_work=0.1 forked_work=0.1 branch_work=0.2 leaf_work=0.6");
        }
    }
}
