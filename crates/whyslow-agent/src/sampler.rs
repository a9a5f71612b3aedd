//! Timer sampling: the program samples its own CPU time where perf events are not permitted.
//!
//! Each thread has a timer on its CPU clock that sends the signal of `interrupt` to that thread. The handler copies
//! registers and stack into a slot that the collector reads. Timers expire at ticks of the kernel's clock, so
//! a timer that is due at once fires at the first tick that finds its thread running. A thread that runs for
//! a quarter of a tick is sampled in a quarter of the cases, and its sample stands for a whole tick.
//!
//! ```text
//! start       the program's first thread, when the agent starts
//! thread      in `pthread_create`. At its end it reports its CPU time. Others (from `clone`, or older than the agent) are found by the process's own timer
//! child       in `_Fork`: timers are not inherited
//! exec        removes the timers. The new program says hello again
//! ```

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use whyslow_agent_wire::area::SAMPLES_AT;
use whyslow_agent_wire::handshake::hook;
use whyslow_agent_wire::sampler::{Board, SAMPLES_LEN, STACK_LEN, Slot, slot_at, state};

use crate::arch::signals::Context;
use crate::area::Area;
use crate::interrupt::{self, SIGNAL};
use crate::signals::Info;
use crate::sys::{self, Clock};
use crate::{arch, causal, real};

/// The board. Null while nothing is sampled.
static BOARD: AtomicPtr<Board> = AtomicPtr::new(ptr::null_mut());
/// The process whose threads have timers.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// CPU time between two samples of a thread.
static PERIOD: AtomicU64 = AtomicU64::new(0);

/// The value that a timer's signal carries: what the timer belongs to.
mod timer_owner {
    pub const THREAD: u64 = 1;
    pub const PROCESS: u64 = 2;
}

/// The process's own timer expires after this many periods of its CPU time.
const PROCESS_PERIODS: u64 = 8;

/// Starts to sample. The area's file is still open.
pub fn begin(file: i32) {
    let Some(board) = sys::map_shared(file, SAMPLES_AT, SAMPLES_LEN) else { return };
    BOARD.store(board.cast().as_ptr(), Release);
    let Some(samples) = Samples::get() else { return };
    let wish = samples.board().wish_ns.load(Relaxed);
    let period = wish.max(sys::resolution(Clock::COARSE));
    PERIOD.store(period, Relaxed);
    samples.board().period_ns.store(period, Release);
    interrupt::take(handler);
    begin_process();
}

/// Creates timers for the process and for the calling thread.
fn begin_process() {
    PROCESS.store(sys::process(), Relaxed);
    timers::forget_all();
    let period = PERIOD.load(Relaxed);
    if let Ok(timer) = sys::timer(Clock::PROCESS_CPU, SIGNAL, timer_owner::PROCESS, None) {
        let every = period.saturating_mul(PROCESS_PERIODS);
        sys::set_timer(timer, every, every);
        timers::keep_process(timer);
    }
    arm(sys::thread());
}

/// Creates a timer for a thread of this process, unless it has one.
fn arm(tid: u32) {
    let Some(samples) = Samples::get() else { return };
    if !timers::claim(tid) {
        return;
    }
    match sys::timer(Clock::cpu_of(tid), SIGNAL, timer_owner::THREAD, Some(tid)) {
        Ok(timer) => {
            // Due at once: it fires at the first tick that finds the thread running.
            sys::set_timer(timer, 1, PERIOD.load(Relaxed));
            timers::keep(tid, timer);
        }
        Err(error) => {
            timers::release(tid);
            // It may have exited in the meantime.
            if sys::is_thread(tid) {
                samples.board().untimed_error.store(error, Relaxed);
                samples.board().untimed.fetch_add(1, Relaxed);
            }
        }
    }
}

/// # Safety
/// Only the kernel calls it.
unsafe extern "C" fn handler(signal: i32, info: *const Info, context: *mut Context) {
    // SAFETY: the kernel put both on the stack above this frame.
    let (info, interrupted) = unsafe { (&*info, &*context) };
    match info.timer() {
        Some(timer) => {
            if timer.value == timer_owner::PROCESS {
                find_threads_without_timer();
            } else if let Some(samples) = Samples::get() {
                samples.take(interrupted, timer.overrun);
            }
        }
        // SAFETY: the kernel's own arguments.
        None => unsafe { interrupt::pass_on(signal, info, context) },
    }
}

/// Creates timers for threads that started unnoticed.
fn find_threads_without_timer() {
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
        // SAFETY: the board is mapped there, is never unmapped, and consists of atomics.
        unsafe { self.0.as_ref() }
    }

    /// Claims a free slot. It belongs to the caller until its state is set.
    fn claim(self) -> Option<(&'static AtomicU32, &'static Slot)> {
        let taken = state::taken_by(sys::thread());
        let is_taken = |state: &AtomicU32| {
            state.load(Relaxed) == state::FREE
                && state.compare_exchange(state::FREE, taken, Acquire, Relaxed).is_ok()
        };
        let number = self.board().states.iter().position(is_taken)?;
        // SAFETY: the board is followed by this many slots. It is never unmapped, and slots consist of
        // atomics.
        let slot = unsafe { self.0.cast::<u8>().add(slot_at(number)).cast::<Slot>().as_ref() };
        Some((&self.board().states[number], slot))
    }

    /// Copies the interrupted registers and stack.
    fn take(self, interrupted: &Context, overrun: u32) {
        if !Area::get().is_some_and(Area::enabled) {
            // The recording is over.
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
        // SAFETY: the slot belongs to this thread until its state is set, and its stack has this many bytes.
        let copied = unsafe { sys::copy_own(interrupted.sp(), slot.stack.as_ptr() as usize, STACK_LEN) };
        slot.stack_len.store(copied as u32, Relaxed);
        state.store(state::SAMPLE, Release);
    }

    /// Claims a slot for an event that must not be lost. Outside the handler it can wait until the collector
    /// has emptied a slot.
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

    /// Reports that the calling thread starts or ends.
    fn report(self, what: u32, value: u64) {
        if let Some((state, slot)) = self.claim_patiently() {
            write_thread(slot, value);
            state.store(what, Release);
        }
    }

    /// Reports that this process is a fork of another.
    fn report_fork(self, parent: u32) {
        if let Some((state, slot)) = self.claim_patiently() {
            slot.time_ns.store(sys::now(), Relaxed);
            slot.pid.store(sys::process(), Relaxed);
            slot.tid.store(parent, Relaxed);
            state.store(state::FORKED, Release);
        }
    }
}

/// Writes the thread, the time and the value.
fn write_thread(slot: &Slot, value: u64) {
    slot.time_ns.store(sys::now(), Relaxed);
    slot.value_ns.store(value, Relaxed);
    slot.pid.store(sys::process(), Relaxed);
    slot.tid.store(sys::thread(), Relaxed);
    for (to, from) in slot.name.iter().zip(sys::thread_name()) {
        to.store(from, Relaxed);
    }
}

/// Hook for libc's `pthread_create`, patched at its start.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn pthread_create(thread: u64, attributes: u64, start: u64, argument: u64) -> u64 {
    const EAGAIN: u64 = 11;
    let Some(real) = real::of(hook::THREAD) else { return EAGAIN };
    causal::waits::pay();
    let started = if Samples::get().is_some() || causal::is_on() {
        ends::prepare();
        starts::put(start, argument)
    } else {
        None
    };
    let (start, argument) = match started {
        Some(row) => (arch::sampler::thread_start as *const () as u64, row as u64),
        None => (start, argument),
    };
    // SAFETY: the hooked function. The thread's start function calls the caller's function.
    let result = unsafe { real.call([thread, attributes, start, argument]) };
    if result as i32 != 0
        && let Some(row) = started
    {
        starts::take(row);
    }
    result
}

/// Starts the timer of a new thread. Returns the function and argument that the thread was created with.
pub extern "C" fn thread_started(row: usize) -> Started {
    if let Some(samples) = Samples::get() {
        samples.report(state::BEGUN, 0);
        arm(sys::thread());
    }
    causal::started();
    ends::watch();
    starts::take(row)
}

/// The end of a thread. Ticks can miss CPU time: threads that take turns in step with the clock can always
/// exit before the next tick. So each thread reports its CPU time at its end, and the collector knows how
/// much of it the samples do not cover.
mod ends {
    use super::*;

    /// libc's key whose destructor runs when a thread ends, plus 2. 1 while it is being created.
    static KEY: AtomicU64 = AtomicU64::new(0);

    /// Creates the key.
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

    /// Makes the calling thread report its end.
    pub fn watch() {
        let key = KEY.load(Acquire);
        if key >= 2
            && let Some(set) = real::of(hook::SET_SPECIFIC)
        {
            // SAFETY: libc's `pthread_setspecific`, with the key from above. The value only has to differ
            // from null.
            unsafe { set.call([key - 2, 1]) };
        }
    }

    /// # Safety
    /// Only libc calls it.
    unsafe extern "C" fn ended(_: u64) {
        if let Some(samples) = Samples::get().filter(|_| Area::get().is_some_and(Area::enabled)) {
            timers::end(sys::thread());
            samples.report(state::ENDED, sys::cpu_time());
        }
        causal::ended();
    }
}

/// The program is about to forbid itself system calls. A call by the agent could then kill it, so the agent
/// stops making any.
pub extern "C" fn confined() {
    if let Some(samples) = Samples::get() {
        stop();
        samples.board().confined.fetch_add(1, Relaxed);
    }
    causal::confined();
}

/// Stops sampling this process for good.
fn stop() {
    BOARD.store(ptr::null_mut(), Release);
    timers::delete_all();
}

/// Hook for libc's `prctl`, patched at its start.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn prctl(operation: u64, a: u64, b: u64, c: u64, d: u64) -> u64 {
    const PR_SET_SECCOMP: i32 = 22;
    let Some(real) = real::of(hook::PRCTL) else { return u64::MAX };
    if operation as i32 == PR_SET_SECCOMP {
        confined();
    }
    // SAFETY: the hooked function, with the caller's own arguments.
    unsafe { real.call([operation, a, b, c, d]) }
}

/// The function and argument that a thread was created with. They are returned in two registers.
#[repr(C)]
pub struct Started {
    function: u64,
    argument: u64,
}

/// Hook for libc's `_Fork` or `fork`, patched at its start.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn fork() -> u64 {
    let Some(real) = real::of(hook::FORK) else { return u64::MAX };
    // SAFETY: the hooked function.
    let result = unsafe { real.call([]) };
    if result as i32 != 0 {
        return result;
    }
    causal::forked();
    if let Some(samples) = Samples::get() {
        // Before it can be sampled: samples of a process that was not reported yet would make it appear
        // twice.
        samples.report_fork(PROCESS.load(Relaxed));
        begin_process();
    }
    result
}

/// Hook for libc's `pthread_cancel`, patched at its start. libc sets its signal handler at the first call.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn pthread_cancel(thread: u64) -> u64 {
    const ESRCH: u64 = 3;
    let Some(real) = real::of(hook::CANCEL) else { return ESRCH };
    // SAFETY: the hooked function, with the caller's own argument.
    let result = unsafe { real.call([thread]) };
    interrupt::take_again();
    result
}

/// Functions and arguments of threads that are about to start. The agent has no other memory for them.
mod starts {
    use super::*;

    const MOST: usize = 1024;
    /// A function. 0 for a free row, 1 for a row that is being written or read.
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

/// The timers of threads, by thread id. Timers of threads that exited must be deleted.
mod timers {
    use super::*;

    const MOST: usize = 8192;
    /// How many rows after its own a thread's entry may be.
    const NEAR: usize = 64;
    /// The thread (high half) and its timer's number plus 2 (low half), or 1 while it has none. 0 for a free
    /// row.
    static ROWS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    fn near(tid: u32) -> impl Iterator<Item = &'static AtomicU64> {
        (0..NEAR).map(move |step| &ROWS[(tid as usize + step) % MOST])
    }

    fn owner(row: u64) -> u32 {
        (row >> 32) as u32
    }

    /// Takes a row for a thread. False if it has one, because a second timer would count its time twice, or
    /// if there is no free row.
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
        // Each claim also releases up to two rows of threads that exited.
        for _ in 0..2 {
            release_if_ended(&ROWS[NEXT.fetch_add(1, Relaxed) % MOST]);
        }
        is_taken
    }

    /// Stores a thread's timer.
    pub fn keep(tid: u32, timer: i32) {
        let claimed = u64::from(tid) << 32 | 1;
        for row in near(tid) {
            let timed = u64::from(tid) << 32 | u64::from(timer as u32 + 2);
            if row.compare_exchange(claimed, timed, AcqRel, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Releases a claimed row.
    pub fn release(tid: u32) {
        let claimed = u64::from(tid) << 32 | 1;
        near(tid).any(|row| row.compare_exchange(claimed, 0, AcqRel, Relaxed).is_ok());
    }

    /// Deletes the timer of a thread that ends. Its row remains taken until the thread has exited, so that it
    /// does not get another timer.
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

    /// Deletes the timers of some threads that exited.
    pub fn release_ended() {
        const SOME: usize = 64;
        for _ in 0..SOME {
            release_if_ended(&ROWS[NEXT.fetch_add(1, Relaxed) % MOST]);
        }
    }

    /// The process's own timer, plus 1. 0 for none.
    static OF_PROCESS: AtomicU32 = AtomicU32::new(0);

    /// Stores the process's own timer.
    pub fn keep_process(timer: i32) {
        OF_PROCESS.store(timer as u32 + 1, Relaxed);
    }

    /// Deletes all timers.
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

    /// Clears the table in a forked child, which inherits no timers.
    pub fn forget_all() {
        for row in &ROWS {
            if row.load(Relaxed) != 0 {
                row.store(0, Relaxed);
            }
        }
    }
}

const _: () = assert!(size_of::<Started>() == 16);
