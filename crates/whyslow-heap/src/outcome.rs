//! What the collector hands to the recorder. Rows refer to each other by number; numbers are given once, over all
//! processes of the recording, in the order in which the rows appear in the batches. Times are `CLOCK_MONOTONIC`
//! nanoseconds.

use whyslow_profile::{Growth, GrowthBar, HeapCounts, HeapFacts, HeapNote};

use crate::bars::Histogram;
use crate::ids::{ModuleRow, ProcessRow, StackRow, ThreadRow};

/// A process in which the agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSeen {
    /// The operating system's number.
    pub pid: u32,
    /// The process that made it, if the agent ran there too.
    pub parent: Option<ProcessRow>,
    /// Its command name.
    pub name: String,
    /// When it was first seen.
    pub start_ns: u64,
}

/// A thread that allocated or freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSeen {
    /// Its process.
    pub process: ProcessRow,
    /// The operating system's number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// When it was first seen.
    pub start_ns: u64,
}

/// A file whose code is on a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleSeen {
    /// A process that has it.
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
    /// The module; `None` for code in no known file.
    pub module: Option<ModuleRow>,
    /// The address of the call (return address minus one): relative to the module, or as it is without one.
    pub address: u64,
}

/// What one thread did at one stack in one bucket of the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineRow {
    /// The start of the bucket.
    pub time_ns: u64,
    /// Who allocated.
    pub thread: ThreadRow,
    /// Where.
    pub stack: StackRow,
    /// Blocks that were made.
    pub allocations: u64,
    /// Their bytes.
    pub bytes_allocated: u64,
    /// Bytes of blocks of this stack that were freed in this bucket, by whichever thread.
    pub bytes_freed: u64,
    /// Blocks of this stack that turned out to be temporary in this bucket.
    pub temporary: u64,
    /// Bytes of freed blocks that were never written.
    pub unused_bytes: u64,
}

/// What a counter counts.
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
    /// What is counted.
    pub kind: CounterKind,
    /// When.
    pub time_ns: u64,
    /// How much.
    pub value: u64,
}

/// What is new since the last batch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Processes.
    pub processes: Vec<ProcessSeen>,
    /// Threads.
    pub threads: Vec<ThreadSeen>,
    /// Processes that ended, and when.
    pub ended: Vec<(ProcessRow, u64)>,
    /// Modules.
    pub modules: Vec<ModuleSeen>,
    /// Stacks.
    pub stacks: Vec<StackSeen>,
    /// The timeline.
    pub rows: Vec<TimelineRow>,
    /// Counters.
    pub counters: Vec<CounterRow>,
}

/// One allocating stack, at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The stack.
    pub stack: StackRow,
    /// The numbers.
    pub counts: HeapCounts,
    /// How its live bytes went over time.
    pub growth: Growth,
    /// How many blocks had a size with so many significant bits.
    pub sizes: Histogram,
    /// How many freed blocks had a lifetime in nanoseconds with so many significant bits.
    pub lifetimes: Histogram,
    /// How blocks grew, by size; their site is this one.
    pub chains: Vec<GrowthBar>,
    /// Who had how many bytes at the peak.
    pub peak_by_thread: Vec<(ThreadRow, u64)>,
    /// Whose blocks were live at the end, in bytes.
    pub exit_by_thread: Vec<(ThreadRow, u64)>,
}

/// Blocks that one thread made and another one freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Who made them.
    pub from: ThreadRow,
    /// Who freed them.
    pub to: ThreadRow,
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Everything else, once the program has ended.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Outcome {
    /// What is new since the last batch.
    pub batch: Batch,
    /// The sites.
    pub sites: Vec<Site>,
    /// Who freed whose blocks.
    pub transfers: Vec<Transfer>,
    /// Facts about the whole. `peak_ns` and snapshot times are `CLOCK_MONOTONIC` here.
    pub facts: HeapFacts,
    /// What the reader should know.
    pub notes: Vec<HeapNote>,
}
