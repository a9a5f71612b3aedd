//! Measures the cost of reading records: CPU time of the drain per record, for one ring and for two.
//!
//! ```text
//! cargo run --release -p whyslow-heap --example drain
//! ```

#[path = "../tests/drain/fake.rs"]
mod fake;

use std::sync::atomic::{AtomicUsize, Ordering};

use fake::{Drain, FakeRing};
use whyslow_agent_host::{Until, sys};
use whyslow_heap::Config;

const RECORDS: u64 = 20_000_000;

fn main() {
    println!(
        "{:>5} {:>9} {:>7} {:>12} {:>14} {:>9}",
        "rings", "live", "stacks", "records", "records/s", "ns CPU"
    );
    for (live, stacks) in [(1_000, 100), (20_000, 8_000), (1_000_000, 8_000)] {
        for rings in [1, 2] {
            measure(rings, live, stacks);
        }
    }
}

fn measure(rings: usize, live: u64, stacks: u32) {
    let mut drain = Drain::new(Config::default());
    let agent_area = drain.arrive();
    let writing = AtomicUsize::new(rings);
    let start = std::time::Instant::now();
    let (records, cpu) = std::thread::scope(|scope| {
        for number in 0..rings {
            let (agent_area, writing) = (&agent_area, &writing);
            scope.spawn(move || {
                let ring = FakeRing::take(agent_area, number, 1, number as u32 + 1);
                write(ring, number as u64, live / rings as u64, stacks, RECORDS / rings as u64);
                writing.fetch_sub(1, Ordering::Release);
            });
        }
        let before = sys::thread_cpu_ns();
        let mut records = 0;
        loop {
            let done = writing.load(Ordering::Acquire) == 0;
            let round = drain.round(if done { Until::End } else { Until::Now });
            records += round.events;
            if done {
                break;
            }
            if round.fullest < 8192 {
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        }
        (records, sys::thread_cpu_ns() - before)
    });
    let rate = records as f64 / start.elapsed().as_secs_f64();
    let cost = cpu as f64 / records as f64;
    println!("{rings:>5} {live:>9} {stacks:>7} {records:>12} {rate:>14.0} {cost:>9.1}");
    drain.take();
    assert_eq!(drain.finish().facts.unknown_frees, 0);
}

/// Replaces random blocks of a pool, half of them soon.
fn write(mut ring: FakeRing<'_>, number: u64, live: u64, stacks: u32, records: u64) {
    let mut random = 0x9E37_79B9_7F4A_7C15 ^ number;
    let mut used = vec![false; live as usize];
    let mut written = 0;
    while written < records {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let slot = random % live;
        let address = ((number + 1) << 40) + slot * 48;
        if std::mem::replace(&mut used[slot as usize], true) {
            ring.free(sys::now().0, address);
            written += 1;
        }
        ring.alloc(sys::now().0, address, ((random >> 32) as u32 % stacks) as u64 * 16, random >> 20 & 0xfff);
        written += 1;
    }
}
