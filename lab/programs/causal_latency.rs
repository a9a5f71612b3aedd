//! Requests that arrive at a steady rate, and a server that has time left: only their latency can become better.
//!
//! Run: `causal_latency [--units N=500] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: check, handle, after.
//!
//! THE KNOWN ANSWER: every 4 ms a request arrives (coz's `begin` of `request`, the function `request_begins`). The server takes 0.5 ms
//! in `check` and 1.5 ms in `handle`, then the request ends (coz's `end`, `request_ends`). So making `check` or `handle` faster by
//! a share s saves about 25 and 75 % of s of the latency. `after`, 1 ms after the end of the request, saves nothing of it. The
//! number of requests per second, the unit, stays the same. Prints `latency_ns`, the mean, too.

#[path = "causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use shared::{Counter, Kind, Plan, progress_unit};

#[inline(never)]
fn check(steps: u64) {
    compute!(steps, 1);
}

#[inline(never)]
fn handle(steps: u64) {
    compute!(steps, 2);
}

#[inline(never)]
fn after(steps: u64) {
    compute!(steps, 3);
}

#[inline(never)]
fn request_begins() {
    static BEGIN: Counter = Counter::new(Kind::Begin, c"request");
    BEGIN.count();
}

#[inline(never)]
fn request_ends() {
    static END: Counter = Counter::new(Kind::End, c"request");
    END.count();
}

fn main() {
    let plan = Plan::from_arguments(&["check", "handle", "after"], 500);
    let (to_check, to_handle) = (plan.work("check", 500), plan.work("handle", 1500));
    let to_do_after = plan.work("after", 1000);
    let (sender, receiver) = channel::<Instant>();
    let mut latency = Duration::ZERO;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                request_begins();
                // The server is gone when all is done.
                if sender.send(Instant::now()).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(4));
            }
        });
        for (round, begin) in receiver.iter().enumerate() {
            check(to_check.steps(round as u64));
            handle(to_handle.steps(round as u64));
            request_ends();
            latency += begin.elapsed();
            after(to_do_after.steps(round as u64));
            if !plan.goes_on(progress_unit()) {
                break;
            }
        }
        drop(receiver);
    });
    plan.print();
    println!("latency_ns {}", latency.as_nanos() / u128::from(shared::units().max(1)));
}
