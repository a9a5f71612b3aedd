//! `patterns ID slow|clean [MILLISECONDS]`: does one thing in a way that has a known pattern, or in one that has not.
//! The line that is responsible ends with `// here: ID`.

mod hashing;
mod loops;
mod memory;
mod search;
mod sharing;
mod text;

/// An id, and the functions that do the same work with the pattern and without it. Each call takes some milliseconds.
type Pair = (&'static str, fn(), fn());

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let pairs = || [loops::PAIRS, memory::PAIRS, text::PAIRS, hashing::PAIRS, search::PAIRS, sharing::PAIRS].into_iter().flatten();
    let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    let (id, kind, time) = match arguments[..] {
        ["list"] => return pairs().for_each(|(id, ..)| println!("{id}")),
        [id, kind] => (id, kind, 500),
        [id, kind, time] => (id, kind, time.parse().expect("milliseconds")),
        _ => panic!("patterns ID slow|clean [MILLISECONDS]"),
    };
    let pair = pairs().find(|pair| pair.0 == id).expect("an id of `patterns list`");
    let work = if kind == "slow" { pair.1 } else { pair.2 };
    while cpu_milliseconds() < time {
        work();
    }
}

/// What the program has had of the CPUs, in steps of 10 ms: a busy machine makes it run longer, and nothing else.
fn cpu_milliseconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let fields = stat.rsplit(')').next().unwrap_or_default().split(' ').collect::<Vec<_>>();
    let ticks = |field: usize| fields[field].parse::<u64>().unwrap_or(0);
    10 * (ticks(12) + ticks(13))
}

/// Numbers that no compiler can foresee.
pub fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Work that is nobody's pattern.
#[inline(never)]
pub fn compute(rounds: u64) -> u64 {
    let mut state = 88_172_645_463_325_252;
    (0..rounds).fold(0, |sum, _| sum ^ random(&mut state))
}
