//! The parts of a profile that a format cannot hold, as facts.

use std::fmt;

use whyslow_words::{About, Count, Fact, Remark};

whyslow_profile::facts! {
    /// A part of a profile that is not in the written file. `Display` names it, for use after `this format
    /// cannot hold:`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum LeftOut {
        /// Metrics other than the chosen one.
        "export-metrics" => Metrics(Vec<String>),
        /// When each sample was taken.
        "export-times" => Times,
        /// Whole stacks: there are only pairs of caller and callee.
        "export-stacks" => Stacks,
        /// When each sample was taken; the samples of a thread follow each other without gaps.
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
        /// Filters: the page contains all samples.
        "export-page-filters" => PageFilters,
        /// Filters: the whole heap is written.
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
        /// The number of blocks.
        "export-blocks" => Blocks,
        /// Blocks allocated and freed between two snapshots.
        "export-between-snapshots" => BetweenSnapshots,
        /// Only one of this many short-lived allocations is written.
        "export-one-in" => OneIn(u64),
        /// The number of calls is too high by this many.
        "export-added-calls" => AddedCalls(u64),
        /// This many temporary blocks count as not temporary.
        "export-late-temporary" => LateTemporary(u64),
        /// This many bytes of short-lived blocks would exceed the peak.
        "export-above-peak" => AbovePeak(u64),
        /// This many bytes at the peak are missing in the timeline.
        "export-peak-missed" => PeakMissed(u64),
        /// Delays, the load of the machine and times of visits in experiments, and the placebo.
        "export-experiments" => ExperimentDetails,
        /// Filters: all experiments are written.
        "export-experiment-filters" => ExperimentFilters,
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metrics(names) => return write!(f, "other metrics: {}", names.join(", ")),
            Self::OneIn(times) => {
                return write!(
                    f,
                    "every event: only one of every {} short-lived allocations is written, and blocks that remained are \
                     merged",
                    Count(*times)
                );
            }
            Self::AddedCalls(calls) => {
                return write!(f, "the exact number of calls: it is {} too high", Count(*calls));
            }
            Self::LateTemporary(blocks) => {
                return write!(
                    f,
                    "temporary blocks that were freed much later ({} count as not temporary)",
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
            Self::Stacks => "threads, whole stacks (there are only pairs of caller and callee), the number of calls",
            Self::Gaps => {
                "when each sample was taken (the samples of a thread follow each other without gaps)"
            }
            Self::Inlining => "which frames were inlined",
            Self::Lines => "source lines",
            Self::Spans => "spans",
            Self::Counters => "counters",
            Self::Code => "source and machine code",
            Self::PageFilters => "filters: the page contains all samples and has its own filters",
            Self::HeapFilters => "filters: the whole heap is written",
            Self::ExperimentFilters => "filters: all experiments are written",
            Self::Timeline => "the timeline",
            Self::Threads => "which thread allocated",
            Self::Temporary => "temporary allocations, growth and classes of leaks",
            Self::Lifetimes => "lifetimes, growth and classes of leaks",
            Self::Sizes => "sizes of single blocks (each has the average size of its stack and time)",
            Self::Blocks => "the number of blocks",
            Self::BetweenSnapshots => "blocks allocated and freed between two snapshots",
            Self::ExperimentDetails => {
                "delays, the load of the machine and times of visits in experiments, and the placebo"
            }
        })
    }
}

impl Fact for LeftOut {
    fn remark(&self) -> Remark {
        Remark::note(self.id(), About::Format, format!("this format cannot hold: {self}"))
    }
}
