//! All rules, one file per family.
//!
//! A stack counts only for the first frame rule that reports it, so specific rules come before general ones.

mod calls;
mod counters;
mod heap;
mod io;
mod loops;
mod maps;
mod memory;
mod search;
mod sharing;
#[cfg(test)]
mod testing;
mod text;
mod threads;
mod waits;

use crate::rule::{Rule, Signal};

/// All rules, in order of precedence.
pub static ALL: &[&Rule] = &[
    // Specific library calls.
    &text::REGEX_IN_LOOP,
    &text::JSON_VALUES,
    &text::LOGGING,
    &text::PANICS_AS_ERRORS,
    &text::SOFTWARE_CRYPTO,
    &text::EAGER_FALLBACK,
    &text::STRLEN_IN_LOOP,
    &search::SORT_BY_COSTLY_KEY,
    &io::LINES_ALLOCATE,
    &io::PRINT_PER_LINE,
    &io::UNBUFFERED_WRITES,
    &io::UNBUFFERED_READS,
    &sharing::TINY_TASKS,
    &sharing::SPIN_WAITING,
    // Data structures.
    &memory::FRONT_REMOVAL,
    &maps::SMALL_KEY_MAP,
    &maps::SIP_HASH,
    &maps::MAP_GROWTH,
    &maps::BTREE_SEARCH,
    &search::LINEAR_SEARCH,
    &memory::COLLECT_THEN_ITERATE,
    // Reasons for allocations.
    &sharing::ARC_TRAFFIC,
    &memory::CLONE_HEAVY,
    &text::FORMAT_ALLOCATES,
    &text::FORMATTING,
    &text::UTF8_VALIDATION,
    &memory::VEC_GROWTH,
    &memory::DROP_HEAVY,
    // General costs that no rule above explains.
    &memory::PAGE_FAULTS,
    &memory::MEMORY_COPIES,
    &memory::ALLOCATOR_HEAVY,
    &sharing::ATOMIC_TRAFFIC,
    &search::SEARCH_LOOP,
    // Machine code of hot loops.
    &loops::DIVISION,
    &loops::DYN_CALLS,
    &loops::SMALL_CALLEE,
    &loops::POINTER_CHASE,
    &loops::STRIDED,
    &loops::FLOAT_CONVERSIONS,
    &loops::SERIAL_CHAIN,
    &loops::NOT_VECTORISED,
    &loops::BOUNDS_CHECKS,
    &loops::OVERFLOW_CHECKS,
    &loops::NARROW_VECTORS,
    &loops::NO_FMA,
    &loops::UNPREDICTABLE,
    &search::RECURSION,
    // Recorded system calls and CPU counters.
    &calls::SMALL_TRANSFERS,
    &calls::SYSCALL_PER_ITEM,
    &counters::CACHE_MISSES,
    &counters::BRANCH_MISSES,
    // Waits and threads.
    &waits::LOCK_CONTENTION,
    &waits::BLOCKING_IN_ASYNC,
    &waits::MOSTLY_WAITING,
    &threads::POOR_PARALLELISM,
    &threads::OVERSUBSCRIPTION,
    &threads::EXECUTOR_OVERHEAD,
    &threads::STARTUP_DOMINATED,
    // Heap recordings.
    &heap::ALLOCATION_IN_LOOP,
    &heap::SHORT_LIVED_ALLOCATIONS,
    &heap::MANY_SMALL_BLOCKS,
    &heap::UNUSED_CAPACITY,
    &heap::LEAKS,
    &heap::MEMORY_GROWS,
    &heap::MEMORY_SAW_TOOTH,
    &heap::PEAK_BY_ONE_LINE,
];

/// The rule with this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    ALL.iter().copied().find(|rule| rule.id == id)
}

impl Rule {
    /// The smallest share at which it is reported.
    pub fn least_share(&self) -> f64 {
        match &self.signal {
            Signal::Frames(frames) => frames.least,
            Signal::Code(code) => code.least,
            Signal::Facts(_) => 0.0,
        }
    }
}
