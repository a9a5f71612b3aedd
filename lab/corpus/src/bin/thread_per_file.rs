//! Starts a busy thread for every file at once.
//! planted: oversubscription
//! record: --off-cpu
fn digest(file: u64) -> u64 {
    (0..14_000_000u64).fold(file, |state, at| (state ^ at).rotate_left(9).wrapping_add(at))
}

fn main() {
    let slow = lab_corpus::is_slow();
    let files = 48;
    let at_once = if slow { files } else { std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64) };
    let mut sum = 0;
    let all: Vec<u64> = (0..files).collect();
    for group in all.chunks(at_once as usize) {
        sum ^= std::thread::scope(|scope| {
            let threads: Vec<_> = group.iter().map(|file| scope.spawn(|| digest(*file))).collect();
            threads.into_iter().fold(0, |sum, thread| sum ^ thread.join().unwrap())
        });
    }
    println!("{sum}");
}
