//! A small program that profiles its own heap:
//!
//! ```text
//! cargo run -p whyslow-alloc --example profiled -- heap.whyslow
//! whyslow report heap.whyslow
//! ```

use std::collections::HashMap;

#[global_allocator]
static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_lowercase).collect()
}

fn count(words: &[String]) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for word in words {
        *counts.entry(word.clone()).or_insert(0) += 1;
    }
    counts
}

fn main() {
    let file = std::env::args().nth(1).unwrap_or_else(|| "dhat-heap.json".to_owned());
    let _profiler = whyslow_alloc::Profiler::builder().file_name(file).build();
    let text = "the quick brown fox jumps over the lazy dog ".repeat(1000);
    let counts = count(&words(&text));
    println!("{} different words", counts.len());
}
