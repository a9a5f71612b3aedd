//! Work reached through iterators, closures, generic functions, a sort and trait objects.
//!
//! Run: `closures [MS=1000]`.
//!
//! THE KNOWN ANSWER: the hottest function is map_cost with about 60 %, called from the closure in a `map`. The program
//! counts the exact shares of the five functions while it runs, and prints them. map_cost is under `total::<Vec<…>, …>`,
//! compare_cost under the standard library's sort, area_cost under `<Square as Shape>::area` or `<Circle as Shape>::area`.

use std::cell::Cell;
use std::hint::black_box;

const STEPS_PER_MS: u64 = 600_000;
const ITEMS: u64 = 256;
const UNIT: u64 = 200;

macro_rules! costs {
    ($($name:ident $units:literal $a:literal $b:literal $c:literal),*) => {
        $(#[inline(never)]
        fn $name(mut x: u64) -> u64 {
            let mut left = $units * UNIT;
            COUNTS.$name.set(COUNTS.$name.get() + left);
            while left > 0 {
                x ^= x << $a;
                x ^= x >> $b;
                x ^= x << $c;
                left -= 1;
            }
            black_box(x | 1)
        })*
        struct Counts { $($name: Cell<u64>),* }
        impl Counts {
            fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get())),*]
            }
        }
        static COUNTS: OneThread = OneThread(Counts { $($name: Cell::new(0)),* });
    };
}

struct OneThread(Counts);
// SAFETY: the program has one thread.
unsafe impl Sync for OneThread {}
impl std::ops::Deref for OneThread {
    type Target = Counts;
    fn deref(&self) -> &Counts {
        &self.0
    }
}

costs!(
    map_cost 40 13 7 17,
    filter_cost 3 11 9 19,
    compare_cost 1 12 25 27,
    area_cost 4 14 13 15,
    fold_cost 2 21 11 9
);

trait Shape {
    fn area(&self) -> u64;
}
struct Square(u64);
struct Circle(u64);

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> u64 {
        area_cost(self.0) ^ black_box(4)
    }
}

impl Shape for Circle {
    #[inline(never)]
    fn area(&self) -> u64 {
        area_cost(self.0) ^ black_box(3)
    }
}

/// Generic over the collection and the closure. There is one instance per pair.
#[inline(never)]
fn total<C: IntoIterator<Item = u64>, F: Fn(u64) -> u64>(items: C, f: F) -> u64 {
    items.into_iter().filter(|&x| filter_cost(x) > 0).map(f).fold(0, |sum, x| sum ^ fold_cost(x))
}

#[inline(never)]
fn round(seed: u64) -> u64 {
    let items: Vec<u64> = (1..=ITEMS).map(|i| i.wrapping_mul(seed | 1) | 1).collect();
    let sum = total(items.clone(), |x| map_cost(x ^ seed | 1));

    let mut sorted = items;
    sorted.sort_by(|a, b| compare_cost(*a).cmp(&compare_cost(*b)));

    let shapes: Vec<Box<dyn Shape>> = sorted
        .iter()
        .map(|&x| if x % 4 == 1 { Box::new(Square(x)) as Box<dyn Shape> } else { Box::new(Circle(x)) })
        .collect();
    sum ^ black_box(shapes).iter().map(|shape| shape.area()).fold(0, |a, b| a ^ b)
}

fn main() {
    let ms = std::env::args().nth(1).map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let steps = || COUNTS.all().iter().map(|c| c.1).sum::<u64>();
    let mut x = black_box(1);
    while steps() < ms * STEPS_PER_MS {
        x = round(x) | 1;
    }
    let all = steps() as f64;
    let claims: Vec<String> =
        COUNTS.all().iter().map(|(name, count)| format!("{name}={:.5}", *count as f64 / all)).collect();
    println!("truth {}", claims.join(" "));
}
