//! Typed row numbers, so that a thread's row cannot be used to look up a stack.

pub use whyslow_numbers::RelativeAddress;

/// Declares row numbers, each its own type.
#[macro_export]
macro_rules! row_ids {
    ($($(#[$doc:meta])* $vis:vis $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name(pub u32);

        impl $name {
            /// The row number as an index.
            #[inline]
            $vis fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            /// Row numbers fit 32 bits: larger tables are refused, or memory runs out before.
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
    pub StringId,
    /// A row of `Profile::processes`.
    pub ProcessId,
    /// A row of `Profile::threads`.
    pub ThreadId,
    /// A row of `Profile::modules`.
    pub ModuleId,
    /// A row of [`crate::Locations`].
    pub LocationId,
    /// A row of `Profile::functions`.
    pub FunctionId,
    /// A node of [`crate::Stacks`].
    pub StackId,
    /// A row of `Profile::metrics`.
    pub MetricId,
    /// A row of `Profile::counters`.
    pub CounterId,
    /// A row of `Causal::points`.
    pub PointId,
    /// A row of `Causal::targets`.
    pub TargetId,
    /// A row of `Causal::experiments`.
    pub ExperimentId,
}

impl Default for MetricId {
    /// The first metric.
    fn default() -> Self {
        Self(0)
    }
}

impl LocationId {
    /// The placeholder at the root of a truncated stack.
    pub const TRUNCATED: Self = Self(0);
}
