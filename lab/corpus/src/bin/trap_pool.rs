//! Two busy threads on a queue with a lock that is held for a moment.
//! planted: nothing
//! record: --off-cpu
use std::sync::Mutex;

fn work(job: u64) -> u64 {
    (0..200_000u64).fold(job, |state, at| (state ^ at).rotate_left(9).wrapping_add(at))
}

fn main() {
    let jobs = Mutex::new((0..3_000u64).collect::<Vec<_>>());
    let take = || jobs.lock().unwrap().pop();
    let run = || std::iter::from_fn(take).fold(0, |sum, job| sum ^ work(job));
    let sum = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(run)).collect();
        threads.into_iter().fold(0, |sum, thread| sum ^ thread.join().unwrap())
    });
    println!("{sum}");
}
