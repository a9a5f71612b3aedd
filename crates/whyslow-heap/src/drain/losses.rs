//! Counts of lost events and broken rings.

use whyslow_profile::HeapNote;

/// Counts of lost events and broken rings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Losses {
    /// Lost events.
    pub(super) events: u64,
    /// Rings whose writer violates the protocol.
    pub(super) broken_rings: u64,
}

impl Losses {
    /// A note about broken rings. The number of lost events is a separate fact.
    pub(crate) fn note(&self) -> Option<HeapNote> {
        (self.broken_rings > 0).then_some(HeapNote::DamagedRecords { threads: self.broken_rings })
    }
}
