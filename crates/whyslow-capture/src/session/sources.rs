//! The sources of a recording: which there are, and the metrics of their rows.

use whyslow_profile::{Metric, MetricId, Sampling};

use crate::Options;
use crate::agent::AgentWatch;
use crate::agent_source::AgentSource;
use crate::calls::CallsNotRecorded;
use crate::chosen::Choice;
use crate::cpu_sampler::{CpuSampler, WaitsBy};
use crate::heap::HeapRows;
use crate::ptrace_sampling::PtraceSource;
use crate::queues::Queues;
use crate::sampling::{EventSource, SampleTarget};
use crate::source::{LiveConverter, Source};
use crate::switches::PolledSwitches;
use crate::waiting::WaitSnapshots;

/// The metrics of a recording, in the order in which the profile has them.
#[derive(Debug)]
pub(super) struct Metrics {
    cpu_time: Option<MetricId>,
    heap: Option<HeapRows>,
    /// One per requested event.
    requests: Vec<MetricId>,
}

impl Metrics {
    /// Creates the metrics, and prepares the converter for their rows.
    pub(super) fn create(
        options: &Options,
        cpu: &CpuSampler,
        requests: &Choice,
        converter: &mut LiveConverter,
    ) -> Self {
        let cpu_time = cpu.trigger().map(|trigger| converter.builder.metric(Metric::cpu_time(trigger)));
        let heap = options.heap.as_ref().map(|options| HeapRows::new(converter, options));
        let waits = if options.off_cpu { cpu.waits() } else { WaitsBy::Nothing };
        if waits != WaitsBy::Nothing {
            let metric = converter.builder.metric(Metric::off_cpu_time());
            converter.record_waits(metric, waits != WaitsBy::Leaving);
        }
        if cpu.events().is_some() || waits == WaitsBy::Accounts {
            converter.expect_switches();
        }
        let requested = requests.chosen.iter().map(|chosen| converter.builder.metric(chosen.metric()));
        let requested = requested.collect();
        if cpu.no_calls().is_none() {
            let metrics = Metric::of_syscalls().map(|metric| converter.builder.metric(metric));
            converter.record_calls(metrics);
        }
        if let (Some(metric), Some(sampled)) = (cpu_time, cpu.events())
            && sampled.sampling == Sampling::Threads
        {
            converter.account(metric, options.frequency_hz, !sampled.events.plan.cycles);
        }
        Self { cpu_time, heap, requests: requested }
    }
}

/// The sources, in the order in which the session calls them.
pub(super) fn sources(
    options: &Options,
    target: &SampleTarget,
    agent: Option<AgentWatch>,
    cpu: CpuSampler,
    requests: Choice,
    metrics: Metrics,
) -> Vec<Box<dyn Source>> {
    let Metrics { cpu_time, heap, requests: request_metrics } = metrics;
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    if let Some(agent) = agent {
        let cpu_time = cpu_time.filter(|_| matches!(cpu, CpuSampler::Timers { .. }));
        sources.push(Box::new(AgentSource::new(agent, cpu_time, heap)));
    }
    let no_calls = cpu.no_calls().filter(|_| options.syscalls);
    let waits = if options.off_cpu { cpu.waits() } else { WaitsBy::Nothing };
    let estimates_queues =
        cpu.events().is_some() && !cpu.has_wakers() && !matches!(target, SampleTarget::Machine);
    match (cpu, cpu_time) {
        (CpuSampler::Events(sampled), Some(cpu_time)) => {
            let source = EventSource::new(*sampled, target, cpu_time, requests, request_metrics);
            sources.push(Box::new(source));
        }
        (CpuSampler::Ptrace { rate_hz }, Some(cpu_time)) => {
            let pids = if let SampleTarget::Processes(pids) = target { &pids[..] } else { &[] };
            sources.push(Box::new(PtraceSource::new(cpu_time, pids, rate_hz)));
        }
        _ => {}
    }
    if let Some(why) = no_calls {
        sources.push(Box::new(CallsNotRecorded::new(why, target.clone())));
    }
    match waits {
        WaitsBy::Snapshots => sources.push(Box::new(WaitSnapshots::default())),
        WaitsBy::Accounts => sources.push(Box::new(PolledSwitches::default())),
        WaitsBy::Leaving | WaitsBy::Nothing => {}
    }
    if estimates_queues {
        let child = if let SampleTarget::Child { pid, .. } = target { Some(*pid) } else { None };
        sources.push(Box::new(Queues::new(child)));
    }
    sources
}
