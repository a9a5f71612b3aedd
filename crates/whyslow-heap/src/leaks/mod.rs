//! Which blocks are leaked: reachability from outside, with memcheck's four classes.
//!
//! ```text
//! check                                    stops the process, looks, lets it go, then thinks
//! ├─ threads    stops every thread, takes its registers
//! ├─ roots      which parts of which mappings can hold pointers that count
//! ├─ memory     reads the process, skipping pages that were never written
//! └─ graph      blocks + roots + memory → a class per block             pure
//!    ├─ index       address → block
//!    ├─ blocks      the contents of all blocks, with few reads
//!    ├─ edges       the pointers between blocks
//!    └─ heuristics  interior pointers that C++ makes on purpose
//! suppressions  Valgrind's and LeakSanitizer's files
//! ```
//!
//! Where it must differ from memcheck: memcheck knows which bytes were never written and does not take them for
//! pointers. Here a stale pointer in fresh memory, or in an unused slot of a live stack frame, counts. That can hide
//! a leak; it cannot invent one.

mod blocks;
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

/// A block that was not freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveBlock {
    /// Where it starts.
    pub address: Address,
    /// How many bytes were asked for.
    pub size: u64,
    /// The stack that made it; only used for sums.
    pub stack: StackRow,
    /// The process was forked from the one that made it: it holds pointers, and is nobody's leak here.
    pub inherited: bool,
}

impl LiveBlock {
    /// The first address behind it. A block of zero bytes counts as one byte, so that a pointer to it is one.
    pub(crate) fn end(&self) -> u64 {
        self.address.plus(self.size.max(1)).0
    }
}

/// The live blocks of a process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Live {
    /// By address.
    pub blocks: Vec<LiveBlock>,
    /// One of them is being moved (`realloc`): it may be elsewhere already, and what it points to would seem lost.
    pub moving: bool,
}

/// A process that is to be looked at.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its number.
    pub pid: u32,
    /// The thread that waits for us in the agent, if one does. If it is not there any more, the process has gone on.
    pub waiting: Option<Waiting>,
    /// Ranges that belong to us: the agent, what it remembers of stacks.
    pub skip: Vec<(u64, u64)>,
    /// Further ones, of which the process itself has the list.
    pub skip_listed: Option<Listed>,
}

/// Addresses in a process at which ranges of one length begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Where they are.
    pub at: u64,
    /// How many; 0 is none.
    pub count: usize,
    /// How long each range is.
    pub len: u64,
}

/// A thread that waits in the agent, as the program left it. The agent's own frames and registers hold nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The thread.
    pub tid: u32,
    /// Its stack pointer then.
    pub sp: u64,
    /// Its registers then.
    pub registers: Vec<u64>,
}

/// What can be said about a block, in memcheck's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// No pointer to it exists, or only pointers of a ring of lost blocks that it leads.
    DefinitelyLost,
    /// Only lost blocks point to it.
    IndirectlyLost,
    /// A chain of pointers leads to it, but one of them points into the middle of a block.
    PossiblyLost,
    /// A chain of pointers to starts of blocks leads to it.
    Reachable,
}

/// What a look at a process found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeakReport {
    /// The class of each block, in the order in which the blocks were given.
    pub classes: Vec<Class>,
    /// Threads that were stopped.
    pub threads: usize,
    /// How long they stood still.
    pub stopped: Duration,
    /// Bytes of blocks and roots that were read.
    pub bytes_read: u64,
    /// Pages that could not be read; pointers in them were not seen, so that a block may seem lost that is not.
    pub unreadable_pages: u64,
}

impl LeakReport {
    /// The sums per stack: blocks and bytes of the four classes, and nothing else. Inherited blocks are the parent's.
    pub fn by_stack(&self, blocks: &[LiveBlock]) -> FxHashMap<StackRow, HeapCounts> {
        let mut stacks = FxHashMap::<StackRow, HeapCounts>::default();
        for (block, class) in blocks.iter().zip(&self.classes).filter(|(block, _)| !block.inherited) {
            class.count(block.size, stacks.entry(block.stack).or_default());
        }
        stacks
    }
}

impl Class {
    /// Adds one block of this class to a stack's numbers.
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

/// Why no look at a process was possible.
#[derive(Debug, thiserror::Error)]
pub enum LeakError {
    /// It ended, or was killed, before or while it was looked at.
    #[error("process {pid} ended before its memory was read")]
    Gone {
        /// The process.
        pid: u32,
    },
    /// A debugger has it.
    #[error(
        "process {pid} is already traced by process {tracer}; a leak check needs to stop it: detach the debugger first"
    )]
    Traced {
        /// The process.
        pid: u32,
        /// Who traces it.
        tracer: u32,
    },
    /// The kernel's setting forbids it.
    #[error("stopping process {pid} is forbidden by kernel.yama.ptrace_scope={scope}; {}", yama_advice(*scope))]
    Yama {
        /// The process.
        pid: u32,
        /// The setting.
        scope: u32,
    },
    /// It is not ours.
    #[error("no permission to stop process {pid}; run whyslow as its user, or as root")]
    Permission {
        /// The process.
        pid: u32,
    },
    /// A thread does not stop: it hangs in the kernel.
    #[error("thread {tid} of process {pid} did not stop within {} s; it hangs in the kernel", threads::PATIENCE.as_secs())]
    Stuck {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// It has other registers and pointers than we know.
    #[error("process {pid} is a 32-bit program; leak checks know 64-bit ones only")]
    NotX86_64 {
        /// The process.
        pid: u32,
    },
    /// More blocks than row numbers.
    #[error("{blocks} live blocks are more than a leak check can number")]
    TooMany {
        /// How many.
        blocks: usize,
    },
    /// Anything else.
    #[error("cannot {what} process {pid}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The process.
        pid: u32,
        /// What the kernel said.
        source: std::io::Error,
    },
}

fn yama_advice(scope: u32) -> &'static str {
    match scope {
        1 => {
            "start the program with whyslow instead of attaching, or run: sudo sysctl kernel.yama.ptrace_scope=0"
        }
        2 => "run whyslow as root, or run: sudo sysctl kernel.yama.ptrace_scope=1",
        _ => "it can only be changed by a restart of the machine",
    }
}
