//! Prepares its input on one thread before all threads use it.
//! planted: poor-parallelism
//! record: --off-cpu
fn prepare(item: u64) -> u64 {
    (0..1_000u64).fold(item, |state, at| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at))
}

fn use_it(items: &[u64]) -> u64 {
    items.iter().fold(0, |sum, item| sum ^ prepare(*item))
}

fn main() {
    let slow = lab_corpus::is_slow();
    let count = 600_000;
    let mut items: Vec<u64> = (0..count).collect();
    if slow {
        items.iter_mut().for_each(|item| *item = prepare(*item));
    }
    let results: Vec<u64> = std::thread::scope(|scope| {
        let parts = items.chunks_mut(count as usize / 2);
        let threads: Vec<_> = parts.map(|part| {
            scope.spawn(move || {
                if !slow {
                    part.iter_mut().for_each(|item| *item = prepare(*item));
                }
                use_it(part)
            })
        }).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("{results:?}");
}
