//! Two parts, one after the other, with 70 and 30 % of the time. The first one is two functions.
//!
//! Run: `causal_sequence [--units N=500] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: front, parse, check, render.
//!
//! THE KNOWN ANSWER: a unit is 2 ms of `parse` and 0.8 ms of `check`, both called by `front`, then 1.2 ms of `render`. So
//! making them faster by a share s saves 50, 20 and 30 % of s, and `front` with all that it calls 70 %.

#[path = "causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::hint::black_box;

use shared::{Plan, progress_unit};

#[inline(never)]
fn parse(steps: u64) {
    compute!(steps, 1);
}

#[inline(never)]
fn check(steps: u64) {
    compute!(steps, 2);
}

#[inline(never)]
fn render(steps: u64) {
    compute!(steps, 3);
}

#[inline(never)]
fn front(parse_steps: u64, check_steps: u64) {
    parse(parse_steps);
    check(check_steps);
    // Stays on the stack below the calls.
    black_box(parse_steps);
}

fn main() {
    let plan = Plan::from_arguments(&["front", "parse", "check", "render"], 500);
    let in_front = |function, microseconds: u64| {
        let work = plan.work(function, microseconds);
        plan.scaled(work, "front")
    };
    let (to_parse, to_check) = (in_front("parse", 2000), in_front("check", 800));
    let to_render = plan.work("render", 1200);
    for round in 0.. {
        front(to_parse.steps(round), to_check.steps(round));
        render(to_render.steps(round));
        if !plan.goes_on(progress_unit()) {
            break;
        }
    }
    plan.print();
}
