//! The last moment of the process: the collector may want to look at its memory before it is gone.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

use whyslow_heap_wire::area::{MOST_REGISTERS, flag};
use whyslow_heap_wire::handshake::hook;

use crate::arch::exit::Kept;
use crate::area::Area;
use crate::real::{self, Function, other};
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

/// Where the program stands: its stack pointer and its registers. What the agent does from here on holds no block of the program's.
pub struct Moment {
    sp: u64,
    registers: [u64; MOST_REGISTERS],
}

impl Moment {
    pub fn new(sp: u64, registers: [u64; MOST_REGISTERS]) -> Self {
        Self { sp, registers }
    }

    /// The moment in which a shim was called. All other registers are the callee's.
    fn of_call(kept: &Kept) -> Self {
        let mut registers = [0; MOST_REGISTERS];
        for (to, from) in registers.iter_mut().zip(kept) {
            *to = *from;
        }
        Self { sp: kept.as_ptr_range().end as u64, registers }
    }

    /// The same at an end to which this thread may have come by `exit`. Between that and here there are libc's frames, in which old addresses
    /// lie on that nobody has written there.
    fn of_end(kept: &Kept) -> Self {
        let here = Self::of_call(kept);
        let sp = ORDERLY.sp.load(Relaxed);
        if ORDERLY.thread.load(Acquire) != sys::thread() || sp <= here.sp {
            return here;
        }
        let mut registers = [0; MOST_REGISTERS];
        for (to, from) in registers.iter_mut().zip(&ORDERLY.kept) {
            *to = from.load(Relaxed);
        }
        Self { sp, registers }
    }
}

/// The thread that called `exit`, and its moment.
struct Orderly {
    thread: AtomicU32,
    sp: AtomicU64,
    kept: [AtomicU64; 6],
}

static ORDERLY: Orderly =
    Orderly { thread: AtomicU32::new(0), sp: AtomicU64::new(0), kept: [const { AtomicU64::new(0) }; 6] };

/// # Safety
/// A shim calls it, with the code of its own caller.
pub unsafe extern "C" fn orderly_noted(_: u64, kept: &Kept) {
    let (moment, thread) = (Moment::of_call(kept), sys::thread());
    // The agent's own way to the real function comes by here, too.
    if ORDERLY.thread.load(Acquire) == thread && ORDERLY.sp.load(Relaxed) >= moment.sp {
        return;
    }
    ORDERLY.sp.store(moment.sp, Relaxed);
    for (to, from) in ORDERLY.kept.iter().zip(kept) {
        to.store(*from, Relaxed);
    }
    ORDERLY.thread.store(thread, Release);
}

/// The process that has had its last moment.
static DONE: AtomicU32 = AtomicU32::new(0);
/// The process in which libc has run the program's exit functions.
static FINISHED: AtomicU32 = AtomicU32::new(0);

/// # Safety
/// A shim calls it, with the code of its own caller.
pub unsafe extern "C" fn finished_body(_: u64, kept: &Kept) {
    FINISHED.store(sys::process(), Relaxed);
    if !real::is_set(hook::EXIT) {
        last_moment(Way::NearEnd, &Moment::of_end(kept));
    }
}

/// Waits for the collector, a bounded time, once.
pub fn last_moment(way: Way, moment: &Moment) {
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
    wait(area, process, moment);
}

/// What libc and libstdc++ keep for themselves until the end is no leak. Only after an orderly end: a signal handler may have
/// interrupted the allocator, and other threads may still use it.
fn free_libraries_own() {
    if sys::threads() != 1 || sys::signals_blocked() {
        return;
    }
    for free in [link::libstdcxx_freeres(), link::libc_freeres()].into_iter().flatten() {
        // SAFETY: nothing of the program runs any more, so that nobody uses what they free.
        unsafe { free() };
    }
}

fn wait(area: Area, process: u32, moment: &Moment) {
    let header = area.header();
    let thread = sys::thread();
    let mut patience = Patience::new(area);
    // The thread's number is the lock: it is there before the process's is.
    while let Err(holder) = header.exiting_tid.compare_exchange(0, thread, AcqRel, Relaxed) {
        if !patience.wait(&header.exiting_tid, holder) {
            return;
        }
    }
    header.exiting_sp.store(moment.sp, Relaxed);
    for (to, from) in header.exiting_registers.iter().zip(moment.registers) {
        to.store(from, Relaxed);
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

/// # Safety
/// A shim calls it, with the code of its own caller.
pub unsafe extern "C" fn patched_body(code: u64, kept: &Kept) -> ! {
    last_moment(Way::End, &Moment::of_end(kept));
    // SAFETY: the function that this stands in for, with the caller's own argument.
    unsafe { leave_by(real::of(hook::EXIT), code) }
}

/// # Safety
/// A shim calls it, with the code of its own caller.
pub unsafe extern "C" fn exit_group_body(code: u64, kept: &Kept) -> ! {
    last_moment(Way::NearEnd, &Moment::of_call(kept));
    sys::exit(code as usize)
}

/// # Safety
/// A shim calls it, with the code of its own caller.
pub unsafe extern "C" fn exit_body(code: u64, kept: &Kept) -> ! {
    last_moment(Way::End, &Moment::of_end(kept));
    // SAFETY: the function that this stands in for, with the caller's own argument.
    unsafe { leave_by(real::of_other(other::EXIT), code) }
}

/// # Safety
/// A shim calls it, with the code of its own caller.
pub unsafe extern "C" fn quick_exit_body(code: u64, kept: &Kept) -> ! {
    // SAFETY: the shim's own argument.
    unsafe { orderly_noted(code, kept) };
    if !real::is_set(hook::EXIT) {
        last_moment(Way::NearEnd, &Moment::of_call(kept));
    }
    // SAFETY: the function that this stands in for, with the caller's own argument.
    unsafe { leave_by(real::of_other(other::QUICK_EXIT), code) }
}

/// # Safety
/// The function ends the program, and the code is the program's own argument.
unsafe fn leave_by(real: Option<Function>, code: u64) -> ! {
    if let Some(real) = real {
        // SAFETY: the caller's promise.
        unsafe { real.call([code]) };
    }
    sys::exit(code as usize)
}
