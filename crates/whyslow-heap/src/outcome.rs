//! The heap's results for the recorder. Rows refer to each other by number. Numbers are unique over all
//! processes of the recording, in the order in which the rows appear in the batches. Times are
//! `CLOCK_MONOTONIC` nanoseconds.

use whyslow_numbers::ClockNs;
use whyslow_profile::{Growth, GrowthBar, HeapCounts, HeapFacts, HeapNote};

pub use whyslow_profile::batch::{
    Batch, CounterKind, CounterRow, ModuleSeen, ProcessSeen, StackSeen, ThreadSeen, TimelineRow, Transfer,
};

use crate::bars::Histogram;
use crate::ids::{StackRow, ThreadRow};

/// The final numbers of one allocating stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The stack.
    pub stack: StackRow,
    /// The numbers.
    pub counts: HeapCounts,
    /// How its live bytes changed over time.
    pub growth: Growth,
    /// Numbers of blocks by the significant bits of their size.
    pub sizes: Histogram,
    /// Numbers of freed blocks by the significant bits of their lifetime in nanoseconds.
    pub lifetimes: Histogram,
    /// How blocks of this site grew, by size.
    pub chains: Vec<GrowthBar>,
    /// Bytes live at the peak, by allocating thread.
    pub peak_by_thread: Vec<(ThreadRow, u64)>,
    /// Bytes live at exit, by allocating thread.
    pub exit_by_thread: Vec<(ThreadRow, u64)>,
}

/// The final results, after the program has exited.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Outcome {
    /// The new rows since the last batch.
    pub batch: Batch,
    /// The sites.
    pub sites: Vec<Site>,
    /// Blocks freed by another thread than their own.
    pub transfers: Vec<Transfer>,
    /// Facts about the whole recording.
    pub facts: HeapFacts<ClockNs>,
    /// Notes for the reader of the profile, besides those about the programs.
    pub notes: Vec<HeapNote>,
}
