//! Writes records of a few bytes to a file, each with a system call.
//! planted: unbuffered-writes
use std::fs::File;
use std::io::{BufWriter, Write};

fn write(mut out: impl Write) -> u64 {
    let mut random = lab_corpus::Random(6);
    let mut sum = 0;
    for _ in 0..500_000 {
        let value = random.next();
        sum ^= value;
        out.write_all(&value.to_le_bytes()).unwrap();
    }
    out.flush().unwrap();
    sum
}

fn main() {
    let slow = lab_corpus::is_slow();
    let path = lab_corpus::Scratch::new("records");
    let file = File::create(&path.0).unwrap();
    println!("{}", if slow { write(file) } else { write(BufWriter::new(file)) });
}
