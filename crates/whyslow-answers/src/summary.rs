//! One screen about everything: what a program's time is spent on, and why.

use whyslow_analyze::heap::{SiteRow, Sites};
use whyslow_analyze::{
    Charges, FunctionTable, HotPath, Label, Overview, OwnTable, Selection, Share, SortBy, Spent,
    SyscallTable, Threads, Together, has_syscalls, wait_metric,
};
use whyslow_explain::{Explanation, Finding, Waiting};
use whyslow_profile::{HeapCounts, MetricId, Profile, Subject};

use crate::findings::whole_explanation;
use crate::query::Query;
use crate::views::is_all_heap;

/// The answer after a recording.
#[derive(Debug)]
pub struct Summary {
    /// Whether the heap was recorded and nothing else: the heap is the answer.
    pub is_of_heap: bool,
    /// The metric that the answer is about: waits if the program waits, else the main metric.
    pub metric: MetricId,
    /// Times, threads and processes.
    pub overview: Overview,
    /// What the time is spent on.
    pub spent: Spent,
    /// Functions by self time.
    pub functions: FunctionTable,
    /// Functions by own time.
    pub own: OwnTable,
    /// The hottest path.
    pub hot_path: HotPath,
    /// What all threads did together, if waits were recorded.
    pub together: Option<Together>,
    /// Whether it waited more than it ran, unless a finding says why.
    pub waiting: Option<Waiting>,
    /// System calls, if they were recorded.
    pub syscalls: Option<SyscallTable>,
    /// The heap, if it was recorded.
    pub heap: Option<HeapTotal>,
    /// Events that were recorded in addition to the main metric.
    pub events: Vec<EventTotal>,
    /// Findings about time, largest gain first.
    pub findings: Vec<Finding>,
    /// Threads and processes.
    pub threads: Threads,
    /// Whether waits were recorded.
    pub has_waits: bool,
}

/// An event: how often it happened, and where most.
#[derive(Debug, Clone, PartialEq)]
pub struct EventTotal {
    /// Its metric.
    pub metric: MetricId,
    /// The sum over the program.
    pub value: u64,
    /// The function of the user's with the most, and its share.
    pub most: Option<(Label, Share)>,
}

/// The heap of a recording of more than the heap.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapTotal {
    /// The numbers of the whole program.
    pub totals: HeapCounts,
    /// Bytes at the peak.
    pub peak_bytes: u64,
    /// The line with the most bytes at the peak.
    pub most: Option<SiteRow>,
}

impl Summary {
    pub(crate) fn of(query: &Query, profile: &Profile) -> Self {
        let everything = Selection { metric: profile.main_metric(), ..Selection::default() };
        let weights = everything.weigh(profile);
        let charges = Charges::new(profile, true);
        let own = OwnTable::build(profile, &weights, &charges);
        let spent = Spent::of(profile, &charges);
        let waits = wait_metric(profile);
        let file = query.file.as_deref().unwrap_or("FILE");
        let Explanation { mut findings, waiting, .. } = whole_explanation(profile, &query.allowed, file);
        findings.retain(|finding| finding.of.is_time());
        Self {
            is_of_heap: is_all_heap(profile),
            metric: match &spent {
                Spent::Waiting(_) => waits.unwrap_or(profile.main_metric()),
                Spent::Running | Spent::WaitingUnseen => profile.main_metric(),
            },
            overview: Overview::of(profile),
            functions: FunctionTable::from_weights(profile, &weights, true, SortBy::SelfValue),
            hot_path: HotPath::find(profile, &weights, &charges, &own),
            together: waits.map(|metric| Together::of(profile, metric)),
            waiting,
            syscalls: has_syscalls(profile).then(|| SyscallTable::build(profile, &everything, &charges)),
            heap: HeapTotal::of(profile),
            events: EventTotal::all(profile),
            findings,
            threads: Threads::build(profile, &everything),
            has_waits: waits.is_some(),
            spent,
            own,
        }
    }
}

impl HeapTotal {
    fn of(profile: &Profile) -> Option<Self> {
        let facts = profile.meta.heap.as_ref()?;
        let Sites { rows, totals, .. } = Sites::build(profile);
        let most = rows.into_iter().next().filter(|row| row.counts.peak_bytes > 0);
        Some(Self { totals, peak_bytes: facts.peak_bytes, most })
    }
}

impl EventTotal {
    fn all(profile: &Profile) -> Vec<Self> {
        /// More lines would leave no room for functions.
        const MOST: usize = 4;
        let is_additional = |metric: &MetricId| {
            *metric != profile.main_metric() && profile.metrics[metric.index()].of == Subject::Event
        };
        profile
            .metric_ids()
            .filter(is_additional)
            .take(MOST)
            .map(|metric| Self::of(profile, metric))
            .collect()
    }

    fn of(profile: &Profile, metric: MetricId) -> Self {
        let weights = Selection { metric, ..Selection::default() }.weigh(profile);
        let own = OwnTable::build(profile, &weights, &Charges::of_metric(profile, true, metric));
        let most = own.rows.first().map(|row| (row.label, own.own_share(row)));
        Self { metric, value: weights.total_value, most }
    }
}
