//! A consumer that spins until the producer has something.
//! planted: spin-waiting
use std::sync::mpsc::{self, TryRecvError};

fn slow_value(item: u64) -> u64 {
    (0..80_000u64).fold(item, |state, at| (state ^ at).wrapping_mul(6_364_136_223_846_793_005))
}

fn main() {
    let slow = lab_corpus::is_slow();
    let (send, receive) = mpsc::channel();
    let producer = std::thread::spawn(move || (0..4_000).for_each(|item| send.send(slow_value(item)).unwrap()));
    let mut sum = 0u64;
    if slow {
        loop {
            match receive.try_recv() {
                Ok(value) => sum ^= value,
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
                Err(TryRecvError::Disconnected) => break,
            }
        }
    } else {
        receive.iter().for_each(|value| sum ^= value);
    }
    producer.join().unwrap();
    println!("{sum}");
}
