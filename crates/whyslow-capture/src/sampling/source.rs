//! Reads the records of open events.

use std::os::fd::RawFd;
use std::time::Duration;

use linux_perf_event_reader::RecordType;
use whyslow_convert::{Input, Task, perf};
use whyslow_numbers::ClockNs;
use whyslow_proc::process;
use whyslow_profile::{MetricId, RecordingNote};

use super::{SampleTarget, Sampled};
use crate::RecordError;
use crate::chosen::{Choice, Counts};
use crate::pace::{Pace, Turn};
use crate::perf::{EventRole, Events, OpenEvent};
use crate::recorded_processes::RecordedProcesses;
use crate::source::{EAGER, Ending, LiveConverter, Source};
use crate::waiting;

/// Open events, and how their records are read.
#[derive(Debug)]
pub(crate) struct EventSource {
    events: Events,
    /// How the samples of each event are read, in the order of `events.open`.
    readings: Vec<Reading>,
    reader: perf::Reader,
    recorded: RecordedProcesses,
    /// Whether the child's exec enables the events.
    on_exec: bool,
    /// The running processes that are recorded.
    attached: Vec<u32>,
    cpu_time: MetricId,
    /// The requested events, and their metrics.
    requests: Choice,
    metrics: Vec<MetricId>,
    /// How often each request happened, once that is known.
    counts: Vec<Counts>,
    /// Limits the rate of stacks of threads leaving their CPU.
    pace: Option<Pace>,
    /// Whether the recording is paused.
    is_paused: bool,
}

/// How the samples of an open event are read.
#[derive(Debug)]
struct Reading {
    event: perf::Event,
    /// The index of the request, if the user requested this event.
    request: Option<usize>,
    /// How many samples were in the rings, of any process.
    samples: u64,
}

impl Reading {
    fn new(open: &OpenEvent, cpu_time: MetricId, requests: &Choice, metrics: &[MetricId]) -> Self {
        let (metric, period, request) = match open.role {
            EventRole::Requested(at) => (metrics[at], requests.chosen[at].period(), Some(at)),
            _ => (cpu_time, 1, None),
        };
        let event = perf::Event::of_host(metric, period, open.role.of_samples());
        Self { event, request, samples: 0 }
    }
}

impl EventSource {
    /// The source of CPU time samples of a metric and of requested events, each with its metric.
    pub(crate) fn new(
        Sampled { events, recorded, on_exec, .. }: Sampled,
        target: &SampleTarget,
        cpu_time: MetricId,
        requests: Choice,
        metrics: Vec<MetricId>,
    ) -> Self {
        let readings = events.open.iter().map(|open| Reading::new(open, cpu_time, &requests, &metrics));
        let readings = readings.collect();
        let attached = match target {
            SampleTarget::Processes(pids) => pids.clone(),
            SampleTarget::Child { .. } | SampleTarget::Machine => Vec::new(),
        };
        let reader = perf::Reader::default();
        let (counts, pace, is_paused) = (Vec::new(), None, false);
        Self {
            events,
            readings,
            reader,
            recorded,
            on_exec,
            attached,
            cpu_time,
            requests,
            metrics,
            counts,
            pace,
            is_paused,
        }
    }

    /// Pauses all events except that of CPU time, or resumes them.
    fn pause_others(&self, pauses: bool) {
        for event in self.events.open.iter().filter(|event| event.role != EventRole::CpuTime) {
            event.pause(pauses);
        }
    }
}

impl Source for EventSource {
    fn start(&mut self, converter: &mut LiveConverter) -> Result<(), RecordError> {
        let leaving = self.events.has(|role| role == EventRole::Leaves);
        self.pace = leaving.then(|| Pace::new(converter.start().time()));
        if !self.on_exec {
            let cannot = |error| RecordError::System { what: "sampling could not be started", error };
            self.events.enable().map_err(cannot)?;
        }
        if !self.attached.is_empty() {
            let threads_of = |pid: &u32| process::threads(*pid).unwrap_or_default();
            let tasks = |pid| threads_of(pid).into_iter().map(|tid| Task { pid: *pid, tid });
            waiting::begin_with(self.attached.iter().flat_map(tasks), converter);
        }
        Ok(())
    }

    /// The event of CPU time also reports processes and mappings, so it goes on.
    fn pause(&mut self) {
        self.is_paused = true;
        self.pause_others(true);
    }

    fn resume(&mut self, converter: &mut LiveConverter) -> Result<(), RecordError> {
        self.is_paused = false;
        self.pause_others(false);
        if let Some(pace) = &mut self.pace {
            *pace = pace.restarted(whyslow_proc::now());
        }
        waiting::begin_with(converter.living().into_iter(), converter);
        Ok(())
    }

    fn wait_on(&self) -> &[RawFd] {
        self.events.wait_on()
    }

    /// Descriptors must be looked up before they are closed.
    fn interval(&mut self, interval: Duration) -> Duration {
        let has_calls = self.events.has(|role| matches!(role, EventRole::Calls(_)));
        if has_calls { interval.min(EAGER) } else { interval }
    }

    fn drain(&mut self, until: ClockNs, converter: &mut LiveConverter) {
        let Self { events, recorded, reader, readings, .. } = self;
        recorded.search(process::parents);
        let layouts = &events.layouts;
        let mut left = 0;
        events.merge.drain(until, layouts, |record| {
            let Reading { event, request, samples } = &mut readings[layouts.event(record)];
            // Losses of requested events are known from their counts, and are not lost CPU time samples.
            if request.is_some() && record.record_type == RecordType::LOST {
                return;
            }
            *samples += u64::from(record.record_type == RecordType::SAMPLE);
            // Call stacks that did not fit are optional.
            let is_stack = event.role == perf::Role::Calls(perf::CallEvent::EnterWithStack);
            if is_stack && record.record_type != RecordType::SAMPLE {
                return;
            }
            // Any process may wake a recorded thread.
            let wakes = matches!(event.role, perf::Role::Wakes { .. });
            if (recorded.takes(record) || wakes && record.record_type == RecordType::SAMPLE)
                && let Some(input) = reader.read(record, event)
            {
                left += u64::from(matches!(input, Input::Leaves(_)));
                converter.take(&input);
            }
        });
        if self.is_paused {
            return;
        }
        if let Some(turn) = self.pace.as_mut().and_then(|pace| pace.turn(left, whyslow_proc::now())) {
            // Wakeups without stacks continue to be recorded.
            for event in self.events.open.iter().filter(|event| event.role.is_paced()) {
                event.pause(turn == Turn::Pause);
            }
        }
    }

    /// Reads the counts before the last records, so that nothing is missed if the program still runs.
    fn stop(&mut self) {
        let counts = self.events.open.iter().filter_map(|event| match event.role {
            EventRole::Requested(request) => Some(Counts { request, happened: event.count(), samples: 0 }),
            _ => None,
        });
        self.counts = counts.collect();
    }

    fn finish(mut self: Box<Self>, ending: &mut Ending<'_>) {
        let lost = &mut ending.meta.counters.lost_samples;
        *lost = self.recorded.lost_of(*lost);
        let requested = self.readings.iter().filter(|reading| reading.request.is_some());
        for (counts, reading) in self.counts.iter_mut().zip(requested) {
            counts.samples = reading.samples;
        }
        let recorded: Vec<u64> = self.metrics.iter().map(|metric| ending.converter.total(*metric)).collect();
        ending.note(self.requests.notes(&self.counts, &recorded));
        let calls = ending.converter.unpaired_calls();
        ending.note((calls > 0).then_some(RecordingNote::SyscallsUnpaired { calls }));
        if self.pace.is_some_and(|pace| pace.has_paused) {
            let stacks = ending.converter.wait_stacks();
            ending.note([RecordingNote::WaitsSampled { stacks: stacks.with_stack, waits: stacks.waits }]);
        }
        let plan = self.events.plan;
        if plan.cycles && ending.meta.only_cpus.is_none() {
            let system_ns = if plan.kernel { ending.meta.system_time_ns } else { 0 };
            ending.converter.set_cycle_worth(self.cpu_time, ending.meta.user_time_ns + system_ns);
        }
    }
}
