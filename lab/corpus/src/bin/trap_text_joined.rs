//! Joins words into one String with push_str, as one should.
//! planted: nothing
fn main() {
    let text = lab_corpus::text(300_000, 50_000);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut joined = String::with_capacity(text.len() + words.len());
    let mut bytes = 0;
    for _ in 0..150 {
        joined.clear();
        for word in &words {
            joined.push_str(word);
            joined.push_str(", ");
        }
        bytes += joined.len();
    }
    println!("{bytes}");
}
