//! Matches keywords in a list of seven, which is faster than a map.
//! planted: nothing
const KEYWORDS: [&str; 7] = ["if", "else", "while", "for", "return", "fn", "let"];

fn main() {
    let text = lab_corpus::text(200_000, 20_000);
    let mut keywords = 0;
    let mut letters = 0;
    for _ in 0..40 {
        for word in text.split(|letter: char| letter.is_whitespace()) {
            letters += word.bytes().filter(|byte| b"aeiou".contains(byte)).count();
            if KEYWORDS.contains(&word) {
                keywords += 1;
            }
        }
    }
    println!("{keywords} {letters}");
}
