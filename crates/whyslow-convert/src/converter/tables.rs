//! What all parts write to: the rows of the profile, the counters, and time 0.

use whyslow_numbers::{ClockNs, ProfileNs, Start};
use whyslow_profile::{Builder, Counters};

/// The tables of a conversion.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) builder: Builder,
    pub(crate) counters: Counters,
    /// Time 0 of the profile.
    pub(super) start: Start,
}

impl Tables {
    /// Converts a time to the profile's.
    pub(super) fn since_start(&self, time: ClockNs) -> ProfileNs {
        self.start.since(time)
    }
}
