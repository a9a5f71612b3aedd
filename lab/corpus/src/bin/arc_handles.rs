//! Clones an Arc for each item that needs it for a moment.
//! planted: arc-traffic
//! also: small-callee
use std::sync::Arc;

struct Rates {
    by_region: [u64; 16],
}

#[inline(never)]
fn cost(rates: Arc<Rates>, item: u64) -> u64 {
    rates.by_region[(item % 16) as usize] * (item & 7)
}

#[inline(never)]
fn cost_of(rates: &Rates, item: u64) -> u64 {
    rates.by_region[(item % 16) as usize] * (item & 7)
}

fn main() {
    let slow = lab_corpus::is_slow();
    let rates = Arc::new(Rates { by_region: std::array::from_fn(|at| at as u64 * 3) });
    let mut sum = 0u64;
    let mut random = lab_corpus::Random(12);
    for _ in 0..60_000_000 {
        let item = random.next();
        sum = sum.wrapping_add(if slow { cost(Arc::clone(&rates), item) } else { cost_of(&rates, item) });
    }
    println!("{sum}");
}
