//! Writes records into the thread's ring.
//!
//! Only code that is inside a state reaches its writer (see `state::Inside`), so only the ring's `written`
//! and `read` are shared.

use core::cell::Cell;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use whyslow_agent_wire::area::{RING_WORDS, RingHeader};
use whyslow_agent_wire::record::{self, MOST_FRESH, MOST_TICKS, Stack, TICK_SHIFT, op};
use whyslow_selfwalk::{Walked, Walker};

use crate::arch::counter::{counter, counter_after};
use crate::area::{Area, RingWords};
use crate::sys;

/// Max words of an event after its stack: `UNUSED`, `LEAVE`, `REALLOC`, and a timestamp before each.
const MOST_WORDS: u64 = 16;
/// How many records of a lone thread share one timestamp.
const REPEATS: u32 = 15;

/// The writer, if it is the only one with a ring. 0 if there may be others. Its records need no timestamps to
/// be in order.
static ALONE: AtomicU64 = AtomicU64::new(0);

/// A second ring was taken.
pub fn second_ring_taken() {
    ALONE.store(0, SeqCst);
}

/// Changes each time the collector has polled. A timestamp is not repeated across that.
#[inline(always)]
fn heartbeat() -> u64 {
    Area::get().map_or(0, |area| area.header().heartbeat.load(Relaxed))
}

/// Wakes the collector if it sleeps.
pub fn wake_collector(area: Area) {
    let asleep = &area.header().asleep;
    if asleep.load(Relaxed) == 1 && asleep.compare_exchange(1, 0, Relaxed, Relaxed).is_ok() {
        sys::wake(asleep);
    }
}

/// Writes into one ring. All zero bytes mean no ring: nothing is written.
#[repr(C)]
pub struct Writer {
    words: Cell<Option<RingWords>>,
    written: Cell<u64>,
    /// Up to this position any event fits.
    limit: Cell<u64>,
    /// Always set in a used state, except in a child that a signal handler forked from within the agent.
    ring: Cell<Option<&'static RingHeader>>,
    /// Ticks of the last timestamp.
    stamp: Cell<u64>,
    /// Ticks since then, shifted to their place in a record.
    since: Cell<u64>,
    /// How many more records may repeat the last timestamp.
    repeat: Cell<u32>,
    /// The module generation of the ring's frames.
    generation: Cell<u32>,
    /// The collector's heartbeat when the last timestamp was read.
    beat: Cell<u64>,
    /// The heartbeat at which the collector made no progress, plus one.
    stalled_at: Cell<u64>,
}

impl Writer {
    /// Continues where the ring's previous owner ended.
    ///
    /// # Safety
    /// Only this writer uses the ring and its words, until it takes another ring.
    pub unsafe fn take(&self, ring: &'static RingHeader, words: RingWords) {
        self.words.set(Some(words));
        self.ring.set(Some(ring));
        self.written.set(ring.written.load(Relaxed));
        self.limit.set(0);
        self.stalled_at.set(0);
        self.generation.set(0);
    }

    /// Writes the first timestamp into a newly taken ring.
    pub fn first_stamp(&self) {
        let ticks = counter_after() >> TICK_SHIFT;
        self.put_stamp(ticks);
        self.publish();
    }

    fn put_stamp(&self, ticks: u64) {
        self.put(record::number(op::STAMP, ticks));
        self.stamp.set(ticks);
        self.since.set(0);
        self.repeat.set(0);
    }

    #[inline(always)]
    fn put(&self, word: u64) {
        let Some(words) = self.words.get() else { return };
        let written = self.written.get();
        // SAFETY: the ring belongs to this writer (`take`). The caller has checked that the collector has
        // read far enough (`has_room_for`), and publishes afterwards.
        unsafe { words.put(written, word) };
        self.written.set(written + 1);
    }

    #[inline(always)]
    fn publish(&self) {
        if let Some(ring) = self.ring.get() {
            ring.written.store(self.written.get(), Release);
        }
    }

    /// Whether an event can be written. Waits for a bounded time, then counts the event as lost.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.has_room_for(MOST_WORDS)
    }

    #[inline(always)]
    fn has_room_for(&self, words: u64) -> bool {
        self.written.get() + words <= self.limit.get() || self.make_room(words)
    }

    /// Writes what the walker found. It is published with the event that follows, for which there is room.
    /// False if it is lost.
    #[inline(always)]
    pub fn stack(&self, walker: &Walker, generation: u32, walked: &Walked) -> bool {
        let Walked { from, to, kept, fresh, cut, .. } = *walked;
        if generation != self.generation.get() || fresh > MOST_FRESH {
            return self.unusual_stack(walker, generation, walked);
        }
        if !self.has_room_for(1 + fresh as u64 + MOST_WORDS) {
            return false;
        }
        self.put(record::stack(Stack { from, to, cut, kept, fresh }));
        self.put_frames(walker, 0..fresh);
        true
    }

    /// Writes the new frames of the last walk in this range, outermost first.
    #[inline(always)]
    fn put_frames(&self, walker: &Walker, range: Range<usize>) {
        for frame in walker.frames(range).rev() {
            self.put(frame);
        }
    }

    /// Writes a stack whose modules differ from the last one's, or which needs several records.
    #[cold]
    #[inline(never)]
    fn unusual_stack(&self, walker: &Walker, generation: u32, walked: &Walked) -> bool {
        let Walked { from, to, mut kept, fresh, cut, .. } = *walked;
        let mut from = from;
        let mut left = fresh;
        loop {
            let piece = left.min(MOST_FRESH);
            if !self.has_room_for(2 + piece as u64 + MOST_WORDS) {
                return false;
            }
            if generation != self.generation.get() {
                self.put(record::number(op::GENERATION, u64::from(generation)));
                self.generation.set(generation);
            }
            self.put(record::stack(Stack { from, to, cut, kept, fresh: piece }));
            self.put_frames(walker, left - piece..left);
            left -= piece;
            if left == 0 {
                return true;
            }
            self.publish();
            kept += piece;
            from = to;
        }
    }

    /// Reads the time of the next record. The processor may read the counter slightly before earlier
    /// instructions are done. The code that orders records allows for that.
    #[inline(always)]
    fn tick(&self) {
        let repeat = self.repeat.get();
        if repeat != 0 && ALONE.load(Relaxed) == ptr::from_ref(self) as u64 && self.beat.get() == heartbeat()
        {
            self.repeat.set(repeat - 1);
            return;
        }
        let ticks = counter() >> TICK_SHIFT;
        let since = ticks.wrapping_sub(self.stamp.get());
        if since <= MOST_TICKS {
            // Counters of different processors may differ slightly. A ring's times never go back.
            self.since.set((since << 4).max(self.since.get()));
            self.repeat.set(REPEATS);
            self.beat.set(heartbeat());
        } else {
            self.far_tick(ticks);
        }
    }

    #[cold]
    #[inline(never)]
    fn far_tick(&self, ticks: u64) {
        // If the counter went back, the ring's records would be out of order.
        self.put_stamp(ticks.max(self.stamp.get() + (self.since.get() >> 4)));
    }

    /// The first word of a record, with the last timestamp.
    #[inline(always)]
    fn head(&self, kind: u64, address: u64) -> u64 {
        kind | self.since.get() | ((address >> 3) << 20)
    }

    #[inline(always)]
    fn put_sized(&self, kind: u64, address: u64, size: u64) {
        self.put(self.head(kind, address));
        self.put(size);
        self.publish();
    }

    /// Records a new block. Its stack was written before, so there is room.
    #[inline(always)]
    pub fn alloc(&self, block: u64, size: u64) {
        self.tick();
        self.put_sized(op::ALLOC, block, size);
    }

    /// Records that a block is about to be freed.
    #[inline(always)]
    pub fn free(&self, block: u64) {
        if self.has_room() {
            self.tick();
            self.put(self.head(op::FREE, block));
            self.publish();
        }
    }

    /// Records that a block is about to be moved or resized. True if it was recorded. Then the result must be
    /// recorded too, and there is room for it.
    #[inline(always)]
    pub fn leave(&self, block: u64) -> bool {
        if !self.has_room() {
            return false;
        }
        self.tick();
        self.put(self.head(op::LEAVE, block));
        self.publish();
        true
    }

    /// Records where the block from `leave` is now.
    #[inline(always)]
    pub fn realloc(&self, block: u64, size: u64) {
        self.tick();
        self.put_sized(op::REALLOC, block, size);
    }

    /// Records that the block from `leave` was not moved (`op::REALLOC_FAILED`), or that it was freed or its new
    /// block is not sampled (`op::REALLOC_FREED`).
    pub fn realloc_failed_or_freed(&self, kind: u64, block: u64) {
        self.tick();
        self.put(self.head(kind, block));
        self.publish();
    }

    /// Records how many bytes of a block were never written. Another event follows at once.
    pub fn unused(&self, block: u64, bytes: u64) {
        if self.has_room() {
            self.tick();
            self.put_sized(op::UNUSED, block, bytes);
        }
    }

    /// Records a new or a removed mapping.
    pub fn map(&self, kind: u64, start: u64, len: u64) {
        if self.has_room() {
            self.tick();
            self.put_sized(kind, start, len.div_ceil(4096));
        }
    }

    /// Checks how far the collector has read, and wakes it when the ring is half full.
    #[cold]
    #[inline(never)]
    fn make_room(&self, words: u64) -> bool {
        const HALF: u64 = RING_WORDS as u64 / 2;
        let full = RING_WORDS as u64 - words;
        let Some(area) = Area::get() else { return false };
        if !area.enabled() {
            Area::give_up();
            return false;
        }
        let me = ptr::from_ref(self) as u64;
        if ALONE.load(Relaxed) != me && area.header().rings_active.load(SeqCst) == 1 {
            ALONE.store(me, SeqCst);
            if area.header().rings_active.load(SeqCst) != 1 {
                ALONE.store(0, SeqCst);
            }
            // The other ring's last record may be later than the timestamp that would be repeated.
            self.repeat.set(0);
        }
        let written = self.written.get();
        let mut used = self.used();
        if used >= HALF {
            wake_collector(area);
        }
        if used > full {
            used = self.wait_for_room(area);
            if used > full {
                area.header().lost_events.fetch_add(1, Relaxed);
                return false;
            }
        }
        // Check again when the ring is half full, and when it is full.
        let end = if used + words <= HALF { HALF } else { RING_WORDS as u64 };
        self.limit.set(written + end - used);
        true
    }

    fn used(&self) -> u64 {
        let read = self.ring.get().map_or(0, |ring| ring.read.load(Acquire));
        self.written.get().wrapping_sub(read)
    }

    /// Waits up to a second until half of the ring is free, and notes if the collector made no progress in
    /// that time. A writer that continued as soon as there is any room would wait again at once, each time
    /// with cold caches.
    fn wait_for_room(&self, area: Area) -> u64 {
        const HALF: u64 = RING_WORDS as u64 / 2;
        const NAP: u64 = 50_000;
        const LONGEST_NAP: u64 = 400_000;
        const LONGEST: u64 = 1_000_000_000;
        let heartbeat = &area.header().heartbeat;
        let last = heartbeat.load(Relaxed);
        if self.stalled_at.get() == last + 1 {
            return self.used();
        }
        let (mut nap, mut waited) = (NAP, 0);
        while waited < LONGEST {
            let now = self.used();
            if now <= HALF {
                return now;
            }
            wake_collector(area);
            sys::nap(nap);
            waited += nap;
            nap = (2 * nap).min(LONGEST_NAP);
        }
        if heartbeat.load(Relaxed) == last {
            self.stalled_at.set(last + 1);
        }
        self.used()
    }
}
