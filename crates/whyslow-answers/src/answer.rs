//! What a query gives: values and tables, without layout.

use std::borrow::Cow;

use whyslow_analyze::heap::{Memory, Sites};
use whyslow_analyze::{
    BlockedWorker, CacheAnswer, CallTree, Callers, CriticalPath, FunctionTable, GroupBy, Groups, HotLines,
    HotPath, Lines, LockTable, Outline, OwnTable, Parallelism, Quality, SpanTable, SyscallTable, TaskTable,
    Threads, WaitTable, wait_metric,
};
use whyslow_causal::Estimates;
use whyslow_explain::Finding;
use whyslow_profile::{HeapProcess, MetricId, Profile};

use crate::query::{Detail, Query};
use crate::refusal::Refusal;
use crate::summary::Summary;

/// The answer to a query.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// What was asked.
    pub query: &'a Query,
    /// The metric that it is about: a row of `Profile::metrics`.
    pub metric: MetricId,
    /// How far to trust it.
    pub quality: Quality,
    /// The allocating lines of everything that was recorded: in complete answers, and in views of the heap.
    pub sites: Option<Sites>,
    /// What is found about the view's topic, largest gain first.
    pub findings: Vec<Finding>,
    /// The view's own values.
    pub body: Body,
}

/// The values of each view.
#[derive(Debug)]
pub enum Body {
    /// One screen about everything.
    Summary(Box<Summary>),
    /// Functions by cost.
    Functions(Box<Functions>),
    /// The call tree.
    Tree(Tree),
    /// The callers and callees of a function.
    Callers(Box<Callers>),
    /// The lines of a function.
    Lines(Box<Lines>),
    /// The most expensive lines of all functions.
    HotLines(HotLines),
    /// Programs, processes and threads.
    Threads(Threads),
    /// Modules or crates.
    Groups(GroupBy, Groups),
    /// Spans by name.
    Spans(SpanTable),
    /// Where threads wait.
    Waits(WaitTable),
    /// The locks that threads waited for.
    Locks(LockTable),
    /// What delayed the end.
    CriticalPath(CriticalPath),
    /// Async tasks.
    Tasks(TaskTable, Vec<BlockedWorker>),
    /// How many threads run at the same time.
    Parallelism(Parallelism),
    /// System calls.
    Syscalls(SyscallTable),
    /// Where memory is allocated.
    Heap(Heap),
    /// Memory that is lost, with callers.
    Leaks(Heap),
    /// Memory over time.
    Memory(Box<Memory>),
    /// Misses of simulated caches.
    Cache(Box<CacheAnswer>),
    /// What experiments say about speeding up lines and functions.
    Causal(Box<Estimates>),
    /// How far to trust the profile; the answer's quality has it all.
    Quality {
        /// The value of all selected samples.
        value: u64,
    },
}

/// Functions by cost.
#[derive(Debug)]
pub struct Functions {
    /// By self or total cost.
    pub functions: FunctionTable,
    /// By own cost: your code plus the libraries it calls.
    pub own: OwnTable,
    /// The hottest path.
    pub hot_path: HotPath,
    /// Programs, processes and threads.
    pub threads: Threads,
}

/// A call tree.
#[derive(Debug)]
pub struct Tree {
    /// The tree.
    pub outline: Outline,
    /// The number of selected samples.
    pub samples: u64,
}

/// The heap.
#[derive(Debug)]
pub struct Heap {
    /// The part of it that the filters select, if there are any.
    pub part: Option<PartOfHeap>,
    /// The number of selected samples.
    pub samples: u64,
    /// Their value.
    pub value: u64,
}

/// The heap of some threads or processes.
#[derive(Debug)]
pub struct PartOfHeap {
    /// Its allocating lines.
    pub sites: Sites,
    /// Its processes; none if threads are selected.
    pub processes: Vec<HeapProcess>,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(profile: &'a Profile, query: &'a Query, body: Body) -> Result<Self, Refusal> {
        let metric = match &body {
            Body::Summary(summary) => summary.metric,
            Body::Cache(caches) => caches.metric,
            _ if query.view.of_waits => wait_metric(profile).unwrap_or(query.selection.metric),
            _ => query.selection.metric,
        };
        let shows_heap = match &body {
            Body::Heap(heap) | Body::Leaks(heap) => heap.part.is_none(),
            Body::Summary(summary) => summary.is_of_heap,
            _ => false,
        };
        let sites = (shows_heap || query.detail == Detail::Complete).then(|| Sites::build(profile));
        let findings = query.view.topic.map_or(Vec::new(), |topic| query.findings_about(topic, profile));
        let quality = Quality::of_metric(profile, metric);
        Ok(Self { profile, query, metric, quality, sites, findings, body })
    }

    /// The name of the function that the answer is about, and of others that the query fits as well.
    pub fn found(&self) -> Option<(Cow<'_, str>, &[String])> {
        let (labels, others) = match &self.body {
            Body::Callers(callers) => (&callers.labels, &callers.others),
            Body::Lines(lines) => (&lines.labels, &lines.others),
            _ => return None,
        };
        Some((CallTree::name(self.profile, *labels.first()?), others))
    }
}
