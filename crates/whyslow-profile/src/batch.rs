//! What a heap recording adds while it runs, in batches. Rows refer to each other by number. Numbers are unique over all
//! processes of the recording, in the order in which the rows appear in the batches.

use whyslow_numbers::ClockNs;

use crate::heap::{Growth, GrowthBar, HeapCounts};

crate::row_ids! {
    /// A process: its index among all [`ProcessSeen`].
    pub ProcessRow,
    /// A thread: its index among all [`ThreadSeen`].
    pub ThreadRow,
    /// A module: its index among all [`ModuleSeen`].
    pub ModuleRow,
    /// A stack: its index among all [`StackSeen`].
    pub StackRow,
}

/// A process in which the agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSeen {
    /// The operating system's process id.
    pub pid: u32,
    /// The process that started it, if that one has an agent too.
    pub parent: Option<ProcessRow>,
    /// Its command name.
    pub name: String,
    /// When it was first seen.
    pub start_ns: ClockNs,
}

/// A thread that allocated or freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSeen {
    /// Its process.
    pub process: ProcessRow,
    /// The operating system's thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// When it was first seen.
    pub start_ns: ClockNs,
}

/// A file with code on a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleSeen {
    /// A process that maps it.
    pub process: ProcessRow,
    /// Its path as the program sees it; `[vdso]` for the kernel's.
    pub path: String,
    /// Whether it is the program itself.
    pub is_program: bool,
}

/// A node of the prefix tree of stacks; a parent comes before its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackSeen {
    /// The caller's stack.
    pub parent: Option<StackRow>,
    /// The module; `None` for code that belongs to no known file.
    pub module: Option<ModuleRow>,
    /// The address of the call (return address minus one): relative to the module, or absolute without one.
    pub address: u64,
}

/// The counts of one thread at one stack in one bucket of the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineRow {
    /// The start of the bucket.
    pub time_ns: ClockNs,
    /// The thread that allocated.
    pub thread: ThreadRow,
    /// The allocating stack.
    pub stack: StackRow,
    /// Number of allocated blocks.
    pub allocations: u64,
    /// Their bytes.
    pub bytes_allocated: u64,
    /// Bytes of blocks of this stack that were freed in this bucket, by any thread.
    pub bytes_freed: u64,
    /// Blocks of this stack that turned out to be temporary in this bucket.
    pub temporary: u64,
    /// Bytes of freed blocks that were never written.
    pub unused_bytes: u64,
}

/// The kind of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// Live bytes of the process.
    Live,
    /// Its resident set size.
    Resident,
}

/// A value of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterRow {
    /// The process.
    pub process: ProcessRow,
    /// The kind of the counter.
    pub kind: CounterKind,
    /// The time.
    pub time_ns: ClockNs,
    /// The value in bytes.
    pub value: u64,
}

/// The new rows since the last batch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Processes.
    pub processes: Vec<ProcessSeen>,
    /// Threads.
    pub threads: Vec<ThreadSeen>,
    /// Processes that exited, and when.
    pub ended: Vec<(ProcessRow, ClockNs)>,
    /// Modules.
    pub modules: Vec<ModuleSeen>,
    /// Stacks.
    pub stacks: Vec<StackSeen>,
    /// The timeline.
    pub rows: Vec<TimelineRow>,
    /// Counters.
    pub counters: Vec<CounterRow>,
}

/// Blocks that one thread allocated and another one freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The thread that allocated them.
    pub from: ThreadRow,
    /// The thread that freed them.
    pub to: ThreadRow,
    /// Number of blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The final numbers of one allocating stack.
#[derive(Debug)]
pub struct SiteEnd<'a> {
    /// The stack.
    pub stack: StackRow,
    /// The numbers.
    pub counts: HeapCounts,
    /// How its live bytes changed over time.
    pub growth: Growth,
    /// Numbers of blocks by the significant bits of their size.
    pub sizes: &'a [(u8, u64)],
    /// Numbers of freed blocks by the significant bits of their lifetime in nanoseconds.
    pub lifetimes: &'a [(u8, u64)],
    /// How blocks of this site grew, by size.
    pub chains: &'a [GrowthBar],
    /// When most bytes were live, and the bytes live then, by allocating thread.
    pub peak: (ClockNs, &'a [(ThreadRow, u64)]),
    /// When the recording ended, and the bytes live then, by allocating thread.
    pub exit: (ClockNs, &'a [(ThreadRow, u64)]),
}
