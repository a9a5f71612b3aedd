//! Filters measurements in steps, and collects each step into a Vec that is used once.
//! planted: collect-then-iterate
//! also: vec-growth, page-faults
#[inline(never)]
fn stepwise(values: &[u64]) -> u64 {
    let even: Vec<u64> = values.iter().copied().filter(|value| value % 2 == 0).collect();
    let scaled: Vec<u64> = even.iter().map(|value| value.wrapping_mul(31) ^ (value >> 3)).collect();
    let mut sum = 0u64;
    for value in &scaled {
        sum = sum.wrapping_add(*value);
    }
    sum
}

#[inline(never)]
fn at_once(values: &[u64]) -> u64 {
    let even = values.iter().copied().filter(|value| value % 2 == 0);
    even.map(|value| value.wrapping_mul(31) ^ (value >> 3)).fold(0, u64::wrapping_add)
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(8);
    let values: Vec<u64> = (0..400_000).map(|_| random.next()).collect();
    let mut sum = 0u64;
    for _ in 0..120 {
        sum = sum.wrapping_add(if slow { stepwise(&values) } else { at_once(&values) });
    }
    println!("{sum}");
}
