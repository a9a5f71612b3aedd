//! Writing records into the thread's ring.
//!
//! Who writes has the gate of its state, so nothing here is shared but the ring's `written` and `read`.

use core::arch::x86_64::{_mm_lfence, _rdtsc};
use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use whyslow_heap_wire::area::RING_WORDS;
use whyslow_heap_wire::record::{self, MOST_FRESH, MOST_TICKS, Stack, TICK_SHIFT, op};
use whyslow_selfwalk::Walked;

use crate::area::Area;
use crate::state::State;
use crate::sys;

/// Words that the longest event takes behind its stack: `UNUSED`, `LEAVE`, `REALLOC`, and a stamp before each.
const MOST_WORDS: u64 = 16;
/// Records of a single thread that share one time.
const REPEATS: u32 = 15;

/// The state that is the only one with a ring; 0 if there may be others. Its records need no times to be in order.
static ALONE: AtomicU64 = AtomicU64::new(0);

/// Somebody has taken a second ring.
pub fn alone_no_more() {
    ALONE.store(0, SeqCst);
}

/// The time-stamp counter.
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: reads a counter.
    unsafe { _rdtsc() }
}

/// The counter, not before everything that comes before it in the program is done.
#[inline(always)]
fn counter_after() -> u64 {
    // SAFETY: waits.
    unsafe { _mm_lfence() };
    counter()
}

/// Starts a ring that was just taken.
pub fn first_stamp(state: &State) {
    let ticks = counter_after() >> TICK_SHIFT;
    put_stamp(state, ticks);
    publish(state);
}

fn put_stamp(state: &State, ticks: u64) {
    put(state, record::number(op::STAMP, ticks));
    state.stamp.set(ticks);
    state.since.set(0);
    state.repeat.set(0);
}

#[inline(always)]
fn put(state: &State, word: u64) {
    let (written, words) = (state.written.get(), state.words.get());
    if words.is_null() {
        return;
    }
    // SAFETY: the index stays in the ring, and there is room (`has_room`).
    unsafe { *words.add(written as usize % RING_WORDS) = word };
    state.written.set(written + 1);
}

#[inline(always)]
fn publish(state: &State) {
    if let Some(ring) = state.ring() {
        ring.written.store(state.written.get(), Release);
    }
}

/// Whether an event can be written. Waits a bounded time; what does not fit then is counted as lost.
#[inline(always)]
pub fn has_room(state: &State) -> bool {
    has_room_for(state, MOST_WORDS)
}

#[inline(always)]
fn has_room_for(state: &State, words: u64) -> bool {
    state.written.get() + words <= state.limit.get() || make_room(state, words)
}

/// Tells what the walker found. It is published with the event that follows; there is room for that. False if it is lost.
#[inline(always)]
pub fn stack(state: &State, generation: u32, walked: &Walked) -> bool {
    let Walked { from, to, kept, fresh, cut, .. } = *walked;
    if generation != state.generation.get() || fresh > MOST_FRESH {
        return unusual_stack(state, generation, walked);
    }
    if !has_room_for(state, 1 + fresh as u64 + MOST_WORDS) {
        return false;
    }
    put(state, record::stack(Stack { from, to, cut, kept, fresh }));
    put_frames(state, 0, fresh);
    true
}

/// The fresh frames of the last walk in this range, outermost first.
#[inline(always)]
fn put_frames(state: &State, from: usize, to: usize) {
    let walker = state.walker();
    for at in (from..to).rev() {
        put(state, walker.frame(at));
    }
}

/// Of other modules than the last one, or in pieces.
#[cold]
#[inline(never)]
fn unusual_stack(state: &State, generation: u32, walked: &Walked) -> bool {
    let Walked { from, to, mut kept, fresh, cut, .. } = *walked;
    let mut from = from;
    let mut left = fresh;
    loop {
        let piece = left.min(MOST_FRESH);
        if !has_room_for(state, 2 + piece as u64 + MOST_WORDS) {
            return false;
        }
        if generation != state.generation.get() {
            put(state, record::number(op::GENERATION, u64::from(generation)));
            state.generation.set(generation);
        }
        put(state, record::stack(Stack { from, to, cut, kept, fresh: piece }));
        put_frames(state, left - piece, left);
        left -= piece;
        if left == 0 {
            return true;
        }
        publish(state);
        kept += piece;
        from = to;
    }
}

/// The time of the next record. The processor may read the counter a little before what comes before it in the program is done: whoever puts
/// records in order knows.
#[inline(always)]
fn tick(state: &State) {
    let repeat = state.repeat.get();
    if repeat != 0 && ALONE.load(Relaxed) == ptr::from_ref(state) as u64 && state.beat.get() == heartbeat() {
        state.repeat.set(repeat - 1);
        return;
    }
    let ticks = counter() >> TICK_SHIFT;
    let since = ticks.wrapping_sub(state.stamp.get());
    if since <= MOST_TICKS {
        // Counters of different processors may be a little apart; a ring's times never go back.
        state.since.set((since << 4).max(state.since.get()));
        state.repeat.set(REPEATS);
        state.beat.set(heartbeat());
    } else {
        far_tick(state, ticks);
    }
}

/// Changes whenever the collector has looked: a time is not repeated for longer than that.
#[inline(always)]
fn heartbeat() -> u64 {
    Area::get().map_or(0, |area| area.header().heartbeat.load(Relaxed))
}

#[cold]
#[inline(never)]
fn far_tick(state: &State, ticks: u64) {
    // A counter that goes back would put the ring's records out of order.
    put_stamp(state, ticks.max(state.stamp.get() + (state.since.get() >> 4)));
}

/// The first word of a record with the last time.
#[inline(always)]
fn head(state: &State, kind: u64, address: u64) -> u64 {
    kind | state.since.get() | ((address >> 3) << 20)
}

#[inline(always)]
fn put_sized(state: &State, kind: u64, address: u64, size: u64) {
    put(state, head(state, kind, address));
    put(state, size);
    publish(state);
}

/// A new block. Its stack was noted, so there is room.
#[inline(always)]
pub fn alloc(state: &State, block: u64, size: u64) {
    tick(state);
    put_sized(state, op::ALLOC, block, size);
}

/// A block is about to be freed.
#[inline(always)]
pub fn free(state: &State, block: u64) {
    if has_room(state) {
        tick(state);
        put(state, head(state, op::FREE, block));
        publish(state);
    }
}

/// A block is about to be moved or resized. Whether that was recorded: then its end must be too, and has room.
#[inline(always)]
pub fn leave(state: &State, block: u64) -> bool {
    if !has_room(state) {
        return false;
    }
    tick(state);
    put(state, head(state, op::LEAVE, block));
    publish(state);
    true
}

/// The block that left is here now.
#[inline(always)]
pub fn realloc(state: &State, block: u64, size: u64) {
    tick(state);
    put_sized(state, op::REALLOC, block, size);
}

/// The block that left is where it was, or was freed.
pub fn stay_or_gone(state: &State, kind: u64, block: u64) {
    tick(state);
    put(state, head(state, kind, block));
    publish(state);
}

/// A block's bytes that were never written. Another event follows at once.
pub fn unused(state: &State, block: u64, bytes: u64) {
    if has_room(state) {
        tick(state);
        put_sized(state, op::UNUSED, block, bytes);
    }
}

/// A mapping comes or goes.
pub fn map(state: &State, kind: u64, start: u64, len: u64) {
    if has_room(state) {
        tick(state);
        put_sized(state, kind, start, len.div_ceil(4096));
    }
}

/// Wakes the collector if it sleeps.
pub fn wake_collector(area: Area) {
    let asleep = &area.header().asleep;
    if asleep.load(Relaxed) == 1 && asleep.compare_exchange(1, 0, Relaxed, Relaxed).is_ok() {
        sys::wake(asleep);
    }
}

/// Looks how far the collector has read, and wakes it when the ring is half full.
#[cold]
#[inline(never)]
fn make_room(state: &State, words: u64) -> bool {
    const HALF: u64 = RING_WORDS as u64 / 2;
    let full = RING_WORDS as u64 - words;
    let Some(area) = Area::get() else { return false };
    if !area.enabled() {
        Area::give_up();
        return false;
    }
    let me = ptr::from_ref(state) as u64;
    if ALONE.load(Relaxed) != me && area.header().rings_active.load(SeqCst) == 1 {
        ALONE.store(me, SeqCst);
        if area.header().rings_active.load(SeqCst) != 1 {
            ALONE.store(0, SeqCst);
        }
        // The other ring's last record may be younger than the time that would be repeated.
        state.repeat.set(0);
    }
    let written = state.written.get();
    let mut used = used(state);
    if used >= HALF {
        wake_collector(area);
    }
    if used > full {
        used = wait_for_room(state, area);
        if used > full {
            area.header().lost_events.fetch_add(1, Relaxed);
            return false;
        }
    }
    // The next look: when the ring is half full, and when it is full.
    let end = if used + words <= HALF { HALF } else { RING_WORDS as u64 };
    state.limit.set(written + end - used);
    true
}

fn used(state: &State) -> u64 {
    let read = state.ring().map_or(0, |ring| ring.read.load(Acquire));
    state.written.get().wrapping_sub(read)
}

/// Waits until half of the ring is free, or the collector has not moved for a second, or a second is over while it does. Half: who goes on as soon
/// as there is any room waits again at once, and each time finds its caches cold.
fn wait_for_room(state: &State, area: Area) -> u64 {
    const HALF: u64 = RING_WORDS as u64 / 2;
    const NAP: u64 = 50_000;
    const LONGEST_NAP: u64 = 400_000;
    const LONGEST: u64 = 1_000_000_000;
    let heartbeat = &area.header().heartbeat;
    let last = heartbeat.load(Relaxed);
    if state.gone_at.get() == last + 1 {
        return used(state);
    }
    let (mut nap, mut waited) = (NAP, 0);
    while waited < LONGEST {
        let now = used(state);
        if now <= HALF {
            return now;
        }
        wake_collector(area);
        sys::nap(nap);
        waited += nap;
        nap = (2 * nap).min(LONGEST_NAP);
    }
    if heartbeat.load(Relaxed) == last {
        state.gone_at.set(last + 1);
    }
    used(state)
}
