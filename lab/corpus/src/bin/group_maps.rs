//! Groups records in hash maps that grow from nothing each time.
//! planted: map-growth
//! also: sip-hash, small-key-map, page-faults, allocator-heavy
use std::collections::HashMap;

fn groups(mut map: HashMap<u64, u32>, records: &[u64]) -> HashMap<u64, u32> {
    for record in records {
        *map.entry(*record).or_insert(0) += 1;
    }
    map
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(77);
    let records: Vec<u64> = (0..60_000).map(|_| random.next()).collect();
    let mut most = 0;
    for _ in 0..60 {
        let map = if slow { HashMap::new() } else { HashMap::with_capacity(records.len()) };
        most += groups(map, &records).values().max().copied().unwrap_or(0);
    }
    println!("{most}");
}
