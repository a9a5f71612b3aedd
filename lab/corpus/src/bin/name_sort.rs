//! Sorts names without regard to case, and lowers both names for each comparison.
//! planted: sort-by-costly-key
//! also: allocator-heavy, drop-heavy
fn main() {
    let slow = lab_corpus::is_slow();
    let text = lab_corpus::text(100_000, 1_000_000);
    let mut names: Vec<String> = text.split_whitespace().map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    if slow {
        names.sort_by_key(|name| name.to_lowercase());
    } else {
        names.sort_by_cached_key(|name| name.to_lowercase());
    }
    println!("{} {} {}", names[0], names[names.len() / 2], names[names.len() - 1]);
}
