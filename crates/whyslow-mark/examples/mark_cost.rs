//! Measures the cost of a mark, with and without a recorder:
//!
//! ```text
//! cargo run --release -p whyslow-mark --example mark_cost
//! whyslow record -o /tmp/cost.whyslow -- target/release/examples/mark_cost
//! ```

use std::time::{Duration, Instant};

const ROUNDS: u32 = 50;

/// Nanoseconds per call: the median of the rounds.
fn cost(mut mark: impl FnMut(u32)) -> f64 {
    // The recorder's pipe has room for this many.
    let marks = if whyslow_mark::is_recorded() { 2_000 } else { 1_000_000 };
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for number in 0..marks {
                mark(number);
            }
            let took = start.elapsed().as_nanos() as f64 / f64::from(marks);
            // Give the recorder time to read.
            std::thread::sleep(Duration::from_millis(25));
            took
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn main() {
    let state = if whyslow_mark::is_recorded() { "recorded" } else { "not recorded" };
    println!("{state}, nanoseconds each:");
    println!("  span              {:8.1}", cost(|_| drop(whyslow_mark::span("span"))));
    println!(
        "  span with detail  {:8.1}",
        cost(|number| drop(whyslow_mark::span_with("span", || format!("number={number}"))))
    );
    println!("  moment            {:8.1}", cost(|_| whyslow_mark::moment("moment")));
    println!(
        "  counter           {:8.1}",
        cost(|number| whyslow_mark::counter("counter", i64::from(number)))
    );
}
