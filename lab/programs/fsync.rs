//! Writes data to a file and waits until it is on disk, again and again.
//!
//! Run: `fsync FILE [TIMES=20] [MEGABYTES=16]`; the file is deleted at the end.
//!
//! THE KNOWN ANSWER: the line `wait_fsync_us N`: the main thread waits N microseconds in `wait_fsync`, for a
//! file. That is the wall time in there minus its CPU time. If files are kept in memory, it is almost nothing.

use std::fs::File;
use std::io::{Seek, Write};
use std::time::{Duration, Instant};

/// The CPU time of this thread, to the nanosecond.
fn cpu_time() -> Duration {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        safe fn clock_gettime(clock: i32, now: &mut Timespec) -> i32;
    }
    const OF_THREAD: i32 = 3;
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    assert_eq!(clock_gettime(OF_THREAD, &mut now), 0);
    Duration::new(now.seconds as u64, now.nanoseconds as u32)
}

#[inline(never)]
fn wait_fsync(file: &File) -> Duration {
    let (start, used) = (Instant::now(), cpu_time());
    file.sync_all().expect("the file is written");
    start.elapsed().saturating_sub(cpu_time() - used)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("the name of a file");
    let times: u64 = args.next().map_or(20, |a| a.parse().expect("how often"));
    let megabytes: usize = args.next().map_or(16, |a| a.parse().expect("megabytes"));
    let mut file = File::create(&path).expect("a file that can be made");
    let mut waited = Duration::ZERO;
    for round in 0..times {
        file.rewind().unwrap();
        file.write_all(&vec![round as u8; megabytes << 20]).unwrap();
        waited += wait_fsync(&file);
    }
    std::fs::remove_file(path).unwrap();
    println!("wait_fsync_us {}", waited.as_micros());
}
