//! Writes numbers as text, and makes a String for each one first.
//! planted: format-allocates
//! also: formatting
use std::fmt::Write as _;

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(1);
    let mut out = String::new();
    let mut bytes = 0;
    for _ in 0..30 {
        out.clear();
        for _ in 0..100_000 {
            let value = random.below(100_000);
            if slow {
                out.push_str(&value.to_string());
                out.push(';');
            } else {
                let _ = write!(out, "{value};");
            }
        }
        bytes += out.len();
    }
    println!("{bytes}");
}
