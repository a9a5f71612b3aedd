//! Times: of the clock that a recording reads, and of a profile.
//!
//! ```text
//! profile time = clock time - clock time of the start      0 if that is earlier
//! ```
//! [`Start`] is the only place that computes it. Lengths of time are plain nanoseconds.

use serde::{Deserialize, Serialize};

/// A time of the clock that a recording reads, in nanoseconds: `CLOCK_MONOTONIC` if whyslow records, and the
/// clock of the file if another tool recorded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ClockNs(u64);

impl ClockNs {
    /// The earliest time.
    pub const MIN: Self = Self(0);
    /// Later than all other times.
    pub const MAX: Self = Self(u64::MAX);

    /// A time as a record or the system gives it.
    #[inline]
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }

    /// The number, for records and system calls.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Nanoseconds since an earlier time; 0 if that time is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Nanoseconds between two times, whichever is later.
    #[inline]
    pub const fn distance(self, other: Self) -> u64 {
        self.0.abs_diff(other.0)
    }

    /// The time this much later.
    #[inline]
    #[must_use]
    pub const fn plus(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// The time this much earlier.
    #[inline]
    #[must_use]
    pub const fn minus(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// A time of a profile: nanoseconds since its recording started.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
#[serde(transparent)]
pub struct ProfileNs(pub u64);

/// The start of a recording: time 0 of its profile.
///
/// ```
/// use whyslow_numbers::{ClockNs, ProfileNs, Start};
///
/// let start = Start::at(ClockNs::new(1000));
/// assert_eq!(start.since(ClockNs::new(1500)), ProfileNs(500));
/// assert_eq!(start.since(ClockNs::new(900)), ProfileNs(0), "before the start");
/// assert_eq!(start.clock(ProfileNs(500)), ClockNs::new(1500));
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Start(ClockNs);

impl Start {
    /// A recording that starts at this time.
    #[inline]
    pub const fn at(time: ClockNs) -> Self {
        Self(time)
    }

    /// When it starts.
    #[inline]
    pub const fn time(self) -> ClockNs {
        self.0
    }

    /// The profile's time for a time of the clock; 0 before the start.
    #[inline]
    pub const fn since(self, time: ClockNs) -> ProfileNs {
        ProfileNs(time.since(self.0))
    }

    /// The time of the clock for a time of the profile.
    #[inline]
    pub const fn clock(self, time: ProfileNs) -> ClockNs {
        self.0.plus(time.0)
    }
}
