//! A time off CPUs that has ended.

use whyslow_numbers::ClockNs;
use whyslow_profile::ThreadId;

use super::Wakeup;
use super::alike::Place;

/// A time off CPUs that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) thread: ThreadId,
    pub(super) since: ClockNs,
    /// When the thread could run again. From then on it was queued.
    pub(super) ready: ClockNs,
    pub(super) end: ClockNs,
    /// Whether it was only queued for a CPU.
    pub(super) preempted: bool,
    /// The CPU that it left.
    pub(super) cpu: Option<u32>,
    pub(super) woken: Option<Wakeup>,
    pub(super) place: Option<Place>,
}

impl Ended {
    pub(super) fn queued_ns(&self) -> u64 {
        self.end.since(self.ready)
    }

    pub(super) fn blocked_ns(&self) -> u64 {
        self.ready.since(self.since)
    }

    /// The length by which waits are alike. One that seems to have been queued all the time has only that.
    pub(super) fn likeness_ns(&self) -> u64 {
        match self.blocked_ns() {
            0 => self.end.since(self.since),
            blocked_ns => blocked_ns,
        }
    }
}
