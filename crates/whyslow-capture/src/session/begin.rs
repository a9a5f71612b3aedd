//! The start of a recording: what to record, and with which sampler.

use whyslow_proc::{machine, process};
use whyslow_profile::RecordingNote;

use crate::agent::{AgentWatch, Wanted};
use crate::cgroup::ProgramGroup;
use crate::chosen::Choice;
use crate::cpu_sampler::CpuSampler;
use crate::launch::Suspended;
use crate::perf::OpenError;
use crate::ptrace_sampling;
use crate::refusal;
use crate::sampling::{self, SampleTarget};
use crate::{Options, RecordError, SamplerChoice, Target};

/// The target with thread numbers replaced by those of their processes.
pub(crate) fn resolved(target: &Target) -> Result<Target, RecordError> {
    let Target::Processes(numbers) = target else { return Ok(target.clone()) };
    let mut pids = Vec::new();
    for number in numbers {
        let Some(pid) = process::process_of(*number) else {
            return Err(RecordError::Refused(format!(
                "there is no process {number}; `ps` lists the running ones"
            )));
        };
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    Ok(Target::Processes(pids))
}

/// The requested CPUs, or else all of them, since a program can move to any.
pub(super) fn cpus_to_record(options: &Options) -> Result<Vec<u32>, RecordError> {
    let online = machine::online_cpus();
    let Some(wanted) = &options.cpus else { return Ok(online) };
    match wanted.iter().find(|cpu| !online.contains(cpu)) {
        Some(missing) => Err(RecordError::Refused(format!(
            "there is no CPU {missing}; this machine has {}",
            whyslow_words::cpu_words(&online)
        ))),
        None => Ok(online.into_iter().filter(|cpu| wanted.contains(cpu)).collect()),
    }
}

/// Tries the requested events. Fails if none of them can be recorded.
pub(super) fn try_requests(target: &Target, options: &Options, cpus: &[u32]) -> Result<Choice, RecordError> {
    let choice = Choice::try_all(target, options, cpus);
    if choice.chosen.is_empty() && !choice.refused.is_empty() {
        // If a process may not be observed at all, report that reason instead.
        if let Target::Processes(pids) = target
            && let Err(error) = sampling::open(&SampleTarget::Processes(pids.clone()), cpus, options, &choice)
        {
            return Err(refusal::explain(error, target));
        }
        return Err(RecordError::NoEvents(choice.refused));
    }
    Ok(choice)
}

/// Everything that is set up when the recording starts.
pub(super) struct Started {
    pub(super) agent: Option<AgentWatch>,
    /// The program, before its exec.
    pub(super) suspended: Option<Suspended>,
    /// The program's control group, if its events are limited to one.
    pub(super) group: Option<ProgramGroup>,
    pub(super) sample_target: SampleTarget,
    pub(super) cpu: CpuSampler,
    /// Why another sampler is used, if perf events are not permitted.
    pub(super) refused: Option<RecordingNote>,
}

impl Started {
    /// Gives up before the program has executed anything.
    pub(super) fn cancel(self) {
        if let Some(child) = self.suspended {
            child.cancel();
        }
    }
}

/// Opens events where the kernel permits them. Otherwise, a started program samples itself with timers, and
/// running processes are sampled with ptrace.
pub(super) fn begin(
    target: &Target,
    options: &Options,
    cpus: &[u32],
    choice: &Choice,
) -> Result<Started, RecordError> {
    let wanted = Wanted { heap: options.heap.clone(), cpu_period_ns: None, causal: options.causal.clone() };
    let needs_events = options.cpus.is_some() || options.user_only || !choice.chosen.is_empty();
    if options.cpu && matches!(options.sampler, SamplerChoice::Timer | SamplerChoice::Ptrace) {
        if needs_events {
            return Err(RecordError::Refused(
                "timer and ptrace sampling cannot select CPUs, events or user mode: -C, -e and --user-only need perf \
                 events (--sampler perf)"
                    .to_owned(),
            ));
        }
        return begin_without_events(target, options, wanted).map_err(|error| error.explained(target));
    }
    let open = |sample_target: &SampleTarget, _: Option<&AgentWatch>| {
        if !options.cpu {
            return Ok(CpuSampler::Off);
        }
        let sampled = sampling::open(sample_target, cpus, options, choice)?;
        Ok(CpuSampler::Events(Box::new(sampled)))
    };
    let group = (options.cpu && matches!(target, Target::Command(_)) && sampling::may_watch_cpus(cpus))
        .then(ProgramGroup::new)
        .flatten();
    let refused = match begin_with(target, wanted.clone(), group, open) {
        Err(NotStarted::Events(error)) => error,
        started => return started.map_err(|error| error.explained(target)),
    };
    let other_ways = match target {
        Target::Command(_) => true,
        Target::Processes(_) => options.heap.is_none(),
        Target::System { .. } => false,
    };
    let level = whyslow_proc::kernel::Settings::now().perf_event_paranoid;
    match refusal::reason(&refused, target, level) {
        Some(note) if other_ways && !needs_events && options.sampler == SamplerChoice::Auto => {
            match begin_without_events(target, options, wanted) {
                Ok(started) => Ok(Started { refused: Some(note), ..started }),
                Err(NotStarted::Other(error)) => Err(RecordError::Refused(format!(
                    "{}. {}: {error}",
                    refusal::explain(refused, target),
                    match target {
                        Target::Command(_) => "Timer sampling is not possible either",
                        _ => "Ptrace sampling is not possible either",
                    }
                ))),
                Err(error) => Err(error.explained(target)),
            }
        }
        _ => Err(refusal::explain(refused, target)),
    }
}

/// Starts timer or ptrace sampling.
fn begin_without_events(target: &Target, options: &Options, wanted: Wanted) -> Result<Started, NotStarted> {
    let by_ptrace = match (options.sampler, target) {
        (SamplerChoice::Timer, _) => false,
        (SamplerChoice::Ptrace, Target::Processes(_)) => true,
        (SamplerChoice::Ptrace, _) => {
            return Err(NotStarted::Other(RecordError::Refused(
                "ptrace sampling is only for running processes (-p PID); a program that whyslow starts can sample \
                 itself: --sampler timer"
                    .to_owned(),
            )));
        }
        (SamplerChoice::Auto | SamplerChoice::Perf, target) => matches!(target, Target::Processes(_)),
    };
    let hz = options.frequency_hz.max(1);
    if !by_ptrace {
        let wanted = Wanted { cpu_period_ns: Some(1_000_000_000 / u64::from(hz)), ..wanted };
        return begin_with(target, wanted, None, |_, agent| {
            Ok(agent
                .and_then(AgentWatch::sampling_hz)
                .map_or(CpuSampler::Off, |rate_hz| CpuSampler::Timers { rate_hz }))
        });
    }
    refusal::check_ptrace(target).map_err(NotStarted::Other)?;
    let rate_hz = hz.min(ptrace_sampling::MAX_HZ);
    begin_with(target, wanted, None, |_, _| Ok(CpuSampler::Ptrace { rate_hz }))
}

/// Why a recording could not start.
enum NotStarted {
    /// The kernel refuses events.
    Events(OpenError),
    /// The agent cannot be loaded, or a process cannot be stopped with ptrace.
    Other(RecordError),
    /// The program cannot be started.
    Program(RecordError),
}

impl NotStarted {
    fn explained(self, target: &Target) -> RecordError {
        match self {
            Self::Events(error) => refusal::explain(error, target),
            Self::Other(error) | Self::Program(error) => error,
        }
    }
}

fn begin_with(
    target: &Target,
    wanted: Wanted,
    group: Option<ProgramGroup>,
    open: impl FnOnce(&SampleTarget, Option<&AgentWatch>) -> Result<CpuSampler, OpenError>,
) -> Result<Started, NotStarted> {
    let needs_agent = !wanted.is_nothing();
    let agent =
        needs_agent.then(|| AgentWatch::start(wanted, target)).transpose().map_err(NotStarted::Other)?;
    let suspended = match target.command() {
        Some(command) => {
            let mut command = command.clone();
            command.env.extend(agent.iter().flat_map(AgentWatch::environment));
            Some(Suspended::new(&command, group.as_ref()).map_err(NotStarted::Program)?)
        }
        None => None,
    };
    let group = group.zip(suspended.as_ref()).and_then(|(group, child)| group.holding(child.pid));
    let sample_target = match (target, &suspended) {
        (Target::Command(_), Some(child)) => {
            SampleTarget::Child { pid: child.pid, group: group.as_ref().map(ProgramGroup::handle) }
        }
        (Target::Processes(pids), _) => SampleTarget::Processes(pids.clone()),
        _ => SampleTarget::Machine,
    };
    match open(&sample_target, agent.as_ref()) {
        Ok(cpu) => Ok(Started { agent, suspended, group, sample_target, cpu, refused: None }),
        Err(error) => {
            if let Some(child) = suspended {
                child.cancel();
            }
            Err(NotStarted::Events(error))
        }
    }
}
