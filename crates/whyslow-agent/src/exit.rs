//! The last moment of the process: the collector may want to look at its memory before it is gone.

use core::mem;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

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
        free_libcs_own();
    }
    wait(area, process);
}

/// What libc keeps for itself until the end is no leak. Only after an orderly end: a signal handler may have
/// interrupted the allocator, and other threads may still use it.
fn free_libcs_own() {
    let free = link::libc_freeres();
    if free != 0 && sys::threads() == 1 && !sys::signals_blocked() {
        // SAFETY: nothing of the program runs any more, and this is its signature.
        unsafe {
            let free: extern "C" fn() = mem::transmute(free);
            free();
        }
    }
}

fn wait(area: Area, process: u32) {
    const STEP: u64 = 20_000_000;
    const MOST_STEPS: u64 = 10_000_000_000 / STEP;
    const MOST_STILL: u64 = 2_000_000_000 / STEP;
    let header = area.header();
    let thread = sys::thread();
    let (mut steps, mut still, mut heartbeat) = (0, 0, header.heartbeat.load(Relaxed));
    let mut go_on = || {
        steps += 1;
        let now = header.heartbeat.load(Relaxed);
        still = if now == heartbeat { still + 1 } else { 0 };
        heartbeat = now;
        steps < MOST_STEPS && still < MOST_STILL && area.enabled()
    };
    // The thread's number is the lock: it is there before the process's is.
    while header.exiting_tid.compare_exchange(0, thread, AcqRel, Relaxed).is_err() {
        if !go_on() {
            return;
        }
        sys::nap(STEP);
    }
    let allowed = header.exits_allowed.load(Acquire);
    header.exiting_pid.store(process, Release);
    ring::wake_collector(area);
    while header.exits_allowed.load(Acquire) == allowed && go_on() {
        sys::wait(&header.exits_allowed, allowed, STEP);
    }
    let _ = header.exiting_pid.compare_exchange(process, 0, AcqRel, Relaxed);
    let _ = header.exiting_tid.compare_exchange(thread, 0, AcqRel, Relaxed);
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
