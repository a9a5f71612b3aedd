//! Spreads keys over slots by a division of 64 bits, where a power of two and a mask would do.
//! planted: division
fn main() {
    let slow = lab_corpus::is_slow();
    let slots = std::hint::black_box(1024u64);
    let mut counts = vec![0u32; slots as usize];
    let mut random = lab_corpus::Random(13);
    let keys: Vec<u64> = (0..1_000_000).map(|_| random.next()).collect();
    for _ in 0..40 {
        for key in &keys {
            let slot = if slow { key % slots } else { key & (slots - 1) };
            counts[slot as usize] += 1;
        }
    }
    println!("{:?}", counts.iter().max());
}
