//! The data of a heap recording beyond its samples: totals, one row per allocating stack, and how blocks
//! moved between threads.
//!
//! The samples of a heap recording are rows of the ordinary tables, one per metric below; their time is that
//! of a bucket of the timeline. Values that do not add up over time (the peak, lifetimes, leaks) are in these
//! tables.

use serde::{Deserialize, Serialize};
use whyslow_numbers::{ClockNs, ProfileNs, Start};

use crate::ids::{StackId, ThreadId};
use crate::note::NoLeakCheck;

/// The names of the metrics of a heap recording. A sample's stack is always the one that allocated.
pub mod metric {
    /// Bytes requested; a reallocation counts its new size.
    pub const BYTES_ALLOCATED: &str = "bytes-allocated";
    /// Successful calls that returned a block, including reallocations.
    pub const ALLOCATIONS: &str = "allocations";
    /// Bytes of blocks that were freed, or replaced by a reallocation, at that time.
    pub const BYTES_FREED: &str = "bytes-freed";
    /// Bytes live at the peak.
    pub const LIVE_AT_PEAK: &str = "live-at-peak";
    /// Bytes that were never freed.
    pub const LIVE_AT_EXIT: &str = "live-at-exit";
    /// Blocks that were freed before their thread allocated again.
    pub const TEMPORARY: &str = "temporary-allocations";
    /// Bytes live at a time that the reader chooses; derived from the others on request.
    pub const LIVE: &str = "live";
    /// Bytes that were never written to (`--unused`).
    pub const UNUSED: &str = "unused-bytes";
    /// All of them.
    pub const ALL: [&str; 7] =
        [BYTES_ALLOCATED, ALLOCATIONS, BYTES_FREED, LIVE_AT_PEAK, LIVE_AT_EXIT, TEMPORARY, UNUSED];
}

/// The names of the counters of a heap recording, one of each per process.
pub mod counter {
    /// Bytes of live blocks.
    pub const LIVE: &str = "heap-live";
    /// The resident set size.
    pub const RESIDENT: &str = "resident-set";
}

/// Declares a row of numbers whose fields are columns of the same name.
macro_rules! numbers_row {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct $name { $($(#[$fdoc])* pub $field: u64),+ }

        impl $name {
            /// The names of the columns, in the order of the fields.
            pub const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),+];

            /// The numbers, in the order of [`Self::COLUMNS`].
            pub fn numbers(&self) -> [u64; Self::COLUMNS.len()] {
                [$(self.$field),+]
            }

            /// The row with these numbers, in the order of [`Self::COLUMNS`].
            pub fn from_numbers(numbers: [u64; Self::COLUMNS.len()]) -> Self {
                let [$($field),+] = numbers;
                Self { $($field),+ }
            }
        }
    };
}

numbers_row! {
    /// The counts of one allocating stack, or of all of them.
    HeapCounts {
        /// Blocks allocated, including by reallocation.
        allocations,
        /// Bytes requested for all of them.
        bytes_allocated,
        /// Blocks of this stack that were freed, or replaced by a reallocation.
        frees,
        /// Their bytes.
        bytes_freed,
        /// Live bytes at the peak of the whole program.
        peak_bytes,
        /// Live blocks at that peak.
        peak_blocks,
        /// The peak of this stack alone, in bytes.
        max_bytes,
        /// The blocks at that peak.
        max_blocks,
        /// Blocks that were live at the end.
        live_at_exit_blocks,
        /// Their bytes.
        live_at_exit_bytes,
        /// Blocks that were freed before their thread allocated again.
        temporary,
        /// Sum of the lifetimes of blocks, in nanoseconds. Blocks that were never freed count until the end.
        lifetime_ns,
        /// Reallocations that made a block larger.
        grown,
        /// Blocks that grew at least once: a chain ends with the block's free or with the recording.
        growth_chains,
        /// Bytes that growing copied because the block had to move.
        bytes_copied,
        /// The largest size that a growing block reached.
        largest_grown,
        /// The sum of the sizes that growing blocks reached before they were freed or first shrunk.
        bytes_grown_to,
        /// Blocks that another thread freed.
        freed_elsewhere,
        /// Bytes of examined blocks that were never written to.
        unused_bytes,
        /// Bytes of blocks that were examined for that.
        examined_bytes,
        /// Freed blocks that are too large to be examined.
        passed_over_blocks,
        /// Their bytes.
        passed_over_bytes,
        /// Leaked blocks to which no pointer exists.
        definitely_lost_blocks,
        /// Their bytes.
        definitely_lost_bytes,
        /// Leaked blocks that only lost blocks point to.
        indirectly_lost_blocks,
        /// Their bytes.
        indirectly_lost_bytes,
        /// Blocks with pointers only into their middle.
        possibly_lost_blocks,
        /// Their bytes.
        possibly_lost_bytes,
        /// Blocks that were still reachable at the end.
        reachable_blocks,
        /// Their bytes.
        reachable_bytes,
        /// Leaked blocks of any class that match a suppression.
        suppressed_blocks,
        /// Their bytes.
        suppressed_bytes,
        /// Bytes that instructions read from them (DHAT).
        bytes_read,
        /// Bytes that instructions wrote to them (DHAT).
        bytes_written,
    }
}

coded_enum! {
    /// The trend of live bytes over time.
    Growth {
        /// Not judged: the recording is too short, or there are too few bytes.
        #[default] Unknown = 0 / "unknown",
        /// They remain at a level.
        Flat = 1 / "flat",
        /// They grow steadily with time.
        Linear = 2 / "linear",
        /// They grow and fall repeatedly.
        Sawtooth = 3 / "sawtooth",
        /// They grow to the end, ever faster or in steps, and nothing is freed.
        Unbounded = 4 / "unbounded",
    }
}

/// The row of one allocating stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapSite {
    /// The stack; its innermost frame called the allocator.
    pub stack: StackId,
    /// The numbers.
    pub counts: HeapCounts,
    /// The trend of its live bytes over time.
    pub growth: Growth,
}

coded_enum! {
    /// The quantity of a histogram.
    HistogramOf {
        /// Sizes of blocks, in bytes.
        #[default] Size = 0 / "size",
        /// Lifetimes of freed blocks, in nanoseconds.
        Lifetime = 1 / "lifetime",
    }
}

/// One bar of a histogram of one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramBar {
    /// The row of the site.
    pub site: u32,
    /// The quantity.
    pub of: HistogramOf,
    /// Values from 2^(bar-1) up to, not including, 2^bar; bar 0 is the value 0.
    pub bar: u8,
    /// How many blocks.
    pub blocks: u64,
}

numbers_row! {
    /// The growth of blocks of about one size at one site: what a capacity would save, and what it would
    /// cost. Excludes growth after a block was first shrunk, which no initial capacity saves.
    GrowthBar {
        /// The row of the site.
        site,
        /// Sizes from 2^(bar-1) up to, not including, 2^bar.
        bar,
        /// Reallocations that grew a block to this size.
        grown,
        /// Bytes that they copied.
        bytes_copied,
        /// Blocks that reached this size before they were freed or first shrunk.
        reached,
        /// The sum of their sizes.
        reached_bytes,
        /// The largest of their sizes.
        largest,
    }
}

numbers_row! {
    /// Accesses to a stretch of bytes in the blocks of one site, which all have the same size.
    AccessRun {
        /// The row of the site.
        site,
        /// The offset of the first byte.
        start,
        /// How many bytes.
        length,
        /// Reads and writes of each of them, in all blocks together.
        count,
    }
}

/// Blocks that one thread allocated and another freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapTransfer {
    /// The thread that allocated.
    pub from: ThreadId,
    /// The thread that freed.
    pub to: ThreadId,
    /// How many blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The tables of a heap recording.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Heap {
    /// One row per allocating stack.
    pub sites: Vec<HeapSite>,
    /// Sizes and lifetimes.
    pub histograms: Vec<HistogramBar>,
    /// How blocks grew, by size.
    pub growth: Vec<GrowthBar>,
    /// Blocks freed by another thread than the one that allocated them.
    pub transfers: Vec<HeapTransfer>,
    /// How often each byte of blocks is accessed, by site and offset; whole blocks.
    pub accesses: Vec<AccessRun>,
}

/// Facts about a heap recording as a whole. Present in [`crate::Meta`] if the heap was recorded.
///
/// `Time` is a time of the clock while the heap is recorded; [`HeapFacts::since`] makes it one of the profile.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    default,
    bound(serialize = "Time: Clone + Serialize", deserialize = "Time: Default + Deserialize<'de>")
)]
pub struct HeapFacts<Time = ProfileNs> {
    /// Average number of bytes between samples; `None` if every allocation was recorded.
    pub sample_bytes: Option<u64>,
    /// Relative standard error of the estimated bytes allocated, in sampling mode.
    pub sample_error: Option<f64>,
    /// The peak of live bytes.
    pub peak_bytes: u64,
    /// The time of the peak.
    pub peak_ns: Time,
    /// Frees of blocks that were allocated before the recording began, or whose allocation was lost.
    pub unknown_frees: u64,
    /// Frees in a forked process of blocks that its parent allocated.
    pub inherited_frees: u64,
    /// Events lost because the recorder could not keep up.
    pub lost_events: u64,
    /// How many later allocations a temporary block may outlive; 1: freed before the next one.
    pub temporary_within: u64,
    /// Whether leaks were checked, and if not, why.
    #[serde(flatten)]
    pub leaks: LeakCheck<Time>,
    /// Processes whose leaks could not be checked, while those of others were. A note names each.
    pub processes_not_checked: u64,
    /// The trend of the whole program's live bytes over time.
    pub growth: String,
    /// Whether new blocks were filled to find unused bytes.
    pub unused: bool,
    /// Processes in which the agent ran. One that executes another program counts again.
    pub processes: u64,
    /// The largest of them, by their own peaks.
    pub by_process: Vec<HeapProcess>,
    /// The allocators that were hooked, such as `malloc` or `jemalloc (patched)`.
    pub allocators: Vec<String>,
    /// Started programs that could not be recorded. A note names each.
    pub programs_left_out: u64,
    /// CPU time of the collector.
    pub collector_cpu_ns: u64,
    /// Set if the program was still running: "live at exit" then means live at this time.
    pub snapshot: Option<HeapSnapshot<Time>>,
}

impl HeapFacts<ClockNs> {
    /// The facts as the profile of a recording with this start has them.
    pub fn since(self, start: Start) -> HeapFacts {
        HeapFacts {
            peak_ns: start.since(self.peak_ns),
            leaks: match self.leaks {
                LeakCheck::NotDone => LeakCheck::NotDone,
                LeakCheck::Impossible(why) => LeakCheck::Impossible(why),
                LeakCheck::AtExit => LeakCheck::AtExit,
                LeakCheck::AtSnapshot(time) => LeakCheck::AtSnapshot(start.since(time)),
            },
            snapshot: self
                .snapshot
                .map(|HeapSnapshot { pid, time_ns }| HeapSnapshot { pid, time_ns: start.since(time_ns) }),
            sample_bytes: self.sample_bytes,
            sample_error: self.sample_error,
            peak_bytes: self.peak_bytes,
            unknown_frees: self.unknown_frees,
            inherited_frees: self.inherited_frees,
            lost_events: self.lost_events,
            temporary_within: self.temporary_within,
            processes_not_checked: self.processes_not_checked,
            growth: self.growth,
            unused: self.unused,
            processes: self.processes,
            by_process: self.by_process,
            allocators: self.allocators,
            programs_left_out: self.programs_left_out,
            collector_cpu_ns: self.collector_cpu_ns,
        }
    }
}

impl HeapFacts {
    /// A value of [`Self::allocators`]: only its calls that the compiler did not inline are recorded.
    pub const PARTLY_SEEN: &str = "an allocator written in Rust";

    /// The suffix in [`Self::allocators`] of one that is part of the program but could not be located.
    pub const NOT_SEEN: &str = "(not seen)";

    /// Whether allocations may be missing because of such an allocator or a program that was not recorded.
    pub fn is_partly_seen(&self) -> bool {
        let partly = |name: &String| name == Self::PARTLY_SEEN || name.ends_with(Self::NOT_SEEN);
        self.programs_left_out > 0 || self.allocators.iter().any(partly)
    }
}

/// The totals of one process. Each process peaks at its own time.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapProcess {
    /// The operating system's number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its peak of live bytes.
    pub peak_bytes: u64,
    /// Bytes live at its exit; 0 if it executed another program, which releases all its memory.
    pub live_at_exit_bytes: u64,
    /// Blocks live at its exit, in the same way.
    pub live_at_exit_blocks: u64,
    /// Whether it ended by executing another program.
    pub executed: bool,
}

/// A snapshot of a process in the middle of a recording. Live and lost blocks are those of this process
/// alone; all other numbers cover the whole recording up to then.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapSnapshot<Time = ProfileNs> {
    /// The operating system's number of the process.
    pub pid: u32,
    /// The time of the snapshot.
    pub time_ns: Time,
}

/// Whether leaks were checked.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredLeakCheck<Time>", into = "StoredLeakCheck<Time>")]
#[serde(bound(serialize = "Time: Clone + Serialize", deserialize = "Time: Default + Deserialize<'de>"))]
pub enum LeakCheck<Time = ProfileNs> {
    /// Not requested, or not possible.
    #[default]
    NotDone,
    /// Not done for this reason.
    Impossible(NoLeakCheck),
    /// Done when the program exited.
    AtExit,
    /// Done on request while the program ran, at this time.
    AtSnapshot(Time),
}

/// A leak check as two fields of the file. Earlier versions have only the first, in which the reason is a
/// sentence.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredLeakCheck<Time> {
    leaks: StoredLeaks<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_leak_check: Option<serde_json::Value>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredLeaks<Time> {
    #[default]
    NotDone,
    Impossible(String),
    AtExit,
    AtSnapshot(Time),
}

impl<Time> From<StoredLeakCheck<Time>> for LeakCheck<Time> {
    fn from(stored: StoredLeakCheck<Time>) -> Self {
        match (stored.leaks, stored.no_leak_check) {
            (StoredLeaks::AtExit, _) => Self::AtExit,
            (StoredLeaks::AtSnapshot(time_ns), _) => Self::AtSnapshot(time_ns),
            (_, Some(why)) => Self::Impossible(NoLeakCheck::from_json(&why)),
            (StoredLeaks::Impossible(text), None) => Self::Impossible(NoLeakCheck::Text { text }),
            (StoredLeaks::NotDone, None) => Self::NotDone,
        }
    }
}

impl<Time> From<LeakCheck<Time>> for StoredLeakCheck<Time> {
    fn from(check: LeakCheck<Time>) -> Self {
        let (leaks, no_leak_check) = match check {
            LeakCheck::NotDone => (StoredLeaks::NotDone, None),
            // A value of this type always serialises.
            LeakCheck::Impossible(why) => (StoredLeaks::NotDone, serde_json::to_value(why).ok()),
            LeakCheck::AtExit => (StoredLeaks::AtExit, None),
            LeakCheck::AtSnapshot(time_ns) => (StoredLeaks::AtSnapshot(time_ns), None),
        };
        Self { leaks, no_leak_check }
    }
}

impl Heap {
    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// The numbers of all sites together. `max_bytes`, `max_blocks` and `largest_grown` are the largest, not sums.
    pub fn totals(&self) -> HeapCounts {
        let mut sum = [0u64; HeapCounts::COLUMNS.len()];
        for site in &self.sites {
            for (sum, number) in sum.iter_mut().zip(site.counts.numbers()) {
                *sum = sum.saturating_add(number);
            }
        }
        let largest = |of: fn(&HeapCounts) -> u64| self.sites.iter().map(|site| of(&site.counts)).max();
        HeapCounts {
            max_bytes: largest(|counts| counts.max_bytes).unwrap_or(0),
            max_blocks: largest(|counts| counts.max_blocks).unwrap_or(0),
            largest_grown: largest(|counts| counts.largest_grown).unwrap_or(0),
            ..HeapCounts::from_numbers(sum)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaks(json: &str) -> LeakCheck {
        serde_json::from_str::<HeapFacts>(json).unwrap().leaks
    }

    #[test]
    fn a_reason_is_a_fact_or_a_sentence_of_an_earlier_version() {
        let facts = |leaks: LeakCheck| HeapFacts { leaks, peak_bytes: u64::MAX, ..HeapFacts::default() };
        for check in [
            LeakCheck::NotDone,
            LeakCheck::AtExit,
            LeakCheck::AtSnapshot(ProfileNs(u64::MAX)),
            LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal: 9 }),
            LeakCheck::Impossible(NoLeakCheck::Text { text: "a sentence".to_owned() }),
        ] {
            let json = serde_json::to_string(&facts(check.clone())).unwrap();
            assert_eq!(serde_json::from_str::<HeapFacts>(&json).unwrap(), facts(check));
        }
        assert_eq!(leaks("{}"), LeakCheck::NotDone);
        assert_eq!(leaks(r#"{"leaks":{"at_snapshot":7}}"#), LeakCheck::AtSnapshot(ProfileNs(7)));
        let text = LeakCheck::Impossible(NoLeakCheck::Text { text: "it was killed".to_owned() });
        assert_eq!(leaks(r#"{"leaks":{"impossible":"it was killed"}}"#), text);
    }

    #[test]
    fn earlier_versions_read_a_reason_as_not_done() {
        let facts: HeapFacts = HeapFacts {
            leaks: LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal: 9 }),
            ..HeapFacts::default()
        };
        let json = serde_json::to_value(&facts).unwrap();
        assert_eq!(json["leaks"], "not_done");
        assert_eq!(json["no_leak_check"], serde_json::json!({"id": "ended-by-signal", "signal": 9}));
    }

    #[test]
    fn a_reason_of_a_later_version_is_kept_as_text() {
        let LeakCheck::Impossible(NoLeakCheck::Text { text }) =
            leaks(r#"{"no_leak_check":{"id":"eclipse"}}"#)
        else {
            panic!("it is a text")
        };
        assert!(text.ends_with("has noted eclipse"), "{text}");
    }
}
