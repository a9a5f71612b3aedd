//! What the agent observes inside the program, a part for each of its purposes.

use std::fmt::Debug;

use whyslow_agent_host::{AgentHost, Finished};
use whyslow_agent_wire::purpose::Purpose;
use whyslow_numbers::ClockNs;
use whyslow_profile::{HeapNote, Note, RecordingNote};

use crate::RecordError;
use crate::agent::AgentWatch;
use crate::launch::{Program, Suspended};
use crate::source::{Ending, LiveConverter, Source};

/// Hands over what the agent observes for one purpose.
pub(crate) trait AgentPart: Debug {
    /// Hands over what was observed since the last call.
    fn drain(&mut self, _host: &AgentHost, _converter: &mut LiveConverter) {}

    /// Adds rows that are added less often.
    fn flush(&mut self, _host: &AgentHost, _converter: &mut LiveConverter) {}

    /// Adds what is known only now.
    fn finish(self: Box<Self>, finished: &Finished, ending: &mut Ending<'_>);
}

/// The agent in the program, and what its data is for.
#[derive(Debug)]
pub(crate) struct AgentSource {
    watch: AgentWatch,
    parts: Vec<Box<dyn AgentPart>>,
}

impl AgentSource {
    /// The source of what these parts hand over.
    pub(crate) fn new(watch: AgentWatch, parts: Vec<Box<dyn AgentPart>>) -> Self {
        Self { watch, parts }
    }
}

impl Source for AgentSource {
    fn enter(&mut self, program: Suspended) -> Result<Program, RecordError> {
        self.watch.enter(program).map(Program::Running)
    }

    fn drain(&mut self, _until: ClockNs, converter: &mut LiveConverter) {
        self.parts.iter_mut().for_each(|part| part.drain(self.watch.host(), converter));
    }

    fn flush(&mut self, converter: &mut LiveConverter) {
        self.parts.iter_mut().for_each(|part| part.flush(self.watch.host(), converter));
    }

    fn finish(self: Box<Self>, ending: &mut Ending<'_>) {
        let records_heap = self.watch.purposes().has(Purpose::Heap);
        let finished = self.watch.finish();
        ending.note(finished.notes().into_iter().map(|note| match note {
            HeapNote::ProgramLeftOut { program, why } if !records_heap => {
                RecordingNote::ProgramNotSampled { program, why }.into()
            }
            note => Note::from(note),
        }));
        self.parts.into_iter().for_each(|part| part.finish(&finished, ending));
    }
}
