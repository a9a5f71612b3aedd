//! Chooses the allocations that a sampled recording keeps. Every byte has the same chance, so the distances
//! between samples are exponentially distributed.
//!
//! Allocations that are not sampled must cost next to nothing. So a word per thread counts down the bytes
//! until the next sample. 0 means "take the slow path", and the word is 0 wherever nothing is sampled. A free
//! only checks the filter.

use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use whyslow_agent_wire::area::{filter_slot, heap_flag};
use whyslow_agent_wire::handshake::hook;

use crate::arch::counter::counter;
use crate::arch::thread::ThreadWord;
use crate::area::Area;
use crate::state::{self, Mine};
use crate::{arena, real, unused};

/// Address of the filter. 0 if nothing is sampled. It remains mapped if the recording ends before the
/// program.
pub static FILTER: AtomicU64 = AtomicU64::new(0);

/// The same for `realloc`. Also 0 if `realloc` is not glibc's own.
pub static FILTER_OF_REALLOC: AtomicU64 = AtomicU64::new(0);

/// Lets frees check only the filter, if sampling is requested.
pub fn prepare(area: Area) {
    let sampled = area.heap().sample_bytes.load(Relaxed) != 0;
    if !sampled
        || area.heap_flags() & (heap_flag::UNUSED | heap_flag::MAPS) != 0
        || real::of(hook::FREE).is_none()
    {
        return;
    }
    // Blocks handed out before the real allocator was known must not reach it.
    FILTER.store(area.filter().as_ptr() as u64, Release);
    arena::given_out().for_each(keep_from_free);
    if unused::realloc_is_glibcs() {
        FILTER_OF_REALLOC.store(FILTER.load(Relaxed), Release);
    }
}

/// Makes the free of a block that is not the real allocator's take the slow path.
pub fn keep_from_free(block: u64) {
    if let Some(area) = Area::get()
        && FILTER.load(Relaxed) != 0
    {
        area.filter()[filter_slot(block)].store(u8::MAX, Relaxed);
    }
}

/// A thread's distance to its next sample. All zero bytes are a new one. No reference into it is held across
/// a call, so signal handlers may use it too.
#[repr(C)]
pub struct Sampling {
    /// Bytes until the next sample. Used only if the thread has no word for it.
    countdown: Cell<i64>,
    /// The last random number.
    random: Cell<u64>,
}

impl Sampling {
    /// Draws the first distance.
    pub fn start(&self, thread: u32) {
        let seed = counter() ^ (u64::from(thread) << 32);
        self.random.set(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // A forked child keeps its thread's distance: a new one would delay the next sample.
        if self.countdown() <= 0 {
            self.draw();
        }
    }

    /// Bytes until the next sample.
    #[inline]
    fn countdown(&self) -> i64 {
        match ThreadWord::of_countdown() {
            None => self.countdown.get(),
            Some(word) => word.get().cast_signed(),
        }
    }

    #[inline]
    fn set_countdown(&self, bytes: i64) {
        match ThreadWord::of_countdown() {
            None => self.countdown.set(bytes),
            Some(word) => word.set(bytes.cast_unsigned()),
        }
    }

    /// Makes a call that may itself call functions that count down, and restores the count afterwards.
    #[inline]
    pub fn uncounted(&self, call: impl FnOnce() -> u64) -> u64 {
        let left = self.countdown();
        let result = call();
        self.set_countdown(left);
        result
    }

    /// Whether an allocation of this size is not sampled. Changes nothing if it may be sampled.
    #[inline]
    pub fn passes(&self, size: u64) -> bool {
        let left = self.countdown().saturating_sub_unsigned(size);
        if left > 0 {
            self.set_countdown(left);
        }
        left > 0
    }

    /// Whether an allocation of this size is sampled.
    #[inline]
    pub fn takes(&self, size: u64) -> bool {
        if size == 0 || self.passes(size) {
            return false;
        }
        self.draw();
        true
    }

    #[cold]
    #[inline(never)]
    fn draw(&self) {
        let mean = Area::get().map_or(0, |area| area.heap().sample_bytes.load(Relaxed));
        if mean == 0 {
            // Sampling was never requested, or is over.
            return self.set_countdown(if Area::get().is_some() { 0 } else { i64::MAX });
        }
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        self.set_countdown(distance(random, mean));
    }
}

/// Bytes to the next sample.
fn distance(random: u64, mean: u64) -> i64 {
    // 52 random bits, never 0.
    let distance = -logarithm((random >> 12) | 1, 52) * mean as f64;
    (distance as i64).saturating_add(1)
}

/// A thread that has no state yet. It needs none before its first sample, which most short threads never
/// reach: a state and a ring cost more than such a thread.
#[derive(Clone, Copy)]
pub struct NewThread(ThreadWord);

impl NewThread {
    /// The calling thread, if it has no state and allocations are only sampled. The first thread of a process
    /// takes a state at once, so that the collector knows the process.
    pub fn get() -> Option<Self> {
        if Mine::get().is_some() || !state::is_any_used() {
            return None;
        }
        let area =
            Area::get().filter(|area| area.heap_flags() & (heap_flag::UNUSED | heap_flag::MAPS) == 0)?;
        let mean = area.heap().sample_bytes.load(Relaxed);
        let word = ThreadWord::of_countdown().filter(|_| mean != 0)?;
        if word.get() == 0 {
            let local = 0u8;
            let seed = counter() ^ (&raw const local as u64).rotate_left(32);
            word.set(distance(mixed(seed), mean).cast_unsigned());
        }
        Some(Self(word))
    }

    /// Whether an allocation of this size is not sampled. Changes nothing if it is sampled.
    pub fn passes(self, size: u64) -> bool {
        let left = self.0.get().cast_signed().saturating_sub_unsigned(size);
        if left > 0 {
            self.0.set(left.cast_unsigned());
        }
        left > 0
    }

    /// Makes a call that may itself call functions that count down, and restores the count afterwards.
    pub fn uncounted(self, call: impl FnOnce() -> u64) -> u64 {
        let left = self.0.get();
        let result = call();
        self.0.set(left);
        result
    }
}

/// Spreads the few random bits of a seed over all bits (the finaliser of splitmix64).
fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// ln(number / 2^bits)
fn logarithm(number: u64, bits: u32) -> f64 {
    let exponent = 63 - number.leading_zeros();
    let mantissa = number as f64 / (1u64 << exponent) as f64;
    // ln m = 2 artanh((m - 1) / (m + 1)), and (m - 1) / (m + 1) is at most a third.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    for divisor in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / divisor;
    }
    2.0 * z * sum + (f64::from(exponent) - f64::from(bits)) * core::f64::consts::LN_2
}

/// Whether a block may be sampled.
#[inline]
pub fn may_hold(area: Area, block: u64) -> bool {
    area.filter()[filter_slot(block)].load(Relaxed) != 0
}

/// Marks a block as sampled.
pub fn hold(area: Area, block: u64) {
    let count = &area.filter()[filter_slot(block)];
    let mut now = count.load(Relaxed);
    while now != u8::MAX {
        match count.compare_exchange_weak(now, now + 1, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(other) => now = other,
        }
    }
}
