//! Counts words, and copies each one to look it up.
//! planted: clone-heavy
//! also: sip-hash
use std::collections::HashMap;

struct Counter {
    counts: HashMap<String, u32>,
}

impl Counter {
    fn add_copied(&mut self, word: &String) {
        *self.counts.entry(word.clone()).or_insert(0) += 1;
    }

    fn add(&mut self, word: &str) {
        match self.counts.get_mut(word) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(word.to_owned(), 1)),
        }
    }
}

fn main() {
    let slow = lab_corpus::is_slow();
    let text = lab_corpus::text(200_000, 5_000);
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let mut counter = Counter { counts: HashMap::new() };
    for _ in 0..25 {
        for word in &words {
            if slow { counter.add_copied(word) } else { counter.add(word) }
        }
    }
    let most = counter.counts.iter().max_by_key(|(word, count)| (**count, (*word).clone())).unwrap();
    println!("{} words, most often {} ({})", counter.counts.len(), most.0, most.1);
}
