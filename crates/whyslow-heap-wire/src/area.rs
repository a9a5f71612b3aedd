//! The shared area of one program and its forked children: a sparse file in memory, of which only what is used takes space. A program may
//! have little room for addresses (`ulimit -v`), so both sides map only what they need: the parts before the words, and rings in chunks.
//!
//! ```text
//! 0          Header
//! RINGS_AT   MOST_RINGS × RingHeader          who writes it, how far it is written and read
//! FILTER_AT  FILTER_LEN × u8                  sampling: how many sampled live blocks have this hash
//! LEFT_AT    MOST_LEFT_OUT × LeftOut          programs that were started and are not recorded             see `left_out`
//! MODULES_AT MODULES_LEN bytes                modules in the order in which they were met: ModuleEntry, then its path
//! WORDS_AT   MOST_RINGS × RING_WORDS × u64    the records                                       see `record`
//! UNWIND_AT  UNWIND_LEN bytes                where a static program\'s unwind information is, if it does not say
//! SAMPLES_AT SAMPLES_LEN bytes               samples of CPU time                                see `sampler`
//! ```

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::left_out::{LeftOut, MOST_LEFT_OUT};

/// Rings there can be at one time. The collector gives those of ended threads back.
pub const MOST_RINGS: usize = 4096;
/// Words in a ring: 256 KB.
pub const RING_WORDS: usize = 1 << 15;
/// Rings whose words are mapped together.
pub const CHUNK_RINGS: usize = 4;
/// Chunks of rings.
pub const CHUNKS: usize = MOST_RINGS / CHUNK_RINGS;
/// Bytes of a chunk.
pub const CHUNK_LEN: usize = CHUNK_RINGS * RING_WORDS * 8;
/// Bytes of the filter.
pub const FILTER_LEN: usize = 1 << 16;
/// Bytes for modules.
pub const MODULES_LEN: usize = 8 << 20;
/// Bytes for a table of unwind information.
pub const UNWIND_LEN: usize = 64 << 20;

/// Where the parts lie.
pub const RINGS_AT: usize = 4096;
/// The filter.
pub const FILTER_AT: usize = RINGS_AT + MOST_RINGS * size_of::<RingHeader>();
/// Programs that are not recorded.
pub const LEFT_AT: usize = FILTER_AT + FILTER_LEN;
/// The modules.
pub const MODULES_AT: usize = LEFT_AT + (MOST_LEFT_OUT * size_of::<LeftOut>()).next_multiple_of(4096);
/// The words of all rings.
pub const WORDS_AT: usize = MODULES_AT + MODULES_LEN;
/// What the agent maps at once: everything up to the end of the first chunk.
pub const FIRST_LEN: usize = WORDS_AT + CHUNK_LEN;
/// A search table for unwind information, in the form of `.eh_frame_hdr`, written by the collector before the agent has the area.
pub const UNWIND_AT: usize = WORDS_AT + CHUNKS * CHUNK_LEN;
/// Samples of CPU time.
pub const SAMPLES_AT: usize = UNWIND_AT + UNWIND_LEN;
/// The whole area.
pub const AREA_LEN: usize = SAMPLES_AT + crate::sampler::SAMPLES_LEN;

/// The state of a program and of its collector. Fields that different sides write lie on different cache lines.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    /// [`crate::VERSION`].
    pub version: AtomicU32,
    /// Rings `0..rings_used` were in use at some time.
    pub rings_used: AtomicU32,
    /// Bytes of modules that are complete.
    pub modules_used: AtomicU32,
    /// Events that were given up because the collector was behind, or gone.
    pub lost_events: AtomicU64,
    /// Events that were given up because no ring was free.
    pub lost_ringless: AtomicU64,
    /// Rings that are in use now; from two on, every record has its own time.
    pub rings_active: AtomicU32,
    /// Set by the agent while the program's last moment waits for the collector: the process that does; 0 otherwise.
    pub exiting_pid: AtomicU32,
    /// The thread that waits.
    pub exiting_tid: AtomicU32,
    /// Module generations given out so far. Every `dlclose` takes a new one, and every forked child that meets a new module.
    pub generations: AtomicU32,
    /// The thread that adds a module now; 0 for none.
    pub modules_lock: AtomicU32,
    /// Where the agent keeps the addresses of filled blocks, at the same place in every process of the area; 0 for nowhere. What is there
    /// points to every block, and is no reason for any to live.
    pub table_start: AtomicU64,
    /// How long that is.
    pub table_len: AtomicU64,
    /// Where the agent itself lies, likewise: what it remembers of stacks points to blocks too.
    pub agent_start: AtomicU64,
    /// How long that is.
    pub agent_len: AtomicU64,
    /// Where it keeps the addresses of what it knows of threads, likewise: [`MOST_STATES`] of them, 0 for none.
    pub states: AtomicU64,
    /// How long each of these is.
    pub state_len: AtomicU64,
    /// Programs that were started and not recorded, and found no room among the [`LeftOut`].
    pub left_out_more: AtomicU64,
    /// [`LeftOut`] entries `0..left_out_used` were in use at some time.
    pub left_out_used: AtomicU32,
    _rest: [u8; 12],

    /// Set by the collector to a number that changes whenever it looked at the rings.
    pub heartbeat: AtomicU64,
    /// Futex: 1 while the collector sleeps and wants to be woken when a ring is half full.
    pub asleep: AtomicU32,
    /// Futex: the collector adds one when an exiting process may go on.
    pub exits_allowed: AtomicU32,
    /// Set to 0 by the collector to switch the agent off for good.
    pub enabled: AtomicU32,
    /// Bits of [`flag`].
    pub flags: AtomicU32,
    /// Sampling: bytes between samples on average; 0 records everything.
    pub sample_bytes: AtomicU64,
    /// Bytes at `UNWIND_AT`: a search table for the unwind information of a program that has none; 0 otherwise.
    pub unwind_len: AtomicU64,
    /// Where the stack of the program's first thread begins: what the kernel put there lies above it; 0 if that is not known.
    pub stack_start: AtomicU64,
    _collector: [u8; 16],

    /// The stack pointer that the waiting thread had when the program gave up control: what lies below is the agent's.
    pub exiting_sp: AtomicU64,
    /// The registers of that moment that the program can still count on.
    pub exiting_registers: [AtomicU64; MOST_REGISTERS],
    _moment: [u8; 56],
}

/// General registers of a thread.
pub const MOST_REGISTERS: usize = 16;

/// Threads of one process of which the agent may know: those with a ring, and signal handlers in them.
pub const MOST_STATES: usize = 2 * MOST_RINGS;

/// What the agent shall do beyond the usual.
pub mod flag {
    /// Fill new blocks and look at them when they are freed.
    pub const UNUSED: u32 = 1;
    /// Record the program's own mappings too.
    pub const MAPS: u32 = 2;
    /// Wait at the end of the process until the collector has looked at its memory.
    pub const WAIT_AT_EXIT: u32 = 4;
    /// Do so in a crash, too.
    pub const WAIT_IN_CRASH: u32 = 8;
    /// Take samples of CPU time.
    pub const SAMPLE: u32 = 16;
}

/// How many bits of an address [`filter_slot`] leaves out at the low end, and by how many it shifts the high ones down.
pub const FILTER_SHIFTS: [u32; 2] = [10, 26];

/// The place of an address in the filter of sampled blocks: the kilobyte that it lies in. Every free looks there, and those of a program that works
/// in one part of its heap find the same few lines of the processor's cache.
#[inline]
pub const fn filter_slot(address: u64) -> usize {
    let [low, high] = FILTER_SHIFTS;
    ((address >> low) ^ (address >> high)) as usize % FILTER_LEN
}

/// One thread's ring. The agent owns the first half, the collector the second.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RingHeader {
    /// Words written so far.
    pub written: AtomicU64,
    /// The process that writes.
    pub pid: AtomicU32,
    /// The thread that writes.
    pub tid: AtomicU32,
    /// 0 for the thread itself, 1 for a signal handler that interrupted the agent in it.
    pub level: AtomicU32,
    /// The process of whose memory this one's is a copy, if that one's agent has noticed itself; 0 for a program's first process.
    pub parent: AtomicU32,
    _agent: [u8; 40],

    /// Words read so far.
    pub read: AtomicU64,
    /// One of [`ring`]. The agent takes a free one by a compare-and-swap, the collector frees it.
    pub state: AtomicU32,
    _collector: [u8; 52],
}

/// States of a ring.
pub mod ring {
    /// Nobody's.
    pub const FREE: u32 = 0;
    /// Taken, but its header is not complete yet.
    pub const TAKEN: u32 = 1;
    /// In use.
    pub const LIVE: u32 = 2;
}

/// A module that was met while walking. Its path follows, then zero bytes up to a multiple of 8.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleEntry {
    /// Where it starts: the address of relative address 0.
    pub base: u64,
    /// Where its code may lie.
    pub start: u64,
    /// The end of that.
    pub end: u64,
    /// The module generation from which on it is there.
    pub generation: u32,
    /// Bytes of the path; 0 for the program itself.
    pub path_len: u32,
}

/// The address of a part in a mapped area.
pub const fn ring_header_at(ring: usize) -> usize {
    RINGS_AT + ring * size_of::<RingHeader>()
}

/// The first word of a ring in its chunk.
pub const fn ring_words_at(ring: usize) -> usize {
    ring % CHUNK_RINGS * RING_WORDS * 8
}

/// Where a chunk begins.
pub const fn chunk_at(chunk: usize) -> usize {
    WORDS_AT + chunk * CHUNK_LEN
}

const _: () = assert!(size_of::<Header>() == 384 && size_of::<RingHeader>() == 128);
const _: () =
    assert!(LEFT_AT.is_multiple_of(4096) && WORDS_AT.is_multiple_of(4096) && MODULES_AT.is_multiple_of(4096));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frees_of_one_part_of_the_heap_share_lines_of_the_filter() {
        const LINE: usize = 64;
        let start = 0x5555_dead_0000;
        let slots = (0..64 << 10).step_by(16).map(|offset| filter_slot(start + offset));
        let mut lines = slots.map(|slot| slot / LINE);
        let first = lines.next();
        assert!(lines.all(|line| Some(line) == first));
    }

    #[test]
    fn parts_of_64_megabytes_have_different_places() {
        let slots: [usize; 8] =
            core::array::from_fn(|arena| filter_slot(0x7f00_0000_1000 + ((arena as u64) << 26)));
        for (at, slot) in slots.iter().enumerate() {
            assert!(!slots[..at].contains(slot) && *slot < FILTER_LEN);
        }
    }
}
