//! What all parts write to: the rows of the profile, the counters, and time 0.

use whyslow_profile::{Builder, Counters};

/// The tables of a conversion.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) builder: Builder,
    pub(crate) counters: Counters,
    /// Time 0 of the profile.
    pub(super) start_ns: u64,
}

impl Tables {
    /// Converts a time to the profile's.
    pub(super) fn since_start(&self, time: u64) -> u64 {
        time.saturating_sub(self.start_ns)
    }
}
