//! What the agent knows of each thread: where its ring is, how far it is written, its last walks.
//!
//! A state is found by a word of thread-local storage. A static program has none to give, so there it is found by the
//! thread's `fs` base. The memory of states is wiped when the program forks: a child finds all gates shut, and takes
//! rings of its own. That is the whole handling of `fork`; nothing has to be called.
//!
//! A signal handler that interrupts the agent finds the gate `BUSY` and uses a second state. A third level is counted as lost.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

use whyslow_heap_wire::area::{self, MOST_STATES, RingHeader, flag, ring};
use whyslow_selfwalk::Walker;

use crate::area::Area;
use crate::{link, sample, sys, walk};

/// The states of [`State::gate`].
pub mod gate {
    /// Not usable: new, or wiped by a fork.
    pub const SHUT: u32 = 0;
    /// Everything is recorded, and nothing else is asked for.
    pub const OPEN: u32 = 1;
    /// Some is recorded.
    pub const SAMPLING: u32 = 2;
    /// More is asked for than the quick ways do.
    pub const SPECIAL: u32 = 3;
    /// The agent is at work here.
    pub const BUSY: u32 = 4;
    /// The allocator is at work: what it calls is its own business.
    pub const MASKED: u32 = 5;
}

/// One thread's state. All zero bytes are a new one.
#[repr(C, align(64))]
pub struct State {
    pub gate: AtomicU32,
    /// Records that may still repeat the last time.
    pub repeat: Cell<u32>,
    pub words: Cell<*mut u64>,
    pub written: Cell<u64>,
    /// Up to here there is room for any event.
    pub limit: Cell<u64>,
    ring: AtomicPtr<RingHeader>,
    /// Ticks of the last stamp.
    pub stamp: Cell<u64>,
    /// Ticks since then, where they belong in a record.
    pub since: Cell<u64>,

    /// Sampling: bytes until the next sample.
    pub countdown: Cell<i64>,
    /// Sampling: the last random number.
    pub random: Cell<u64>,
    /// What `gate` is when the agent is not at work.
    pub open: Cell<u32>,
    /// The module generation of the ring's frames.
    pub generation: Cell<u32>,
    /// The collector's heartbeat when the last time was read.
    pub beat: Cell<u64>,
    /// The collector did not move at this heartbeat, plus one.
    pub gone_at: Cell<u64>,
    /// The thread; 0 for a state that was never used or was wiped, [`CLAIMED`] for one that changes hands.
    owner: AtomicU32,
    process: AtomicU32,
    /// The word that told threads apart when this was claimed; only without thread-local storage.
    mark: Cell<u32>,
    level: AtomicU32,
    inner: Cell<*const State>,
    walker: UnsafeCell<Walker>,
}

const CLAIMED: u32 = u32::MAX;

impl State {
    /// The ring's header. A state in use has one, but in a child that a signal handler forked from within the agent.
    #[inline(always)]
    pub fn ring(&self) -> Option<&RingHeader> {
        // SAFETY: null, or set before the state is used; rings stay mapped for good.
        unsafe { self.ring.load(Relaxed).as_ref() }
    }

    /// The walker. Only who has the gate may ask.
    #[expect(clippy::mut_from_ref, reason = "the gate is the lock")]
    #[inline(always)]
    pub fn walker(&self) -> &mut Walker {
        // SAFETY: `BUSY` has one holder, on one thread.
        unsafe { &mut *self.walker.get() }
    }

    #[inline(always)]
    pub fn set_gate(&self, gate: u32) {
        compiler_fence(SeqCst);
        self.gate.store(gate, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Opens the gate again. In a child that was forked meanwhile, by a signal handler that came back, it stays shut: what was not there before
    /// the fork is wiped.
    #[inline(always)]
    pub fn leave(&self) {
        self.set_gate(self.open.get());
    }
}

/// The calling thread's state; none before its first event.
#[inline(always)]
pub fn mine() -> Option<&'static State> {
    let offset = link::thread_word_offset();
    let state = if offset != 0 { link::thread_word(offset) as *const State } else { by_base() };
    // SAFETY: states stay mapped for good.
    unsafe { state.as_ref() }
}

/// The state to use for an event, with its gate `BUSY`. None: let the event pass.
#[inline(never)]
pub fn enter() -> Option<&'static State> {
    let area = Area::get()?;
    let state = match mine() {
        Some(state) => match state.gate.load(Relaxed) {
            gate::OPEN | gate::SAMPLING | gate::SPECIAL => state,
            gate::SHUT => {
                note_fork();
                register(area, state)?
            }
            gate::BUSY => inner(area, state)?,
            _ => return None,
        },
        None => {
            note_fork();
            register(area, ptr::null())?
        }
    };
    state.set_gate(gate::BUSY);
    Some(state)
}

/// The state of a signal handler that interrupted the agent.
fn inner(area: Area, outer: &State) -> Option<&'static State> {
    // SAFETY: states stay mapped for good.
    let state = unsafe { outer.inner.get().as_ref() };
    match state {
        Some(state) if state.owner.load(Relaxed) == outer.owner.load(Relaxed) => {
            match state.gate.load(Relaxed) {
                gate::BUSY => {
                    area.header().lost_events.fetch_add(1, Relaxed);
                    None
                }
                gate::MASKED => None,
                _ => Some(state),
            }
        }
        _ => {
            let state = claim(area, 1, ptr::null())?;
            outer.inner.set(state);
            Some(state)
        }
    }
}

fn register(area: Area, wiped: *const State) -> Option<&'static State> {
    let state = claim(area, 0, wiped)?;
    match link::thread_word_offset() {
        0 => set_by_base(state)?,
        offset => link::set_thread_word(offset, ptr::from_ref(state) as u64),
    }
    Some(state)
}

static STATES: [AtomicPtr<State>; MOST_STATES] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_STATES];
static STATES_USED: AtomicUsize = AtomicUsize::new(0);
/// What a state takes: whole pages.
const STATE_BYTES: usize = size_of::<State>().next_multiple_of(4096);
/// Without a free ring, nobody asks for one again before this time.
static RINGLESS_UNTIL: AtomicU64 = AtomicU64::new(0);

/// A state with a ring: the thread's own that a fork wiped, one of a thread that has ended, or a new one.
fn claim(area: Area, level: u32, wiped: *const State) -> Option<&'static State> {
    if !area.enabled() {
        return None;
    }
    let header = area.header();
    // A `vfork` child runs in its parent's memory: what it would take under its own name would stay there.
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
        // A few tenths of a second, whatever the clock's rate is.
        RINGLESS_UNTIL.store(clock() + (1 << 29), Relaxed);
        header.lost_ringless.fetch_add(1, Relaxed);
        return None;
    };
    let ring = area.ring(index);
    ring.pid.store(process, Relaxed);
    ring.tid.store(thread, Relaxed);
    ring.parent.store(PARENT.load(Relaxed), Relaxed);
    ring.level.store(level, Relaxed);
    state.process.store(process, Relaxed);
    state.level.store(level, Relaxed);
    state.ring.store(ptr::from_ref(ring).cast_mut(), Release);
    state.words.set(words);
    state.written.set(ring.written.load(Relaxed));
    state.limit.set(0);
    state.gone_at.set(0);
    state.generation.set(0);
    // What it had may be another thread's by now.
    state.inner.set(ptr::null());
    state.walker().forget();
    state.open.set(match (area.flags() & (flag::UNUSED | flag::MAPS), header.sample_bytes.load(Relaxed)) {
        (0, 0) => gate::OPEN,
        (0, _) => gate::SAMPLING,
        _ => gate::SPECIAL,
    });
    sample::start(state, thread);
    // From here on no thread repeats times: this ring's first one is later than all those.
    header.rings_active.fetch_add(1, SeqCst);
    crate::ring::alone_no_more();
    crate::ring::first_stamp(state);
    ring.state.store(ring::LIVE, Release);
    Some(state)
}

fn find_state(wiped: *const State, thread: u32) -> Option<&'static State> {
    // SAFETY: states stay mapped for good.
    if let Some(state) = unsafe { wiped.as_ref() }
        && state.owner.compare_exchange(0, thread, AcqRel, Relaxed).is_ok()
    {
        return Some(state);
    }
    for slot in &STATES[..STATES_USED.load(Acquire).min(MOST_STATES)] {
        // SAFETY: states stay mapped for good.
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
    let state = sys::pages_wiped_on_fork(STATE_BYTES).cast::<State>();
    STATES[index].store(state, Release);
    // SAFETY: fresh zero bytes are a state.
    let Some(state) = (unsafe { state.as_ref() }) else {
        // The next one may have more luck with this row, unless another thread took one meanwhile.
        let _ = STATES_USED.compare_exchange(index + 1, index, AcqRel, Relaxed);
        return None;
    };
    state.owner.store(thread, Release);
    Some(state)
}

/// Whether the collector has given the state's ring back, because its thread has ended. A state that a fork wiped
/// (its owner is 0) belongs to the thread whose word points to it, or to nobody.
fn has_ended(state: &State, owner: u32) -> bool {
    // SAFETY: rings stay mapped for good.
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

/// Takes a free ring, the lowest there is, so that few are ever touched. Waits a moment if there is none.
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

/// A page that a fork wipes: 1 in the process that set it up.
static PROCESS_MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// What [`PROCESS`] was before a fork; 0 where the program began.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// Begins to notice forks.
pub fn watch_forks() -> bool {
    let page = sys::pages_wiped_on_fork(4096).cast::<AtomicU32>();
    // SAFETY: a fresh page.
    let Some(mark) = (unsafe { page.as_ref() }) else { return false };
    mark.store(1, Relaxed);
    PROCESS_MARK.store(page, Release);
    PROCESS.store(sys::process(), Relaxed);
    true
}

/// Tells the collector where the states are.
pub fn tell_place(header: &area::Header) {
    header.state_len.store(STATE_BYTES as u64, Relaxed);
    header.states.store(STATES.as_ptr() as u64, Release);
}

/// Notices that this is a forked child by now.
pub fn note_fork() {
    // SAFETY: null, or a page that stays mapped.
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
    crate::ring::counter()
}

/// States by `fs` base, for programs without a loader.
struct Based {
    /// The base plus one; 0 for none.
    key: AtomicU64,
    state: AtomicPtr<State>,
}

const BASES: usize = 1 << 14;
static BASED: [Based; BASES] =
    [const { Based { key: AtomicU64::new(0), state: AtomicPtr::new(ptr::null_mut()) } }; BASES];
/// Where a thread's number lies behind its base; 0 if that is not known, then the kernel is asked each time.
static THREAD_AT: AtomicU32 = AtomicU32::new(0);
/// Whether user code may read the base by an instruction.
static BASE_READABLE: AtomicU32 = AtomicU32::new(0);

/// Finds out how to read the `fs` base.
pub fn look_for_base() {
    const AT_HWCAP2: u64 = 26;
    const HWCAP2_FSGSBASE: u64 = 2;
    let file = sys::open(c"/proc/self/auxv");
    let mut bytes = [0u8; 1024];
    let len = if file >= 0 { sys::read(file, &mut bytes) } else { 0 };
    sys::close(file);
    for pair in bytes[..len].as_chunks::<16>().0 {
        let (kind, value) = (u64_at(pair, 0), u64_at(pair, 8));
        if kind == AT_HWCAP2 && value & HWCAP2_FSGSBASE != 0 {
            BASE_READABLE.store(1, Relaxed);
        }
    }
}

fn u64_at(bytes: &[u8; 16], at: usize) -> u64 {
    let mut word = 0;
    for byte in bytes[at..at + 8].iter().rev() {
        word = word << 8 | u64::from(*byte);
    }
    word
}

fn base() -> u64 {
    if BASE_READABLE.load(Relaxed) == 0 {
        return sys::fs_base();
    }
    let base: u64;
    // SAFETY: the kernel allows it.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

fn based(base: u64, insert: bool) -> Option<&'static Based> {
    let key = base.wrapping_add(1);
    let start = (base >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50;
    for step in 0..BASES as u64 {
        let slot = &BASED[(start + step) as usize % BASES];
        match slot.key.load(Acquire) {
            found if found == key => return Some(slot),
            0 if !insert => return None,
            0 => match slot.key.compare_exchange(0, key, AcqRel, Acquire) {
                Ok(_) => return Some(slot),
                Err(found) if found == key => return Some(slot),
                Err(_) => {}
            },
            _ => {}
        }
    }
    None
}

/// The thread's number as far as it can be read without the kernel: the base is that of another thread soon after one has ended.
fn thread_mark(base: u64) -> u32 {
    match (base, THREAD_AT.load(Relaxed)) {
        (0, _) => 0,
        (_, 0) => sys::thread(),
        // SAFETY: a thread's control block is readable as long as the thread lives, and was at this place before.
        (base, at) => unsafe { ptr::read_volatile((base + u64::from(at)) as *const u32) },
    }
}

#[cold]
#[inline(never)]
fn by_base() -> *const State {
    let base = base();
    let Some(slot) = based(base, false) else { return ptr::null() };
    let state = slot.state.load(Acquire);
    // SAFETY: states stay mapped for good.
    match unsafe { state.as_ref() } {
        // A wiped one is the thread's own, or nobody's.
        Some(found) if found.owner.load(Relaxed) == 0 || found.mark.get() == thread_mark(base) => state,
        _ => ptr::null(),
    }
}

fn set_by_base(state: &'static State) -> Option<()> {
    let base = base();
    if base != 0 && THREAD_AT.load(Relaxed) == 0 {
        look_for_thread(base);
    }
    state.mark.set(thread_mark(base));
    based(base, true)?.state.store(ptr::from_ref(state).cast_mut(), Release);
    Some(())
}

/// Finds where libc keeps the thread's number in its control block: the one place that holds it.
fn look_for_thread(base: u64) {
    let thread = sys::thread();
    let mut block = [0u8; 1024];
    let len = sys::peek(base, &mut block);
    let mut found = 0;
    for (index, word) in block[..len].as_chunks::<4>().0.iter().enumerate().skip(4) {
        if u32::from_le_bytes(*word) == thread {
            if found != 0 {
                return;
            }
            found = index as u32 * 4;
        }
    }
    THREAD_AT.store(found, Relaxed);
}
