//! Writes spans to a marker file, as programs do for samply: a mapped file of lines `START END NAME`.
//!
//! Run: `markers [MS=1000] [exec|read]`; MS is fixed work, about one millisecond of CPU time each. `marker-PID.txt` in the
//! working folder is mapped executable or, with `read`, only readable. It is kept, for readers that run after the program.
//!
//! THE KNOWN ANSWER: 50 spans called `load a file` with 40 % of the CPU time, on the main thread.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::fd::AsRawFd;

const STEPS_PER_MS: u64 = 600_000;
const ROUNDS: u64 = 50;
const PROT_READ: i32 = 1;
const PROT_EXEC: i32 = 4;
const MAP_PRIVATE: i32 = 2;
const CLOCK_MONOTONIC: i32 = 1;

unsafe extern "C" {
    fn mmap(at: *mut u8, size: usize, prot: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

fn now() -> i64 {
    let mut time = [0; 2];
    // SAFETY: `time` is this function's own.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time[0] * 1_000_000_000 + time[1]
}

#[inline(never)]
fn spin(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let ms = arguments.next().map_or(1000, |text| text.parse::<u64>().expect("a number"));
    let protection = match arguments.next().as_deref() {
        None | Some("exec") => PROT_READ | PROT_EXEC,
        Some("read") => PROT_READ,
        Some(other) => panic!("exec or read, not {other}"),
    };
    let path = format!("marker-{}.txt", std::process::id());
    let mut file = File::options().read(true).write(true).create_new(true).open(path).expect("a new file");
    // SAFETY: a new mapping that is never accessed. It only makes the file known.
    let mapped = unsafe { mmap(std::ptr::null_mut(), 4096, protection, MAP_PRIVATE, file.as_raw_fd(), 0) };
    assert_ne!(mapped as isize, -1, "the file cannot be mapped");
    let mut x = 1;
    for round in 0..ROUNDS {
        let unit = ms * STEPS_PER_MS / (10 * ROUNDS);
        let unit = unit - unit / 4 + unit / 2 * (round * 19 % ROUNDS) / (ROUNDS - 1);
        let start = now();
        x = spin(4 * unit, x);
        writeln!(file, "{start} {} load a file", now()).expect("written");
        x = spin(6 * unit, x);
    }
    println!("truth load=0.4\nload {ROUNDS}\npid {}", std::process::id());
}
