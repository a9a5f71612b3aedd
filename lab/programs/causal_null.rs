//! Work that somebody waits for, and beside it a busy thread that nobody waits for.
//!
//! Run: `causal_null sort|hash|format|tree|matrix [--units N=1000] [--seconds S] [--scale FUNCTION=FACTOR]…`; function: work.
//!
//! THE KNOWN ANSWER: a unit is a millisecond of `work` in the main thread. All code of the module `beside` runs in another thread
//! until the program ends: making any line of it faster saves nothing.

#[path = "causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::sync::atomic::{AtomicBool, Ordering};

use shared::{Plan, progress_unit};

#[inline(never)]
fn work(steps: u64) {
    compute!(steps, 1);
}

/// What nobody waits for: ordinary code on several lines.
mod beside {
    use std::collections::{BTreeMap, HashMap};
    use std::fmt::Write as _;
    use std::hint::black_box;

    pub type Round = fn(u64);

    /// A number that follows from another.
    fn next(seed: u64) -> u64 {
        let mut x = seed | 1;
        x ^= x << 13;
        x ^= x >> 7;
        x ^ (x << 17)
    }

    fn numbers(seed: u64, count: usize) -> Vec<u64> {
        std::iter::successors(Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)), |last| Some(next(*last)))
            .take(count)
            .collect()
    }

    #[inline(never)]
    pub fn sort(round: u64) {
        let mut all = numbers(round, 3000);
        all.sort_unstable();
        let middle = all[all.len() / 2];
        let (mut low, mut high): (Vec<u64>, Vec<u64>) = all.iter().partition(|number| **number < middle);
        low.reverse();
        high.sort_by_key(|number| number.wrapping_mul(31));
        let found = (0..500).filter(|at| low.binary_search(&(at << 48)).is_ok()).count();
        black_box((found, high));
    }

    #[inline(never)]
    pub fn hash(round: u64) {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for number in numbers(round, 2000) {
            *counts.entry(number % 997).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|(number, count)| (**count, **number));
        let total: u64 =
            (0..2000).filter_map(|number| counts.get(&number)).map(|count| u64::from(*count)).sum();
        let small: HashMap<u64, u32> =
            counts.iter().filter(|(_, count)| **count < 3).map(|(a, b)| (*a, *b)).collect();
        black_box((most, total, small));
    }

    #[inline(never)]
    pub fn format(round: u64) {
        let mut text = String::new();
        for number in numbers(round, 400) {
            let _ = write!(text, "{number} ");
            let _ = write!(text, "{:.3};", number as f64 / 1e6);
        }
        let words = text.split_whitespace().filter(|word| word.ends_with('7')).count();
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        let sum: u64 = text.split(' ').filter_map(|word| word.parse::<u64>().ok()).fold(0, u64::wrapping_add);
        let upper = text.to_uppercase();
        black_box((words, digits, sum, upper));
    }

    #[inline(never)]
    pub fn tree(round: u64) {
        let mut tree = BTreeMap::new();
        for number in numbers(round, 1200) {
            tree.insert(number >> 40, number);
        }
        let between: u64 = tree.range(1 << 20..1 << 23).map(|(_, number)| number).fold(0, |a, b| a ^ b);
        let found = (0..1000_u64).filter(|at| tree.contains_key(&(at << 14))).count();
        while tree.len() > 600 {
            tree.pop_first();
        }
        black_box((between, found, tree));
    }

    #[inline(never)]
    pub fn matrix(round: u64) {
        const SIDE: usize = 64;
        let a: Vec<f64> = numbers(round, SIDE * SIDE).iter().map(|number| *number as f64).collect();
        let mut b = vec![0.0; SIDE * SIDE];
        for row in 0..SIDE {
            for column in 0..SIDE {
                b[column * SIDE + row] = a[row * SIDE + column].sqrt();
            }
        }
        let mut product = vec![0.0; SIDE * SIDE];
        for row in 0..SIDE {
            for column in 0..SIDE {
                let pairs = a[row * SIDE..][..SIDE].iter().zip(&b[column * SIDE..][..SIDE]);
                product[row * SIDE + column] = pairs.map(|(x, y)| x * y).sum();
            }
        }
        let largest = product.iter().copied().fold(0.0, f64::max);
        black_box((largest, product));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let round: beside::Round = match arguments.next().as_deref() {
        Some("sort") => beside::sort,
        Some("hash") => beside::hash,
        Some("format") => beside::format,
        Some("tree") => beside::tree,
        Some("matrix") => beside::matrix,
        other => panic!("sort, hash, format, tree or matrix, not {other:?}"),
    };
    let plan = Plan::from(arguments, &["work"], 1000);
    let steps = plan.work("work", 1000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(round));
        for round in 0.. {
            work(steps.steps(round));
            if !plan.goes_on(progress_unit()) {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    plan.print();
}
