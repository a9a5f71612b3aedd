//! Which allocations a sampled recording keeps: every byte has the same chance, so the distances between samples are
//! exponentially distributed.

use core::sync::atomic::Ordering::Relaxed;

use whyslow_heap_wire::area::filter_slot;

use crate::area::Area;
use crate::ring;
use crate::state::State;

/// Draws the first distance.
pub fn start(state: &State, thread: u32) {
    let seed = ring::counter() ^ (u64::from(thread) << 32);
    state.random.set(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    draw(state);
}

/// Whether an allocation of this size is one of the sampled.
#[inline]
pub fn takes(state: &State, size: u64) -> bool {
    let left = state.countdown.get().saturating_sub_unsigned(size);
    state.countdown.set(left);
    if left > 0 || size == 0 {
        return false;
    }
    draw(state);
    true
}

#[cold]
#[inline(never)]
fn draw(state: &State) {
    let mean = Area::get().map_or(0, |area| area.header().sample_bytes.load(Relaxed));
    let mut random = state.random.get();
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    state.random.set(random);
    // 52 random bits, never 0.
    let distance = -logarithm((random >> 12) | 1, 52) * mean as f64;
    state.countdown.set((distance as i64).saturating_add(1));
}

/// ln(number / 2^bits)
fn logarithm(number: u64, bits: u32) -> f64 {
    let exponent = 63 - number.leading_zeros();
    let mantissa = number as f64 / (1u64 << exponent) as f64;
    // ln m = 2 artanh((m - 1) / (m + 1)), and (m - 1) / (m + 1) is a third at most.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    for divisor in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / divisor;
    }
    2.0 * z * sum + (f64::from(exponent) - f64::from(bits)) * core::f64::consts::LN_2
}

/// Whether a block may be a sampled one.
#[inline]
pub fn may_hold(area: Area, block: u64) -> bool {
    area.filter()[filter_slot(block)].load(Relaxed) != 0
}

/// Remembers that a block is sampled.
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
