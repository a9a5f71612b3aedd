//! A checksum whose every step needs the one before: FNV-1a over a file's bytes.
//! planted: nothing
#[inline(never)]
fn fnv(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

/// The 31 of Java's `hashCode`: a polynomial that is no sum of its parts.
#[inline(never)]
fn polynomial(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

fn main() {
    let text = lab_corpus::text(200_000, 100_000);
    let mut sum = 0;
    for _ in 0..120 {
        let text = std::hint::black_box(text.as_bytes());
        sum ^= fnv(text) ^ polynomial(text);
    }
    println!("{sum}");
}
