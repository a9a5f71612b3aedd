//! What the programs for causal profiling share: arguments that change the work of functions, progress points, and the
//! counters of coz.
//!
//! Arguments: `[--units N] [--seconds S] [--us N] [--scale FUNCTION=FACTOR]… [--counters no]`. A program ends after N units of
//! progress, or at the first unit after S seconds. FACTOR multiplies the work of a function: `--scale parse=0.75` makes
//! `parse` 25 % faster. With `--counters no` there is no progress point.
//!
//! At the end it prints `units N`, `ns_per_unit N` (wall time) and `units_per_second X`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Microseconds of CPU time take about this many steps each, at 3.6 GHz.
const STEPS_PER_US: f64 = 600.0;

/// Computes for a number of steps, all at the line where the macro stands. `tag` differs between functions: the compiler
/// would merge those with the same code.
#[collapse_debuginfo(yes)]
#[macro_export]
macro_rules! compute {
    ($steps:expr, $tag:literal) => {
        let mut x: u64 = $steps | 1;
        let mut left: u64 = $steps;
        while left > 0 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            left -= 1;
        }
        std::hint::black_box((x, $tag));
    };
}

/// When the program ends, and how much work each function has.
pub struct Plan {
    units: u64,
    time: Duration,
    scales: Vec<(String, f64)>,
    microseconds: Option<u64>,
    start: Instant,
}

impl Plan {
    /// Reads the arguments. `functions` are those whose work can be changed; `units` is how many units are done
    /// if the arguments do not say.
    pub fn from_arguments(functions: &[&str], units: u64) -> Self {
        Self::from(std::env::args().skip(1), functions, units)
    }

    /// The same, from the rest of the arguments.
    pub fn from(mut arguments: impl Iterator<Item = String>, functions: &[&str], units: u64) -> Self {
        let mut plan = Self {
            units,
            time: Duration::MAX,
            scales: Vec::new(),
            microseconds: None,
            start: Instant::now(),
        };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
            match argument.as_str() {
                "--units" => plan.units = value.parse().expect("a number of units"),
                "--us" => plan.microseconds = Some(value.parse().expect("microseconds")),
                "--seconds" => {
                    plan.units = u64::MAX;
                    plan.time = Duration::from_secs_f64(value.parse().expect("seconds"));
                }
                "--counters" => USES_COUNTERS.store(value != "no", Ordering::Relaxed),
                "--scale" => {
                    let (function, factor) = value.split_once('=').expect("FUNCTION=FACTOR");
                    assert!(functions.contains(&function), "{function} is none of {functions:?}");
                    plan.scales.push((function.to_owned(), factor.parse().expect("a factor")));
                }
                _ => panic!("there is no option {argument}"),
            }
        }
        plan
    }

    /// The work of a function: about `microseconds` of CPU time, times its factor.
    pub fn work(&self, function: &str, microseconds: u64) -> Work {
        self.scaled(Work((microseconds as f64 * STEPS_PER_US) as u64), function)
    }

    /// `work` times the factor of a function, for what is called by it.
    pub fn scaled(&self, work: Work, function: &str) -> Work {
        let factors = self.scales.iter().filter(|(name, _)| name == function).map(|(_, factor)| factor);
        Work((work.0 as f64 * factors.product::<f64>()) as u64)
    }

    /// The microseconds of the arguments, for programs whose work has a size.
    pub fn microseconds(&self, usual: u64) -> u64 {
        self.microseconds.unwrap_or(usual)
    }

    /// Whether there is more to do after `done` units.
    pub fn goes_on(&self, done: u64) -> bool {
        done < self.units && self.start.elapsed() < self.time
    }

    /// Prints the number of units and their rate.
    pub fn print(&self) {
        let elapsed = self.start.elapsed();
        let units = units().max(1);
        println!("units {units}");
        println!("ns_per_unit {}", elapsed.as_nanos() / u128::from(units));
        println!("units_per_second {:.2}", units as f64 / elapsed.as_secs_f64());
    }
}

/// How long a function computes.
#[derive(Clone, Copy)]
pub struct Work(u64);

impl Work {
    /// Steps in one round. They differ by up to a quarter between rounds, so that no sampling clock falls into step, and
    /// are the same in each run. The rounds of all functions differ in proportion.
    pub fn steps(self, round: u64) -> u64 {
        let mixed = (round.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.0 * (768 + mixed % 513) / 1024
    }
}

static USES_COUNTERS: AtomicBool = AtomicBool::new(true);
static UNITS: AtomicU64 = AtomicU64::new(0);

/// One unit of progress is done. Returns how many are done.
#[inline(never)]
pub fn progress_unit() -> u64 {
    static COUNTER: Counter = Counter::new(Kind::Progress, c"unit");
    COUNTER.count();
    UNITS.fetch_add(1, Ordering::Relaxed) + 1
}

/// How many units of progress are done.
pub fn units() -> u64 {
    UNITS.load(Ordering::Relaxed)
}

/// What a counter of coz counts.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "not every program has a latency point")]
pub enum Kind {
    Progress = 1,
    Begin = 2,
    End = 3,
}

/// The memory that a profiler with coz's protocol gives for a counter.
#[repr(C)]
struct Shared {
    count: AtomicUsize,
    unused: usize,
}

type GetCounter = unsafe extern "C" fn(c_int, *const c_char) -> *const Shared;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A counter that coz, or whoever provides `_coz_get_counter`, reads. Without it, nothing is counted.
pub struct Counter {
    kind: Kind,
    name: &'static CStr,
    shared: OnceLock<Option<&'static Shared>>,
}

impl Counter {
    pub const fn new(kind: Kind, name: &'static CStr) -> Self {
        Self { kind, name, shared: OnceLock::new() }
    }

    pub fn count(&self) {
        if let Some(shared) = self.shared.get_or_init(|| self.find()) {
            shared.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn find(&self) -> Option<&'static Shared> {
        if !USES_COUNTERS.load(Ordering::Relaxed) {
            return None;
        }
        const DEFAULT: *mut c_void = std::ptr::null_mut();
        // SAFETY: dlsym takes a zero-terminated name, and returns null or the address of the symbol.
        let function = unsafe { dlsym(DEFAULT, c"_coz_get_counter".as_ptr()) };
        // SAFETY: null is `None`, and by coz's protocol the symbol is a function of this type.
        let function: Option<GetCounter> = unsafe { std::mem::transmute(function) };
        // SAFETY: the function returns null, or a counter that stays for as long as the process lives.
        function.and_then(|get| unsafe { get(self.kind as c_int, self.name.as_ptr()).as_ref() })
    }
}
