//! What a format cannot hold, as facts.

use std::fmt;

use whyslow_analyze::{About, Count, Fact, Remark};

whyslow_profile::facts! {
    /// Something of a profile that is not in the written file. `Display` names it, to stand behind `this format cannot hold:`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum LeftOut {
        /// Other metrics than the chosen one.
        "export-metrics" => Metrics(Vec<String>),
        /// When each sample was taken.
        "export-times" => Times,
        /// Likewise, where the samples of a thread follow each other.
        "export-gaps" => Gaps,
        /// Which frames were inlined.
        "export-inlining" => Inlining,
        /// Source lines.
        "export-lines" => Lines,
        /// Spans.
        "export-spans" => Spans,
        /// Counters.
        "export-counters" => Counters,
        /// Source text and machine code.
        "export-code" => Code,
        /// The page has all samples.
        "export-page-filters" => PageFilters,
        /// The heap is written whole.
        "export-heap-filters" => HeapFilters,
        /// The timeline of a heap.
        "export-timeline" => Timeline,
        /// Which thread allocated.
        "export-threads" => Threads,
        /// Temporary allocations, growth, classes of leaks.
        "export-temporary" => Temporary,
        /// Lifetimes, growth, classes of leaks.
        "export-lifetimes" => Lifetimes,
        /// Sizes of single blocks.
        "export-sizes" => Sizes,
        /// How many blocks there were.
        "export-blocks" => Blocks,
        /// What was made and freed between two snapshots.
        "export-between-snapshots" => BetweenSnapshots,
        /// Only one of so many short-lived allocations is written.
        "export-one-in" => OneIn(u64),
        /// So many calls are too many.
        "export-added-calls" => AddedCalls(u64),
        /// So many temporary blocks count as others.
        "export-late-temporary" => LateTemporary(u64),
        /// So many bytes of short-lived blocks would exceed the peak.
        "export-above-peak" => AbovePeak(u64),
        /// So many bytes at the peak are not in the timeline.
        "export-peak-missed" => PeakMissed(u64),
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metrics(names) => return write!(f, "other metrics: {}", names.join(", ")),
            Self::OneIn(times) => {
                return write!(
                    f,
                    "that many lines: one of every {} short-lived allocations is written, and blocks that stayed are put \
                     together",
                    Count(*times)
                );
            }
            Self::AddedCalls(calls) => {
                return write!(f, "the exact number of calls: it is {} too high", Count(*calls));
            }
            Self::LateTemporary(blocks) => {
                return write!(
                    f,
                    "temporary blocks that were freed much later ({} count as others)",
                    Count(*blocks)
                );
            }
            Self::AbovePeak(bytes) => {
                return write!(
                    f,
                    "{} bytes of short-lived blocks, which would exceed the peak",
                    Count(*bytes)
                );
            }
            Self::PeakMissed(bytes) => {
                return write!(f, "{} bytes at the peak that the timeline does not have", Count(*bytes));
            }
            Self::Times => "when each sample was taken",
            Self::Gaps => {
                "when each sample was taken (the samples of a thread follow each other without gaps)"
            }
            Self::Inlining => "which frames were inlined",
            Self::Lines => "source lines",
            Self::Spans => "spans",
            Self::Counters => "counters",
            Self::Code => "kept source and machine code",
            Self::PageFilters => "filters: the page has all samples, and filters of its own",
            Self::HeapFilters => "filters: the heap is written whole",
            Self::Timeline => "the timeline",
            Self::Threads => "which thread allocated",
            Self::Temporary => "temporary allocations, growth and classes of leaks",
            Self::Lifetimes => "lifetimes, growth and classes of leaks",
            Self::Sizes => "sizes of single blocks (each is written with the average of its stack and time)",
            Self::Blocks => "how many blocks there were",
            Self::BetweenSnapshots => "what was made and freed between two snapshots",
        })
    }
}

impl Fact for LeftOut {
    fn remark(&self) -> Remark {
        Remark::note(self.id(), About::Format, format!("this format cannot hold: {self}"))
    }
}
