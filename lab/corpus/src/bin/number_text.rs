//! Writes numbers as text with a format string, not digit by digit.
//! planted: formatting
use std::fmt::Write as _;

fn push_digits(out: &mut String, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    digits[at..].iter().for_each(|digit| out.push(*digit as char));
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(1);
    let mut out = String::new();
    let mut bytes = 0;
    for _ in 0..60 {
        out.clear();
        for _ in 0..100_000 {
            let value = random.below(100_000);
            if slow {
                let _ = write!(out, "{value};");
            } else {
                push_digits(&mut out, value);
                out.push(';');
            }
        }
        bytes += out.len();
    }
    println!("{bytes}");
}
