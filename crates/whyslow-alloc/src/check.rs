//! Closures whose allocations are counted, or limited.

use std::fmt::Write;

use crate::report::{self, counted};
use crate::scope::Scope;
use crate::stats::Stats;
use crate::watch::Busy;

/// How much may be allocated. What is not named is not limited:
///
/// ```
/// # use whyslow_alloc::Budget;
/// let budget = Budget { allocations: 3, bytes: 4096, ..Budget::UNLIMITED };
/// # assert_eq!(budget.peak, u64::MAX);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The most allocations, reallocations included.
    pub allocations: u64,
    /// The most bytes over all allocations.
    pub bytes: u64,
    /// The most bytes above the level at the beginning.
    pub peak: u64,
    /// The most bytes that may be left at the end: 0 for code that gives everything back.
    pub live: u64,
}

impl Budget {
    /// No limit.
    pub const UNLIMITED: Self =
        Self { allocations: u64::MAX, bytes: u64::MAX, peak: u64::MAX, live: u64::MAX };
    /// No allocation at all.
    pub const NOTHING: Self = Self { allocations: 0, ..Self::UNLIMITED };
}

impl Default for Budget {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl Scope {
    /// Panics if more was allocated since the scope began, and shows where, if the scope was made by [`Scope::with_stacks`].
    ///
    /// # Panics
    /// See above.
    #[track_caller]
    pub fn assert(&self, budget: Budget) {
        if let Some(message) = self.excess(budget) {
            std::panic!("{message}");
        }
    }

    /// Panics unless so many allocations were made as `allowed` says, which `words` repeats.
    #[doc(hidden)]
    #[track_caller]
    pub fn assert_allocations(&self, words: &str, allowed: impl FnOnce(u64) -> bool) {
        let stats = self.stats();
        if !allowed(stats.allocations) {
            let _busy = Busy::stay();
            let mut message =
                format!("{} made, expected: {words}\n", counted(stats.allocations, "allocation"));
            message.push_str(&report::stacks(self.rows(), false));
            std::panic!("{message}");
        }
    }

    /// What was too much, in words.
    fn excess(&self, budget: Budget) -> Option<String> {
        let stats = self.stats();
        let limits = [
            (stats.allocations, budget.allocations, "allocations made"),
            (stats.bytes_allocated, budget.bytes, "bytes allocated"),
            (stats.peak_bytes, budget.peak, "bytes live at the peak"),
            (stats.live_bytes.max(0).cast_unsigned(), budget.live, "bytes not given back"),
        ];
        if limits.iter().all(|(found, limit, _)| found <= limit) {
            return None;
        }
        let _busy = Busy::stay();
        let mut message = String::new();
        if budget.allocations == 0 && stats.allocations > 0 {
            let (allocations, bytes) =
                (counted(stats.allocations, "allocation"), counted(stats.bytes_allocated, "byte"));
            let _ = writeln!(message, "{allocations} made, {bytes}, where none is allowed");
        } else {
            for (found, limit, what) in limits.iter().filter(|(found, limit, _)| found > limit) {
                let _ = writeln!(message, "{found} {what}, allowed: {limit}");
            }
        }
        message.push_str(&report::stacks(self.rows(), stats.allocations <= budget.allocations));
        Some(message)
    }
}

/// Runs the closure and counts what it allocates on this thread.
///
/// ```
/// # #[global_allocator]
/// # static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// let (text, stats) = whyslow_alloc::count(|| String::from("hello"));
/// assert_eq!((stats.allocations, stats.bytes_allocated, stats.live_bytes), (1, 5, 5));
/// # drop(text);
/// ```
///
/// # Panics
/// When [`crate::Alloc`] is not the program's global allocator.
#[track_caller]
pub fn count<R>(work: impl FnOnce() -> R) -> (R, Stats) {
    let scope = Scope::new();
    let result = work();
    (result, scope.stats())
}

/// Runs the closure, and panics if it allocated anything on this thread; the message shows where.
///
/// ```
/// # #[global_allocator]
/// # static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// let mut numbers = vec![3, 1, 2];
/// whyslow_alloc::assert_no_alloc(|| numbers.sort_unstable());
/// ```
///
/// # Panics
/// As said, and when [`crate::Alloc`] is not the program's global allocator.
#[track_caller]
pub fn assert_no_alloc<R>(work: impl FnOnce() -> R) -> R {
    budget(Budget::NOTHING, work)
}

/// Runs the closure, and panics if it allocated more than allowed on this thread; the message shows where.
///
/// ```
/// # #[global_allocator]
/// # static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// use whyslow_alloc::Budget;
///
/// let words = whyslow_alloc::budget(Budget { allocations: 1, ..Budget::UNLIMITED }, || {
///     let mut words = Vec::with_capacity(2);
///     words.extend("two words".split(' '));
///     words
/// });
/// # assert_eq!(words.len(), 2);
/// ```
///
/// # Panics
/// As said, and when [`crate::Alloc`] is not the program's global allocator.
#[track_caller]
pub fn budget<R>(budget: Budget, work: impl FnOnce() -> R) -> R {
    let scope = Scope::with_stacks();
    let result = work();
    scope.assert(budget);
    result
}
