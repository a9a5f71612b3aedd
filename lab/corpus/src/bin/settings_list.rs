//! Resolves settings by name, in a list instead of a map.
//! planted: linear-search
//! also: sip-hash, formatting
use std::collections::HashMap;

struct Setting {
    name: String,
    value: u64,
}

fn main() {
    let slow = lab_corpus::is_slow();
    let settings: Vec<Setting> = (0..600)
        .map(|at| Setting { name: format!("server.pool.{at}.size"), value: at * 3 })
        .collect();
    let by_name: HashMap<&str, u64> = settings.iter().map(|row| (row.name.as_str(), row.value)).collect();
    let mut random = lab_corpus::Random(99);
    let wanted: Vec<String> = (0..200_000).map(|_| format!("server.pool.{}.size", random.below(600))).collect();
    let mut sum = 0;
    for name in &wanted {
        let value = if slow {
            settings.iter().find(|row| row.name == *name).map(|row| row.value)
        } else {
            by_name.get(name.as_str()).copied()
        };
        sum += value.unwrap_or(0);
    }
    println!("{sum}");
}
