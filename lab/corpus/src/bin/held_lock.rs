//! Threads compute while they hold the lock of the result.
//! planted: lock-contention
//! record: --off-cpu
use std::sync::Mutex;

fn compute(item: u64) -> u64 {
    let mut state = item + 1;
    for _ in 0..60_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

fn main() {
    let slow = lab_corpus::is_slow();
    let sum = Mutex::new(0u64);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let sum = &sum;
            scope.spawn(move || {
                for item in (0..1600).filter(|item| item % 4 == thread) {
                    if slow {
                        let mut sum = sum.lock().unwrap();
                        *sum ^= compute(item);
                    } else {
                        let value = compute(item);
                        *sum.lock().unwrap() ^= value;
                    }
                }
            });
        }
    });
    println!("{}", sum.into_inner().unwrap());
}
