//! A heavy task and many light ones, on two rayon threads.
//!
//! Run: `causal_rayon [--units N=500] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: heavy_task, light_task.
//!
//! THE KNOWN ANSWER: a unit is one `heavy_task` (2.4 ms) beside six `light_task`s (0.4 ms each). On two idle CPUs each thread has
//! 2.4 ms to do. A faster heavy task leaves light ones to its thread, so making either faster by a share s saves about 50 % of s, in
//! steps of a light task. Measured by `cargo xtask bench --causal`.

#[path = "../../../programs/causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use shared::{Plan, Work, progress_unit};

const LIGHT_TASKS: usize = 6;

#[inline(never)]
fn heavy_task(steps: u64) {
    compute!(steps, 1);
}

#[inline(never)]
fn light_task(steps: u64) {
    compute!(steps, 2);
}

fn unit(round: u64, heavy: Work, light: Work) {
    rayon::scope(|scope| {
        // A thread takes its own newest task first, so the heavy one comes last.
        for _ in 0..LIGHT_TASKS {
            scope.spawn(|_| light_task(light.steps(round)));
        }
        scope.spawn(|_| heavy_task(heavy.steps(round)));
    });
}

fn main() {
    let plan = Plan::from_arguments(&["heavy_task", "light_task"], 500);
    let (heavy, light) = (plan.work("heavy_task", 2400), plan.work("light_task", 400));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    pool.install(|| {
        for round in 0.. {
            unit(round, heavy, light);
            if !plan.goes_on(progress_unit()) {
                break;
            }
        }
    });
    plan.print();
}
