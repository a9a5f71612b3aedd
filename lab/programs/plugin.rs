//! The plug-in of `dlopen_host`: a shared library with one hot function.
//!
//! THE KNOWN ANSWER: see `dlopen_host.rs`.

use std::hint::black_box;

#[inline(never)]
fn plugin_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 11;
        x ^= x >> 9;
        x ^= x << 19;
        left -= 1;
    }
    black_box(x)
}

/// The entry that the host looks up.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_entry(steps: u64) -> u64 {
    plugin_work(steps, 1) ^ black_box(1)
}
