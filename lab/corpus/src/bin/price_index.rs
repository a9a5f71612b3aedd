//! Looks prices up in a BTreeMap that never changes and whose order nobody needs.
//! planted: btree-search
//! also: sip-hash, small-key-map
use std::collections::{BTreeMap, HashMap};

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(17);
    let articles: Vec<(u64, u64)> = (0..200_000).map(|_| (random.next(), random.below(100))).collect();
    let tree: BTreeMap<u64, u64> = if slow { articles.iter().copied().collect() } else { BTreeMap::new() };
    let table: HashMap<u64, u64> = if slow { HashMap::new() } else { articles.iter().copied().collect() };
    let mut sum = 0;
    for _ in 0..2_000_000 {
        let (article, _) = articles[random.below(200_000) as usize];
        sum += if slow { tree.get(&article) } else { table.get(&article) }.copied().unwrap_or(0);
    }
    println!("{sum}");
}
