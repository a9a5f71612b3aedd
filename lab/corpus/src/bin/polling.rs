//! Waits for results by looking every few milliseconds.
//! planted: mostly-waiting
//! record: --off-cpu
use std::sync::mpsc;
use std::time::Duration;

fn main() {
    let slow = lab_corpus::is_slow();
    let (ask, asked) = mpsc::channel::<u64>();
    let (answer, answers) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        for question in asked {
            answer.send(question * 2).unwrap();
        }
    });
    let mut sum = 0;
    for question in 0..60 {
        ask.send(question).unwrap();
        sum += if slow {
            loop {
                std::thread::sleep(Duration::from_millis(10));
                if let Ok(value) = answers.try_recv() {
                    break value;
                }
            }
        } else {
            answers.recv().unwrap()
        };
    }
    drop(ask);
    worker.join().unwrap();
    println!("{sum}");
}
