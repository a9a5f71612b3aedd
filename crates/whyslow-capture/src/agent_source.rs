//! What the agent observes inside the program: its heap, and CPU samples if timers take them.

use whyslow_convert::Input;
use whyslow_profile::{HeapFacts, HeapNote, MetricId, Note, RecordingNote};

use crate::RecordError;
use crate::agent::{AgentWatch, TimerSource};
use crate::heap;
use crate::launch::{Program, Suspended};
use crate::source::{Ending, LiveConverter, Source};

/// The running collector, and what its data is for.
#[derive(Debug)]
pub(crate) struct AgentSource {
    watch: AgentWatch,
    timer: Option<TimerSource>,
    /// Whether it records the heap.
    heap: bool,
}

impl AgentSource {
    /// The source of CPU samples of a metric, of heap rows, or of both.
    pub(crate) fn new(watch: AgentWatch, cpu_time: Option<MetricId>, heap: bool) -> Self {
        Self { watch, timer: cpu_time.map(TimerSource::new), heap }
    }
}

impl Source for AgentSource {
    fn enter(&mut self, program: Suspended) -> Result<Program, RecordError> {
        self.watch.enter(program).map(Program::Running)
    }

    fn drain(&mut self, _until_ns: u64, converter: &mut LiveConverter) {
        if let Some(timer) = &mut self.timer {
            timer.drain(&self.watch, converter);
        }
    }

    fn flush(&mut self, converter: &mut LiveConverter) {
        if self.heap {
            converter.take(&Input::Heap(&self.watch.take()));
        }
    }

    fn finish(self: Box<Self>, ending: &mut Ending<'_>) {
        let Self { watch, timer, heap } = *self;
        let losses = watch.cpu_losses();
        if let Some(mut timer) = timer {
            timer.finish(losses.period_ns, ending.converter);
        }
        ending.meta.counters.lost_samples += losses.lost;
        ending.note(losses.notes());
        let mut outcome = watch.finish();
        let outliving = heap.then(|| {
            let sites = std::mem::take(&mut outcome.sites);
            heap::finish(ending.converter, &outcome, sites.into_iter(), ending.time_ns);
            let outliving = heap::outliving(ending.converter);
            let leaks = heap::explain(outcome.facts.leaks.clone(), ending.meta.exit);
            let facts = heap::since(ending.converter.start_ns(), std::mem::take(&mut outcome.facts));
            ending.meta.heap = Some(HeapFacts { leaks, ..facts });
            outliving.filter(|_| ending.meta.exit.is_some())
        });
        let outliving = outliving.flatten();
        let heap_was_recorded = ending.meta.heap.is_some();
        ending.note(outcome.notes.into_iter().chain(outliving).map(|note| match note {
            HeapNote::ProgramLeftOut { program, why } if !heap_was_recorded => {
                RecordingNote::ProgramNotSampled { program, why }.into()
            }
            note => Note::from(note),
        }));
    }
}
