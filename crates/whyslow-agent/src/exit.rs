//! Holds the process at its exit, so that the collector can read its memory first.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

use whyslow_agent_wire::area::{MOST_REGISTERS, flag};
use whyslow_agent_wire::handshake::hook;

use crate::arch::exit::Kept;
use crate::area::Area;
use crate::real::{self, Function, other};
use crate::state;
use crate::{freeres, ring, sys};

/// How close to its end the process is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// `_exit`: no code of the program runs any more.
    End,
    /// Other code may still run, but the agent gets no later chance.
    NearEnd,
}

/// The program's stack pointer and registers where it is about to exit. Code of the agent beyond this point
/// holds no blocks of the program.
pub struct ExitPoint {
    sp: u64,
    registers: [u64; MOST_REGISTERS],
}

impl ExitPoint {
    pub fn new(sp: u64, registers: [u64; MOST_REGISTERS]) -> Self {
        Self { sp, registers }
    }

    /// The state when a shim was called. All other registers are the callee's.
    fn of_call(kept: &Kept) -> Self {
        let mut registers = [0; MOST_REGISTERS];
        for (to, from) in registers.iter_mut().zip(kept) {
            *to = *from;
        }
        Self { sp: kept.as_ptr_range().end as u64, registers }
    }

    /// The same, at an exit that this thread may have reached through `exit`. Then libc's frames lie between
    /// the two. They contain stale addresses, so the state at the call of `exit` is used.
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

/// The thread that called `exit`, and its stack pointer and registers then.
struct Orderly {
    thread: AtomicU32,
    sp: AtomicU64,
    kept: [AtomicU64; 6],
}

static ORDERLY: Orderly =
    Orderly { thread: AtomicU32::new(0), sp: AtomicU64::new(0), kept: [const { AtomicU64::new(0) }; 6] };

/// # Safety
/// Only a shim calls it, with its caller's argument and registers.
pub unsafe extern "C" fn note_orderly_exit(_: u64, kept: &Kept) {
    let (point, thread) = (ExitPoint::of_call(kept), sys::thread());
    // The agent's own call of the real function passes here too.
    if ORDERLY.thread.load(Acquire) == thread && ORDERLY.sp.load(Relaxed) >= point.sp {
        return;
    }
    ORDERLY.sp.store(point.sp, Relaxed);
    for (to, from) in ORDERLY.kept.iter().zip(kept) {
        to.store(*from, Relaxed);
    }
    ORDERLY.thread.store(thread, Release);
}

/// The process that was already held.
static DONE: AtomicU32 = AtomicU32::new(0);
/// The process in which libc has run the program's exit functions.
static FINISHED: AtomicU32 = AtomicU32::new(0);

/// # Safety
/// Only a shim calls it, with its caller's argument and registers.
pub unsafe extern "C" fn finished_body(_: u64, kept: &Kept) {
    // Nobody else asks, and the program may have forbidden itself the call.
    if Area::get().is_none_or(|area| area.flags() & flag::WAIT_AT_EXIT == 0) {
        return;
    }
    FINISHED.store(sys::process(), Relaxed);
    if !real::is_set(hook::EXIT) {
        hold_exit(Stage::NearEnd, &ExitPoint::of_end(kept));
    }
}

/// Waits for the collector once, for a bounded time.
pub fn hold_exit(way: Stage, point: &ExitPoint) {
    let Some(area) = Area::get() else { return };
    if area.flags() & flag::WAIT_AT_EXIT == 0 {
        return;
    }
    state::note_fork();
    let process = sys::process();
    if !state::is_own_process() || DONE.swap(process, AcqRel) == process {
        return;
    }
    if way == Stage::End && FINISHED.load(Relaxed) == process {
        freeres::free_library_memory();
    }
    wait(area, process, point);
}

fn wait(area: Area, process: u32, point: &ExitPoint) {
    let header = area.header();
    let thread = sys::thread();
    let mut patience = Patience::new(area);
    // The thread id is the lock. It is set before the process id.
    while let Err(holder) = header.exiting_tid.compare_exchange(0, thread, AcqRel, Relaxed) {
        if !patience.wait(&header.exiting_tid, holder) {
            return;
        }
    }
    header.exiting_sp.store(point.sp, Relaxed);
    for (to, from) in header.exiting_registers.iter().zip(point.registers) {
        to.store(from, Relaxed);
    }
    let allowed = header.exits_allowed.load(Acquire);
    header.exiting_pid.store(process, Release);
    // If the collector goes to sleep without seeing this, the agent sees that it sleeps.
    fence(SeqCst);
    ring::wake_collector(area);
    while header.exits_allowed.load(Acquire) == allowed && patience.wait(&header.exits_allowed, allowed) {}
    let _ = header.exiting_pid.compare_exchange(process, 0, AcqRel, Relaxed);
    let _ = header.exiting_tid.compare_exchange(thread, 0, AcqRel, Relaxed);
    sys::wake_one(&header.exiting_tid);
}

/// How long the process may still be held, in microseconds.
struct Patience {
    area: Area,
    left: u32,
    /// Time left while the collector makes no progress.
    left_still: u32,
    heartbeat: u64,
}

impl Patience {
    const STEP: u32 = 20_000;
    const MOST: u32 = 10_000_000;
    const MOST_STILL: u32 = 2_000_000;
    /// Roughly the time that another exiting thread takes.
    const TURN: u32 = 100;

    fn new(area: Area) -> Self {
        let heartbeat = area.header().heartbeat.load(Relaxed);
        Self { area, left: Self::MOST, left_still: Self::MOST_STILL, heartbeat }
    }

    /// Waits a while, or until the word changes. False when the time is used up.
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
/// Only a shim calls it, with its caller's argument and registers.
pub unsafe extern "C" fn patched_body(code: u64, kept: &Kept) -> ! {
    hold_exit(Stage::End, &ExitPoint::of_end(kept));
    // SAFETY: the hooked function, with the caller's own argument.
    unsafe { leave_by(real::of(hook::EXIT), code) }
}

/// # Safety
/// Only a shim calls it, with its caller's argument and registers.
pub unsafe extern "C" fn exit_group_body(code: u64, kept: &Kept) -> ! {
    hold_exit(Stage::NearEnd, &ExitPoint::of_call(kept));
    sys::exit(code as usize)
}

/// # Safety
/// Only a shim calls it, with its caller's argument and registers.
pub unsafe extern "C" fn exit_body(code: u64, kept: &Kept) -> ! {
    hold_exit(Stage::End, &ExitPoint::of_end(kept));
    // SAFETY: the hooked function, with the caller's own argument.
    unsafe { leave_by(real::of_other(other::EXIT), code) }
}

/// # Safety
/// Only a shim calls it, with its caller's argument and registers.
pub unsafe extern "C" fn quick_exit_body(code: u64, kept: &Kept) -> ! {
    // SAFETY: the shim's own argument.
    unsafe { note_orderly_exit(code, kept) };
    if !real::is_set(hook::EXIT) {
        hold_exit(Stage::NearEnd, &ExitPoint::of_call(kept));
    }
    // SAFETY: the hooked function, with the caller's own argument.
    unsafe { leave_by(real::of_other(other::QUICK_EXIT), code) }
}

/// # Safety
/// The function ends the program, and `code` is the program's own argument.
unsafe fn leave_by(real: Option<Function>, code: u64) -> ! {
    if let Some(real) = real {
        // SAFETY: guaranteed by the caller.
        unsafe { real.call([code]) };
    }
    sys::exit(code as usize)
}
