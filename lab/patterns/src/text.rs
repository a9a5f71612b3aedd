//! Patterns of text: building, reading, searching.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};

use crate::{Pair, compute};

pub const PAIRS: &[Pair] = &[
    ("formatting", formats, writes_bytes),
    ("format-allocates", a_string_for_each, one_string),
    ("utf8-validation", validates, bytes_alone),
    ("regex-in-loop", compiles_each_time, compiles_once),
    ("json-values", any_json, no_json),
    ("logging", logs, does_not_log),
    ("lines-allocate", a_string_per_line, one_line_buffer),
    ("unbuffered-writes", writes_each, writes_many),
    ("unbuffered-reads", reads_each, reads_many),
    ("print-per-line", prints_each, prints_through_a_buffer),
    ("panics-as-errors", panics, returns_errors),
    ("eager-fallback", makes_the_error_always, makes_the_error_when_needed),
    ("software-crypto", digests, digests_rarely),
];

#[inline(never)]
fn formats() {
    let mut text = String::new();
    for number in 0..20_000u64 {
        text.clear();
        write!(text, "{:>12.3} {}", number as f64 / 7.0, black_box(number)).unwrap(); // here: formatting
        black_box(&text);
    }
}

#[inline(never)]
fn writes_bytes() {
    let mut text = Vec::new();
    for number in 0..400_000u64 {
        text.clear();
        text.extend_from_slice(&black_box(number).to_le_bytes());
        black_box(&text);
    }
}

#[inline(never)]
fn a_string_for_each() {
    let mut length = 0;
    for number in 0..20_000u64 {
        let text = format!("key-{}", black_box(number)); // here: format-allocates
        length += text.len();
    }
    black_box(length);
}

#[inline(never)]
fn one_string() {
    let mut text = String::new();
    let mut length = 0;
    for number in 0..4_000u64 {
        text.clear();
        text.push_str("key-");
        length += text.len();
        black_box(compute(number / 10));
    }
    black_box(length);
}

#[inline(never)]
fn validates() {
    let bytes = "naïve café, ".repeat(20_000).into_bytes();
    for _ in 0..10 {
        black_box(std::str::from_utf8(black_box(&bytes)).unwrap().len()); // here: utf8-validation
    }
}

#[inline(never)]
fn bytes_alone() {
    let bytes = "naïve café, ".repeat(20_000).into_bytes();
    for _ in 0..10 {
        black_box(black_box(&bytes).iter().filter(|byte| **byte == b',').count());
    }
}

#[inline(never)]
fn compiles_each_time() {
    for number in 0..40 {
        let word = regex::Regex::new(r"(\w+)@(\w+)\.com").unwrap(); // here: regex-in-loop
        black_box(word.is_match(&number.to_string()));
    }
}

#[inline(never)]
fn compiles_once() {
    static WORD: std::sync::LazyLock<regex::Regex> = std::sync::LazyLock::new(|| regex::Regex::new(r"(\w+)@(\w+)\.com").unwrap());
    for _ in 0..20_000 {
        black_box(WORD.is_match(black_box("nobody at nowhere")));
    }
}

const JSON: &str = r#"{"id": 7, "name": "somebody", "tags": ["a", "b", "c"], "place": {"x": 1.5, "y": 2.5}}"#;

#[inline(never)]
fn any_json() {
    let mut sum = 0;
    for _ in 0..5_000 {
        let value: serde_json::Value = serde_json::from_str(black_box(JSON)).unwrap(); // here: json-values
        sum += value["id"].as_u64().unwrap();
    }
    black_box(sum);
}

#[inline(never)]
fn no_json() {
    let mut sum = 0;
    for _ in 0..100_000 {
        sum += black_box(JSON).len();
    }
    black_box(sum);
    black_box(compute(1_000_000));
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        black_box(record.args().to_string());
    }

    fn flush(&self) {}
}

#[inline(never)]
fn logs() {
    static LOGGER: Logger = Logger;
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(log::LevelFilter::Debug);
    for number in 0..20_000 {
        log::debug!("item {} of {}", black_box(number), 20_000); // here: logging
    }
}

#[inline(never)]
fn does_not_log() {
    for number in 0..1_000 {
        log::debug!("item {} of {}", black_box(number), 20_000);
    }
    black_box(compute(1_000_000));
}

#[inline(never)]
fn a_string_per_line() {
    let text = "a line of some words\n".repeat(20_000);
    let mut length = 0;
    for line in BufReader::new(text.as_bytes()).lines() { // here: lines-allocate
        length += line.unwrap().len();
    }
    black_box(length);
}

#[inline(never)]
fn one_line_buffer() {
    let text = "a line of some words\n".repeat(20_000);
    let mut length = 0;
    for line in black_box(&text).lines() {
        length += line.len();
    }
    black_box(length);
}

#[inline(never)]
fn writes_each() {
    let mut file = std::fs::File::options().write(true).open("/dev/null").unwrap();
    for number in 0..20_000u32 {
        file.write_all(&black_box(number).to_le_bytes()).unwrap(); // here: unbuffered-writes
    }
}

#[inline(never)]
fn writes_many() {
    let mut file = BufWriter::new(std::fs::File::options().write(true).open("/dev/null").unwrap());
    for number in 0..400_000u32 {
        file.write_all(&black_box(number).to_le_bytes()).unwrap();
    }
}

#[inline(never)]
fn reads_each() {
    use std::io::Read as _;
    let mut file = std::fs::File::open("/dev/zero").unwrap();
    let mut bytes = [0; 8];
    for _ in 0..20_000 {
        file.read_exact(&mut bytes).unwrap(); // here: unbuffered-reads
        black_box(&bytes);
    }
}

#[inline(never)]
fn reads_many() {
    use std::io::Read as _;
    let mut file = BufReader::new(std::fs::File::open("/dev/zero").unwrap());
    let mut bytes = [0; 8];
    for _ in 0..400_000 {
        file.read_exact(&mut bytes).unwrap();
        black_box(&bytes);
    }
}

#[inline(never)]
fn prints_each() {
    for number in 0..5_000 {
        println!("{number}"); // here: print-per-line
    }
}

#[inline(never)]
fn prints_through_a_buffer() {
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    for _ in 0..100 {
        out.write_all(b"some words\n").unwrap();
    }
    black_box(compute(1_000_000));
}

#[inline(never)]
fn may_panic(number: u64) -> u64 {
    if number % 2 == 0 {
        std::panic::resume_unwind(Box::new(number)); // here: panics-as-errors
    }
    number
}

#[inline(never)]
fn panics() {
    let mut sum = 0;
    for number in 0..2_000u64 {
        sum += std::panic::catch_unwind(|| may_panic(black_box(number))).unwrap_or(0);
    }
    black_box(sum);
}

#[inline(never)]
fn may_fail(number: u64) -> Result<u64, u64> {
    if black_box(number) % 2 == 0 { Err(number) } else { Ok(number) }
}

#[inline(never)]
fn returns_errors() {
    let sum = (0..2_000_000u64).map(|number| may_fail(number).unwrap_or(0)).sum::<u64>();
    black_box(sum);
}

#[inline(never)]
fn makes_the_error_always() {
    let known = [Some(1u64), Some(2), Some(3)];
    let mut sum = 0;
    for number in 0..20_000usize {
        sum += black_box(known)[number % 3].ok_or(format!("no number {number}")).unwrap(); // here: eager-fallback
    }
    black_box(sum);
}

#[inline(never)]
fn makes_the_error_when_needed() {
    let known = [Some(1u64), Some(2), Some(3)];
    let mut sum = 0;
    for number in 0..1_000_000usize {
        sum += black_box(known)[number % 3].ok_or_else(|| format!("no number {number}")).unwrap();
    }
    black_box(sum);
}

#[inline(never)]
fn digests() {
    use sha2::Digest as _;
    let bytes = vec![7u8; 1 << 20];
    black_box(sha2::Sha256::digest(black_box(&bytes))); // here: software-crypto
}

#[inline(never)]
fn digests_rarely() {
    use sha2::Digest as _;
    black_box(sha2::Sha256::digest(black_box(b"some words")));
    black_box(compute(3_000_000));
}
