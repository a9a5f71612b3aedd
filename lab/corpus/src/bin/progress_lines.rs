//! Prints a line per record with println!.
//! planted: print-per-line
//! also: formatting
use std::io::{BufWriter, Write};

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(2);
    let mut out = BufWriter::new(std::io::stdout().lock());
    if slow {
        drop(out);
        for row in 0..250_000 {
            println!("{row} {}", random.below(1_000));
        }
    } else {
        for row in 0..250_000 {
            writeln!(out, "{row} {}", random.below(1_000)).unwrap();
        }
    }
}
