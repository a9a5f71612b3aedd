//! Samples of CPU time, taken by the program itself where the kernel's own are refused.
//!
//! Each thread has a timer on its CPU clock that sends [`SIGNAL`] to that thread. The handler copies registers and stack into a slot that the collector
//! reads. Timers expire at ticks of the kernel's clock, so one that is due at once fires at the first tick that finds its thread at work: a thread
//! that lives for a quarter of a tick is seen in a quarter of the cases, and its sample stands for a whole one.
//!
//! ```text
//! begins      the program's first thread, by the agent's start
//! thread      by `pthread_create`, to its end, when it tells what CPU time it had; others (made by `clone`, or before the agent came) by the process's own timer, which looks for them
//! child       by `_Fork`: timers are not inherited
//! exec        timers go with the old program, the new one says hello again
//! ```
//! The signal is one that libc keeps for itself and lets nobody block or handle. Its own use of it, the cancelling of threads, is handed on.

use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use whyslow_heap_wire::area::{SAMPLES_AT, flag};
use whyslow_heap_wire::handshake::hook;
use whyslow_heap_wire::sampler::{Board, SAMPLES_LEN, STACK_LEN, Slot, slot_at, state};

use crate::arch::signals::{Context, restorer};
use crate::area::Area;
use crate::signals::{Action, Info};
use crate::sys::{self, Clock};
use crate::{arch, real};

/// glibc's `SIGCANCEL`. It and musl keep 32 to 34 for themselves, and Go leaves those alone.
const SIGNAL: i32 = 32;

/// Where the board is; null as long as nothing is sampled.
static BOARD: AtomicPtr<Board> = AtomicPtr::new(ptr::null_mut());
/// The process whose threads have timers.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// CPU time between two samples of a thread.
static PERIOD: AtomicU64 = AtomicU64::new(0);
/// libc's own handler of the signal; 0 for none.
static CANCELS: AtomicU64 = AtomicU64::new(0);

/// What a timer's signal carries: whose timer it is.
mod of {
    pub const THREAD: u64 = 1;
    pub const PROCESS: u64 = 2;
}

/// The process's own timer comes after so many periods of its CPU time.
const PROCESS_PERIODS: u64 = 8;

/// Begins to sample, if that is asked for. The area's file is open.
pub fn begin(area: Area, file: i32) {
    if area.flags() & flag::SAMPLE == 0 {
        return;
    }
    let Some(board) = sys::map_shared(file, SAMPLES_AT, SAMPLES_LEN) else { return };
    BOARD.store(board.cast().as_ptr(), Release);
    let Some(samples) = Samples::get() else { return };
    let wish = samples.board().wish_ns.load(Relaxed);
    let period = wish.max(sys::resolution(Clock::COARSE));
    PERIOD.store(period, Relaxed);
    samples.board().period_ns.store(period, Release);
    take_signal();
    begin_process();
}

/// Gives timers to the process and to the calling thread.
fn begin_process() {
    PROCESS.store(sys::process(), Relaxed);
    timers::forget_all();
    let period = PERIOD.load(Relaxed);
    if let Some(timer) = sys::timer(Clock::PROCESS_CPU, SIGNAL, of::PROCESS, None) {
        let every = period.saturating_mul(PROCESS_PERIODS);
        sys::set_timer(timer, every, every);
        timers::keep_process(timer);
    }
    arm(sys::thread());
}

/// Gives a thread of this process a timer, unless it has one.
fn arm(tid: u32) {
    let Some(samples) = Samples::get() else { return };
    if !timers::claim(tid) {
        return;
    }
    match sys::timer(Clock::cpu_of(tid), SIGNAL, of::THREAD, Some(tid)) {
        Some(timer) => {
            // Due at once: at the first tick that finds the thread at work.
            sys::set_timer(timer, 1, PERIOD.load(Relaxed));
            timers::keep(tid, timer);
        }
        None => {
            timers::release(tid);
            // It may have ended meanwhile.
            if sys::is_thread(tid) {
                samples.board().untimed.fetch_add(1, Relaxed);
            }
        }
    }
}

fn take_signal() {
    const SA_SIGINFO: u64 = 4;
    const SA_RESTORER: u64 = 0x0400_0000;
    const SA_ONSTACK: u64 = 0x0800_0000;
    const SA_RESTART: u64 = 0x1000_0000;
    let ours = handler as *const () as u64;
    let before = sys::signal_action(SIGNAL).map_or(0, |action| action.handler());
    if before != ours && before > 1 {
        CANCELS.store(before, Relaxed);
    }
    let flags = SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART;
    let action = Action::new(ours, flags, restorer as *const () as u64);
    // SAFETY: the handler has the signature that `SA_SIGINFO` asks for, and the restorer is one.
    unsafe { sys::set_signal_action(SIGNAL, &action) };
}

/// # Safety
/// Only the kernel calls it.
unsafe extern "C" fn handler(signal: i32, info: *const Info, context: *mut Context) {
    // SAFETY: the kernel's, on the stack above this.
    let (info, interrupted) = unsafe { (&*info, &*context) };
    match info.timer() {
        Some(timer) => {
            if timer.value == of::PROCESS {
                look_for_threads();
            } else if let Some(samples) = Samples::get() {
                samples.take(interrupted, timer.overrun);
            }
        }
        None => {
            let theirs = CANCELS.load(Relaxed);
            if theirs > 1 {
                // SAFETY: libc's own handler of this signal, which it set with `SA_SIGINFO`.
                let theirs: unsafe extern "C" fn(i32, *const Info, *mut Context) =
                    unsafe { mem::transmute(theirs) };
                // SAFETY: the kernel's own arguments.
                unsafe { theirs(signal, info, context) };
            }
        }
    }
}

/// Gives timers to threads that came without being seen.
fn look_for_threads() {
    if Samples::get().is_some() && PROCESS.load(Relaxed) == sys::process() {
        arm(sys::thread());
        sys::each_thread(arm);
        timers::release_ended();
    }
}

/// The samples' part of the area.
#[derive(Clone, Copy)]
struct Samples(ptr::NonNull<Board>);

impl Samples {
    fn get() -> Option<Self> {
        ptr::NonNull::new(BOARD.load(Acquire)).map(Self)
    }

    fn board(self) -> &'static Board {
        // SAFETY: the board's part of the area is mapped there for good, and is made of atomics.
        unsafe { self.0.as_ref() }
    }

    /// A free slot, which is the caller's until its state is set.
    fn claim(self) -> Option<(&'static AtomicU32, &'static Slot)> {
        let taken = state::taken_by(sys::thread());
        let is_taken = |state: &AtomicU32| {
            state.load(Relaxed) == state::FREE
                && state.compare_exchange(state::FREE, taken, Acquire, Relaxed).is_ok()
        };
        let number = self.board().states.iter().position(is_taken)?;
        // SAFETY: so many slots lie behind the board, which is mapped for good, and they are made of atomics.
        let slot = unsafe { self.0.cast::<u8>().add(slot_at(number)).cast::<Slot>().as_ref() };
        Some((&self.board().states[number], slot))
    }

    /// Copies what a signal interrupted.
    fn take(self, interrupted: &Context, overrun: u32) {
        if !Area::get().is_some_and(Area::enabled) {
            // Nobody listens any more.
            stop();
            return;
        }
        let value = PERIOD.load(Relaxed).saturating_mul(1 + u64::from(overrun));
        let Some((state, slot)) = self.claim() else {
            self.board().lost.fetch_add(1, Relaxed);
            self.board().lost_ns.fetch_add(value, Relaxed);
            return;
        };
        write_thread(slot, value);
        for (to, from) in slot.registers.iter().zip(interrupted.all_registers()) {
            to.store(from, Relaxed);
        }
        // SAFETY: the slot is this thread's alone until its state is set, and its stack has so many bytes.
        let copied = unsafe { sys::copy_own(interrupted.sp(), slot.stack.as_ptr() as usize, STACK_LEN) };
        slot.stack_len.store(copied as u32, Relaxed);
        state.store(state::SAMPLE, Release);
    }

    /// A free slot for what must not be missed: outside of the handler it can be waited for until the collector has emptied some.
    fn claim_patiently(self) -> Option<(&'static AtomicU32, &'static Slot)> {
        const TRIES: u32 = 100;
        const NAP_NS: u64 = 200_000;
        for _ in 0..TRIES {
            if let Some(claimed) = self.claim() {
                return Some(claimed);
            }
            sys::nap(NAP_NS);
        }
        self.board().lost.fetch_add(1, Relaxed);
        None
    }

    /// Tells that the calling thread begins or ends.
    fn tell(self, what: u32, value: u64) {
        if let Some((state, slot)) = self.claim_patiently() {
            write_thread(slot, value);
            state.store(what, Release);
        }
    }

    /// Tells that this process is a copy of another.
    fn tell_fork(self, parent: u32) {
        if let Some((state, slot)) = self.claim_patiently() {
            slot.time_ns.store(sys::now(), Relaxed);
            slot.pid.store(sys::process(), Relaxed);
            slot.tid.store(parent, Relaxed);
            state.store(state::FORKED, Release);
        }
    }
}

/// Whose it is, when, and how much.
fn write_thread(slot: &Slot, value: u64) {
    slot.time_ns.store(sys::now(), Relaxed);
    slot.value_ns.store(value, Relaxed);
    slot.pid.store(sys::process(), Relaxed);
    slot.tid.store(sys::thread(), Relaxed);
    for (to, from) in slot.name.iter().zip(sys::thread_name()) {
        to.store(from, Relaxed);
    }
}

/// libc's `pthread_create`, with a patch at its start.
///
/// # Safety
/// As for libc's.
pub unsafe extern "C" fn pthread_create(thread: u64, attributes: u64, start: u64, argument: u64) -> u64 {
    const EAGAIN: u64 = 11;
    let Some(real) = real::of(hook::THREAD) else { return EAGAIN };
    let started = if Samples::get().is_some() {
        ends::prepare();
        starts::put(start, argument)
    } else {
        None
    };
    let (start, argument) = match started {
        Some(row) => (arch::sampler::thread_start as *const () as u64, row as u64),
        None => (start, argument),
    };
    // SAFETY: the function that the hook stands in for; what it starts does what the caller's function does.
    let result = unsafe { real.call([thread, attributes, start, argument]) };
    if result as i32 != 0
        && let Some(row) = started
    {
        starts::take(row);
    }
    result
}

/// What a thread was made for: its function and argument. It has its timer then.
pub extern "C" fn thread_begins(row: usize) -> Started {
    if let Some(samples) = Samples::get() {
        samples.tell(state::BEGUN, 0);
        arm(sys::thread());
        ends::watch();
    }
    starts::take(row)
}

/// The end of a thread. Not all ticks fall where the time goes: threads that take turns at ticks of the clock can always end before the next one. So each
/// tells what it had, and the collector knows what no sample stands for.
mod ends {
    use super::*;

    /// libc's key whose destructor is called at a thread's end, plus 2; 1 while it is made.
    static KEY: AtomicU64 = AtomicU64::new(0);

    /// Makes the key.
    pub fn prepare() {
        let Some(create) = real::of(hook::KEY_CREATE) else { return };
        if KEY.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            return;
        }
        let mut key = 0u32;
        // SAFETY: libc's `pthread_key_create`, with room for a key, and a destructor.
        let result = unsafe { create.call([&raw mut key as u64, ended as *const () as u64]) };
        if result as i32 == 0 {
            KEY.store(u64::from(key) + 2, Release);
        }
    }

    /// Has the calling thread's end told of.
    pub fn watch() {
        let key = KEY.load(Acquire);
        if key >= 2
            && let Some(set) = real::of(hook::SET_SPECIFIC)
        {
            // SAFETY: libc's `pthread_setspecific`, with the key from above; what is set only has to differ from null.
            unsafe { set.call([key - 2, 1]) };
        }
    }

    /// # Safety
    /// libc calls it.
    unsafe extern "C" fn ended(_: u64) {
        if let Some(samples) = Samples::get().filter(|_| Area::get().is_some_and(Area::enabled)) {
            timers::end(sys::thread());
            samples.tell(state::ENDED, sys::cpu_time());
        }
    }
}

/// The program is about to forbid itself system calls. One that the agent makes then might be its death, so it makes none any more.
pub extern "C" fn confined() {
    if let Some(samples) = Samples::get() {
        stop();
        samples.board().confined.fetch_add(1, Relaxed);
    }
}

/// Never samples this process again.
fn stop() {
    BOARD.store(ptr::null_mut(), Release);
    timers::delete_all();
}

/// libc's `prctl`, with a patch at its start.
///
/// # Safety
/// As for libc's.
pub unsafe extern "C" fn prctl(operation: u64, a: u64, b: u64, c: u64, d: u64) -> u64 {
    const PR_SET_SECCOMP: i32 = 22;
    let Some(real) = real::of(hook::PRCTL) else { return u64::MAX };
    if operation as i32 == PR_SET_SECCOMP {
        confined();
    }
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    unsafe { real.call([operation, a, b, c, d]) }
}

/// What a thread was made for. The processor's two registers for results hold it.
#[repr(C)]
pub struct Started {
    function: u64,
    argument: u64,
}

/// libc's `_Fork` or `fork`, with a patch at its start.
///
/// # Safety
/// As for libc's.
pub unsafe extern "C" fn fork() -> u64 {
    let Some(real) = real::of(hook::FORK) else { return u64::MAX };
    // SAFETY: the function that the hook stands in for.
    let result = unsafe { real.call([]) };
    if result as i32 == 0
        && let Some(samples) = Samples::get()
    {
        // Before it can be sampled: samples of a process that nobody has told of would make it two.
        samples.tell_fork(PROCESS.load(Relaxed));
        begin_process();
    }
    result
}

/// libc's `pthread_cancel`, with a patch at its start. It sets its handler when it is called for the first time.
///
/// # Safety
/// As for libc's.
pub unsafe extern "C" fn pthread_cancel(thread: u64) -> u64 {
    const ESRCH: u64 = 3;
    let Some(real) = real::of(hook::CANCEL) else { return ESRCH };
    // SAFETY: the function that the hook stands in for, with the caller's own argument.
    let result = unsafe { real.call([thread]) };
    if Samples::get().is_some() {
        take_signal();
    }
    result
}

/// What threads that are about to begin were made for. There is no memory to put it in but this.
mod starts {
    use super::*;

    const MOST: usize = 1024;
    /// A function; 0 for a free row, 1 for one that changes hands.
    static FUNCTIONS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
    static ARGUMENTS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

    pub fn put(function: u64, argument: u64) -> Option<usize> {
        let free =
            |row: &AtomicU64| row.load(Relaxed) == 0 && row.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        let row = FUNCTIONS.iter().position(free)?;
        ARGUMENTS[row].store(argument, Relaxed);
        FUNCTIONS[row].store(function, Release);
        Some(row)
    }

    pub fn take(row: usize) -> Started {
        let row = row % MOST;
        let argument = ARGUMENTS[row].load(Relaxed);
        Started { function: FUNCTIONS[row].swap(0, AcqRel), argument }
    }
}

/// The timers of threads, by the threads' numbers: those of threads that have ended have to be given back.
mod timers {
    use super::*;

    const MOST: usize = 8192;
    /// How many rows a number may lie behind its own.
    const NEAR: usize = 64;
    /// The thread (high half) and its timer's number plus 2 (low half), or 1 while it has none; 0 for a free row.
    static ROWS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    fn near(tid: u32) -> impl Iterator<Item = &'static AtomicU64> {
        (0..NEAR).map(move |step| &ROWS[(tid as usize + step) % MOST])
    }

    fn owner(row: u64) -> u32 {
        (row >> 32) as u32
    }

    /// Takes a row for a thread. False if it has one already, or if there is none: a second timer would count its time twice.
    pub fn claim(tid: u32) -> bool {
        if near(tid).any(|row| owner(row.load(Relaxed)) == tid) {
            return false;
        }
        let taken = u64::from(tid) << 32 | 1;
        let take = || near(tid).any(|row| row.compare_exchange(0, taken, AcqRel, Relaxed).is_ok());
        let is_taken = take() || {
            near(tid).for_each(release_if_ended);
            take()
        };
        // One for another that has ended pays for the room.
        for _ in 0..2 {
            release_if_ended(&ROWS[NEXT.fetch_add(1, Relaxed) % MOST]);
        }
        is_taken
    }

    /// Remembers a thread's timer.
    pub fn keep(tid: u32, timer: i32) {
        let claimed = u64::from(tid) << 32 | 1;
        for row in near(tid) {
            let timed = u64::from(tid) << 32 | u64::from(timer as u32 + 2);
            if row.compare_exchange(claimed, timed, AcqRel, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Takes a claim back.
    pub fn release(tid: u32) {
        let claimed = u64::from(tid) << 32 | 1;
        near(tid).any(|row| row.compare_exchange(claimed, 0, AcqRel, Relaxed).is_ok());
    }

    /// Gives the timer of a thread back that ends. Its row stays taken until it is gone, so that it gets no other.
    pub fn end(tid: u32) {
        for row in near(tid) {
            let value = row.load(Relaxed);
            if owner(value) == tid {
                row.store(u64::from(tid) << 32 | 1, Relaxed);
                if value as u32 >= 2 {
                    sys::delete_timer(value as u32 as i32 - 2);
                }
                return;
            }
        }
    }

    fn release_if_ended(row: &AtomicU64) {
        let value = row.load(Relaxed);
        let timer = value as u32;
        if value == 0 || sys::is_thread(owner(value)) {
            return;
        }
        if row.compare_exchange(value, 0, AcqRel, Relaxed).is_ok() && timer >= 2 {
            sys::delete_timer(timer as i32 - 2);
        }
    }

    /// Gives back the timers of some threads that have ended.
    pub fn release_ended() {
        const SOME: usize = 64;
        for _ in 0..SOME {
            release_if_ended(&ROWS[NEXT.fetch_add(1, Relaxed) % MOST]);
        }
    }

    /// The process's own, plus 1; 0 for none.
    static OF_PROCESS: AtomicU32 = AtomicU32::new(0);

    /// Remembers the process's own timer.
    pub fn keep_process(timer: i32) {
        OF_PROCESS.store(timer as u32 + 1, Relaxed);
    }

    /// Gives all of them back.
    pub fn delete_all() {
        for row in &ROWS {
            let timer = row.swap(0, AcqRel) as u32;
            if timer >= 2 {
                sys::delete_timer(timer as i32 - 2);
            }
        }
        let timer = OF_PROCESS.swap(0, Relaxed);
        if timer > 0 {
            sys::delete_timer(timer as i32 - 1);
        }
    }

    /// A child has none of its parent's.
    pub fn forget_all() {
        for row in &ROWS {
            if row.load(Relaxed) != 0 {
                row.store(0, Relaxed);
            }
        }
    }
}

const _: () = assert!(size_of::<Started>() == 16);
