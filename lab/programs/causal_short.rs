//! Short requests that arrive at a steady rate, a server that has time left, and a thread that nobody waits for.
//!
//! Run: `causal_short [--us N=1000] [--units N=500] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: check, handle, after,
//! burn. N microseconds are the latency.
//!
//! THE KNOWN ANSWER: every 4 N a request arrives (coz's `begin` of `request`). The server takes N/4 in `check` and 3N/4 in
//! `handle`, then the request ends (coz's `end`). So making `check` or `handle` faster by a share s saves about 25 and 75 % of s of
//! the latency. `after`, N/2 after the end of the request, saves nothing of it; neither does `burn`, half of a CPU in another
//! thread. Prints `latency_ns`, the mean, too.

#[path = "causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use shared::{Counter, Kind, Plan, Work, progress_unit};

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
fn burn(steps: u64) {
    compute!(steps, 4);
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

/// Burns half of a CPU.
fn burn_until(done: &AtomicBool, work: Work) {
    for round in 0.. {
        let start = Instant::now();
        burn(work.steps(round));
        std::thread::sleep(start.elapsed());
        if done.load(Ordering::Relaxed) {
            break;
        }
    }
}

fn main() {
    let plan = Plan::from_arguments(&["check", "handle", "after", "burn"], 500);
    let us = plan.microseconds(1000);
    let (to_check, to_handle) = (plan.work("check", us / 4), plan.work("handle", us * 3 / 4));
    let (to_do_after, to_burn) = (plan.work("after", us / 2), plan.work("burn", 700));
    let (sender, receiver) = channel::<Instant>();
    let (mut latency, done) = (Duration::ZERO, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || burn_until(done, to_burn));
        scope.spawn(move || {
            loop {
                request_begins();
                // The server is gone when all is done.
                if sender.send(Instant::now()).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_micros(4 * us));
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
        done.store(true, Ordering::Relaxed);
    });
    plan.print();
    println!("latency_ns {}", latency.as_nanos() / u128::from(shared::units().max(1)));
}
