//! Makes a buffer per line in a loop.
//! planted: allocation-in-loop
//! record: heap
fn main() {
    let slow = lab_corpus::is_slow();
    let text = lab_corpus::text(400_000, 3_000);
    let mut kept = Vec::new();
    let mut vowels = 0;
    for _ in 0..4 {
        for line in text.lines() {
            if slow {
                let mut letters = Vec::with_capacity(line.len());
                letters.extend(line.bytes().filter(|byte| b"aeiou".contains(byte)));
                vowels += letters.len();
            } else {
                kept.clear();
                kept.extend(line.bytes().filter(|byte| b"aeiou".contains(byte)));
                vowels += kept.len();
            }
        }
    }
    println!("{vowels}");
}
