//! All rules, one file per family.
//!
//! A stack counts only for the first frame rule that reports it, so specific rules come before general ones.
//! The table gives each rule its id, its page in `docs/findings`, and its place in that order.

mod calls;
mod counters;
mod heap;
mod io;
mod locality;
mod loops;
mod maps;
mod memory;
mod search;
mod serial;
mod sharing;
#[cfg(test)]
mod testing;
mod text;
mod threads;
mod waits;

use std::str::FromStr;

use crate::rule::{Rule, Signal};

/// Makes [`RuleId`] and [`ALL`] from one table: variant, id, and the rule.
macro_rules! table {
    ($($variant:ident $id:literal $family:ident::$rule:ident,)+) => {
        /// The name of a rule, which never changes. Its page is `docs/findings/ID.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RuleId {
            $(#[doc = concat!("`", $id, "`")] $variant,)+
        }

        impl RuleId {
            /// The id as users read and write it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $id,)+
                }
            }

            /// Its page in the documentation.
            pub const fn page(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../../../docs/findings/", $id, ".md")),)+
                }
            }

            /// The rule.
            pub fn rule(self) -> &'static Rule {
                match self {
                    $(Self::$variant => &$family::$rule,)+
                }
            }
        }

        /// All rules, in order of precedence.
        pub static ALL: &[&Rule] = &[$(&$family::$rule,)+];
    };
}

table! {
    // Specific library calls.
    RegexInLoop "regex-in-loop" text::REGEX_IN_LOOP,
    JsonValues "json-values" text::JSON_VALUES,
    Logging "logging" text::LOGGING,
    PanicsAsErrors "panics-as-errors" text::PANICS_AS_ERRORS,
    SoftwareCrypto "software-crypto" text::SOFTWARE_CRYPTO,
    EagerFallback "eager-fallback" text::EAGER_FALLBACK,
    StrlenInLoop "strlen-in-loop" text::STRLEN_IN_LOOP,
    SortByCostlyKey "sort-by-costly-key" search::SORT_BY_COSTLY_KEY,
    LinesAllocate "lines-allocate" io::LINES_ALLOCATE,
    PrintPerLine "print-per-line" io::PRINT_PER_LINE,
    UnbufferedWrites "unbuffered-writes" io::UNBUFFERED_WRITES,
    UnbufferedReads "unbuffered-reads" io::UNBUFFERED_READS,
    TinyTasks "tiny-tasks" sharing::TINY_TASKS,
    SpinWaiting "spin-waiting" sharing::SPIN_WAITING,
    // Data structures.
    FrontRemoval "front-removal" memory::FRONT_REMOVAL,
    SmallKeyMap "small-key-map" maps::SMALL_KEY_MAP,
    SipHash "sip-hash" maps::SIP_HASH,
    MapGrowth "map-growth" maps::MAP_GROWTH,
    BtreeSearch "btree-search" maps::BTREE_SEARCH,
    LinearSearch "linear-search" search::LINEAR_SEARCH,
    CollectThenIterate "collect-then-iterate" memory::COLLECT_THEN_ITERATE,
    // Reasons for allocations.
    ArcTraffic "arc-traffic" sharing::ARC_TRAFFIC,
    CloneHeavy "clone-heavy" memory::CLONE_HEAVY,
    FormatAllocates "format-allocates" text::FORMAT_ALLOCATES,
    Formatting "formatting" text::FORMATTING,
    Utf8Validation "utf8-validation" text::UTF8_VALIDATION,
    VecGrowth "vec-growth" memory::VEC_GROWTH,
    DropHeavy "drop-heavy" memory::DROP_HEAVY,
    // General costs that no rule above explains.
    PageFaults "page-faults" memory::PAGE_FAULTS,
    MemoryCopies "memory-copies" memory::MEMORY_COPIES,
    AllocatorHeavy "allocator-heavy" memory::ALLOCATOR_HEAVY,
    AtomicTraffic "atomic-traffic" sharing::ATOMIC_TRAFFIC,
    SearchLoop "search-loop" search::SEARCH_LOOP,
    // Machine code of hot loops.
    Division "division" loops::DIVISION,
    DynCalls "dyn-calls" loops::DYN_CALLS,
    SmallCallee "small-callee" loops::SMALL_CALLEE,
    PointerChase "pointer-chase" loops::POINTER_CHASE,
    StridedAccess "strided-access" loops::STRIDED,
    FloatConversions "float-conversions" loops::FLOAT_CONVERSIONS,
    SerialChain "serial-chain" loops::SERIAL_CHAIN,
    NotVectorised "not-vectorised" loops::NOT_VECTORISED,
    BoundsChecks "bounds-checks" loops::BOUNDS_CHECKS,
    OverflowChecks "overflow-checks" loops::OVERFLOW_CHECKS,
    NarrowVectors "narrow-vectors" loops::NARROW_VECTORS,
    NoFusedMultiplyAdd "no-fused-multiply-add" loops::NO_FMA,
    UnpredictableBranches "unpredictable-branches" loops::UNPREDICTABLE,
    Recursion "recursion" search::RECURSION,
    // Recorded system calls and CPU counters.
    SmallTransfers "small-transfers" calls::SMALL_TRANSFERS,
    SyscallPerItem "syscall-per-item" calls::SYSCALL_PER_ITEM,
    CacheMisses "cache-misses" counters::CACHE_MISSES,
    BranchMisses "branch-misses" counters::BRANCH_MISSES,
    PoorLocality "poor-locality" locality::POOR_LOCALITY,
    // Waits and threads.
    LockContention "lock-contention" waits::LOCK_CONTENTION,
    BlockingInAsync "blocking-in-async" waits::BLOCKING_IN_ASYNC,
    MostlyWaiting "mostly-waiting" waits::MOSTLY_WAITING,
    PoorParallelism "poor-parallelism" serial::POOR_PARALLELISM,
    Oversubscription "oversubscription" threads::OVERSUBSCRIPTION,
    ExecutorOverhead "executor-overhead" threads::EXECUTOR_OVERHEAD,
    StartupDominated "startup-dominated" threads::STARTUP_DOMINATED,
    // Heap recordings.
    AllocationInLoop "allocation-in-loop" heap::ALLOCATION_IN_LOOP,
    ShortLivedAllocations "short-lived-allocations" heap::SHORT_LIVED_ALLOCATIONS,
    ManySmallBlocks "many-small-blocks" heap::MANY_SMALL_BLOCKS,
    UnusedCapacity "unused-capacity" heap::UNUSED_CAPACITY,
    Leaks "leaks" heap::LEAKS,
    MemoryGrows "memory-grows" heap::MEMORY_GROWS,
    MemorySawTooth "memory-saw-tooth" heap::MEMORY_SAW_TOOTH,
    PeakByOneLine "peak-by-one-line" heap::PEAK_BY_ONE_LINE,
}

impl std::fmt::Display for RuleId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// No rule has this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no rule is called '{0}'")]
pub struct NoSuchRule(String);

impl FromStr for RuleId {
    type Err = NoSuchRule;

    fn from_str(id: &str) -> Result<Self, NoSuchRule> {
        let known = ALL.iter().map(|rule| rule.id).find(|known| known.as_str() == id);
        known.ok_or_else(|| NoSuchRule(id.to_owned()))
    }
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

/// How many rules look at names on stacks.
pub(crate) const BY_FRAMES: usize = {
    let (mut rule, mut count) = (0, 0);
    while rule < ALL.len() {
        if matches!(ALL[rule].signal, Signal::Frames(_)) {
            count += 1;
        }
        rule += 1;
    }
    count
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn each_id_has_its_rule_and_its_page_and_each_page_a_rule() {
        for rule in ALL {
            assert_eq!(rule.id.rule(), *rule);
            assert_eq!(rule.id.as_str().parse(), Ok(rule.id));
            let title = format!("# {}\n", rule.id);
            assert!(rule.id.page().starts_with(&title), "docs/findings/{}.md is about another rule", rule.id);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings");
        let pages = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let pages = pages.map(|page| page.file_stem().unwrap().to_str().unwrap().to_owned());
        let pages =
            pages.filter(|name| !["README", "accuracy"].contains(&name.as_str())).collect::<BTreeSet<_>>();
        let ids = ALL.iter().map(|rule| rule.id.to_string()).collect::<BTreeSet<_>>();
        assert_eq!(pages, ids, "pages, and ids");
        assert!("clone_heavy".parse::<RuleId>().is_err());
    }
}
