//! Looking at a process in its last moment, while it waits, or when someone asks: where leaks are found.

use whyslow_profile::{HeapCounts, HeapNote, LeakCheck};

use crate::ids::StackRow;
use crate::leaks::{Live, Subject};

/// What a look at a process found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Findings {
    /// Numbers to add to a stack's: leak classes, unused and examined bytes, what was passed over. Other columns are not looked at.
    pub stacks: Vec<(StackRow, HeapCounts)>,
    /// Whether leaks were looked for, and why not. Who asked knows when that was.
    pub leaks: LeakCheck,
    /// What the reader should know.
    pub notes: Vec<HeapNote>,
}

/// Gives the live blocks of a process that stands still.
pub type TakeBlocks<'a> = dyn FnMut() -> Live + Send + 'a;

/// Looks at processes. It is called on a thread of its own.
pub trait ExitInspector: Send + Sync {
    /// Looks at a process. `blocks` must be called once it stands still, and again if it went on since, or not at all.
    fn look(&self, subject: &Subject, blocks: &mut TakeBlocks<'_>) -> Findings {
        let _ = (subject, blocks);
        Findings::default()
    }
}

/// Finds nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoInspector;

impl ExitInspector for NoInspector {}
