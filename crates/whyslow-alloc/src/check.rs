//! Closures whose allocations are counted, or limited.

use std::fmt::Write;
use std::panic::Location;

use crate::report::{self, Row, counted};
use crate::scope::Scope;
use crate::stats::Stats;
use crate::symbols::Symbols;
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
        let _busy = Busy::stay();
        if let Some(message) = Found::in_scope(self).beyond(budget) {
            std::panic!("{message}");
        }
    }
}

/// What a scope has found.
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

    /// Without what a panic allocated for itself. What was live is not known then: the panic frees things, too.
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

    /// What was too much, in words.
    fn beyond(self, budget: Budget) -> Option<String> {
        let stats = self.stats;
        let limits = [
            (stats.allocations, budget.allocations, "allocations made"),
            (stats.bytes_allocated, budget.bytes, "bytes allocated"),
            (stats.peak_bytes, budget.peak, "bytes live at the peak"),
            (stats.live_bytes.max(0).cast_unsigned(), budget.live, "bytes not given back"),
        ];
        if limits.iter().all(|(found, limit, _)| found <= limit) {
            return None;
        }
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
        message.push_str(&report::stacks(self.rows, stats.allocations <= budget.allocations));
        Some(message)
    }

    /// That it were not so many allocations as `allowed` says, which `words` repeats.
    pub fn unlike(self, words: &str, allowed: impl FnOnce(u64) -> bool) -> Option<String> {
        let allocations = self.stats.allocations;
        (!allowed(allocations)).then(|| {
            let stacks = report::stacks(self.rows, false);
            format!("{} made, expected: {words}\n{stacks}", counted(allocations, "allocation"))
        })
    }
}

/// A scope that looks at what it has found in whatever way it is left: at its end, by `return`, `?` or `break`, and by a panic, which
/// goes on then, with what was found on the error stream.
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
    /// Begins; `fault` says what is wrong with what is found.
    #[track_caller]
    pub fn new(fault: F) -> Self {
        Self { scope: Scope::with_stacks(), fault, start: Location::caller(), ended: false }
    }

    /// Ends as it should.
    #[track_caller]
    pub fn end(mut self) {
        let _busy = Busy::stay();
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
        let _busy = Busy::stay();
        let found = Found::in_scope(&self.scope);
        // A second panic would end the program.
        if std::thread::panicking() {
            if let Some(message) = (self.fault)(found.without_panic()) {
                eprintln!("before the panic, in the assertion at {}: {message}", self.start);
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
/// When [`crate::Alloc`] is not the program's global allocator.
#[track_caller]
pub fn count<R>(work: impl FnOnce() -> R) -> (R, Stats) {
    let scope = Scope::new();
    let result = work();
    (result, scope.stats())
}

/// Runs the closure, and panics if it allocated anything on this thread; the message shows where. If the closure panics, what it
/// allocated before is told on the error stream, and its panic goes on.
///
/// What the closure has other threads do (`std::thread::spawn`, rayon, an async runtime) is not counted, unless they are asked to: see
/// [`Inherit`](crate::Inherit), and [`Scope::assert`] with [`Budget::NOTHING`].
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
    let check = Check::new(|found| found.beyond(budget));
    let result = work();
    check.end();
    result
}
