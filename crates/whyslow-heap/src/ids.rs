//! Typed numbers: the row of a stack is no site, a thread's number inside of a container is none out here, and an address is no tick.

whyslow_profile::row_ids! {
    /// A process: its place among all [`crate::ProcessSeen`].
    pub ProcessRow,
    /// A thread: its place among all [`crate::ThreadSeen`].
    pub ThreadRow,
    /// A module: its place among all [`crate::ModuleSeen`].
    pub ModuleRow,
    /// A stack: its place among all [`crate::StackSeen`].
    pub StackRow,
    /// A stack that allocates, over all threads: a row of the tally's sites.
    pub(crate) SiteRow,
    /// A stack that allocates and the thread that does: a row of the tally's entries.
    pub(crate) EntryRow,
    /// A stack as one ring numbers it.
    pub(crate) RingStack,
    /// A ring in its area.
    pub(crate) RingNumber,
    /// An area: its place among those of the drain.
    pub(crate) AreaSlot,
}

/// Where a block or a mapping starts in its process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// The address so many bytes behind it.
    #[inline]
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }
}

/// A moment of the time-stamp counter, in the wire's ticks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// Later than all others.
    pub const MAX: Self = Self(u64::MAX);

    /// Ticks since an earlier moment; 0 if that one is later.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// So many ticks later.
    #[inline]
    #[must_use]
    pub fn plus(self, ticks: u64) -> Self {
        Self(self.0.saturating_add(ticks))
    }

    /// So many ticks earlier.
    #[inline]
    #[must_use]
    pub fn minus(self, ticks: u64) -> Self {
        Self(self.0.saturating_sub(ticks))
    }
}

/// A process by the number that it has out here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pid(pub u32);

/// A process by the number that it calls itself: another one in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OwnPid(pub u32);

/// A thread by the number that it calls itself, likewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OwnTid(pub u32);

/// Module generations: every `dlclose` begins a new one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_numbers_cost_nothing() {
        assert_eq!((size_of::<StackRow>(), size_of::<Tick>(), size_of::<Address>()), (4, 8, 8));
        assert_eq!((StackRow::from(7), StackRow(7).index()), (StackRow(7), 7));
    }

    #[test]
    fn a_moment_is_never_before_the_first() {
        assert_eq!((Tick(5).since(Tick(7)), Tick(7).since(Tick(5)), Tick(5).minus(7)), (0, 2, Tick(0)));
        assert_eq!(Tick::MAX.plus(1), Tick::MAX);
    }
}
