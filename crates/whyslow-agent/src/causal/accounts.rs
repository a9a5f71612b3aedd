//! A thread's account of delays. `delayed` is what it has taken in the running round, `Round::delay` what it has to
//! take. Its virtual time is the time minus what it has taken.

use core::hint::spin_loop;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

use whyslow_agent_wire::causal::{Thread, WHOLE};

use super::board::{Board, Running};
use super::{event, points};
use crate::arch::counter::counter;
use crate::sys;

/// The part of a sleep that is spun instead, because a sleep is longer than requested.
const SLEEP_IS_LATE_NS: u64 = 80_000;

/// The calling thread's account. While it exists, the handler leaves the account alone.
pub struct Account {
    board: Board,
    thread: &'static Thread,
}

impl Account {
    /// `None` if the thread is at work on it already.
    #[inline(always)]
    pub fn open(board: Board, thread: &'static Thread) -> Option<Self> {
        if thread.busy.load(Relaxed) != 0 {
            return None;
        }
        thread.busy.store(1, Relaxed);
        compiler_fence(Release);
        Some(Self { board, thread })
    }

    pub fn thread(&self) -> &'static Thread {
        self.thread
    }

    /// What the thread has taken in this round.
    #[inline(always)]
    pub fn delayed(&self, running: Running) -> u64 {
        if self.thread.round.load(Relaxed) != running.number {
            self.thread.delayed.store(0, Relaxed);
            self.thread.round.store(running.number, Relaxed);
            return 0;
        }
        self.thread.delayed.load(Relaxed)
    }

    /// Whether it has to take more.
    #[inline(always)]
    pub fn owes(&self, running: Running) -> bool {
        self.delayed(running) < running.round.delay.load(Relaxed)
    }

    /// The thread was not running, and another thread let it go on, which was late itself.
    pub fn credit(&self, running: Running, ticks: u64) {
        let taken = self.delayed(running);
        let due = running.round.delay.load(Relaxed);
        if taken < due {
            self.thread.delayed.store(taken.saturating_add(ticks).min(due), Relaxed);
        }
    }

    /// The thread was in the target for so long.
    pub fn hit(&self, running: Running, ticks: u64) {
        let share = u64::from(running.round.speedup.load(Relaxed).min(WHOLE));
        let delayed = self.delayed(running) + ticks * share / u64::from(WHOLE);
        self.thread.delayed.store(delayed, Relaxed);
        let before = running.round.delay.fetch_max(delayed, Relaxed);
        if before < delayed {
            points::delayed(self.board, running.round, delayed - before);
        }
    }

    /// Starts as late as others are by now.
    pub fn start_late(&self, running: Running) {
        self.thread.round.store(running.number, Relaxed);
        self.thread.delayed.store(running.round.delay.load(Relaxed), Relaxed);
    }

    /// Takes what it owes, on its processor. Returns how long that took. Ends with the round, or when the collector
    /// is gone.
    pub fn spin(&self, running: Running) -> u64 {
        let first = self.delayed(running);
        let start = counter();
        let mut spent = 0;
        while first + spent < running.round.delay.load(Relaxed)
            && self.board.shared().round.load(Relaxed) == running.number
            && self.board.is_renewed()
        {
            spin_loop();
            spent = counter().saturating_sub(start);
        }
        self.thread.delayed.store(first + spent, Relaxed);
        spent
    }

    /// The same in a hook, where the thread's samples go on.
    #[cold]
    pub fn spin_unsampled(&self, running: Running) {
        event::pause(self.thread);
        let spent = self.spin(running);
        event::go_on(self.thread);
        self.spent(spent);
        let spun = self.thread.spun_ns.load(Relaxed) + self.board.ns(spent);
        self.thread.spun_ns.store(spun, Relaxed);
    }

    /// Takes what it owes as a longer sleep.
    #[cold]
    pub fn sleep(&self, running: Running) {
        let delayed = self.delayed(running);
        let owed = self.board.ns(running.round.delay.load(Relaxed).saturating_sub(delayed));
        if owed > SLEEP_IS_LATE_NS && self.board.is_renewed() {
            let start = counter();
            sys::nap(owed - SLEEP_IS_LATE_NS);
            let slept = counter().saturating_sub(start);
            self.thread.delayed.store(delayed + slept, Relaxed);
            self.spent(slept);
        }
        if self.owes(running) {
            self.spin_unsampled(running);
        }
    }

    /// Time that the next sample must not account for.
    pub fn spent(&self, ticks: u64) {
        self.thread.apart.store(self.thread.apart.load(Relaxed).saturating_add(ticks), Relaxed);
    }
}

impl Drop for Account {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Release);
        self.thread.busy.store(0, Relaxed);
    }
}
