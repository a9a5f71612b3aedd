//! Counts or limits the allocations of closures.

use std::fmt::Write;
use std::panic::Location;

use crate::report::{self, Row, counted};
use crate::scope::Scope;
use crate::stats::Stats;
use crate::symbols::Symbols;
use crate::watch::Busy;

/// Limits on allocations. Fields that you do not set are unlimited:
///
/// ```
/// # use whyslow_alloc::Budget;
/// let budget = Budget { allocations: 3, bytes: 4096, ..Budget::UNLIMITED };
/// # assert_eq!(budget.peak, u64::MAX);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Max number of allocations, including reallocations.
    pub allocations: u64,
    /// Max bytes over all allocations.
    pub bytes: u64,
    /// Max live bytes above the level at the start.
    pub peak: u64,
    /// Max bytes still live at the end. 0 for code that frees everything.
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
    /// Panics if more was allocated since the scope started. Shows where, if the scope was created by
    /// [`Scope::with_stacks`].
    ///
    /// # Panics
    /// See above.
    #[track_caller]
    pub fn assert(&self, budget: Budget) {
        let _busy = Busy::force();
        if let Some(message) = Found::in_scope(self).beyond(budget) {
            std::panic!("{message}");
        }
    }
}

/// What a scope has counted.
#[doc(hidden)]
#[derive(Debug)]
pub struct Found {
    stats: Stats,
    rows: Vec<Row>,
}

impl Found {
    fn in_scope(scope: &Scope) -> Self {
        Self { stats: scope.stats(), rows: scope.rows() }
    }

    /// Removes the allocations of a panic itself. The live bytes are unknown then, because a panic also frees
    /// memory.
    fn without_panic(mut self) -> Self {
        let mut symbols = Symbols::new();
        self.rows.retain(|row| !symbols.is_panic(row.stack));
        self.stats = Stats {
            allocations: self.rows.iter().map(|row| row.allocations).sum(),
            bytes_allocated: self.rows.iter().map(|row| row.bytes).sum(),
            ..Stats::default()
        };
        self
    }

    /// A message about each exceeded limit.
    fn beyond(self, budget: Budget) -> Option<String> {
        let stats = self.stats;
        let limits = [
            (stats.allocations, budget.allocations, "allocations"),
            (stats.bytes_allocated, budget.bytes, "bytes allocated"),
            (stats.peak_bytes, budget.peak, "bytes live at the peak"),
            (stats.live_bytes.max(0).cast_unsigned(), budget.live, "bytes not freed"),
        ];
        if limits.iter().all(|(found, limit, _)| found <= limit) {
            return None;
        }
        let mut message = String::new();
        if budget.allocations == 0 && stats.allocations > 0 {
            let (allocations, bytes) =
                (counted(stats.allocations, "allocation"), counted(stats.bytes_allocated, "byte"));
            let _ = writeln!(message, "{allocations}, {bytes}, but none is allowed");
        } else {
            for (found, limit, what) in limits.iter().filter(|(found, limit, _)| found > limit) {
                let _ = writeln!(message, "{found} {what}, allowed: {limit}");
            }
        }
        message.push_str(&report::stacks(self.rows, stats.allocations <= budget.allocations));
        Some(message)
    }

    /// A message if the number of allocations is not `allowed`. `words` states the condition.
    pub fn unlike(self, words: &str, allowed: impl FnOnce(u64) -> bool) -> Option<String> {
        let allocations = self.stats.allocations;
        (!allowed(allocations)).then(|| {
            let stacks = report::stacks(self.rows, false);
            format!("{}, expected: {words}\n{stacks}", counted(allocations, "allocation"))
        })
    }
}

/// A scope that checks its counts however it is left: at its end, by `return`, `?` or `break`, and by a
/// panic. Such a panic continues, and the message goes to standard error.
#[doc(hidden)]
#[derive(Debug)]
pub struct Check<F: FnMut(Found) -> Option<String>> {
    scope: Scope,
    fault: F,
    start: &'static Location<'static>,
    ended: bool,
}

impl Check<fn(Found) -> Option<String>> {
    #[track_caller]
    pub fn nothing() -> Self {
        Self::new(|found| found.beyond(Budget::NOTHING))
    }
}

impl<F: FnMut(Found) -> Option<String>> Check<F> {
    /// Starts. `fault` returns a message if the counts are wrong.
    #[track_caller]
    pub fn new(fault: F) -> Self {
        Self { scope: Scope::with_stacks(), fault, start: Location::caller(), ended: false }
    }

    /// Checks at the regular end.
    #[track_caller]
    pub fn end(mut self) {
        let _busy = Busy::force();
        self.ended = true;
        if let Some(message) = (self.fault)(Found::in_scope(&self.scope)) {
            std::panic!("{message}");
        }
    }
}

impl<F: FnMut(Found) -> Option<String>> Drop for Check<F> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let _busy = Busy::force();
        let found = Found::in_scope(&self.scope);
        // A second panic would abort the program.
        if std::thread::panicking() {
            if let Some(message) = (self.fault)(found.without_panic()) {
                eprintln!("allocations before the panic, in the assertion at {}: {message}", self.start);
            }
        } else if let Some(message) = (self.fault)(found) {
            std::panic!("in the assertion at {}, which was left early: {message}", self.start);
        }
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
/// Panics if [`crate::Alloc`] is not the program's global allocator.
#[track_caller]
pub fn count<R>(work: impl FnOnce() -> R) -> (R, Stats) {
    let scope = Scope::new();
    let result = work();
    (result, scope.stats())
}

/// Runs the closure and panics if it allocated anything on this thread. The message shows where. If the
/// closure itself panics, its allocations up to then are printed to standard error and the panic continues.
///
/// Allocations on other threads (`std::thread::spawn`, rayon, an async runtime) are not counted unless those
/// threads opt in: see [`Inherit`](crate::Inherit), and [`Scope::assert`] with [`Budget::NOTHING`].
///
/// ```
/// # #[global_allocator]
/// # static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// let mut numbers = vec![3, 1, 2];
/// whyslow_alloc::assert_no_alloc(|| numbers.sort_unstable());
/// ```
///
/// # Panics
/// Panics if the closure allocates, or if [`crate::Alloc`] is not the program's global allocator.
#[track_caller]
pub fn assert_no_alloc<R>(work: impl FnOnce() -> R) -> R {
    budget(Budget::NOTHING, work)
}

/// Runs the closure and panics if it allocated more on this thread than the budget allows. The message shows
/// where.
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
/// Panics if the closure exceeds the budget, or if [`crate::Alloc`] is not the program's global allocator.
#[track_caller]
pub fn budget<R>(budget: Budget, work: impl FnOnce() -> R) -> R {
    let check = Check::new(|found| found.beyond(budget));
    let result = work();
    check.end();
    result
}
