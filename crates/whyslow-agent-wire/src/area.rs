//! Layout of the memory that a program and its forked children share with the collector: a sparse in-memory
//! file that takes space only where it is used. A program may be short of address space (`ulimit -v`), so
//! both sides map only what they need: everything before the words, and the rings in chunks.
//!
//! ```text
//! 0          Header
//! RINGS_AT   MOST_RINGS × RingHeader          which thread writes it, words written and read
//! FILTER_AT  FILTER_LEN × u8                  sampling: number of sampled live blocks with this hash
//! LEFT_AT    MOST_LEFT_OUT × LeftOut          programs that were started but are not recorded, see `left_out`
//! MODULES_AT MODULES_LEN bytes                modules in the order they were found: ModuleEntry, then its path
//! WORDS_AT   MOST_RINGS × RING_WORDS × u64    the records, see `record`
//! UNWIND_AT  UNWIND_LEN bytes                 where a static program's unwind information is, if it has no index
//! SAMPLES_AT SAMPLES_LEN bytes                CPU samples, see `sampler`
//! CAUSAL_AT  CAUSAL_LEN bytes                 experiments, see `causal`
//! ```

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::left_out::{LeftOut, MOST_LEFT_OUT};

/// Maximum number of rings in use at one time. The collector frees the rings of threads that exited.
pub const MOST_RINGS: usize = 4096;
/// Words per ring: 256 KB.
pub const RING_WORDS: usize = 1 << 15;
/// Number of rings mapped together.
pub const CHUNK_RINGS: usize = 4;
/// Number of chunks of rings.
pub const CHUNKS: usize = MOST_RINGS / CHUNK_RINGS;
/// Bytes per chunk.
pub const CHUNK_LEN: usize = CHUNK_RINGS * RING_WORDS * 8;
/// Bytes in the filter.
pub const FILTER_LEN: usize = 1 << 16;
/// Bytes reserved for modules.
pub const MODULES_LEN: usize = 8 << 20;
/// Bytes reserved for a table of unwind information.
pub const UNWIND_LEN: usize = 64 << 20;

/// Offset of the ring headers.
pub const RINGS_AT: usize = 4096;
/// Offset of the filter.
pub const FILTER_AT: usize = RINGS_AT + MOST_RINGS * size_of::<RingHeader>();
/// Offset of the programs that are not recorded.
pub const LEFT_AT: usize = FILTER_AT + FILTER_LEN;
/// Offset of the modules.
pub const MODULES_AT: usize = LEFT_AT + (MOST_LEFT_OUT * size_of::<LeftOut>()).next_multiple_of(4096);
/// Offset of the words of all rings.
pub const WORDS_AT: usize = MODULES_AT + MODULES_LEN;
/// Bytes that the agent maps first: everything up to the end of the first chunk.
pub const FIRST_LEN: usize = WORDS_AT + CHUNK_LEN;
/// Offset of a search table for unwind information, in `.eh_frame_hdr` format. The collector writes it before
/// the agent gets the area.
pub const UNWIND_AT: usize = WORDS_AT + CHUNKS * CHUNK_LEN;
/// Offset of the CPU samples.
pub const SAMPLES_AT: usize = UNWIND_AT + UNWIND_LEN;
/// Offset of the experiments.
pub const CAUSAL_AT: usize = SAMPLES_AT + crate::sampler::SAMPLES_LEN.next_multiple_of(4096);
/// Length of the whole area.
pub const AREA_LEN: usize = CAUSAL_AT + crate::causal::CAUSAL_LEN;

/// The state of a program and of its collector. Fields written by different sides are on different cache
/// lines.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    /// [`crate::VERSION`].
    pub version: AtomicU32,
    /// Rings `0..rings_used` have been in use at some point.
    pub rings_used: AtomicU32,
    /// Bytes of complete module entries.
    pub modules_used: AtomicU32,
    /// Events dropped because the collector was behind or had exited.
    pub lost_events: AtomicU64,
    /// Events dropped because no ring was free.
    pub lost_ringless: AtomicU64,
    /// Rings in use now. With two or more, every record has its own time.
    pub rings_active: AtomicU32,
    /// The process that waits at its exit for the collector; 0 for none. Set by the agent.
    pub exiting_pid: AtomicU32,
    /// The thread that waits at the exit.
    pub exiting_tid: AtomicU32,
    /// Module generations handed out so far. Every `dlclose` takes a new one, and so does every forked child
    /// that finds a new module.
    pub generations: AtomicU32,
    /// The thread that is adding a module; 0 for none.
    pub modules_lock: AtomicU32,
    /// Address of the agent's table of filled blocks, the same in every process of the area; 0 for none. The
    /// table points to every block, so the leak search must not treat it as a root.
    pub table_start: AtomicU64,
    /// Length of that table.
    pub table_len: AtomicU64,
    /// Start of the agent itself. It is not a root either: its copies of stacks point to blocks.
    pub agent_start: AtomicU64,
    /// Length of the agent.
    pub agent_len: AtomicU64,
    /// Address of the agent's array of pointers to its per-thread states, not a root either: [`MOST_STATES`]
    /// entries, 0 for none.
    pub states: AtomicU64,
    /// Length of each per-thread state.
    pub state_len: AtomicU64,
    /// Programs that were started, are not recorded, and did not fit among the [`LeftOut`] entries.
    pub left_out_more: AtomicU64,
    /// [`LeftOut`] entries `0..left_out_used` have been in use at some point.
    pub left_out_used: AtomicU32,
    _rest: [u8; 12],

    /// A number that the collector changes whenever it has read the rings.
    pub heartbeat: AtomicU64,
    /// Futex: 1 while the collector sleeps and wants a wake-up when a ring is half full.
    pub asleep: AtomicU32,
    /// Futex: the collector adds one when an exiting process may continue.
    pub exits_allowed: AtomicU32,
    /// The collector sets this to 0 to switch the agent off for good.
    pub enabled: AtomicU32,
    /// Bits of [`flag`].
    pub flags: AtomicU32,
    /// The bits of [`crate::purpose::Purposes`]: what the agent is for.
    pub purposes: AtomicU32,
    /// The request for [`crate::purpose::Purpose::Heap`].
    pub heap: HeapRequest,
    /// Bytes at `UNWIND_AT`: a search table for the unwind information of a program without its own; 0 for
    /// none.
    pub unwind_len: AtomicU64,
    /// Where the stack of the program's first thread begins; above it is what the kernel put there. 0 if not
    /// known.
    pub stack_start: AtomicU64,

    /// The stack pointer of the waiting thread when the program called the agent. Everything below it belongs
    /// to the agent.
    pub exiting_sp: AtomicU64,
    /// The registers at that point that the program can still rely on.
    pub exiting_registers: [AtomicU64; MOST_REGISTERS],
    _moment: [u8; 56],
}

/// Number of general registers of a thread.
pub const MOST_REGISTERS: usize = 16;

/// Maximum number of per-thread states in one process: threads with a ring, and signal handlers in them.
pub const MOST_STATES: usize = 2 * MOST_RINGS;

/// What the agent does for all of its purposes.
pub mod flag {
    /// Wait at process exit until the collector allows it.
    pub const WAIT_AT_EXIT: u32 = 1;
    /// Wait in a crash as well.
    pub const WAIT_IN_CRASH: u32 = 2;
}

/// How to record allocations.
#[repr(C)]
#[derive(Debug)]
pub struct HeapRequest {
    /// Mean number of bytes between samples; 0 records everything.
    pub sample_bytes: AtomicU64,
    /// Bits of [`heap_flag`].
    pub flags: AtomicU32,
    /// Not used.
    pub reserved: AtomicU32,
}

/// Optional work of an agent that records allocations.
pub mod heap_flag {
    /// Fill new blocks, and check on free which bytes were never written.
    pub const UNUSED: u32 = 1;
    /// Record the program's own mappings as well.
    pub const MAPS: u32 = 2;
}

/// How many low bits of an address [`filter_slot`] drops, and by how many it shifts the high bits down.
pub const FILTER_SHIFTS: [u32; 2] = [10, 26];

/// The slot of an address in the filter of sampled blocks. All addresses in one kilobyte share a slot. Every
/// free reads it, and a program that works in one part of its heap keeps hitting the same few cache lines.
#[inline]
pub const fn filter_slot(address: u64) -> usize {
    let [low, high] = FILTER_SHIFTS;
    ((address >> low) ^ (address >> high)) as usize % FILTER_LEN
}

/// The header of one thread's ring. The agent writes the first half, the collector the second.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RingHeader {
    /// Words written so far.
    pub written: AtomicU64,
    /// The process that writes.
    pub pid: AtomicU32,
    /// The thread that writes.
    pub tid: AtomicU32,
    /// 0 for the thread itself, 1 for a signal handler that interrupted the agent in this thread.
    pub level: AtomicU32,
    /// The process that this one was forked from, if the agent in that process has registered; 0 for a
    /// program's first process.
    pub parent: AtomicU32,
    /// The [`crate::purpose::Purpose`] that its records are for.
    pub purpose: AtomicU32,
    _agent: [u8; 36],

    /// Words read so far.
    pub read: AtomicU64,
    /// One of [`ring`]. The agent takes a free ring by compare-and-swap; the collector frees it.
    pub state: AtomicU32,
    _collector: [u8; 52],
}

/// States of a ring.
pub mod ring {
    /// Not in use.
    pub const FREE: u32 = 0;
    /// Taken, but the header is not complete yet.
    pub const TAKEN: u32 = 1;
    /// In use.
    pub const LIVE: u32 = 2;
}

/// A module found while unwinding. Its path follows, then zero bytes up to a multiple of 8.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleEntry {
    /// Load base: the address of relative address 0.
    pub base: u64,
    /// Start of the range that may hold its code.
    pub start: u64,
    /// End of that range.
    pub end: u64,
    /// The first module generation that includes it.
    pub generation: u32,
    /// Length of the path in bytes; 0 for the program itself.
    pub path_len: u32,
}

/// Offset of a ring's header in the area.
pub const fn ring_header_at(ring: usize) -> usize {
    RINGS_AT + ring * size_of::<RingHeader>()
}

/// Offset of a ring's first word in its chunk.
pub const fn ring_words_at(ring: usize) -> usize {
    ring % CHUNK_RINGS * RING_WORDS * 8
}

/// Offset of a chunk in the area.
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
    fn nearby_addresses_share_filter_cache_lines() {
        const LINE: usize = 64;
        let start = 0x5555_dead_0000;
        let slots = (0..64 << 10).step_by(16).map(|offset| filter_slot(start + offset));
        let mut lines = slots.map(|slot| slot / LINE);
        let first = lines.next();
        assert!(lines.all(|line| Some(line) == first));
    }

    #[test]
    fn addresses_64_mb_apart_have_different_slots() {
        let slots: [usize; 8] =
            core::array::from_fn(|arena| filter_slot(0x7f00_0000_1000 + ((arena as u64) << 26)));
        for (at, slot) in slots.iter().enumerate() {
            assert!(!slots[..at].contains(slot) && *slot < FILTER_LEN);
        }
    }
}
