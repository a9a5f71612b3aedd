//! A histogram by two threads, which both count into the same atomics.
//! planted: atomic-traffic
use std::sync::atomic::{AtomicU64, Ordering};

const BINS: usize = 4;

fn value(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 60) as usize % BINS
}

fn main() {
    let slow = lab_corpus::is_slow();
    let bins: [AtomicU64; BINS] = Default::default();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let bins = &bins;
            scope.spawn(move || {
                let mut state = thread + 1;
                if slow {
                    for _ in 0..90_000_000 {
                        bins[value(&mut state)].fetch_add(1, Ordering::Relaxed);
                    }
                } else {
                    let mut own = [0; BINS];
                    for _ in 0..90_000_000 {
                        own[value(&mut state)] += 1;
                    }
                    for (bin, count) in bins.iter().zip(own) {
                        bin.fetch_add(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("{:?}", bins.map(AtomicU64::into_inner));
}
