//! Views of what runs when: threads, parallelism, spans, async tasks.

use whyslow_analyze::{BlockedWorker, Parallelism, SpanTable, TaskTable, Threads};
use whyslow_explain::Topic;

use super::{Needs, View, never};
use crate::answer::Body;
use crate::refusal::{Missing, Refusal};

/// Programs, processes and threads by time.
pub static THREADS: View = View {
    name: "threads",
    help: &[("threads", "time by program, thread name, process and thread")],
    function: Needs::Nothing,
    of_samples: false,
    of_waits: false,
    topic: None,
    refusal: never,
    body: |query, profile| Ok(Body::Threads(Threads::build(profile, &query.selection))),
};

/// Spans that the program marked.
pub static SPANS: View = View {
    name: "spans",
    help: &[("spans", "spans that the program marked (crate whyslow-mark), by name")],
    body: |query, profile| Ok(Body::Spans(SpanTable::build(profile, &query.selection))),
    ..THREADS
};

/// Async tasks.
pub static TASKS: View = View {
    name: "tasks",
    help: &[("tasks", "async tasks: CPU time, awaits, calls that block workers")],
    topic: Some(Topic::Tasks),
    body: |query, profile| {
        let blocked = BlockedWorker::find(profile, &query.selection, &query.cpu_charges(profile));
        Ok(Body::Tasks(TaskTable::build(profile, &query.selection), blocked))
    },
    ..THREADS
};

/// How many threads run at the same time, and what runs while only one does.
pub static PARALLELISM: View = View {
    name: "parallelism",
    help: &[("parallelism", "how many threads run at the same time, and what runs alone")],
    topic: Some(Topic::Parallelism),
    body: |query, profile| {
        let built = Parallelism::build(profile, &query.selection, &query.cpu_charges(profile));
        let refusal = Refusal::NotRecorded { missing: Missing::CpuTime, noted: None };
        built.map(Body::Parallelism).ok_or(refusal)
    },
    ..THREADS
};
