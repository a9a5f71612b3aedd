//! Deep stacks whose outer frames change all the time, each of which can be proved right or wrong.
//!
//! Run: `churn [PERIOD_MS=12] [MS=1000] [same|mix]`, or `churn paths [same|mix]` to print the
//! truth and exit. A round picks one of 64 paths, descends it, spins PERIOD_MS (may be a
//! fraction) in the path's own leaf, and returns all the way. `same`: four functions with frames
//! of about 640 bytes. `mix`: four different frame sizes, two of them with rbp-based frames.
//!
//! THE KNOWN ANSWER: a stack that ends in leaf_NN must be exactly the path that `churn paths`
//! prints for leaf_NN, then `round`. A stack with any other frame there was completed wrongly.

use std::hint::black_box;

const STEPS_PER_MS: f64 = 600_000.0;

type Step = fn(&Path, usize) -> u64;

/// The calls of one round, outermost first. The last one is the leaf.
struct Path {
    steps: Vec<Step>,
    names: Vec<&'static str>,
    spin: u64,
}

macro_rules! frames {
    ($table:ident: $($name:ident $words:literal $room:ident $own:literal),*) => {
        $(#[inline(never)]
        fn $name(path: &Path, at: usize) -> u64 {
            let mut room = $room([at as u64 ^ $own; $words]);
            black_box(&mut room);
            let x = (path.steps[at])(path, at + 1);
            x.rotate_left($own) ^ black_box(&room).0[$words - 1]
        })*
        const $table: [(&str, Step); 4] = [$((stringify!($name), $name as Step)),*];
    };
}

struct Plain<const N: usize>([u64; N]);
/// More alignment than the stack has, so such frames need rbp.
#[repr(align(64))]
struct Aligned<const N: usize>([u64; N]);

frames!(SAME: north 76 Plain 5, east 76 Plain 6, south 76 Plain 7, west 76 Plain 8);
frames!(MIX: tiny 6 Plain 5, small 40 Aligned 6, middling 80 Plain 7, large 120 Aligned 8);

macro_rules! leaves {
    ($($name:ident $number:literal),*) => {
        $(#[inline(never)]
        fn $name(path: &Path, _: usize) -> u64 {
            let (mut x, mut left) = (0x1000_u64 + $number, path.spin);
            while left > 0 {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                left -= 1;
            }
            black_box(x)
        })*
        const LEAVES: [(&str, Step); 64] = [$((stringify!($name), $name as Step)),*];
    };
}

#[rustfmt::skip]
leaves!(
    leaf_00 0, leaf_01 1, leaf_02 2, leaf_03 3, leaf_04 4, leaf_05 5, leaf_06 6, leaf_07 7,
    leaf_08 8, leaf_09 9, leaf_10 10, leaf_11 11, leaf_12 12, leaf_13 13, leaf_14 14, leaf_15 15,
    leaf_16 16, leaf_17 17, leaf_18 18, leaf_19 19, leaf_20 20, leaf_21 21, leaf_22 22, leaf_23 23,
    leaf_24 24, leaf_25 25, leaf_26 26, leaf_27 27, leaf_28 28, leaf_29 29, leaf_30 30, leaf_31 31,
    leaf_32 32, leaf_33 33, leaf_34 34, leaf_35 35, leaf_36 36, leaf_37 37, leaf_38 38, leaf_39 39,
    leaf_40 40, leaf_41 41, leaf_42 42, leaf_43 43, leaf_44 44, leaf_45 45, leaf_46 46, leaf_47 47,
    leaf_48 48, leaf_49 49, leaf_50 50, leaf_51 51, leaf_52 52, leaf_53 53, leaf_54 54, leaf_55 55,
    leaf_56 56, leaf_57 57, leaf_58 58, leaf_59 59, leaf_60 60, leaf_61 61, leaf_62 62, leaf_63 63
);

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 20) % limit) as usize
    }
}

/// The path depends only on its seed: 75 to 80 frames, then the seed's own leaf.
fn path(seed: usize, frames: &[(&'static str, Step); 4], spin: u64) -> Path {
    let mut random = Random((seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let length = 75 + seed % 6;
    let mut chosen: Vec<_> = (0..length).map(|_| frames[random.below(4)]).collect();
    chosen.push(LEAVES[seed]);
    Path { steps: chosen.iter().map(|c| c.1).collect(), names: chosen.iter().map(|c| c.0).collect(), spin }
}

#[inline(never)]
fn round(path: &Path) -> u64 {
    (path.steps[0])(path, 1) ^ black_box(1)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let frames = if arguments.iter().any(|a| a == "mix") { &MIX } else { &SAME };
    let number = |i: usize, default: f64| {
        arguments.get(i).map_or(default, |a| a.parse::<f64>().expect("a number of milliseconds"))
    };

    if arguments.first().is_some_and(|a| a == "paths") {
        for seed in 0..LEAVES.len() {
            println!("path {}", path(seed, frames, 0).names.join(" "));
        }
        return;
    }

    let (period, total) = (number(0, 12.0), number(1, 1000.0));
    let spin = (period * STEPS_PER_MS) as u64;
    let paths: Vec<Path> = (0..LEAVES.len()).map(|seed| path(seed, frames, spin)).collect();
    let rounds = (total / period).ceil() as u64;
    let (mut random, mut seed) = (Random(88_172_645_463_325_252), 0);
    for _ in 0..rounds {
        seed = (seed + 1 + random.below(63)) % 64;
        black_box(round(&paths[seed]));
    }
    println!("rounds {rounds}");
}
