//! Per-thread state: the thread's ring, how far it is written, and its last walks.
//!
//! A word of thread-local storage points to the state. A static program has no such word for the agent, so
//! there the thread's `fs` base leads to the state (see `based`). A fork wipes the first page of every state:
//! the child finds all gates shut and takes its own rings. Nothing else handles `fork`, and nothing has to be
//! called.
//!
//! The *gate* says who may use a state. [`Inside`] stands for the agent at work. It is created on the state's
//! own thread, by closing an open gate, and only it gives access to the ring's writer and the walker. There
//! is never a second one at the same time: other threads have their own states, calls made by the allocator
//! find the gate `MASKED`, and a signal handler that interrupts the agent finds it `BUSY` and uses a second
//! state. A third level is counted as lost.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

use whyslow_agent_wire::area::{self, MOST_STATES, RingHeader, heap_flag, ring};
use whyslow_agent_wire::purpose::Purpose;
use whyslow_selfwalk::Walker;

use crate::arch::counter::counter;
use crate::arch::thread::ThreadWord;
use crate::area::Area;
use crate::based;
use crate::freeres;
use crate::ring::Writer;
use crate::sample::Sampling;
use crate::sys::{self, Pages};
use crate::walk;

/// The states of [`State::gate`].
mod gate {
    /// Not usable: new, or wiped by a fork.
    pub const SHUT: u32 = 0;
    /// Everything is recorded and no other mode is on.
    pub const OPEN: u32 = 1;
    /// Allocations are sampled.
    pub const SAMPLING: u32 = 2;
    /// Modes are on that the fast paths do not handle.
    pub const SPECIAL: u32 = 3;
    /// The agent is at work in this state.
    pub const BUSY: u32 = 4;
    /// The allocator is at work. Its own calls are not recorded.
    pub const MASKED: u32 = 5;
}

const PAGE: usize = 4096;

/// One thread's state. All zero bytes are a new one.
///
/// A fork in a signal handler zeroes the first page. If that handler returns in the child, this can happen
/// even while an [`Inside`] exists. So everything in the page is an atomic or a cell for which zero is valid,
/// and no access relies on an earlier one.
#[repr(C, align(4096))]
pub struct State {
    gate: AtomicU32,
    /// The value of `gate` when the agent is not at work.
    open: AtomicU32,
    writer: Writer,
    sampling: Sampling,
    /// The writer's ring, for other threads.
    ring: AtomicPtr<RingHeader>,
    /// The thread. 0 if the state was never used or was wiped, [`CLAIMED`] while it changes owners.
    owner: AtomicU32,
    process: AtomicU32,
    /// The word that identified the thread when it claimed this state. Only used without thread-local
    /// storage.
    mark: AtomicU32,
    level: AtomicU32,
    /// The state for signal handlers that interrupt the agent. Null if none did yet.
    inner: AtomicPtr<State>,
    walker: BehindFirstPage,
}

/// Not wiped by a fork: a walk may be in progress.
#[repr(C, align(4096))]
struct BehindFirstPage(UnsafeCell<Walker>);

const _: () = assert!(core::mem::offset_of!(State, walker) == PAGE);

const CLAIMED: u32 = u32::MAX;

impl State {
    #[inline(always)]
    fn set_gate(&self, gate: u32) {
        compiler_fence(SeqCst);
        self.gate.store(gate, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Opens the gate again. It remains shut in a child that a signal handler forked in the meantime and then
    /// returned in, because the fork wiped `open`.
    #[inline(always)]
    fn leave(&self) {
        self.set_gate(self.open.load(Relaxed));
    }

    /// Whether the state belongs to the thread with this mark. Also true if a fork wiped it: then it is the
    /// thread's own, or has no owner.
    pub fn is_marked(&self, mark: u32) -> bool {
        self.owner.load(Relaxed) == 0 || self.mark.load(Relaxed) == mark
    }

    /// Sets the mark that identifies the thread.
    pub fn set_mark(&self, mark: u32) {
        self.mark.store(mark, Relaxed);
    }
}

/// The calling thread's own state.
#[derive(Clone, Copy)]
pub struct Mine(&'static State);

impl Mine {
    /// The calling thread's state; none before its first event.
    #[inline(always)]
    pub fn get() -> Option<Self> {
        let state = match ThreadWord::of_state() {
            Some(word) => word.get() as *const State,
            None => based::mine(),
        };
        // SAFETY: null, or the state that `register` put there. States are never unmapped.
        unsafe { state.as_ref() }.map(Self)
    }

    /// Goes inside, if everything is recorded and no other mode is on.
    #[inline(always)]
    pub fn enter_if_all_is_recorded(self) -> Option<Inside> {
        // SAFETY: the state is this thread's, and its gate is open.
        (self.0.gate.load(Relaxed) == gate::OPEN).then(|| unsafe { Inside::new(self.0) })
    }

    /// Whether allocations are sampled and the agent is not at work.
    #[inline(always)]
    pub fn is_sampling(self) -> bool {
        self.0.gate.load(Relaxed) == gate::SAMPLING
    }

    /// The distance to the next sample.
    #[inline(always)]
    pub fn sampling(self) -> &'static Sampling {
        &self.0.sampling
    }

    /// Makes a call during which nothing is recorded. Only makes the call if nothing is recorded already.
    #[inline(always)]
    pub fn masked(self, call: impl FnOnce() -> u64) -> u64 {
        if !matches!(self.0.gate.load(Relaxed), gate::OPEN | gate::SAMPLING | gate::SPECIAL) {
            return call();
        }
        self.0.set_gate(gate::MASKED);
        let result = call();
        self.0.leave();
        result
    }
}

/// The agent at work in a thread. The gate opens again when this is dropped.
pub struct Inside(&'static State);

impl Inside {
    /// # Safety
    /// The state belongs to the calling thread or to a signal handler in it, and no other [`Inside`] of it
    /// exists: its gate was not `BUSY` or `MASKED`, or the thread that left it so has exited.
    #[inline(always)]
    unsafe fn new(state: &'static State) -> Self {
        state.set_gate(gate::BUSY);
        Self(state)
    }

    /// The writer of the thread's ring.
    #[inline(always)]
    pub fn writer(&self) -> &Writer {
        &self.0.writer
    }

    /// The writer and the thread's walker.
    #[inline(always)]
    pub fn parts(&mut self) -> (&Writer, &mut Walker) {
        // SAFETY: there is one `Inside` of a state, it is borrowed, and nothing else leads to the walker.
        (&self.0.writer, unsafe { &mut *self.0.walker.0.get() })
    }

    /// The distance to the next sample.
    #[inline(always)]
    pub fn sampling(&self) -> &Sampling {
        &self.0.sampling
    }

    /// Makes a call during which the allocator's own calls are not recorded.
    #[inline(always)]
    pub fn masked(&mut self, call: impl FnOnce() -> u64) -> u64 {
        self.0.set_gate(gate::MASKED);
        let result = call();
        self.0.set_gate(gate::BUSY);
        result
    }

    /// The same, and the allocator's own calls do not count towards the next sample.
    pub fn masked_uncounted(&mut self, call: impl FnOnce() -> u64) -> u64 {
        let sampling = &self.0.sampling;
        self.masked(|| sampling.uncounted(call))
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Goes inside for an event. `None`: let the event pass unrecorded.
#[inline(never)]
pub fn enter() -> Option<Inside> {
    let area = Area::get().filter(|_| !freeres::is_copy())?;
    let Some(Mine(state)) = Mine::get() else {
        note_fork();
        return register(area, None);
    };
    match state.gate.load(Relaxed) {
        // SAFETY: the state is this thread's, and its gate is open.
        gate::OPEN | gate::SAMPLING | gate::SPECIAL => Some(unsafe { Inside::new(state) }),
        gate::SHUT => {
            note_fork();
            register(area, Some(state))
        }
        gate::BUSY => enter_inner(area, state),
        _ => None,
    }
}

/// The same for a signal handler that interrupted the agent.
fn enter_inner(area: Area, outer: &State) -> Option<Inside> {
    // SAFETY: null, or a state. States are never unmapped.
    let state = unsafe { outer.inner.load(Relaxed).as_ref() };
    match state {
        Some(state) if state.owner.load(Relaxed) == outer.owner.load(Relaxed) => {
            match state.gate.load(Relaxed) {
                gate::BUSY => {
                    area.header().lost_events.fetch_add(1, Relaxed);
                    None
                }
                gate::MASKED => None,
                // SAFETY: the state belongs to signal handlers of this thread, and none of them is inside.
                _ => Some(unsafe { Inside::new(state) }),
            }
        }
        _ => {
            let inside = claim(area, 1, None)?;
            outer.inner.store(ptr::from_ref(inside.0).cast_mut(), Relaxed);
            Some(inside)
        }
    }
}

fn register(area: Area, wiped: Option<&'static State>) -> Option<Inside> {
    let inside = claim(area, 0, wiped)?;
    match ThreadWord::of_state() {
        Some(word) => word.set(ptr::from_ref(inside.0) as u64),
        None => based::set_mine(inside.0)?,
    }
    Some(inside)
}

static STATES: [AtomicPtr<State>; MOST_STATES] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_STATES];
static STATES_USED: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread of this process has had a state.
pub fn is_any_used() -> bool {
    STATES_USED.load(Relaxed) != 0
}

/// The size of a state, in whole pages.
const STATE_BYTES: usize = size_of::<State>();
/// After no ring was free, no thread tries again before this time.
static RINGLESS_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Claims a state with a ring: the thread's own that a fork wiped, that of a thread that exited, or a new
/// one.
fn claim(area: Area, level: u32, wiped: Option<&'static State>) -> Option<Inside> {
    if !area.enabled() {
        return None;
    }
    let header = area.header();
    // A `vfork` child runs in its parent's memory and would claim a state there under its own id.
    if !is_own_process() {
        header.lost_ringless.fetch_add(1, Relaxed);
        return None;
    }
    let until = RINGLESS_UNTIL.load(Relaxed);
    if until != 0 && clock() < until {
        header.lost_ringless.fetch_add(1, Relaxed);
        return None;
    }
    let (process, thread) = (sys::process(), sys::thread());
    let taken = take_ring(area).and_then(|index| {
        let found = area.ring_words(index).and_then(|words| Some((index, words, find_state(wiped, thread)?)));
        if found.is_none() {
            area.ring(index).state.store(ring::FREE, Release);
        }
        found
    });
    let Some((index, words, state)) = taken else {
        // A few tenths of a second at any clock rate.
        RINGLESS_UNTIL.store(clock() + (1 << 29), Relaxed);
        header.lost_ringless.fetch_add(1, Relaxed);
        return None;
    };
    // SAFETY: the state had no owner, or its owner has exited, and this thread has just become its owner.
    let mut inside = unsafe { Inside::new(state) };
    let ring = area.ring(index);
    ring.pid.store(process, Relaxed);
    ring.tid.store(thread, Relaxed);
    ring.parent.store(PARENT.load(Relaxed), Relaxed);
    ring.level.store(level, Relaxed);
    ring.purpose.store(Purpose::Heap as u32, Relaxed);
    state.process.store(process, Relaxed);
    state.level.store(level, Relaxed);
    state.ring.store(ptr::from_ref(ring).cast_mut(), Release);
    // The old one may belong to another thread by now.
    state.inner.store(ptr::null_mut(), Relaxed);
    state.open.store(
        match (
            area.heap_flags() & (heap_flag::UNUSED | heap_flag::MAPS),
            area.heap().sample_bytes.load(Relaxed),
        ) {
            (0, 0) => gate::OPEN,
            (0, _) => gate::SAMPLING,
            _ => gate::SPECIAL,
        },
        Relaxed,
    );
    state.sampling.start(thread);
    let (writer, walker) = inside.parts();
    walker.forget();
    // SAFETY: the ring was free, and belongs to this state from now on.
    unsafe { writer.take(ring, words) };
    // From here on no thread repeats timestamps, so this ring's first one is later than all repeated ones.
    header.rings_active.fetch_add(1, SeqCst);
    crate::ring::second_ring_taken();
    writer.first_stamp();
    ring.state.store(ring::LIVE, Release);
    Some(inside)
}

/// Finds a state and makes the thread its owner.
fn find_state(wiped: Option<&'static State>, thread: u32) -> Option<&'static State> {
    if let Some(state) = wiped
        && state.owner.compare_exchange(0, thread, AcqRel, Relaxed).is_ok()
    {
        return Some(state);
    }
    for slot in &STATES[..STATES_USED.load(Acquire).min(MOST_STATES)] {
        // SAFETY: null, or a state. States are never unmapped.
        let Some(state) = (unsafe { slot.load(Acquire).as_ref() }) else { continue };
        let owner = state.owner.load(Acquire);
        if owner != 0
            && owner != CLAIMED
            && has_ended(state, owner)
            && state.owner.compare_exchange(owner, CLAIMED, AcqRel, Relaxed).is_ok()
        {
            state.ring.store(ptr::null_mut(), Relaxed);
            state.owner.store(thread, Release);
            return Some(state);
        }
    }
    let index = STATES_USED.fetch_add(1, AcqRel);
    if index >= MOST_STATES {
        STATES_USED.store(MOST_STATES, Release);
        return None;
    }
    let Some(state) = new_state() else {
        // Free the row for the next attempt, unless another thread has taken one in the meantime.
        let _ = STATES_USED.compare_exchange(index + 1, index, AcqRel, Relaxed);
        return None;
    };
    STATES[index].store(ptr::from_ref(state).cast_mut(), Release);
    state.owner.store(thread, Release);
    Some(state)
}

fn new_state() -> Option<&'static State> {
    let mut pages = Pages::new(STATE_BYTES)?;
    if !pages.wipe_on_fork(PAGE) {
        return None;
    }
    // SAFETY: the pages have the size and alignment of a state, zero bytes are a valid one, and they are
    // never unmapped.
    Some(unsafe { pages.keep().cast::<State>().as_ref() })
}

/// Whether the collector has released the state's ring because its thread exited. A state that a fork wiped
/// (owner 0) belongs to the thread whose word points to it, or to no thread.
fn has_ended(state: &State, owner: u32) -> bool {
    // SAFETY: null, or a ring. Rings are never unmapped.
    let Some(ring) = (unsafe { state.ring.load(Acquire).as_ref() }) else { return false };
    match ring.state.load(Acquire) {
        ring::FREE => true,
        ring::LIVE => {
            ring.tid.load(Relaxed) != owner
                || ring.pid.load(Relaxed) != state.process.load(Relaxed)
                || ring.level.load(Relaxed) != state.level.load(Relaxed)
        }
        _ => false,
    }
}

/// Takes the lowest free ring, so that few are ever touched. Waits briefly if there is none.
fn take_ring(area: Area) -> Option<usize> {
    let header = area.header();
    for _ in 0..50 {
        for index in 0..area::MOST_RINGS {
            let state = &area.ring(index).state;
            if state.load(Relaxed) == ring::FREE
                && state.compare_exchange(ring::FREE, ring::TAKEN, AcqRel, Relaxed).is_ok()
            {
                header.rings_used.fetch_max(index as u32 + 1, Release);
                return Some(index);
            }
        }
        sys::wake(&header.asleep);
        sys::nap(1_000_000);
    }
    None
}

/// A page that a fork wipes. 1 in the process that set it up.
static PROCESS_MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// [`PROCESS`] before the fork. 0 in the process that started the program.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// Starts to detect forks.
pub fn watch_forks() -> bool {
    let Some(mut page) = Pages::new(PAGE) else { return false };
    if !page.wipe_on_fork(PAGE) {
        return false;
    }
    let mark = page.keep().cast::<AtomicU32>();
    // SAFETY: a page of zeros that is never unmapped.
    unsafe { mark.as_ref() }.store(1, Relaxed);
    PROCESS_MARK.store(mark.as_ptr(), Release);
    PROCESS.store(sys::process(), Relaxed);
    true
}

/// Publishes the addresses of the states for the collector.
pub fn publish_states(header: &area::Header) {
    header.state_len.store(STATE_BYTES as u64, Relaxed);
    header.states.store(STATES.as_ptr() as u64, Release);
}

/// Detects whether this process is a forked child.
pub fn note_fork() {
    // SAFETY: null, or a page that is never unmapped.
    if let Some(mark) = unsafe { PROCESS_MARK.load(Acquire).as_ref() }
        && mark.swap(1, Relaxed) == 0
    {
        PARENT.store(PROCESS.swap(sys::process(), Relaxed), Relaxed);
        RINGLESS_UNTIL.store(0, Relaxed);
        walk::forked();
    }
}

/// Whether the caller is this process, and not a `vfork` child that borrows its memory.
pub fn is_own_process() -> bool {
    PROCESS.load(Relaxed) == sys::process()
}

fn clock() -> u64 {
    counter()
}
