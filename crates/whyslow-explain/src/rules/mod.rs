//! All rules, one file per family.
//!
//! Of rules that look at frames, a stack counts for the first that is told: what is particular comes before what is general.

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

/// The table.
pub static ALL: &[&Rule] = &[
    // What somebody asked a library to do.
    &text::REGEX_IN_LOOP,
    &text::JSON_VALUES,
    &text::LOGGING,
    &text::PANICS_AS_ERRORS,
    &text::SOFTWARE_CRYPTO,
    &text::EAGER_FALLBACK,
    &search::SORT_BY_COSTLY_KEY,
    &io::LINES_ALLOCATE,
    &io::PRINT_PER_LINE,
    &io::UNBUFFERED_WRITES,
    &io::UNBUFFERED_READS,
    &sharing::TINY_TASKS,
    &sharing::SPIN_WAITING,
    // How data are kept.
    &memory::FRONT_REMOVAL,
    &maps::SMALL_KEY_MAP,
    &maps::SIP_HASH,
    &maps::MAP_GROWTH,
    &maps::BTREE_SEARCH,
    &search::LINEAR_SEARCH,
    &memory::COLLECT_THEN_ITERATE,
    // What memory is needed for.
    &sharing::ARC_TRAFFIC,
    &memory::CLONE_HEAVY,
    &text::FORMAT_ALLOCATES,
    &text::FORMATTING,
    &text::UTF8_VALIDATION,
    &memory::VEC_GROWTH,
    &memory::DROP_HEAVY,
    // What is left of it.
    &memory::PAGE_FAULTS,
    &memory::MEMORY_COPIES,
    &memory::ALLOCATOR_HEAVY,
    &sharing::ATOMIC_TRAFFIC,
    &search::SEARCH_LOOP,
    // What machine code shows.
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
    // What recordings of system calls and counters show.
    &calls::SMALL_TRANSFERS,
    &calls::SYSCALL_PER_ITEM,
    &counters::CACHE_MISSES,
    &counters::BRANCH_MISSES,
    // What threads do beside each other.
    &waits::LOCK_CONTENTION,
    &waits::BLOCKING_IN_ASYNC,
    &waits::MOSTLY_WAITING,
    &threads::POOR_PARALLELISM,
    &threads::OVERSUBSCRIPTION,
    &threads::EXECUTOR_OVERHEAD,
    &threads::STARTUP_DOMINATED,
    // What recordings of the heap show.
    &heap::ALLOCATION_IN_LOOP,
    &heap::SHORT_LIVED_ALLOCATIONS,
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
    /// The share from which on it is told.
    pub fn least_share(&self) -> f64 {
        match &self.signal {
            Signal::Frames(frames) => frames.least,
            Signal::Code(code) => code.least,
            Signal::Facts(_) => 0.0,
        }
    }
}
