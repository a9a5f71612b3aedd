//! The last moment of the process: the collector may want to look at its memory before it is gone.

use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, fence};

use whyslow_heap_wire::area::flag;
use whyslow_heap_wire::handshake::hook;

use crate::area::Area;
use crate::real::{self, other};
use crate::state;
use crate::{link, ring, sys};

/// From where the end is near.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `_exit`: nothing of the program runs any more.
    End,
    /// Other code may still run, but nothing later can be seen.
    NearEnd,
}

/// The process that has had its last moment.
static DONE: AtomicU32 = AtomicU32::new(0);
/// The process in which libc has run the program's exit functions.
static FINISHED: AtomicU32 = AtomicU32::new(0);

/// libc runs the exit functions, of which the agent's are among the last.
pub fn finished() {
    FINISHED.store(sys::process(), Relaxed);
    if !real::is_set(hook::EXIT) {
        last_moment(Way::NearEnd);
    }
}

/// Waits for the collector, a bounded time, once.
pub fn last_moment(way: Way) {
    let Some(area) = Area::get() else { return };
    if area.flags() & flag::WAIT_AT_EXIT == 0 {
        return;
    }
    state::note_fork();
    let process = sys::process();
    if !state::is_own_process() || DONE.swap(process, AcqRel) == process {
        return;
    }
    if way == Way::End && FINISHED.load(Relaxed) == process {
        free_libraries_own();
    }
    forget_below();
    wait(area, process);
}

/// Overwrites what earlier calls left where the agent's own frames will be: to the collector it would look as if somebody held it. So what
/// needs room on the stack is not part of its caller here.
#[inline(never)]
fn forget_below() {
    let mut room = mem::MaybeUninit::<[u64; 256]>::uninit();
    for index in 0..256 {
        // SAFETY: in the array.
        unsafe { ptr::write_volatile(room.as_mut_ptr().cast::<u64>().add(index), 0) };
    }
}

/// What libc and libstdc++ keep for themselves until the end is no leak. Only after an orderly end: a signal handler may have
/// interrupted the allocator, and other threads may still use it.
#[inline(never)]
fn free_libraries_own() {
    if sys::threads() != 1 || sys::signals_blocked() {
        return;
    }
    for free in [link::libstdcxx_freeres(), link::libc_freeres()].into_iter().filter(|free| *free != 0) {
        // SAFETY: nothing of the program runs any more, and this is the signature of both.
        unsafe {
            let free: extern "C" fn() = mem::transmute(free);
            free();
        }
    }
}

#[inline(never)]
fn wait(area: Area, process: u32) {
    let header = area.header();
    let thread = sys::thread();
    let mut patience = Patience::new(area);
    // The thread's number is the lock: it is there before the process's is.
    while let Err(holder) = header.exiting_tid.compare_exchange(0, thread, AcqRel, Relaxed) {
        if !patience.wait(&header.exiting_tid, holder) {
            return;
        }
    }
    let allowed = header.exits_allowed.load(Acquire);
    header.exiting_pid.store(process, Release);
    // A collector that did not see this before it fell asleep is seen asleep.
    fence(SeqCst);
    ring::wake_collector(area);
    while header.exits_allowed.load(Acquire) == allowed && patience.wait(&header.exits_allowed, allowed) {}
    let _ = header.exiting_pid.compare_exchange(process, 0, AcqRel, Relaxed);
    let _ = header.exiting_tid.compare_exchange(thread, 0, AcqRel, Relaxed);
    sys::wake_one(&header.exiting_tid);
}

/// How long the process may still be held up, in microseconds.
struct Patience {
    area: Area,
    left: u32,
    /// As long as the collector does not move.
    left_still: u32,
    heartbeat: u64,
}

impl Patience {
    const STEP: u32 = 20_000;
    const MOST: u32 = 10_000_000;
    const MOST_STILL: u32 = 2_000_000;
    /// About what it takes until somebody else has had his turn.
    const TURN: u32 = 100;

    fn new(area: Area) -> Self {
        let heartbeat = area.header().heartbeat.load(Relaxed);
        Self { area, left: Self::MOST, left_still: Self::MOST_STILL, heartbeat }
    }

    /// Waits a while, at most until the word is not this value. False: enough.
    fn wait(&mut self, word: &AtomicU32, value: u32) -> bool {
        let woken = sys::wait(word, value, u64::from(Self::STEP) * 1000);
        let spent = if woken { Self::TURN } else { Self::STEP };
        let heartbeat = self.area.header().heartbeat.load(Relaxed);
        if heartbeat != self.heartbeat {
            self.left_still = Self::MOST_STILL;
        }
        self.heartbeat = heartbeat;
        self.left = self.left.saturating_sub(spent);
        self.left_still = self.left_still.saturating_sub(spent);
        self.left > 0 && self.left_still > 0 && self.area.enabled()
    }
}

fn leave_by(function: usize, code: u64, way: Way) -> ! {
    last_moment(way);
    let real = real::of_other(function);
    if real != 0 {
        // SAFETY: the function that this stands in for, with the caller's own argument.
        unsafe { real::call(real, code, 0, 0, 0) };
    }
    sys::exit(code as usize)
}

/// libc's `_exit`.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(code: u64) -> ! {
    leave_by(other::EXIT, code, Way::End)
}

/// libc's `_Exit`.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(code: u64) -> ! {
    leave_by(other::EXIT, code, Way::End)
}

/// libc's `quick_exit`. Its handlers run behind this, and then `_exit`, which is the better moment if it can be seen.
#[unsafe(no_mangle)]
pub extern "C" fn quick_exit(code: u64) -> ! {
    if !real::is_set(hook::EXIT) {
        last_moment(Way::NearEnd);
    }
    let real = real::of_other(other::QUICK_EXIT);
    if real != 0 {
        // SAFETY: the function that this stands in for, with the caller's own argument.
        unsafe { real::call(real, code, 0, 0, 0) };
    }
    sys::exit(code as usize)
}
