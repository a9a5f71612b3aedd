//! Builds a default name for each look-up, although nearly all names are known.
//! planted: eager-fallback, format-allocates
//! also: sip-hash, small-key-map
use std::collections::HashMap;

fn main() {
    let slow = lab_corpus::is_slow();
    let names: HashMap<u64, String> = (0..1_000).map(|id| (id, format!("user-{id}"))).collect();
    let mut random = lab_corpus::Random(21);
    let mut bytes = 0;
    for _ in 0..3_000_000 {
        let id = random.below(1_001);
        if slow {
            bytes += names.get(&id).map(String::as_str).unwrap_or(&format!("unknown-{id}")).len();
        } else {
            bytes += names.get(&id).map_or_else(|| format!("unknown-{id}").len(), String::len);
        }
    }
    println!("{bytes}");
}
