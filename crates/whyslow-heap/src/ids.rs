//! Typed ids, so that a stack row is not mistaken for a site, or an address for a tick.

pub use whyslow_agent_host::Tick;
pub(crate) use whyslow_agent_host::{Pid, RingNumber};
pub use whyslow_profile::batch::{ModuleRow, ProcessRow, StackRow, ThreadRow};

whyslow_profile::row_ids! {
    /// A stack that allocates, over all threads: a row of the tally's sites.
    pub(crate) SiteRow,
    /// A stack that allocates and its thread: a row of the tally's entries.
    pub(crate) EntryRow,
    /// A stack, by its number in one ring.
    pub(crate) RingStack,
}

/// The start of a block or a mapping in its process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// The address this many bytes later.
    #[inline]
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }
}

/// A module generation: every `dlclose` starts a new one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_numbers_cost_nothing() {
        assert_eq!((size_of::<StackRow>(), size_of::<Address>()), (4, 8));
        assert_eq!((StackRow::from(7), StackRow(7).index()), (StackRow(7), 7));
    }
}
