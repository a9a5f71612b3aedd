//! Measures the lines of a file, with a new String for each line.
//! planted: lines-allocate
//! also: utf8-validation
use std::fs::File;
use std::io::{BufRead, BufReader};

fn main() {
    let slow = lab_corpus::is_slow();
    let path = lab_corpus::Scratch::new("lines");
    std::fs::write(&path.0, lab_corpus::text(300_000, 100)).unwrap();
    let mut longest = 0;
    for _ in 0..60 {
        let mut input = BufReader::new(File::open(&path.0).unwrap());
        if slow {
            for line in input.lines() {
                longest = longest.max(line.unwrap().len());
            }
        } else {
            let mut line = String::new();
            while input.read_line(&mut line).unwrap() > 0 {
                longest = longest.max(line.trim_end_matches('\n').len());
                line.clear();
            }
        }
    }
    println!("{longest}");
}
