//! Parses a CSV file, and reads it one byte at a time.
//! planted: unbuffered-reads
use std::fs::File;
use std::io::{BufReader, Read};

struct Table {
    rows: u64,
    sum: i64,
}

fn parse(mut input: impl Read) -> Table {
    let mut table = Table { rows: 0, sum: 0 };
    let (mut byte, mut field) = ([0; 1], 0);
    while input.read(&mut byte).unwrap() == 1 {
        match byte[0] {
            b',' => {
                table.sum += field;
                field = 0;
            }
            b'\n' => {
                table.sum += field;
                field = 0;
                table.rows += 1;
            }
            digit => field = field * 10 + i64::from(digit - b'0'),
        }
    }
    table
}

fn main() {
    let slow = lab_corpus::is_slow();
    let file = lab_corpus::Scratch::new("csv");
    let mut random = lab_corpus::Random(7);
    let rows: String = (0..90_000).map(|row| format!("{row},{},{}\n", random.below(1000), random.below(50))).collect();
    std::fs::write(&file.0, rows).unwrap();
    let input = File::open(&file.0).unwrap();
    let table = if slow { parse(input) } else { parse(BufReader::new(input)) };
    println!("{} rows, sum {}", table.rows, table.sum);
}
