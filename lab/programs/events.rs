//! Causes known numbers of events: touches fresh pages, calls functions, executes programs.
//!
//! Run: `events [PAGES=2000] [CALLS=600] [EXECS=5]`.
//!
//! THE KNOWN ANSWER: `touch_pages` touches PAGES fresh pages of 4 KiB, `touch_a_few` a tenth as many. `probed`, a generic function with
//! two instances, is called CALLS times, twice as often for `u64` as for `u8`. `/bin/true` is executed EXECS times. The rest is start-up:
//! a few hundred pages, and the exec of the program itself. It pauses now and then, so that a recorder of each event can keep up.

use std::ffi::c_void;
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

const PAGE: usize = 4096;

unsafe extern "C" {
    fn mmap(at: *mut c_void, size: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut c_void;
    fn madvise(at: *mut c_void, size: usize, advice: i32) -> i32;
}

/// Fresh memory with one fault per page, not one for hundreds of pages.
fn fresh(pages: usize) -> *mut u8 {
    const READ_WRITE: i32 = 3;
    const PRIVATE_ANONYMOUS: i32 = 0x22;
    const NO_HUGE_PAGES: i32 = 15;
    // SAFETY: a new mapping that nothing else refers to.
    unsafe {
        let memory =
            mmap(std::ptr::null_mut(), pages * PAGE, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
        assert!(memory as isize != -1, "no memory");
        madvise(memory, pages * PAGE, NO_HUGE_PAGES);
        memory.cast()
    }
}

fn rest() {
    std::thread::sleep(Duration::from_millis(1));
}

#[inline(never)]
fn touch_pages(pages: usize) {
    let memory = fresh(pages);
    for page in 0..pages {
        // SAFETY: the page is inside the mapping.
        unsafe { memory.add(page * PAGE).write_volatile(1) };
        if page % 20 == 19 {
            rest();
        }
    }
    black_box(memory);
}

#[inline(never)]
fn touch_a_few(pages: usize) {
    let memory = fresh(pages);
    for page in 0..pages {
        // SAFETY: the page is inside the mapping.
        unsafe { memory.add(page * PAGE).write_volatile(2) };
        if page % 20 == 19 {
            rest();
        }
    }
    black_box(memory);
}

#[inline(never)]
fn probed<T: Copy + Into<u64>>(value: T) -> u64 {
    let mut sum = 0;
    for step in 0..black_box(3u64) {
        sum += black_box(step) * value.into();
    }
    sum
}

#[inline(never)]
fn call_often(calls: u64) -> u64 {
    let mut sum = 0;
    for call in 0..calls / 3 {
        sum += probed(call) + probed(call + 1) + probed(call as u8);
        if call % 5 == 4 {
            rest();
        }
    }
    sum
}

#[inline(never)]
fn execute(programs: u64) {
    for _ in 0..programs {
        assert!(Command::new("/bin/true").status().expect("it is there").success());
    }
}

fn main() {
    let argument = |at, default| {
        std::env::args().nth(at).map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (pages, calls, execs): (u64, u64, u64) = (argument(1, 2000), argument(2, 600), argument(3, 5));
    touch_pages(pages as usize);
    touch_a_few(pages as usize / 10);
    black_box(call_often(calls));
    execute(execs);
    println!("touch_pages {pages}");
    println!("touch_a_few {}", pages / 10);
    println!("probed {}", calls / 3 * 3);
    println!("execs {execs}");
}
