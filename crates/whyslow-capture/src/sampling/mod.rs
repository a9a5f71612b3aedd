//! Opens the events of a recording: per CPU where that is permitted, otherwise per recorded thread.

mod source;

use std::fs::File;
use std::sync::Arc;

use whyslow_convert::perf::CallEvent;
use whyslow_profile::{NoSyscalls, Sampling};

use crate::chosen::Choice;
use crate::perf::{
    self, Bound, CALL_EVENTS, CallPoints, EventRole, Events, ExtraEvent, OpenError, Plan, RingKind, Scope,
};
use crate::recorded_processes::RecordedProcesses;
use crate::{Options, calls, host};
pub(crate) use source::EventSource;

/// What to sample.
#[derive(Debug, Clone)]
pub(crate) enum SampleTarget {
    /// A child that waits to execute its program.
    Child {
        /// Its process number.
        pid: u32,
        /// The folder of its control group, if it has one of its own.
        group: Option<Arc<File>>,
    },
    /// Running processes, by number.
    Processes(Vec<u32>),
    /// Everything on the machine.
    Machine,
}

/// Open events, and which processes' records to take from them.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub(crate) events: Events,
    pub(crate) recorded: RecordedProcesses,
    pub(crate) sampling: Sampling,
    /// Whether the child's exec enables them.
    pub(crate) on_exec: bool,
    /// Why requested system calls are not recorded, if they are not.
    pub(crate) no_calls: Option<NoSyscalls>,
}

impl Sampled {
    /// Whether there are samples of threads leaving their CPU. Otherwise only the times of the switches are
    /// known.
    pub(crate) fn has_leaving(&self) -> bool {
        self.events.has(|role| role == EventRole::Leaves)
    }

    /// Whether records show who ends waits.
    pub(crate) fn has_waking(&self) -> bool {
        self.events.has(|role| matches!(role, EventRole::Wakes { .. }))
    }

    /// Whether system calls are recorded.
    pub(crate) fn has_calls(&self) -> bool {
        self.events.has(|role| matches!(role, EventRole::Calls(_)))
    }
}

/// Whether the kernel permits events that see whatever runs on a CPU.
pub(crate) fn may_watch_cpus(cpus: &[u32]) -> bool {
    let plan =
        Plan { cycles: false, precise: 0, kernel: false, frequency_hz: 1, stack_bytes: 0, bound: Bound::Cpu };
    let clock = ExtraEvent::in_main_ring(EventRole::CpuTime, perf::extra_event_attr(plan), Scope::System);
    perf::try_open(&[clock], cpus).is_ok()
}

/// Opens the events. If those of the program's control group are refused, opens those of whole CPUs.
pub(crate) fn open(
    target: &SampleTarget,
    cpus: &[u32],
    options: &Options,
    choice: &Choice,
) -> Result<Sampled, OpenError> {
    if let SampleTarget::Child { pid, group: Some(_) } = target {
        match open_any(target, cpus, options, choice) {
            Ok(sampled) if sampled.sampling == Sampling::Cpus => return Ok(sampled),
            _ => return open_any(&SampleTarget::child(*pid), cpus, options, choice),
        }
    }
    open_any(target, cpus, options, choice)
}

/// If the events of system calls are refused, opens the others without them.
fn open_any(
    target: &SampleTarget,
    cpus: &[u32],
    options: &Options,
    choice: &Choice,
) -> Result<Sampled, OpenError> {
    let no_calls = match options.syscalls.then(calls::points) {
        Some(Ok(points)) => match open_with(target, cpus, options, choice, Some(points)) {
            Err(OpenError::Denied(error) | OpenError::Unsupported(error)) => {
                Some(NoSyscalls::Refused { error: error.raw_os_error().unwrap_or(0) })
            }
            opened => return opened,
        },
        Some(Err(why)) => Some(why),
        None => None,
    };
    let sampled = open_with(target, cpus, options, choice, None)?;
    Ok(Sampled { no_calls, ..sampled })
}

/// CPU-wide events sample whatever runs, so a thread's share does not depend on how long it lives. The kernel
/// permits them to root and at `perf_event_paranoid` 0. If the program has a control group, the kernel limits
/// them to it. Otherwise they see all processes: those that are not recorded are filtered out here, at the
/// cost of one interrupt per sample. Samples of threads leaving their CPU are requested for recorded threads
/// only.
fn open_with(
    target: &SampleTarget,
    cpus: &[u32],
    options: &Options,
    choice: &Choice,
    points: Option<CallPoints>,
) -> Result<Sampled, OpenError> {
    let group = match target {
        SampleTarget::Child { group: Some(group), .. } => Some(Scope::Group(Arc::clone(group))),
        _ => None,
    };
    let whole = group.unwrap_or(Scope::System);
    let plan = |bound| Plan {
        cycles: true,
        precise: 0,
        kernel: !options.user_only,
        frequency_hz: options.frequency_hz,
        stack_bytes: 0,
        bound,
    };
    let (scope, bound) = target.scope();
    if !choice.chosen.is_empty() {
        host::raise_file_limit();
    }
    let leaving = options
        .off_cpu
        .then(|| ExtraEvent::in_main_ring(EventRole::Leaves, perf::leaving(bound), scope.clone()));
    let waking = if options.off_cpu { waking(options.wakers.then_some((&scope, bound))) } else { Vec::new() };
    let calls = points.map_or_else(Vec::new, |points| calling(points, &scope, bound));
    let requested = choice.extra_events((&scope, bound), (&whole, Bound::Cpu));
    let extra = leaving.clone().into_iter().chain(waking).chain(calls.clone()).chain(requested);
    let extra: Vec<ExtraEvent> = extra.collect();
    let refused = match Events::open(&whole, cpus, plan(Bound::Cpu), options.stack_bytes, &extra) {
        Ok(events) => {
            let recorded = match target {
                SampleTarget::Child { pid, .. } => RecordedProcesses::from_exec_of(*pid),
                SampleTarget::Processes(processes) => RecordedProcesses::from_now_on(processes),
                SampleTarget::Machine => RecordedProcesses::Machine { recorder: std::process::id() },
            };
            return Ok(Sampled {
                events,
                recorded,
                sampling: Sampling::Cpus,
                on_exec: false,
                no_calls: None,
            });
        }
        Err(error) => error,
    };
    let Bound::Thread { enable_on_exec: on_exec } = bound else { return Err(refused) };
    // Threads leave their CPU in the kernel, so without permission for kernel mode there are no such samples.
    let requested = choice.extra_events((&scope, bound), (&scope, bound));
    let extra: Vec<ExtraEvent> = leaving.into_iter().chain(calls).chain(requested.iter().cloned()).collect();
    let events = match Events::open(&scope, cpus, plan(bound), options.stack_bytes, &extra) {
        Ok(events) if !options.off_cpu || events.plan.kernel => events,
        Ok(_) | Err(OpenError::Denied(_)) if options.off_cpu => {
            Events::open(&scope, cpus, plan(bound), options.stack_bytes, &requested)?
        }
        other => other?,
    };
    Ok(Sampled {
        events,
        recorded: RecordedProcesses::Chosen,
        sampling: Sampling::Threads,
        on_exec,
        no_calls: None,
    })
}

/// The system call events of these threads.
fn calling(points: CallPoints, scope: &Scope, bound: Bound) -> Vec<ExtraEvent> {
    let calling = CALL_EVENTS.map(|event| {
        let attr = perf::call_attr(points, bound, event);
        let in_main_ring = ExtraEvent::in_main_ring(EventRole::Calls(event), attr, scope.clone());
        match event {
            CallEvent::EnterWithStack => ExtraEvent { ring: RingKind::Rationed, ..in_main_ring },
            _ => in_main_ring,
        }
    });
    calling.into()
}

/// The wakeup events. One is system-wide, since any thread may wake a recorded one; it has no stacks, which
/// would fill the rings. A second one with stacks covers the given threads. Empty if the kernel does not
/// expose its tracepoints.
fn waking(with_stacks: Option<(&Scope, Bound)>) -> Vec<ExtraEvent> {
    let machine = whyslow_events::Machine::this();
    let (subsystem, name) = ("sched", "sched_waking");
    let id =
        machine.event(&format!("{subsystem}:{name}")).and_then(|event| Some(event.attrs.first()?.configs[0]));
    let (Some(id), Some(tid_at)) = (id, machine.field_of_tracepoint(subsystem, name, "pid")) else {
        return Vec::new();
    };
    let wakes = |with_stack, scope: &Scope, bound| {
        let role = EventRole::Wakes { tid_at, with_stack };
        ExtraEvent::in_main_ring(role, perf::waking(bound, id, with_stack), scope.clone())
    };
    let system_wide = wakes(false, &Scope::System, Bound::Cpu);
    let stacks = with_stacks.map(|(scope, bound)| wakes(true, scope, bound));
    std::iter::once(system_wide).chain(stacks).collect()
}

impl SampleTarget {
    /// A child without a control group of its own.
    pub(crate) fn child(pid: u32) -> Self {
        Self::Child { pid, group: None }
    }

    /// Its threads, and how to bind events that see only those.
    fn scope(&self) -> (Scope, Bound) {
        let bound = |enable_on_exec| Bound::Thread { enable_on_exec };
        match self {
            Self::Machine => (Scope::System, Bound::Cpu),
            Self::Child { pid, .. } => (Scope::Threads(vec![*pid]), bound(true)),
            Self::Processes(processes) => {
                host::raise_file_limit();
                let threads = |pid: &u32| whyslow_proc::process::threads(*pid).unwrap_or_default();
                (Scope::Threads(processes.iter().flat_map(threads).collect()), bound(false))
            }
        }
    }
}
