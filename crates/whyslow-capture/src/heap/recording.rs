//! The heap as a part of the agent's source.

use whyslow_agent_host::{AgentHost, Finished};
use whyslow_convert::Input;
use whyslow_heap::Accounting;
use whyslow_profile::HeapFacts;

use super::not_checked::explain;
use super::rows::{self, outliving};
use crate::agent_source::AgentPart;
use crate::source::{Ending, LiveConverter};

/// Hands over what is counted.
#[derive(Debug)]
pub(crate) struct HeapRecording;

impl AgentPart for HeapRecording {
    fn flush(&mut self, host: &AgentHost, converter: &mut LiveConverter) {
        if let Some(batch) = host.with(Accounting::take) {
            converter.take(&Input::Heap(&batch));
        }
    }

    fn finish(self: Box<Self>, finished: &Finished, ending: &mut Ending<'_>) {
        let finish = |heap: &mut Accounting, programs: &mut _| heap.finish(programs, finished.cpu_ns());
        let Some(mut outcome) = finished.with(finish) else { return };
        let sites = std::mem::take(&mut outcome.sites);
        rows::finish(ending.converter, &outcome, sites.into_iter(), ending.time);
        let outliving = outliving(ending.converter);
        let facts = std::mem::take(&mut outcome.facts).since(ending.converter.start());
        let leaks = explain(facts.leaks.clone(), ending.meta.exit);
        ending.meta.heap = Some(HeapFacts { leaks, ..facts });
        let outliving = outliving.filter(|_| ending.meta.exit.is_some());
        ending.note(outcome.notes.into_iter().chain(outliving));
    }
}
