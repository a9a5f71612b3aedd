//! The sources of a recording: which there are, and the metrics of their rows.

use std::sync::Arc;

use whyslow_convert::{AccountSetup, Setup, WaitSetup, WaitStackSource};
use whyslow_profile::{Builder, Metric, MetricId, Sampling};

use crate::Options;
use crate::agent::{AgentWatch, TimerSource};
use crate::agent_source::{AgentPart, AgentSource};
use crate::calls::CallsNotRecorded;
use crate::causal::{CausalPart, Controller};
use crate::chosen::Choice;
use crate::cpu_sampler::{CpuSampler, WaitsBy};
use crate::heap::{self, HeapRecording};
use crate::ptrace_sampling::PtraceSource;
use crate::queues::Queues;
use crate::sampling::{EventSource, SampleTarget};
use crate::source::Source;
use crate::switches::PolledSwitches;
use crate::waiting::WaitSnapshots;

/// The metrics of a recording, in the order in which the profile has them.
#[derive(Debug)]
pub(super) struct Metrics {
    cpu_time: Option<MetricId>,
    /// One per requested event.
    requests: Vec<MetricId>,
}

impl Metrics {
    /// Creates the metrics in these tables, and how their rows are converted.
    pub(super) fn create(
        options: &Options,
        cpu: &CpuSampler,
        target: &SampleTarget,
        requests: &Choice,
        rows: &mut Builder,
    ) -> (Self, Setup) {
        let cpu_time = cpu.trigger().map(|trigger| rows.metric(Metric::cpu_time(trigger)));
        let heap = options.heap.as_ref().map(|options| heap::metrics(rows, options));
        let waits_by = if options.off_cpu { cpu.waits() } else { WaitsBy::Nothing };
        let waits = (waits_by != WaitsBy::Nothing).then(|| WaitSetup {
            metric: rows.metric(Metric::off_cpu_time()),
            stacks: match waits_by {
                WaitsBy::Leaving => WaitStackSource::Leaving,
                WaitsBy::Snapshots | WaitsBy::Accounts | WaitsBy::Nothing => WaitStackSource::Snapshots,
            },
            estimates_queues: waits_by == WaitsBy::Accounts || reads_queues(cpu, target),
            lengths_known: waits_by != WaitsBy::Accounts,
        });
        let requested = requests.chosen.iter().map(|chosen| rows.metric(chosen.metric())).collect();
        let calls = cpu.no_calls().is_none();
        let calls = calls.then(|| Metric::of_syscalls().map(|metric| rows.metric(metric)));
        let by_thread = cpu.events().filter(|sampled| sampled.sampling == Sampling::Threads);
        let accounts = cpu_time.zip(by_thread).map(|(metric, sampled)| AccountSetup {
            metric,
            frequency_hz: options.frequency_hz,
            by_clock: !sampled.events.plan.cycles,
        });
        let switches = cpu.events().is_some() || waits_by == WaitsBy::Accounts;
        let setup = Setup { accounts, switches, waits, calls, heap, ..Setup::default() };
        (Self { cpu_time, requests: requested }, setup)
    }
}

/// Whether the kernel's accounts of run-queue delay are read: records do not show who ends waits.
fn reads_queues(cpu: &CpuSampler, target: &SampleTarget) -> bool {
    cpu.events().is_some() && !cpu.has_wakers() && !matches!(target, SampleTarget::Machine)
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
    let Metrics { cpu_time, requests: request_metrics } = metrics;
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    if let Some(agent) = agent {
        let cpu_time = cpu_time.filter(|_| matches!(cpu, CpuSampler::Timers { .. }));
        let timer = cpu_time.map(|metric| Box::new(TimerSource::new(metric, agent.arrivals())) as _);
        let heap = options.heap.as_ref().map(|_| Box::new(HeapRecording) as Box<dyn AgentPart>);
        let causal = options.causal.as_ref().and_then(|options| {
            let controller = Controller::start(agent.subject(), agent.whole_run(), options).ok()?;
            let director = Arc::clone(&options.director);
            Some(Box::new(CausalPart::new(controller, director)) as Box<dyn AgentPart>)
        });
        let parts = timer.into_iter().chain(heap).chain(causal).collect();
        sources.push(Box::new(AgentSource::new(agent, parts)));
    }
    let no_calls = cpu.no_calls().filter(|_| options.syscalls);
    let waits = if options.off_cpu { cpu.waits() } else { WaitsBy::Nothing };
    let reads_queues = reads_queues(&cpu, target);
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
    if reads_queues {
        let child = if let SampleTarget::Child { pid, .. } = target { Some(*pid) } else { None };
        sources.push(Box::new(Queues::new(child)));
    }
    sources
}
