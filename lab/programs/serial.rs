//! A serial part, then two threads.
//!
//! Run: `serial [MS=300]`
//!
//! THE KNOWN ANSWER: for `parse_us` microseconds only the main thread runs, in `parse`. Then for `render_us`
//! microseconds two threads run `render`, both until the same point in time, and the main thread waits for them.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The work is in the function itself, so that it is charged to no other.
macro_rules! works {
    ($name:ident) => {
        #[inline(never)]
        fn $name(until: Instant) {
            let mut x = 1u64;
            while Instant::now() < until {
                for _ in 0..10_000 {
                    x ^= x << 13;
                    x ^= x >> 7;
                }
            }
            black_box((stringify!($name), x));
        }
    };
}

works!(parse);
works!(render);

fn timed(name: &str, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("{name}_us {}", start.elapsed().as_micros());
}

fn main() {
    let ms = std::env::args().nth(1).map_or(300, |a| a.parse().expect("milliseconds"));
    let time = Duration::from_millis(ms);
    timed("parse", || parse(Instant::now() + time));
    timed("render", || {
        let until = Instant::now() + time;
        let threads = [(); 2].map(|()| std::thread::spawn(move || render(until)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
