//! Orders come and go all the time, and the book is kept by price.
//! planted: nothing
use std::collections::BTreeMap;

fn main() {
    let mut random = lab_corpus::Random(31);
    let mut book: BTreeMap<u64, u64> = BTreeMap::new();
    let mut traded = 0;
    for _ in 0..3_000_000 {
        let price = random.below(100_000);
        match random.below(4) {
            0 | 1 => *book.entry(price).or_insert(0) += 1,
            2 => traded += book.get(&price).copied().unwrap_or(0),
            _ => traded += book.remove(&price).unwrap_or(0),
        }
    }
    println!("{traded} {}", book.len());
}
