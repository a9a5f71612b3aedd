//! Sleeps very often and very briefly, at three lines.
//!
//! Run: `naps [ROUNDS=600]`; a round is about 3 ms.
//!
//! THE KNOWN ANSWER: every wait is a sleep. In each round `often` sleeps three times for 0.3 ms, `seldom` once for
//! 0.3 ms, and `longer` once for 1.5 ms; the kernel adds about 0.055 ms to each.

use std::hint::black_box;
use std::thread::sleep;
use std::time::Duration;

/// `black_box` keeps the sleeps from being tail calls, so that their function stays on the stack.
const SHORT: Duration = Duration::from_micros(300);

#[inline(never)]
fn often() {
    for _ in 0..3 {
        sleep(SHORT);
    }
    black_box(());
}

#[inline(never)]
fn seldom() {
    sleep(SHORT);
    black_box(());
}

#[inline(never)]
fn longer() {
    sleep(5 * SHORT);
    black_box(());
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(600, |a| a.parse::<u64>().expect("a number"));
    for _ in 0..rounds {
        often();
        seldom();
        longer();
    }
    println!("sleeps {}", 5 * rounds);
    println!("slept_us {}", 2_975 * rounds);
}
