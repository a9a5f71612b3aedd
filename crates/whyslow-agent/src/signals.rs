//! Signals that end the program because it has no handler for them. The agent's handler lets the collector
//! read the process, then lets the signal take its normal effect. The program does not notice: its queries
//! and changes of handlers go through [`sigaction`].
//!
//! Crash signals are left alone in programs with a runtime that asks the kernel for the handlers it replaces
//! and passes signals on to them.

use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use whyslow_agent_wire::area::flag;
use whyslow_agent_wire::handshake::hook;

use crate::arch::signals::{Context, RED_ZONE, restorer};
use crate::area::Area;
use crate::exit::{self, ExitPoint, Stage};
use crate::{real, sys};

const HUP: i32 = 1;
const INT: i32 = 2;
const QUIT: i32 = 3;
const ABRT: i32 = 6;
const USR1: i32 = 10;
const USR2: i32 = 12;
const ALRM: i32 = 14;
const TERM: i32 = 15;
const XCPU: i32 = 24;
const ILL: i32 = 4;
const BUS: i32 = 7;
const FPE: i32 = 8;
const SEGV: i32 = 11;
/// The handled signals. Crash signals come first.
const HANDLED: [i32; 13] = [ILL, BUS, FPE, SEGV, HUP, INT, QUIT, ABRT, USR1, USR2, ALRM, TERM, XCPU];
const CRASHES: usize = 4;

const SIG_DFL: u64 = 0;

/// The flags that the program set along with `SIG_DFL`.
static FLAGS: [AtomicU64; HANDLED.len()] = [const { AtomicU64::new(0) }; HANDLED.len()];

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Default)]
pub struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

impl Action {
    /// A handler with its flags and restorer.
    pub fn new(handler: u64, flags: u64, restorer: u64) -> Self {
        Self { handler, flags, restorer, mask: 0 }
    }

    /// The handler, or one of the kernel's numbers for none.
    pub fn handler(&self) -> u64 {
        self.handler
    }
}

/// libc's `struct sigaction`.
#[repr(C)]
pub struct LibcAction {
    handler: u64,
    mask: [u64; 16],
    flags: i32,
    restorer: u64,
}

/// Installs the handlers. Does nothing if `sigaction` is not patched, because the program would see them.
pub fn install_handlers() {
    if real::is_set(hook::SIGACTION) {
        (first()..HANDLED.len()).for_each(take);
    }
}

/// The first handled row.
fn first() -> usize {
    let with_crashes = Area::get().is_some_and(|area| area.flags() & flag::WAIT_IN_CRASH != 0);
    if with_crashes { 0 } else { CRASHES }
}

/// Installs the agent's handler for a signal that has none.
fn take(row: usize) {
    const SA_SIGINFO: u64 = 4;
    const SA_RESTORER: u64 = 0x0400_0000;
    const SA_ONSTACK: u64 = 0x0800_0000;
    let signal = HANDLED[row];
    if let Some(now) = sys::signal_action(signal)
        && now.handler == SIG_DFL
    {
        let flags = SA_SIGINFO | SA_RESTORER | SA_ONSTACK;
        let own = Action::new(handler as *const () as u64, flags, restorer as *const () as u64);
        FLAGS[row].store(now.flags & !SA_RESTORER, Relaxed);
        // SAFETY: the handler has the signature that `SA_SIGINFO` requires, and the restorer is a restorer.
        unsafe { sys::set_signal_action(signal, &own) };
    }
}

/// # Safety
/// Only the kernel calls it.
unsafe extern "C" fn handler(signal: i32, info: *const Info, context: *const Context) {
    // SAFETY: the kernel put both on the stack above this frame.
    let (point, is_fault) = unsafe { (ExitPoint::of_signal(&*context), (*info).code > 0) };
    exit::hold_exit(Stage::NearEnd, &point);
    // The signal is blocked here. It is delivered again when this handler returns, to the program as it was.
    // A crash recurs by itself, with its address. SAFETY: the default action has no handler.
    unsafe { sys::set_signal_action(signal, &Action::default()) };
    if !(is_fault && HANDLED[..CRASHES].contains(&signal)) {
        sys::send_signal_to_self(signal);
    }
}

/// The fields of the kernel's `siginfo` that are used.
#[repr(C)]
pub struct Info {
    _before: [i32; 2],
    /// Positive if the kernel sent the signal, not a process.
    code: i32,
    _between: i32,
    _timer: i32,
    overrun: i32,
    value: u64,
}

/// An expired timer.
pub struct Expired {
    /// The value it was created with.
    pub value: u64,
    /// How many times it expired again before the signal was handled.
    pub overrun: u32,
}

impl Info {
    /// Whether the kernel sent it because of an event of a descriptor.
    pub fn is_from_kernel(&self) -> bool {
        self.code > 0
    }

    /// The descriptor whose event it is about, if [`Info::is_from_kernel`].
    pub fn descriptor(&self) -> i32 {
        self.value as i32
    }

    /// The timer that sent this signal. `None` if the signal has another source.
    pub fn timer(&self) -> Option<Expired> {
        const SI_TIMER: i32 = -2;
        (self.code == SI_TIMER)
            .then_some(Expired { value: self.value, overrun: self.overrun.max(0).cast_unsigned() })
    }
}

impl ExitPoint {
    /// The state in which a signal interrupted the program.
    fn of_signal(context: &Context) -> Self {
        const LARGEST_FRAME: u64 = 64 << 10;
        let frame = ptr::from_ref(context) as u64;
        let sp = context.sp();
        // The kernel's frame holds all other registers. If the handler runs on a separate stack, it is not
        // found, and only those are missing.
        let same_stack = sp.wrapping_sub(frame) < LARGEST_FRAME;
        ExitPoint::new(if same_stack { frame } else { sp.wrapping_sub(RED_ZONE) }, context.registers())
    }
}

/// Hook for libc's `sigaction`, patched at its start. libc's related functions call it.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn sigaction(signal: i32, new: *const LibcAction, old: *mut LibcAction) -> i32 {
    const FAILED: i32 = -1;
    let Some(real) = real::of(hook::SIGACTION) else { return FAILED };
    // SAFETY: the hooked function, with the caller's own arguments.
    let result = unsafe { real.call([signal as u64, new as u64, old as u64]) } as i32;
    if result == 0
        && let Some(row) = HANDLED.iter().position(|own| *own == signal).filter(|row| *row >= first())
    {
        let flags = FLAGS[row].load(Relaxed) as i32;
        // SAFETY: null, or the program's own, which libc has just written.
        if let Some(old) = unsafe { old.as_mut() }
            && old.handler == handler as *const () as u64
        {
            *old = LibcAction { handler: SIG_DFL, mask: [0; 16], flags, restorer: 0 };
        }
        if !new.is_null() {
            take(row);
        }
    }
    result
}
