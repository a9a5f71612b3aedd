//! Opening the events of a recording: of whole CPUs where that is allowed, else of the recorded threads.

use whyslow_convert::perf::{CallEvent, Role};
use whyslow_profile::{NoSyscalls, Sampling};

use crate::chosen::Choice;
use crate::ours::Ours;
use crate::perf::{self, Beside, Bound, CALL_EVENTS, CallPoints, Events, OpenError, Plan, Scope};
use crate::{Options, calls, host};

/// Whom to sample.
#[derive(Debug, Clone)]
pub(crate) enum Whom {
    /// A child that waits to execute its program.
    Child(u32),
    /// Running processes, by number.
    Processes(Vec<u32>),
    /// All.
    Machine,
}

/// Open events, and which of their records are ours.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub(crate) events: Events,
    pub(crate) ours: Ours,
    pub(crate) sampling: Sampling,
    /// Whether they begin by themselves when the child executes its program.
    pub(crate) on_exec: bool,
    /// What the events beside the main one tell; those that were asked for come after them.
    pub(crate) beside: Vec<Role>,
    /// Why system calls are not recorded, if they should be.
    pub(crate) no_calls: Option<NoSyscalls>,
}

impl Sampled {
    /// Whether threads that leave their CPU have samples; else only when they leave and come back is told.
    pub(crate) fn has_leaving(&self) -> bool {
        self.beside.contains(&Role::Leaves)
    }

    /// Whether it is told who ends waits.
    pub(crate) fn has_waking(&self) -> bool {
        self.beside.iter().any(|role| matches!(role, Role::Wakes { .. }))
    }

    /// Whether system calls are told.
    pub(crate) fn has_calls(&self) -> bool {
        self.beside.iter().any(|role| matches!(role, Role::Calls(_)))
    }
}

/// Opens the events. Where those of system calls are refused, the others are opened without them.
pub(crate) fn open(
    whom: &Whom,
    cpus: &[u32],
    options: &Options,
    choice: &Choice,
) -> Result<Sampled, OpenError> {
    let no_calls = match options.syscalls.then(calls::points) {
        Some(Ok(points)) => match open_with(whom, cpus, options, choice, Some(points)) {
            Err(OpenError::Denied(error) | OpenError::Unsupported(error)) => {
                Some(NoSyscalls::Refused { error: error.raw_os_error().unwrap_or(0) })
            }
            opened => return opened,
        },
        Some(Err(why)) => Some(why),
        None => None,
    };
    let sampled = open_with(whom, cpus, options, choice, None)?;
    Ok(Sampled { no_calls, ..sampled })
}

/// Events of CPUs take a sample of whatever runs, so that a share does not depend on how long threads live; the kernel allows them
/// to root and at `perf_event_paranoid` 0. They see all processes: those that are not recorded are left out here, and cost an
/// interrupt per sample each. Where threads leave their CPUs is asked of those that are recorded only.
///
/// The events of `choice` come after all others.
fn open_with(
    whom: &Whom,
    cpus: &[u32],
    options: &Options,
    choice: &Choice,
    points: Option<CallPoints>,
) -> Result<Sampled, OpenError> {
    let plan = |bound| Plan {
        cycles: true,
        precise: 0,
        kernel: !options.user_only,
        frequency_hz: options.frequency_hz,
        stack_bytes: 0,
        bound,
    };
    let (scope, bound) = whom.scope();
    if !choice.chosen.is_empty() {
        host::raise_file_limit();
    }
    let leaving =
        options.off_cpu.then(|| (Role::Leaves, Beside::in_same_ring(perf::leaving(bound), scope.clone())));
    let waking = if options.off_cpu { waking(options.wakers.then_some((&scope, bound))) } else { Vec::new() };
    let calls = points.map_or_else(Vec::new, |points| calling(points, &scope, bound));
    let (roles, mut beside): (Vec<Role>, Vec<Beside>) =
        leaving.clone().into_iter().chain(waking).chain(calls.clone()).unzip();
    beside.extend(choice.beside((&scope, bound), (&Scope::System, Bound::Cpu)));
    let refused = match Events::open(&Scope::System, cpus, plan(Bound::Cpu), options.stack_bytes, &beside) {
        Ok(events) => {
            let ours = match whom {
                Whom::Child(child) => Ours::from_exec_of(*child),
                Whom::Processes(processes) => Ours::from_now_on(processes),
                Whom::Machine => Ours::Machine { recorder: std::process::id() },
            };
            return Ok(Sampled {
                events,
                ours,
                sampling: Sampling::Cpus,
                on_exec: false,
                beside: roles,
                no_calls: None,
            });
        }
        Err(error) => error,
    };
    let Bound::Thread { enable_on_exec: on_exec } = bound else { return Err(refused) };
    // Where the kernel may not be observed there are no samples of leaving, which happens there.
    let chosen = choice.beside((&scope, bound), (&scope, bound));
    let (roles, mut beside): (Vec<Role>, Vec<Beside>) = leaving.into_iter().chain(calls).unzip();
    beside.extend(chosen.iter().cloned());
    let (events, roles) = match Events::open(&scope, cpus, plan(bound), options.stack_bytes, &beside) {
        Ok(events) if !options.off_cpu || events.plan.kernel => (events, roles),
        Ok(_) | Err(OpenError::Denied(_)) if options.off_cpu => {
            (Events::open(&scope, cpus, plan(bound), options.stack_bytes, &chosen)?, Vec::new())
        }
        other => (other?, Vec::new()),
    };
    Ok(Sampled {
        events,
        ours: Ours::Chosen,
        sampling: Sampling::Threads,
        on_exec,
        beside: roles,
        no_calls: None,
    })
}

/// System calls of these threads.
fn calling(points: CallPoints, scope: &Scope, bound: Bound) -> Vec<(Role, Beside)> {
    let calling = CALL_EVENTS.map(|event| {
        let beside = Beside::in_same_ring(perf::call_attr(points, bound, event), scope.clone());
        let rationed = event == CallEvent::EnterWithStack;
        (Role::Calls(event), Beside { rationed, ..beside })
    });
    calling.into()
}

/// Who ends waits: told by whoever runs there, which can be anybody, and so without stacks, which would fill the rings; and once more with
/// the stack by those threads that are asked for. Nothing where the kernel does not show its tracepoints.
fn waking(with_stacks: Option<(&Scope, Bound)>) -> Vec<(Role, Beside)> {
    let machine = whyslow_events::Machine::this();
    let (subsystem, name) = ("sched", "sched_waking");
    let id =
        machine.event(&format!("{subsystem}:{name}")).and_then(|event| Some(event.attrs.first()?.configs[0]));
    let (Some(id), Some(tid_at)) = (id, machine.field_of_tracepoint(subsystem, name, "pid")) else {
        return Vec::new();
    };
    let wakes = |with_stack, scope: &Scope, bound| {
        let beside = Beside::in_same_ring(perf::waking(bound, id, with_stack), scope.clone());
        (Role::Wakes { tid_at, with_stack }, beside)
    };
    let everybody = wakes(false, &Scope::System, Bound::Cpu);
    let ours = with_stacks.map(|(scope, bound)| wakes(true, scope, bound));
    std::iter::once(everybody).chain(ours).collect()
}

impl Whom {
    /// Their threads, and what events are bound to that see nobody else.
    fn scope(&self) -> (Scope, Bound) {
        let bound = |enable_on_exec| Bound::Thread { enable_on_exec };
        match self {
            Self::Machine => (Scope::System, Bound::Cpu),
            Self::Child(child) => (Scope::Threads(vec![*child]), bound(true)),
            Self::Processes(processes) => {
                host::raise_file_limit();
                let threads = |pid: &u32| whyslow_proc::process::threads(*pid).unwrap_or_default();
                (Scope::Threads(processes.iter().flat_map(threads).collect()), bound(false))
            }
        }
    }
}
