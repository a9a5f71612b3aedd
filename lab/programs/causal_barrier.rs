//! Two threads that meet at a barrier in each round. One of them has twice as much work.
//!
//! Run: `causal_barrier [--units N=1000] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: work_a, work_b.
//!
//! THE KNOWN ANSWER: a unit is a round. It takes as long as `work_a` (2 ms), until that is as short as `work_b` (1 ms), so
//! making `work_a` faster by 25, 50, 75, 100 % saves 25, 50, 50, 50 %. Making `work_b` faster saves nothing. Measured by
//! `cargo xtask bench --causal`.

#[path = "causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use shared::{Plan, progress_unit, units};

#[inline(never)]
fn work_a(steps: u64) {
    compute!(steps, 1);
}

#[inline(never)]
fn work_b(steps: u64) {
    compute!(steps, 2);
}

fn main() {
    let plan = Plan::from_arguments(&["work_a", "work_b"], 1000);
    let (a, b) = (plan.work("work_a", 2000), plan.work("work_b", 1000));
    let barrier = Barrier::new(2);
    // The last round, as soon as it is known.
    let last = AtomicU64::new(u64::MAX);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                work_b(b.steps(round));
                barrier.wait();
                if round >= last.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for round in 0.. {
            work_a(a.steps(round));
            if !plan.goes_on(units() + 1) {
                last.store(round, Ordering::Relaxed);
            }
            barrier.wait();
            progress_unit();
            if round >= last.load(Ordering::Relaxed) {
                break;
            }
        }
    });
    plan.print();
}
