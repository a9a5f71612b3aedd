//! A producer and a slower consumer, with a short queue between them.
//!
//! Run: `causal_queue [--units N=1500] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: produce, consume.
//!
//! THE KNOWN ANSWER: a unit is an item. It takes as long as `consume` (1 ms), until that is as short as `produce` (0.6 ms), so
//! making `consume` faster by 25, 50, 75, 100 % saves 25, 40, 40, 40 %. Making `produce` faster saves nothing: the producer waits
//! because the queue is full.

#[path = "causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::sync::mpsc::sync_channel;

use shared::{Plan, progress_unit};

#[inline(never)]
fn produce(steps: u64) {
    compute!(steps, 1);
}

#[inline(never)]
fn consume(steps: u64) {
    compute!(steps, 2);
}

fn main() {
    let plan = Plan::from_arguments(&["produce", "consume"], 1500);
    let (to_produce, to_consume) = (plan.work("produce", 600), plan.work("consume", 1000));
    let (sender, receiver) = sync_channel(4);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0.. {
                produce(to_produce.steps(round));
                // The consumer is gone when all is done.
                if sender.send(round).is_err() {
                    break;
                }
            }
        });
        for round in receiver {
            consume(to_consume.steps(round));
            if !plan.goes_on(progress_unit()) {
                break;
            }
        }
    });
    plan.print();
}
