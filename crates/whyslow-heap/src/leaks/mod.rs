//! Finds leaked blocks: reachability from outside, with memcheck's four classes.
//!
//! ```text
//! check                                    stops the process, reads it, releases it, then classifies
//! ├─ threads    stops every thread, reads its registers
//! ├─ cached     stacks that libc keeps for its next threads
//! ├─ roots      which parts of which mappings can hold pointers that count
//! ├─ memory     reads the process, skipping pages that were never written
//! └─ graph      blocks + roots + memory → a class per block             pure
//!    ├─ index       address → block
//!    ├─ blocks      the contents of all blocks, with few reads
//!    ├─ edges       the pointers between blocks
//!    └─ heuristics  interior pointers that C++ creates on purpose
//! suppressions  Valgrind's and LeakSanitizer's files
//! ```
//!
//! The difference to memcheck: memcheck knows which bytes were never written, and does not treat them as
//! pointers. Here a stale pointer in fresh memory, or in an unused slot of a live stack frame, counts as a
//! pointer. That can hide a leak; it cannot invent one.

mod blocks;
mod cached;
mod edges;
pub mod graph;
mod heuristics;
mod index;
mod memory;
mod roots;
pub mod snapshot;
pub mod suppressions;
mod threads;

use std::time::Duration;

use rustc_hash::FxHashMap;
use whyslow_profile::HeapCounts;

use crate::ids::{Address, StackRow};

pub use snapshot::{check, unused_bytes};
pub use whyslow_agent_host::Waiting;

/// A block that was not freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveBlock {
    /// Its start address.
    pub address: Address,
    /// The requested size in bytes.
    pub size: u64,
    /// The stack that allocated it; only used for sums.
    pub stack: StackRow,
    /// The process was forked from the one that allocated it: the block can hold pointers, but is not a leak
    /// of this process.
    pub inherited: bool,
}

impl LiveBlock {
    /// The first address after it. A block of zero bytes counts as one byte, so that a pointer to it counts.
    pub(crate) fn end(&self) -> u64 {
        self.address.plus(self.size.max(1)).0
    }
}

/// The live blocks of a process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Live {
    /// The blocks, by address.
    pub blocks: Vec<LiveBlock>,
    /// One of them is being moved (`realloc`): it may already be elsewhere, and the blocks that it points to
    /// would seem lost.
    pub moving: bool,
}

/// A process to inspect.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The process id.
    pub pid: u32,
    /// The thread that waits in the agent for the collector, if any. If it no longer exists, the process has
    /// continued.
    pub waiting: Option<Waiting>,
    /// Ranges that belong to the agent: its code and data, and its copies of stacks.
    pub skip: Vec<(u64, u64)>,
    /// Further ranges, listed in the process itself.
    pub skip_listed: Option<Listed>,
}

/// A list in a process of start addresses of ranges of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// The address of the list.
    pub at: u64,
    /// Number of addresses; an address of 0 is an empty entry.
    pub count: usize,
    /// The length of each range.
    pub len: u64,
}

/// The leak class of a block, in memcheck's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// No pointer to it exists, or only pointers from a ring of lost blocks that it leads.
    DefinitelyLost,
    /// Only lost blocks point to it.
    IndirectlyLost,
    /// A chain of pointers leads to it, but one of them points into the middle of a block.
    PossiblyLost,
    /// A chain of pointers to block starts leads to it.
    Reachable,
}

/// The result of a leak check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeakReport {
    /// The class of each block, in the order of the blocks.
    pub classes: Vec<Class>,
    /// Number of stopped threads.
    pub threads: usize,
    /// How long they were stopped.
    pub stopped: Duration,
    /// Bytes of blocks and roots that were read.
    pub bytes_read: u64,
    /// Pages that could not be read. Pointers in them are missing, so a block may seem lost that is not.
    pub unreadable_pages: u64,
}

impl LeakReport {
    /// The sums per stack: blocks and bytes of the four classes only. Inherited blocks belong to the parent.
    pub fn by_stack(&self, blocks: &[LiveBlock]) -> FxHashMap<StackRow, HeapCounts> {
        let mut stacks = FxHashMap::<StackRow, HeapCounts>::default();
        for (block, class) in blocks.iter().zip(&self.classes).filter(|(block, _)| !block.inherited) {
            class.count(block.size, stacks.entry(block.stack).or_default());
        }
        stacks
    }
}

impl Class {
    /// Adds one block of this class to a stack's counts.
    pub fn count(self, size: u64, counts: &mut HeapCounts) {
        let (blocks, bytes) = match self {
            Self::DefinitelyLost => (&mut counts.definitely_lost_blocks, &mut counts.definitely_lost_bytes),
            Self::IndirectlyLost => (&mut counts.indirectly_lost_blocks, &mut counts.indirectly_lost_bytes),
            Self::PossiblyLost => (&mut counts.possibly_lost_blocks, &mut counts.possibly_lost_bytes),
            Self::Reachable => (&mut counts.reachable_blocks, &mut counts.reachable_bytes),
        };
        *blocks += 1;
        *bytes = bytes.saturating_add(size);
    }
}

/// Why a process could not be inspected.
#[derive(Debug, thiserror::Error)]
pub enum LeakError {
    /// The process exited, or was killed, before or during the inspection.
    #[error("process {pid} exited before its memory was read")]
    Exited {
        /// The process.
        pid: u32,
    },
    /// Another process traces it.
    #[error(
        "process {pid} is already traced by process {tracer}, so a leak check cannot stop it; detach that debugger first"
    )]
    Traced {
        /// The process.
        pid: u32,
        /// The process that traces it.
        tracer: u32,
    },
    /// A kernel setting forbids it.
    #[error("kernel.yama.ptrace_scope={scope} forbids stopping process {pid}; {}", yama_advice(*scope))]
    Yama {
        /// The process.
        pid: u32,
        /// The setting.
        scope: u32,
    },
    /// It belongs to another user.
    #[error("no permission to stop process {pid}; run whyslow as its user, or as root")]
    Permission {
        /// The process.
        pid: u32,
    },
    /// A thread does not stop, most likely because it hangs in the kernel.
    #[error("thread {tid} of process {pid} did not stop within {} s; it may be blocked in the kernel", threads::PATIENCE.as_secs())]
    Stuck {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// Its registers and pointers are not supported.
    #[error("process {pid} is a 32-bit program; leak checks support only 64-bit programs")]
    NotX86_64 {
        /// The process.
        pid: u32,
    },
    /// There are more blocks than row numbers.
    #[error("{blocks} live blocks are too many for a leak check")]
    TooMany {
        /// Number of blocks.
        blocks: usize,
    },
    /// Any other failure.
    #[error("cannot {what} process {pid}: {source}")]
    Io {
        /// What failed.
        what: &'static str,
        /// The process.
        pid: u32,
        /// The kernel's error.
        source: std::io::Error,
    },
}

fn yama_advice(scope: u32) -> &'static str {
    match scope {
        1 => {
            "start the program with whyslow instead of attaching, or run: sudo sysctl kernel.yama.ptrace_scope=0"
        }
        2 => "run whyslow as root, or run: sudo sysctl kernel.yama.ptrace_scope=1",
        _ => "only a reboot can change it",
    }
}
