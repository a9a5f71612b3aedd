//! One thread works and then sleeps, again and again. Another one computes all the time, which nobody waits for.
//!
//! Run: `causal_sleeper [--units N=1000] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: work, burn.
//!
//! THE KNOWN ANSWER: a unit is 1 ms of `work` and 1 ms of sleep, so making `work` faster by a share s saves about 50 % of s
//! (a little less, because sleeps last longer than asked). `burn` has most of the CPU time, and making it faster saves nothing.

#[path = "causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shared::{Plan, progress_unit};

#[inline(never)]
fn work(steps: u64) {
    compute!(steps, 1);
}

#[inline(never)]
fn burn(steps: u64) {
    compute!(steps, 2);
}

fn main() {
    let plan = Plan::from_arguments(&["work", "burn"], 1000);
    let (to_work, to_burn) = (plan.work("work", 1000), plan.work("burn", 700));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                burn(to_burn.steps(round));
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for round in 0.. {
            work(to_work.steps(round));
            std::thread::sleep(Duration::from_millis(1));
            if !plan.goes_on(progress_unit()) {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    plan.print();
}
