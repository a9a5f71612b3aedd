//! Stand-in for heap recording in builds without it. No option can request it, so none of this is ever
//! constructed.

use whyslow_convert::HeapMetrics;
pub(crate) use whyslow_profile::batch::Batch;
use whyslow_profile::{Builder, ExitStatus, HeapFacts, HeapNote, LeakCheck};

use crate::source::LiveConverter;

/// How to record the heap: not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapOptions {}

/// A site of the heap: there is none.
#[derive(Debug)]
pub(crate) enum Site {}

pub(crate) struct Outcome {
    pub(crate) notes: Vec<HeapNote>,
    pub(crate) facts: HeapFacts,
    pub(crate) sites: Vec<Site>,
}

/// The metrics of a heap recording.
pub(crate) fn metrics(_rows: &mut Builder, options: &HeapOptions) -> HeapMetrics {
    match *options {}
}

pub(crate) fn finish(
    _converter: &mut LiveConverter,
    _outcome: &Outcome,
    _sites: impl Iterator<Item = Site>,
    _end_ns: u64,
) {
}

pub(crate) fn outliving(_converter: &LiveConverter) -> Option<HeapNote> {
    None
}

pub(crate) fn return_freed_memory() {}

pub(crate) fn explain(leaks: LeakCheck, _exit: Option<ExitStatus>) -> LeakCheck {
    leaks
}

pub(crate) fn since(_start_ns: u64, facts: HeapFacts) -> HeapFacts {
    facts
}
