//! Experiments of causal profiling. While one runs, threads that are in the target's code add delays to all
//! others: as if the target were faster. The collector chooses and times the experiments, the threads keep the
//! accounts. Times are ticks of the time-stamp counter, unless a name says otherwise.
//!
//! ```text
//! 0           Board                                   the running experiment, what the agent could not do
//! ROUNDS_AT   ROUNDS × Round                          an experiment each: its target, delays and visits
//! THREADS_AT  MOST_THREADS × Thread                   the accounts of each thread
//! POINTS_AT   MOST_POINTS × Point                     progress points: their names and raw counts
//! ADDRESSES_AT  MOST_ADDRESSES × u64                    where the last samples were
//! ```
//! A thread that is late writes into the round that it knows, which is not used again for a while.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Number of rounds that are kept apart.
pub const ROUNDS: usize = 16;
/// Maximum number of threads at one time.
pub const MOST_THREADS: usize = 1024;
/// Maximum number of progress points.
pub const MOST_POINTS: usize = 64;
/// Maximum number of code ranges of a target.
pub const MOST_RANGES: usize = 1024;
/// Number of sampled addresses that are kept.
pub const MOST_ADDRESSES: usize = 1 << 14;
/// Maximum number of hardware breakpoints: so many a CPU has.
pub const MOST_BREAKPOINTS: usize = 4;
/// Maximum length of a point's name.
pub const NAME_LEN: usize = 104;

/// Offset of the rounds.
pub const ROUNDS_AT: usize = size_of::<Board>().next_multiple_of(4096);
/// Offset of the threads.
pub const THREADS_AT: usize = ROUNDS_AT + ROUNDS * size_of::<Round>();
/// Offset of the points.
pub const POINTS_AT: usize = THREADS_AT + MOST_THREADS * size_of::<Thread>();
/// Offset of the sampled addresses.
pub const ADDRESSES_AT: usize = POINTS_AT + MOST_POINTS * size_of::<Point>();
/// Length of everything.
pub const CAUSAL_LEN: usize = (ADDRESSES_AT + MOST_ADDRESSES * 8).next_multiple_of(4096);

/// A speed-up of 1: all of the target's time.
pub const WHOLE: u32 = 1 << 16;

/// What all threads share.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Board {
    /// The number of the running round; 0 for none. Set by the collector, like all fields up to `tick_of_ns`.
    pub round: AtomicU64,
    /// When the collector last was at work.
    pub renewed: AtomicU64,
    /// There are no delays if the collector was not at work for so long.
    pub patience: AtomicU64,
    /// CPU time between two samples of a thread, in nanoseconds. 0: this program is not experimented on.
    pub period_ns: AtomicU64,
    /// Ticks per nanosecond, times 2^32.
    pub tick_of_ns: AtomicU64,
    _collector: [u64; 3],

    /// Samples taken so far, each with its address.
    pub sampled: AtomicU64,
    /// Points `0..points_used` are in use.
    pub points_used: AtomicU32,
    /// Threads `0..threads_used` have been in use.
    pub threads_used: AtomicU32,
    /// Threads that could not be sampled.
    pub unsampled: AtomicU32,
    /// The errno of the last of them.
    pub unsampled_error: AtomicU32,
    /// Processes that were forked. They are not experimented on.
    pub forks: AtomicU32,
    /// 1 since the program has forbidden itself system calls: it is not experimented on any more.
    pub confined: AtomicU32,
    /// How often a thread looked for the target among the callers of its code.
    pub looks: AtomicU64,
    /// Looks that did not get to the end: code without unwind tables, or too many frames.
    pub looks_cut: AtomicU64,
    /// Threads that some breakpoint could not be set in.
    pub unwatched: AtomicU32,
    /// The errno of the last of them.
    pub unwatched_error: AtomicU32,
    _agent: [u64; 1],
}

/// An experiment. The collector clears it and writes the target before the round runs, the agent writes the rest.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Round {
    /// When it started.
    pub started: AtomicU64,
    /// Visits count from here on.
    pub measured_from: AtomicU64,
    /// The share of the target's time that it is faster by: 0 to [`WHOLE`].
    pub speedup: AtomicU32,
    /// Number of the target's ranges.
    pub ranges_used: AtomicU32,
    /// One of [`reach`].
    pub reach: AtomicU32,
    _collector: [u32; 9],

    /// The delay that every thread has to take by now.
    pub delay: AtomicU64,
    /// Samples of threads in the target.
    pub hits: AtomicU64,
    /// The CPU time of those, in nanoseconds.
    pub hit_ns: AtomicU64,
    /// All samples.
    pub samples: AtomicU64,
    /// The CPU time of those, in nanoseconds.
    pub sample_ns: AtomicU64,
    /// How often a thread blocked and was woken by another.
    pub waits: AtomicU64,
    _agent: [u64; 2],

    /// The visits of each point.
    pub visits: [Visits; MOST_POINTS],
    /// The target: start and end of its ranges of code at run time, sorted, without overlap.
    pub ranges: [[AtomicU64; 2]; MOST_RANGES],
}

/// The visits of a point in a round. Times are virtual: without the delays of the thread that visits.
#[repr(C)]
#[derive(Debug)]
pub struct Visits {
    /// How many.
    pub count: AtomicU64,
    /// The first one. 0 for none.
    pub first: AtomicU64,
    /// The last one.
    pub last: AtomicU64,
    /// The raw count of a counter at its last visit that was seen.
    pub seen: AtomicU64,
    /// Of a counter of coz that begins or ends: its raw count times what the common delay grew by, added up (it wraps).
    pub delayed: AtomicU64,
}

/// The accounts of a thread. Only the thread itself writes most of it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Thread {
    /// Its id in the program; 0 if free.
    pub tid: AtomicU32,
    /// Its event's descriptor plus one; 0 for none.
    pub event: AtomicU32,
    /// The round of `delayed`. In another round the thread has not been delayed.
    pub round: AtomicU64,
    /// The delays that it has taken in that round.
    pub delayed: AtomicU64,
    /// When it was last looked at.
    pub looked: AtomicU64,
    /// Its CPU time then, in nanoseconds.
    pub cpu_ns: AtomicU64,
    /// Time since then that was accounted for already: waits, sleeps and delays.
    pub apart: AtomicU64,
    /// The CPU time of delays since then, in nanoseconds.
    pub spun_ns: AtomicU64,
    /// 1 while its accounts are being changed.
    pub busy: AtomicU32,
    /// The event's period, in microseconds.
    pub period_us: AtomicU32,
}

/// A progress point.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Point {
    /// How often it was visited in all. The program itself counts here: a counter of coz.
    pub count: AtomicU64,
    /// The rest of a counter of coz. Not used.
    pub backoff: AtomicU64,
    /// One of [`kind`].
    pub kind: AtomicU32,
    /// Length of the name.
    pub name_len: AtomicU32,
    /// Its name.
    pub name: [AtomicU8; NAME_LEN],
}

/// What belongs to a target besides its own code.
pub mod reach {
    /// Nothing.
    pub const OWN: u32 = 0;
    /// What its code calls.
    pub const CALLEES: u32 = 1;
    /// Nothing, but threads look as if: other rounds have targets whose callees belong to them, and all rounds cost the
    /// same.
    pub const OWN_AT_COST: u32 = 2;
}

/// The kinds of points: those of coz, and others.
pub mod kind {
    /// Not complete yet.
    pub const NONE: u32 = 0;
    /// A counter of coz: something happens again and again.
    pub const THROUGHPUT: u32 = 1;
    /// A counter of coz: something begins.
    pub const BEGIN: u32 = 2;
    /// A counter of coz: something ends.
    pub const END: u32 = 3;
    /// Code. The agent notes each visit itself.
    pub const CODE: u32 = 4;
}

/// Offset of a round, by its number.
pub const fn round_at(round: u64) -> usize {
    ROUNDS_AT + round as usize % ROUNDS * size_of::<Round>()
}

/// Offset of a thread.
pub const fn thread_at(thread: usize) -> usize {
    THREADS_AT + thread * size_of::<Thread>()
}

/// Offset of a point.
pub const fn point_at(point: usize) -> usize {
    POINTS_AT + point * size_of::<Point>()
}

const _: () = assert!(size_of::<Board>() == 128 && size_of::<Thread>() == 64 && size_of::<Point>() == 128);
const _: () = assert!(ROUNDS_AT.is_multiple_of(64) && ADDRESSES_AT.is_multiple_of(8));
