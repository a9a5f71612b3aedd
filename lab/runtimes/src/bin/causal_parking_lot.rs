//! Four threads that share one lock, with a long and a short critical section (parking_lot::Mutex).
//!
//! Run: `causal_parking_lot [--units N=3000] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: long_section, short_section,
//! outside.
//!
//! THE KNOWN ANSWER: a unit is one round of one thread: 0.4 ms of `long_section` with the lock held, 0.2 ms of `outside`
//! without it, 0.1 ms of `short_section` with it. Only one thread at a time has the lock, so a unit takes at least 0.5 ms,
//! of which `long_section` is 80 %; how much of `outside` runs beside it depends on the CPUs. Measured by `cargo xtask bench
//! --causal`.

#[path = "../../../programs/causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use parking_lot::Mutex;

use shared::{Plan, progress_unit};

const THREADS: u64 = 4;

#[inline(never)]
fn long_section(steps: u64) {
    compute!(steps, 1);
}

#[inline(never)]
fn short_section(steps: u64) {
    compute!(steps, 2);
}

#[inline(never)]
fn outside(steps: u64) {
    compute!(steps, 3);
}

fn main() {
    let plan = Plan::from_arguments(&["long_section", "short_section", "outside"], 3000);
    let (long, short) = (plan.work("long_section", 400), plan.work("short_section", 100));
    let free = plan.work("outside", 200);
    let lock = Mutex::new(0u64);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (plan, lock) = (&plan, &lock);
            scope.spawn(move || {
                for round in (thread..).step_by(THREADS as usize) {
                    {
                        let mut held = lock.lock();
                        long_section(long.steps(round));
                        *held += 1;
                    }
                    outside(free.steps(round));
                    {
                        let mut held = lock.lock();
                        short_section(short.steps(round));
                        *held += 1;
                    }
                    if !plan.goes_on(progress_unit()) {
                        break;
                    }
                }
            });
        }
    });
    plan.print();
}
