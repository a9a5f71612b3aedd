//! What a heap recording knows beyond its samples: totals, one row per allocating stack, and how blocks moved between
//! threads.
//!
//! The samples of a heap recording are rows of the ordinary tables, one per metric below; their time is that of a
//! bucket of the timeline. What cannot be added up over time (the peak, lifetimes, leaks) is in these tables.

use serde::{Deserialize, Serialize};

use crate::ids::{StackId, ThreadId};
use crate::note::NoLeakCheck;

/// The names of the metrics of a heap recording. A sample's stack is always the one that allocated.
pub mod metric {
    /// Bytes asked for, reallocations with their new size.
    pub const BYTES_ALLOCATED: &str = "bytes-allocated";
    /// Successful calls that returned a block, reallocations included.
    pub const ALLOCATIONS: &str = "allocations";
    /// Bytes of blocks that were freed, or replaced by a reallocation, at that time.
    pub const BYTES_FREED: &str = "bytes-freed";
    /// Bytes that were live when the most were.
    pub const LIVE_AT_PEAK: &str = "live-at-peak";
    /// Bytes that were never freed.
    pub const LIVE_AT_EXIT: &str = "live-at-exit";
    /// Blocks that were freed before their thread allocated again.
    pub const TEMPORARY: &str = "temporary-allocations";
    /// Bytes that were live at a time that the reader asks for; made from the others when it does.
    pub const LIVE: &str = "live";
    /// Bytes that nothing was ever written to (`--unused`).
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
    /// What is counted for one allocating stack, or for all of them.
    HeapCounts {
        /// Blocks that were made, by reallocation too.
        allocations,
        /// Bytes that were asked for, over all of them.
        bytes_allocated,
        /// Blocks of this stack that were freed, or replaced by a reallocation.
        frees,
        /// Their bytes.
        bytes_freed,
        /// Live bytes at the moment when the whole program had the most.
        peak_bytes,
        /// Live blocks at that moment.
        peak_blocks,
        /// The most bytes this stack alone ever had.
        max_bytes,
        /// The blocks it had when it had the most bytes.
        max_blocks,
        /// Blocks that were live at the end.
        live_at_exit_blocks,
        /// Their bytes.
        live_at_exit_bytes,
        /// Blocks that were freed before their thread allocated again.
        temporary,
        /// How long blocks lived, in nanoseconds, added up; those that were never freed until the end.
        lifetime_ns,
        /// Reallocations that made a block larger.
        grown,
        /// Blocks that grew at least once: a chain ends with the block's free or the end.
        growth_chains,
        /// Bytes that growing copied, where the block had to move.
        bytes_copied,
        /// The largest size that a growing block reached.
        largest_grown,
        /// The sum of the sizes that growing blocks reached before they ended or were first made smaller.
        bytes_grown_to,
        /// Blocks that another thread freed.
        freed_elsewhere,
        /// Bytes of examined blocks that nothing was ever written to.
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
        /// Blocks that only pointers into their middle lead to.
        possibly_lost_blocks,
        /// Their bytes.
        possibly_lost_bytes,
        /// Blocks that were still in use at the end.
        reachable_blocks,
        /// Their bytes.
        reachable_bytes,
        /// Leaked blocks that a suppression names, of any class.
        suppressed_blocks,
        /// Their bytes.
        suppressed_bytes,
    }
}

coded_enum! {
    /// How live bytes went over time.
    Growth {
        /// Not judged: too short, or too little.
        #[default] Unknown = 0 / "unknown",
        /// They stay at a level.
        Flat = 1 / "flat",
        /// They grow steadily with time.
        Linear = 2 / "linear",
        /// They grow and fall again and again.
        Sawtooth = 3 / "sawtooth",
        /// They grow to the end, ever faster or in steps, and nothing is given back.
        Unbounded = 4 / "unbounded",
    }
}

/// What one allocating stack did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapSite {
    /// The stack; its innermost frame called the allocator.
    pub stack: StackId,
    /// The numbers.
    pub counts: HeapCounts,
    /// How its live bytes went over time.
    pub growth: Growth,
}

coded_enum! {
    /// What a histogram is over.
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
    /// What is measured.
    pub of: HistogramOf,
    /// Values from 2^(bar-1) up to, not including, 2^bar; bar 0 is the value 0.
    pub bar: u8,
    /// How many blocks.
    pub blocks: u64,
}

numbers_row! {
    /// What growing did at one site, with blocks of about one size: what a capacity would have spared, and what it would have
    /// cost. Growing after a block was made smaller is left out: no capacity at its start spares that.
    GrowthBar {
        /// The row of the site.
        site,
        /// Sizes from 2^(bar-1) up to, not including, 2^bar.
        bar,
        /// Reallocations that made a block so large.
        grown,
        /// Bytes that they copied.
        bytes_copied,
        /// Blocks that grew so large before they ended or were first made smaller.
        reached,
        /// The sum of their sizes.
        reached_bytes,
        /// The largest of their sizes.
        largest,
    }
}

/// Blocks that one thread allocated and another freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapTransfer {
    /// Who allocated.
    pub from: ThreadId,
    /// Who freed.
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
    /// Blocks freed by another thread than the one that made them.
    pub transfers: Vec<HeapTransfer>,
}

/// Facts about a heap recording as a whole. Its presence in [`crate::Meta`] says that there is one.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapFacts {
    /// Bytes between samples on average; `None` when every allocation was recorded.
    pub sample_bytes: Option<u64>,
    /// Relative standard error of the estimated bytes allocated, in sampling mode.
    pub sample_error: Option<f64>,
    /// The most live bytes.
    pub peak_bytes: u64,
    /// When that was, in nanoseconds since the recording began.
    pub peak_ns: u64,
    /// Frees of blocks that were made before recording began, or that were lost.
    pub unknown_frees: u64,
    /// Frees, in a forked process, of blocks its parent made.
    pub inherited_frees: u64,
    /// Events that were lost because the recorder could not keep up.
    pub lost_events: u64,
    /// How many allocations a block may outlive and still be temporary; 1: freed before the next one.
    pub temporary_within: u64,
    /// Whether a leak check was made, and why not.
    #[serde(flatten)]
    pub leaks: LeakCheck,
    /// Processes that no leak check could be made of, where others were checked. A note names each.
    pub processes_not_checked: u64,
    /// How live bytes of the whole program went over time.
    pub growth: String,
    /// Whether new blocks were filled to find unused bytes.
    pub unused: bool,
    /// Processes in which the agent ran. One that executes another program counts again.
    pub processes: u64,
    /// The largest of them, by their own peaks.
    pub by_process: Vec<HeapProcess>,
    /// Which allocators were watched, such as `malloc` or `jemalloc (patched)`.
    pub allocators: Vec<String>,
    /// Programs that were started and could not be recorded. A note names each.
    pub programs_left_out: u64,
    /// CPU time of the collector.
    pub collector_cpu_ns: u64,
    /// Set when the program ran on: what is live at exit is what was live then.
    pub snapshot: Option<HeapSnapshot>,
}

impl HeapFacts {
    /// In [`Self::allocators`]: one of which only those calls are seen that the compiler has not inlined.
    pub const PARTLY_SEEN: &str = "an allocator written in Rust";

    /// The last words of one in [`Self::allocators`] that is in the program, but could not be found in it.
    pub const NOT_SEEN: &str = "(not seen)";

    /// Whether allocations may be missing because of those, or because of a whole program.
    pub fn is_partly_seen(&self) -> bool {
        let partly = |name: &String| name == Self::PARTLY_SEEN || name.ends_with(Self::NOT_SEEN);
        self.programs_left_out > 0 || self.allocators.iter().any(partly)
    }
}

/// What one process did. It had its peak at a time of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapProcess {
    /// The operating system's number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its most live bytes.
    pub peak_bytes: u64,
    /// Bytes that were live when it ended; 0 if it executed another program, which gives all of its memory back.
    pub live_at_exit_bytes: u64,
    /// Blocks, likewise.
    pub live_at_exit_blocks: u64,
    /// Whether it ended by executing another program.
    pub executed: bool,
}

/// A look at a process in the middle of a recording. What is live and what is lost is that of this process alone; all other
/// numbers are those of the whole recording up to then.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapSnapshot {
    /// The operating system's number of the process.
    pub pid: u32,
    /// When it was, in nanoseconds since the recording began.
    pub time_ns: u64,
}

/// Whether leaks were looked for.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredLeakCheck", into = "StoredLeakCheck")]
pub enum LeakCheck {
    /// Not asked for, or not possible.
    #[default]
    NotDone,
    /// Not done for this reason.
    Impossible(NoLeakCheck),
    /// Done when the program ended.
    AtExit,
    /// Done on demand while the program ran, at this time in nanoseconds since the recording began.
    AtSnapshot(u64),
}

/// A leak check as two fields of the file. Earlier versions know the first alone, where a reason is a sentence.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredLeakCheck {
    leaks: StoredLeaks,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_leak_check: Option<serde_json::Value>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredLeaks {
    #[default]
    NotDone,
    Impossible(String),
    AtExit,
    AtSnapshot(u64),
}

impl From<StoredLeakCheck> for LeakCheck {
    fn from(stored: StoredLeakCheck) -> Self {
        match (stored.leaks, stored.no_leak_check) {
            (StoredLeaks::AtExit, _) => Self::AtExit,
            (StoredLeaks::AtSnapshot(time_ns), _) => Self::AtSnapshot(time_ns),
            (_, Some(why)) => Self::Impossible(NoLeakCheck::from_json(&why)),
            (StoredLeaks::Impossible(text), None) => Self::Impossible(NoLeakCheck::Text { text }),
            (StoredLeaks::NotDone, None) => Self::NotDone,
        }
    }
}

impl From<LeakCheck> for StoredLeakCheck {
    fn from(check: LeakCheck) -> Self {
        let (leaks, no_leak_check) = match check {
            LeakCheck::NotDone => (StoredLeaks::NotDone, None),
            // A value of this type always is JSON.
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
    fn a_reason_is_a_fact_and_that_of_earlier_versions_a_sentence() {
        let facts = |leaks| HeapFacts { leaks, peak_bytes: u64::MAX, ..HeapFacts::default() };
        for check in [
            LeakCheck::NotDone,
            LeakCheck::AtExit,
            LeakCheck::AtSnapshot(u64::MAX),
            LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal: 9 }),
            LeakCheck::Impossible(NoLeakCheck::Text { text: "a sentence".to_owned() }),
        ] {
            let json = serde_json::to_string(&facts(check.clone())).unwrap();
            assert_eq!(serde_json::from_str::<HeapFacts>(&json).unwrap(), facts(check));
        }
        assert_eq!(leaks("{}"), LeakCheck::NotDone);
        assert_eq!(leaks(r#"{"leaks":{"at_snapshot":7}}"#), LeakCheck::AtSnapshot(7));
        let text = LeakCheck::Impossible(NoLeakCheck::Text { text: "it was killed".to_owned() });
        assert_eq!(leaks(r#"{"leaks":{"impossible":"it was killed"}}"#), text);
    }

    #[test]
    fn earlier_versions_read_a_reason_as_not_done() {
        let facts = HeapFacts {
            leaks: LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal: 9 }),
            ..HeapFacts::default()
        };
        let json = serde_json::to_value(&facts).unwrap();
        assert_eq!(json["leaks"], "not_done");
        assert_eq!(json["no_leak_check"], serde_json::json!({"id": "ended-by-signal", "signal": 9}));
    }

    #[test]
    fn a_reason_of_a_later_version_is_told_as_it_is() {
        let LeakCheck::Impossible(NoLeakCheck::Text { text }) =
            leaks(r#"{"no_leak_check":{"id":"eclipse"}}"#)
        else {
            panic!("it is a text")
        };
        assert!(text.ends_with("has noted eclipse"), "{text}");
    }
}
