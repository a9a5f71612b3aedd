//! Signals that end the program because it has set no handler for them. The agent's handler lets the collector look at the process, and then lets
//! the signal do what it would have done. To the program it looks as if there were none: what it asks about its handlers, and what it sets,
//! goes through [`sigaction`].
//!
//! Signals of a crash are left alone where a runtime asks the kernel whose handlers it takes the place of, and hands them on.

use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use whyslow_heap_wire::area::flag;
use whyslow_heap_wire::handshake::hook;

use crate::arch::signals::{Context, RED_ZONE, restorer};
use crate::area::Area;
use crate::exit::{self, Moment, Way};
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
/// Those that are looked after; those of a crash come first.
const OURS: [i32; 13] = [ILL, BUS, FPE, SEGV, HUP, INT, QUIT, ABRT, USR1, USR2, ALRM, TERM, XCPU];
const CRASHES: usize = 4;

const SIG_DFL: u64 = 0;

/// What the program has set beside that it wants no handler.
static FLAGS: [AtomicU64; OURS.len()] = [const { AtomicU64::new(0) }; OURS.len()];

/// How the kernel has it.
#[repr(C)]
#[derive(Default)]
pub struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

impl Action {
    /// A handler, and how it is called.
    pub fn new(handler: u64, flags: u64, restorer: u64) -> Self {
        Self { handler, flags, restorer, mask: 0 }
    }

    /// The handler, or one of the kernel's numbers for none.
    pub fn handler(&self) -> u64 {
        self.handler
    }
}

/// How libc has it (`struct sigaction`).
#[repr(C)]
pub struct LibcAction {
    handler: u64,
    mask: [u64; 16],
    flags: i32,
    restorer: u64,
}

/// Begins to look after signals. Without a patched `sigaction` the program would see it, so nothing is done then.
pub fn look_after() {
    if real::is_set(hook::SIGACTION) {
        (first()..OURS.len()).for_each(take);
    }
}

/// The first row that is looked after.
fn first() -> usize {
    let with_crashes = Area::get().is_some_and(|area| area.flags() & flag::WAIT_IN_CRASH != 0);
    if with_crashes { 0 } else { CRASHES }
}

/// Takes a signal if no handler is set for it.
fn take(row: usize) {
    const SA_SIGINFO: u64 = 4;
    const SA_RESTORER: u64 = 0x0400_0000;
    const SA_ONSTACK: u64 = 0x0800_0000;
    let signal = OURS[row];
    if let Some(now) = sys::signal_action(signal)
        && now.handler == SIG_DFL
    {
        let flags = SA_SIGINFO | SA_RESTORER | SA_ONSTACK;
        let ours = Action::new(handler as *const () as u64, flags, restorer as *const () as u64);
        FLAGS[row].store(now.flags & !SA_RESTORER, Relaxed);
        // SAFETY: the handler has the signature that `SA_SIGINFO` asks for, and the restorer is one.
        unsafe { sys::set_signal_action(signal, &ours) };
    }
}

/// # Safety
/// Only the kernel calls it.
unsafe extern "C" fn handler(signal: i32, info: *const Info, context: *const Context) {
    // SAFETY: the kernel's, on the stack above this.
    let (moment, made_by_fault) = unsafe { (Moment::of_signal(&*context), (*info).code > 0) };
    exit::last_moment(Way::NearEnd, &moment);
    // The signal is blocked here: it comes again when this returns, to the program as it was. A crash does so by itself, with its address.
    // SAFETY: the kernel's own way, without a handler.
    unsafe { sys::set_signal_action(signal, &Action::default()) };
    if !(made_by_fault && OURS[..CRASHES].contains(&signal)) {
        sys::send_signal_to_self(signal);
    }
}

/// What the kernel says of a signal (`siginfo`), as far as it is looked at.
#[repr(C)]
pub struct Info {
    _before: [i32; 2],
    /// Above 0 if no process has sent it.
    code: i32,
    _between: i32,
    _timer: i32,
    overrun: i32,
    value: u64,
}

/// A timer that expired.
pub struct Expired {
    /// What it was made with.
    pub value: u64,
    /// How often it expired since, before anybody took notice.
    pub overrun: u32,
}

impl Info {
    /// The timer whose signal it is; none if it is another's.
    pub fn timer(&self) -> Option<Expired> {
        const SI_TIMER: i32 = -2;
        (self.code == SI_TIMER)
            .then_some(Expired { value: self.value, overrun: self.overrun.max(0).cast_unsigned() })
    }
}

impl Moment {
    /// The moment in which a signal interrupted the program.
    fn of_signal(context: &Context) -> Self {
        const LARGEST_FRAME: u64 = 64 << 10;
        let frame = ptr::from_ref(context) as u64;
        let sp = context.sp();
        // The kernel's frame holds all other registers. On a stack of its own it is not found; then only those are missing.
        let same_stack = sp.wrapping_sub(frame) < LARGEST_FRAME;
        Moment::new(if same_stack { frame } else { sp.wrapping_sub(RED_ZONE) }, context.registers())
    }
}

/// libc's `sigaction`, with a patch at its start; its other functions of this kind come here.
///
/// # Safety
/// As for libc's.
pub unsafe extern "C" fn sigaction(signal: i32, new: *const LibcAction, old: *mut LibcAction) -> i32 {
    const FAILED: i32 = -1;
    let Some(real) = real::of(hook::SIGACTION) else { return FAILED };
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    let result = unsafe { real.call([signal as u64, new as u64, old as u64]) } as i32;
    if result == 0
        && let Some(row) = OURS.iter().position(|ours| *ours == signal).filter(|row| *row >= first())
    {
        let flags = FLAGS[row].load(Relaxed) as i32;
        // SAFETY: null, or the program's, which libc has just written.
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
