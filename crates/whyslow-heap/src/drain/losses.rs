//! What was lost.

use whyslow_profile::HeapNote;

/// What was lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Losses {
    /// Events.
    pub(super) events: u64,
    /// Rings whose writer does not keep to the rules.
    pub(super) broken_rings: u64,
}

impl Losses {
    /// What is to be known beyond the number of lost events, which is a fact of its own.
    pub(crate) fn note(&self) -> Option<HeapNote> {
        (self.broken_rings > 0).then_some(HeapNote::DamagedRecords { threads: self.broken_rings })
    }
}
