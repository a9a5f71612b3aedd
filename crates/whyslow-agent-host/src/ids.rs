//! Typed ids, so that a process is not mistaken for a thread, a thread id inside a container for one outside,
//! or a tick for a time.

pub use whyslow_profile::batch::{ProcessRow, ThreadRow};

whyslow_profile::row_ids! {
    /// A ring, by its number in its area.
    pub RingNumber,
    /// An area: its index in the host. It is used again for another area.
    pub AreaSlot,
}

/// A time of the time-stamp counter, in the protocol's ticks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// Later than all other ticks.
    pub const MAX: Self = Self(u64::MAX);

    /// Ticks since an earlier time; 0 if that time is later.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time this many ticks later.
    #[inline]
    #[must_use]
    pub fn plus(self, ticks: u64) -> Self {
        Self(self.0.saturating_add(ticks))
    }

    /// The time this many ticks earlier.
    #[inline]
    #[must_use]
    pub fn minus(self, ticks: u64) -> Self {
        Self(self.0.saturating_sub(ticks))
    }
}

/// A process, by its id outside of any container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pid(pub u32);

/// A process, by the id that it sees itself: different in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnPid(pub u32);

/// A thread, by the id that it sees itself: different in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnTid(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_numbers_cost_nothing() {
        assert_eq!((size_of::<ProcessRow>(), size_of::<Tick>()), (4, 8));
        assert_eq!((ThreadRow::from(7), ThreadRow(7).index()), (ThreadRow(7), 7));
    }

    #[test]
    fn a_tick_is_never_negative() {
        assert_eq!((Tick(5).since(Tick(7)), Tick(7).since(Tick(5)), Tick(5).minus(7)), (0, 2, Tick(0)));
        assert_eq!(Tick::MAX.plus(1), Tick::MAX);
    }
}
