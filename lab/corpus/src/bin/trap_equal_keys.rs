//! Compares byte strings of equal length in a loop: the compiler calls bcmp through the address it loaded before.
//! planted: nothing
#[inline(never)]
fn changed(before: &[[u8; 24]], after: &[[u8; 24]]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before[..] != after[..]).count()
}

#[inline(never)]
fn same(words: &[&str], other: &[&str]) -> usize {
    words.iter().zip(other).filter(|(word, other)| word == other).count()
}

fn main() {
    let mut random = lab_corpus::Random(1);
    let before: Vec<[u8; 24]> = (0..2_000).map(|_| std::array::from_fn(|at| (random.next() >> at) as u8)).collect();
    let mut after = before.clone();
    after.iter_mut().step_by(3).for_each(|row| row[23] ^= 1);
    let text = lab_corpus::text(4_000, 1_000);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut count = 0;
    for _ in 0..20_000 {
        count += changed(std::hint::black_box(&before), std::hint::black_box(&after));
        count += same(std::hint::black_box(&words), std::hint::black_box(&words));
    }
    println!("{count}");
}
