//! Units of work with a known number of visits of every kind of progress point.
//!
//! Run: `causal_points [--units N=500] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: work.
//!
//! THE KNOWN ANSWER: each unit is 4 ms of `work`, three `write`s to /dev/null, one call of libc's `getppid`, one call of each
//! of two instances of `generic`, one return of `several`, from a place that changes, and two runs of the line `COPIED`, which
//! is inlined into `first` and `second`. `through` is called once, and in every third unit a panic goes through it.
//! `left::same` and `right::same` have the same last name. `never` is not called.

#[path = "causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::fmt::Display;
use std::hint::black_box;
use std::io::Write as _;

use shared::{Plan, progress_unit};

unsafe extern "C" {
    safe fn getppid() -> i32;
}

#[inline(never)]
fn work(steps: u64) {
    compute!(steps, 1);
}

#[inline(always)]
fn copied(number: u64) -> u64 {
    black_box(number).rotate_left(7) ^ 12345 // COPIED
}

#[inline(never)]
fn first(number: u64) -> u64 {
    copied(number) * 3
}

#[inline(never)]
fn second(number: u64) -> u64 {
    copied(number) * 5 + first(number)
}

#[inline(never)]
fn several(number: u64, text: &mut String) -> usize {
    match number % 5 {
        0 => return 0,
        1 => text.push('a'),
        2 => {
            text.clear();
            return 7;
        }
        // The last call, so it may be a jump.
        3 => return tail(black_box(number), text),
        _ => text.push_str("four"),
    }
    text.len()
}

#[inline(never)]
fn tail(number: u64, text: &mut String) -> usize {
    text.truncate(black_box(number) as usize % 3);
    text.len()
}

#[inline(never)]
fn generic<T: Display>(value: T) -> usize {
    black_box(value).to_string().len()
}

#[inline(never)]
fn raises(number: u64) {
    if black_box(number) % 3 == 0 {
        std::panic::resume_unwind(Box::new(number));
    }
}

/// Calls at once, so that a patch at its start covers the call.
#[inline(never)]
fn through(number: u64) {
    raises(number);
    black_box(());
}

#[inline(never)]
fn never(number: u64) -> u64 {
    black_box(number) * 9
}

mod left {
    #[inline(never)]
    pub fn same(number: u64) -> u64 {
        std::hint::black_box(number) + 1
    }
}

mod right {
    #[inline(never)]
    pub fn same(number: u64) -> u64 {
        std::hint::black_box(number) + 2
    }
}

fn main() {
    let plan = Plan::from_arguments(&["work"], 500);
    let to_work = plan.work("work", 4000);
    let mut nowhere = std::fs::File::create("/dev/null").expect("/dev/null");
    let mut text = String::new();
    if std::env::args().any(|argument| argument == "never") {
        never(1);
    }
    for round in 0.. {
        work(to_work.steps(round));
        for part in [b"one", b"two", b"six"] {
            nowhere.write_all(part).expect("/dev/null takes everything");
        }
        black_box((getppid(), second(round), several(round, &mut text)));
        black_box((generic(round as u32), generic(round)));
        assert_eq!(std::panic::catch_unwind(|| through(round)).is_err(), round % 3 == 0);
        black_box((left::same(round), right::same(round)));
        if !plan.goes_on(progress_unit()) {
            break;
        }
    }
    plan.print();
}
