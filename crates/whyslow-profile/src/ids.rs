//! Typed row numbers and addresses, so that a thread's row cannot be used to look up a stack.

use serde::{Deserialize, Serialize};

macro_rules! row_ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The row number as an index.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            /// Row numbers fit 32 bits: readers and builders refuse larger tables.
            #[inline]
            fn from(index: usize) -> Self {
                debug_assert!(u32::try_from(index).is_ok());
                Self(index as u32)
            }
        }
    )+};
}

row_ids! {
    /// A row of [`crate::Strings`].
    StringId,
    /// A row of `Profile::processes`.
    ProcessId,
    /// A row of `Profile::threads`.
    ThreadId,
    /// A row of `Profile::modules`.
    ModuleId,
    /// A row of [`crate::Locations`].
    LocationId,
    /// A row of `Profile::functions`.
    FunctionId,
    /// A node of [`crate::Stacks`].
    StackId,
    /// A row of `Profile::metrics`.
    MetricId,
    /// A row of `Profile::counters`.
    CounterId,
}

impl LocationId {
    /// The place-holder at the root of a stack whose outer frames could not be had.
    pub const TRUNCATED: Self = Self(0);
}

/// An offset from a module's image base: the same in every run of the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RelativeAddress(pub u64);
