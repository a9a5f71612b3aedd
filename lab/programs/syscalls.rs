//! Spends most of its CPU time inside the kernel.
//!
//! Run: `syscalls [MS=1000] [read|write]`; MS is the wall time. `read` reads
//! 64 KB at a time from /dev/zero, `write` writes single bytes to /dev/null.
//!
//! THE KNOWN ANSWER: with `read` over 90 % of the CPU time is kernel time, called from read_much. The program prints
//! the kernel's own account of the run. A profile without access to the kernel must say that this share is missing.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

#[repr(C)]
struct Usage {
    user: [i64; 2],
    system: [i64; 2],
    rest: [i64; 14],
}

unsafe extern "C" {
    fn getrusage(who: i32, usage: *mut Usage) -> i32;
}

/// The share of this process's CPU time that was spent in the kernel.
fn kernel_share() -> f64 {
    let mut usage = Usage { user: [0; 2], system: [0; 2], rest: [0; 14] };
    // SAFETY: the structure has the layout and size of the C library's.
    unsafe { getrusage(0, &raw mut usage) };
    let seconds = |time: [i64; 2]| time[0] as f64 + time[1] as f64 / 1e6;
    seconds(usage.system) / (seconds(usage.user) + seconds(usage.system))
}

#[inline(never)]
fn read_much(file: &mut File, buffer: &mut [u8]) {
    for _ in 0..64 {
        file.read_exact(black_box(buffer)).expect("/dev/zero has no end");
    }
}

#[inline(never)]
fn write_little(file: &mut File) {
    for _ in 0..1024 {
        file.write_all(black_box(b"x")).expect("/dev/null takes all");
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let ms = arguments.next().map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let writes = arguments.next().is_some_and(|a| a == "write");

    let mut zero = File::open("/dev/zero").expect("/dev/zero");
    let mut null = File::options().write(true).open("/dev/null").expect("/dev/null");
    let mut buffer = vec![0; 64 * 1024];
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(ms) {
        if writes { write_little(&mut null) } else { read_much(&mut zero, &mut buffer) }
    }
    println!("measured kernel={:.3}", kernel_share());
    println!("least {}=0.9", if writes { "write_little" } else { "read_much" });
}
