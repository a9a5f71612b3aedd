//! Stand-in for heap recording in builds without it. No option can request it, so none of this is ever
//! constructed.

use std::convert::Infallible;

use whyslow_convert::Converter;
use whyslow_profile::{ExitStatus, HeapFacts, HeapNote, LeakCheck};

use crate::live::LiveWorld;

/// How to record the heap: not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapOptions {}

#[derive(Debug)]
pub(crate) struct HeapRows(Infallible);

pub(crate) struct Batch;

pub(crate) struct Outcome {
    pub(crate) notes: Vec<HeapNote>,
    pub(crate) facts: HeapFacts,
}

impl HeapRows {
    pub(crate) fn new(_converter: &mut Converter<LiveWorld>, options: &HeapOptions) -> Self {
        match *options {}
    }

    pub(crate) fn add(&mut self, _converter: &mut Converter<LiveWorld>, _batch: &Batch) {
        match self.0 {}
    }

    pub(crate) fn finish(
        self,
        _converter: &mut Converter<LiveWorld>,
        _outcome: &mut Outcome,
        _end_ns: u64,
    ) -> Option<HeapNote> {
        match self.0 {}
    }
}

pub(crate) fn return_freed_memory() {}

pub(crate) fn explain(leaks: LeakCheck, _exit: Option<ExitStatus>) -> LeakCheck {
    leaks
}

pub(crate) fn since(_start_ns: u64, facts: HeapFacts) -> HeapFacts {
    facts
}
