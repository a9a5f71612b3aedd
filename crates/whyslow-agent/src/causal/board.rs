//! The experiments' part of the area.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use whyslow_agent_wire::area::CAUSAL_AT;
use whyslow_agent_wire::causal::{
    self, ADDRESSES_AT, CAUSAL_LEN, MOST_ADDRESSES, MOST_POINTS, MOST_THREADS, Point, Round, Thread,
    point_at, round_at, thread_at,
};

use crate::arch::counter::counter;
use crate::sys;

/// Null while there are no experiments.
static BOARD: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// The mapped board. It is never unmapped.
#[derive(Clone, Copy)]
pub struct Board(NonNull<u8>);

/// The running round.
#[derive(Clone, Copy)]
pub struct Running {
    pub number: u64,
    pub round: &'static Round,
}

impl Board {
    /// Maps it. The area's file is still open.
    pub fn map(file: i32) -> Option<Self> {
        sys::map_shared(file, CAUSAL_AT, CAUSAL_LEN).map(Self)
    }

    /// Makes it the one of [`Board::get`].
    pub fn publish(self) {
        BOARD.store(self.0.as_ptr(), Release);
    }

    #[inline(always)]
    pub fn get() -> Option<Self> {
        NonNull::new(BOARD.load(Acquire)).map(Self)
    }

    /// No experiments from now on.
    pub fn give_up() {
        BOARD.store(ptr::null_mut(), Release);
    }

    /// # Safety
    /// The layout has a `T` at this offset, and `T` consists of atomics.
    #[inline(always)]
    unsafe fn at<T>(self, offset: usize) -> &'static T {
        // SAFETY: the board is never unmapped. The caller guarantees the offset.
        unsafe { self.0.add(offset).cast().as_ref() }
    }

    #[inline(always)]
    pub fn shared(self) -> &'static causal::Board {
        // SAFETY: it is at the start of the layout.
        unsafe { self.at(0) }
    }

    pub fn thread(self, thread: usize) -> &'static Thread {
        // SAFETY: the layout has this many threads there.
        unsafe { self.at(thread_at(thread % MOST_THREADS)) }
    }

    /// The number of a thread's row.
    pub fn row_of(self, thread: &'static Thread) -> usize {
        let from_first = ptr::from_ref(thread) as usize - ptr::from_ref(self.thread(0)) as usize;
        from_first / size_of::<Thread>() % MOST_THREADS
    }

    /// The threads that have been in use.
    pub fn threads(self) -> impl Iterator<Item = &'static Thread> {
        let used = (self.shared().threads_used.load(Acquire) as usize).min(MOST_THREADS);
        (0..used).map(move |thread| self.thread(thread))
    }

    pub fn point(self, point: usize) -> &'static Point {
        // SAFETY: the layout has this many points there.
        unsafe { self.at(point_at(point % MOST_POINTS)) }
    }

    /// Notes where a sample was.
    pub fn keep_address(self, address: u64) {
        let number = self.shared().sampled.fetch_add(1, Relaxed) as usize % MOST_ADDRESSES;
        // SAFETY: the layout has this many words there.
        let word: &AtomicU64 = unsafe { self.at(ADDRESSES_AT + number * 8) };
        word.store(address, Relaxed);
    }

    /// The running round. `None` if there is none, or if nobody would end it.
    #[inline(always)]
    pub fn running(self) -> Option<Running> {
        let number = self.shared().round.load(Acquire);
        if number == 0 {
            return None;
        }
        // SAFETY: the layout has a round there.
        Some(Running { number, round: unsafe { self.at(round_at(number)) } })
    }

    /// Whether the collector is still at work.
    pub fn is_renewed(self) -> bool {
        let shared = self.shared();
        // The collector may renew it at this moment, on another processor whose counter is ahead.
        counter().saturating_sub(shared.renewed.load(Relaxed)) < shared.patience.load(Relaxed)
    }

    /// Whether the collector was at work not long ago. It may be busy with other things for seconds.
    pub fn is_attended(self) -> bool {
        const FACTOR: u64 = 32;
        let shared = self.shared();
        let patience = shared.patience.load(Relaxed).saturating_mul(FACTOR);
        counter().saturating_sub(shared.renewed.load(Relaxed)) < patience
    }

    /// Ticks of a number of nanoseconds.
    pub fn ticks(self, ns: u64) -> u64 {
        ((u128::from(ns) * u128::from(self.shared().tick_of_ns.load(Relaxed))) >> 32) as u64
    }

    /// Nanoseconds of a number of ticks, within one per mille.
    pub fn ns(self, ticks: u64) -> u64 {
        // Ten binary digits of the rate are enough here, and a division by 64 bits needs no library.
        let rate = (self.shared().tick_of_ns.load(Relaxed) >> 22).max(1);
        ticks.saturating_mul(1 << 10) / rate
    }
}
