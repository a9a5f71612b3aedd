//! Looking at a process in its last moment, while it waits, or when someone asks: where leaks are found.

use whyslow_profile::{HeapCounts, LeakCheck};

use crate::leaks::LiveBlock;

/// What a look at a process found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Findings {
    /// Numbers to add to a stack's, given by its row: leak classes, unused and examined bytes. Other columns are not looked at.
    pub stacks: Vec<(u32, HeapCounts)>,
    /// Whether leaks were looked for, and why not.
    pub leaks: LeakCheck,
    /// What the reader should know, each with the next step.
    pub notes: Vec<String>,
}

/// Gives the live blocks of a process that stands still.
pub type TakeBlocks<'a> = dyn FnMut() -> Vec<LiveBlock> + Send + 'a;

/// Looks at processes. It is called on a thread of its own.
pub trait ExitInspector: Send + Sync {
    /// Looks at a process whose thread `tid` waits to end it. `blocks` are its live blocks by address; their site is
    /// the row of the stack that made them. `skip` are ranges of memory that are ours, not the program's.
    fn at_exit(&self, pid: u32, tid: u32, blocks: &[LiveBlock], skip: &[(u64, u64)]) -> Findings {
        let _ = (pid, tid, blocks, skip);
        Findings::default()
    }

    /// Looks at a process that runs. `blocks` gives its live blocks at that moment, and must be called once it stands still, or not
    /// at all. The time in [`LeakCheck::AtSnapshot`] is not looked at.
    fn at_snapshot(&self, pid: u32, skip: &[(u64, u64)], blocks: &mut TakeBlocks<'_>) -> Findings {
        let _ = (pid, skip, blocks);
        Findings::default()
    }
}

/// Finds nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoInspector;

impl ExitInspector for NoInspector {}
