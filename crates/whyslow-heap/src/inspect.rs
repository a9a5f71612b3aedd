//! The interface for inspecting a process at its exit or for a snapshot, to find leaks.

use whyslow_numbers::ClockNs;
use whyslow_profile::{HeapCounts, HeapNote, LeakCheck};

use crate::ids::StackRow;
use crate::leaks::{Live, Subject};

/// The result of an inspection.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Findings {
    /// Counts to add per stack: leak classes, unused and examined bytes, and blocks too large to examine.
    /// Other columns are ignored.
    pub stacks: Vec<(StackRow, HeapCounts)>,
    /// Whether leaks were searched for, and if not, why. The caller knows when.
    pub leaks: LeakCheck<ClockNs>,
    /// Notes for the reader of the profile.
    pub notes: Vec<HeapNote>,
}

/// Returns the live blocks of a stopped process.
pub type TakeBlocks<'a> = dyn FnMut() -> Live + Send + 'a;

/// Inspects processes. Called on a separate thread.
pub trait ExitInspector: Send + Sync {
    /// Inspects a process. Call `blocks` once the process is stopped, and again if it has run since; or not
    /// at all.
    fn inspect(&self, subject: &Subject, blocks: &mut TakeBlocks<'_>) -> Findings {
        let _ = (subject, blocks);
        Findings::default()
    }
}

/// An inspector that finds nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoInspector;

impl ExitInspector for NoInspector {}
