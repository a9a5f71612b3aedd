//! `patterns ID slow|clean [MILLISECONDS]`: does some work in a way that has a known pattern, or in a way that has not.
//! The responsible line ends with `// here: ID`.

mod caches;
mod calls;
mod hashing;
mod heap;
mod loops;
mod memory;
mod search;
mod sharing;
mod text;
mod threads;
mod waits;

/// An id, and two functions that do the same work with the pattern and without it. Each call takes a few milliseconds.
type Pair = (&'static str, fn(), fn());

/// The same with what the recording needs: an option of `whyslow record`, or another command with its options.
type Recorded = (&'static str, &'static str, fn(), fn());

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let usual =
        [loops::PAIRS, memory::PAIRS, text::PAIRS, hashing::PAIRS, search::PAIRS, sharing::PAIRS];
    let usual = usual.into_iter().flatten().map(|&(id, slow, clean)| (id, "", slow, clean));
    let recorded = [heap::PAIRS, waits::PAIRS, threads::PAIRS, calls::PAIRS, caches::PAIRS].into_iter().flatten().copied();
    let mut pairs = usual.chain(recorded);
    let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    let (id, kind, time) = match arguments[..] {
        ["list"] => {
            return pairs.for_each(|(id, option, ..)| println!("{}", format!("{id} {option}").trim_end()));
        }
        [id, kind] => (id, kind, 500),
        [id, kind, time] => (id, kind, time.parse().expect("milliseconds")),
        _ => panic!("patterns ID slow|clean [MILLISECONDS]"),
    };
    let (_, option, slow, clean) = pairs.find(|pair| pair.0 == id).expect("an id of `patterns list`");
    let work = if kind == "slow" { slow } else { clean };
    let begin = std::time::Instant::now();
    // A waiting program uses little CPU time.
    let is_over = || {
        if option == "--off-cpu" {
            begin.elapsed().as_millis() as u64 >= time
        } else {
            cpu_milliseconds() >= time
        }
    };
    while !is_over() {
        work();
    }
}

/// The program's CPU time so far, in steps of 10 ms. On a busy machine it only runs longer.
fn cpu_milliseconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let fields = stat.rsplit(')').next().unwrap_or_default().split(' ').collect::<Vec<_>>();
    let ticks = |field: usize| fields[field].parse::<u64>().unwrap_or(0);
    10 * (ticks(12) + ticks(13))
}

/// Numbers that no compiler can predict.
pub fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Work without any pattern.
#[inline(never)]
pub fn compute(rounds: u64) -> u64 {
    let mut state = 88_172_645_463_325_252;
    (0..rounds).fold(0, |sum, _| sum ^ random(&mut state))
}
