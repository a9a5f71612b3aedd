//! Numbers the lines of a text: writing numbers is its whole purpose, and its output is buffered.
//! planted: nothing
use std::io::{BufWriter, Write};

fn main() {
    let text = lab_corpus::text(2_000_000, 500);
    let mut out = BufWriter::new(std::io::stdout().lock());
    for _ in 0..8 {
        for (number, line) in text.lines().enumerate() {
            writeln!(out, "{:>6}\t{line}", number + 1).unwrap();
        }
    }
}
