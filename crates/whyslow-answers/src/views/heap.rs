//! Views of the heap: where memory is allocated, what holds it, and leaks.

use whyslow_analyze::heap::{Memory, Sites, has_heap, has_memory};
use whyslow_profile::{HeapProcess, Profile, heap};

use super::{Needs, View};
use crate::answer::{Body, Heap, PartOfHeap};
use crate::filters::Narrowing;
use crate::query::{Detail, Query};
use crate::refusal::{Missing, Refusal};

/// Where memory is allocated, what holds it at the peak, leaks.
pub static HEAP: View = View {
    name: "heap",
    help: &[("heap", "where memory is allocated, what holds it at the peak, leaks")],
    function: Needs::Nothing,
    of_samples: true,
    of_waits: false,
    topic: None,
    refusal,
    body: |query, profile| Ok(Body::Heap(heap_of(query, profile))),
};

/// Memory over time: a graph, the snapshots, and the call sites that held it at the peak.
pub static MEMORY: View = View {
    name: "memory",
    help: &[("memory", "memory over time, and the call sites that held it at the peak")],
    of_samples: false,
    refusal: |profile, _, narrowing| match has_memory(profile) {
        true => (narrowing > Narrowing::None).then_some(Refusal::HeapOfAPart),
        false => Some(no_memory()),
    },
    body: |_, profile| Memory::of(profile).map(|memory| Body::Memory(Box::new(memory))).ok_or_else(no_memory),
    ..HEAP
};

/// Lost memory: each line that allocated it, with its callers.
pub static LEAKS: View = View {
    name: "leaks",
    help: &[("leaks", "memory that is lost, by line, with callers")],
    body: |query, profile| Ok(Body::Leaks(heap_of(query, profile))),
    ..HEAP
};

fn no_memory() -> Refusal {
    Refusal::NotRecorded { missing: Missing::Heap, noted: None }
}

fn heap_of(query: &Query, profile: &Profile) -> Heap {
    let weights = query.weights(profile);
    let part = (query.narrowing > Narrowing::None).then(|| PartOfHeap {
        sites: Sites::of_selection(profile, &query.selection),
        processes: processes(query, profile),
    });
    Heap { part, samples: weights.total_count, value: weights.total_value }
}

/// The selected processes, as the heap has them; none if threads are selected.
fn processes(query: &Query, profile: &Profile) -> Vec<HeapProcess> {
    let selection = &query.selection;
    let is_chosen = |process: &&HeapProcess| {
        selection.threads.is_empty()
            && selection.processes.iter().any(|pattern| pattern.matches(process.pid, &process.name))
    };
    let facts = profile.meta.heap.as_ref();
    facts.map_or(Vec::new(), |facts| facts.by_process.iter().filter(is_chosen).cloned().collect())
}

fn refusal(profile: &Profile, detail: Detail, narrowing: Narrowing) -> Option<Refusal> {
    if has_heap(profile) {
        // A complete answer has the whole heap in any case.
        let is_beyond = detail == Detail::Screen && narrowing == Narrowing::Beyond;
        return is_beyond.then_some(Refusal::HeapOfAPart);
    }
    let has = |name: &str| profile.metric_named(name).is_some();
    Some(match &profile.meta.imported_from {
        _ if !profile.sealed && has(heap::metric::BYTES_ALLOCATED) => Refusal::HeapNotSummedUp,
        Some(tool) if has(heap::metric::LIVE_AT_PEAK) => Refusal::OnlyLiveBytes { tool: tool.clone() },
        _ => Refusal::NotRecorded { missing: Missing::Heap, noted: None },
    })
}
