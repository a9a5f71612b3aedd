//! Sleeps very often and very briefly, at three lines.
//!
//! Run: `naps [ROUNDS=600]`; a round is about 3 ms.
//!
//! THE KNOWN ANSWER: every wait is a sleep. It prints how often and how long each function slept, as it measured.

use std::time::{Duration, Instant};

/// Sleeps `times` times, and returns the time that it took in all.
#[inline(always)]
fn sleep(times: u32, nap: Duration) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        std::thread::sleep(nap);
    }
    start.elapsed()
}

#[inline(never)]
fn often() -> Duration {
    sleep(3, Duration::from_micros(300))
}

#[inline(never)]
fn seldom() -> Duration {
    sleep(1, Duration::from_micros(300))
}

#[inline(never)]
fn longer() -> Duration {
    sleep(1, Duration::from_micros(1500))
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(600, |a| a.parse::<u32>().expect("a number"));
    let mut slept = [Duration::ZERO; 3];
    for _ in 0..rounds {
        slept[0] += often();
        slept[1] += seldom();
        slept[2] += longer();
    }
    for (function, slept) in ["often", "seldom", "longer"].into_iter().zip(slept) {
        println!("{function}_us {}", slept.as_micros());
    }
    println!("sleeps {}", 5 * rounds);
}
