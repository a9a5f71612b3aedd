//! Opening the events of a recording: of whole CPUs where that is allowed, else of the recorded threads.

use whyslow_profile::Sampling;

use crate::ours::Ours;
use crate::perf::{self, Beside, Bound, Events, OpenError, Plan, Scope};
use crate::{Options, host};

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
    /// Whether threads that leave their CPU have samples; else only when they leave and come back is told.
    pub(crate) leaving: bool,
}

/// Events of CPUs take a sample of whatever runs, so that a share does not depend on how long threads live; the kernel allows them
/// to root and at `perf_event_paranoid` 0. They see all processes: those that are not recorded are left out here, and cost an
/// interrupt per sample each. Where threads leave their CPUs is asked of those that are recorded only.
pub(crate) fn open(whom: &Whom, cpus: &[u32], options: &Options) -> Result<Sampled, OpenError> {
    let plan = |bound| Plan {
        cycles: true,
        precise: 0,
        kernel: !options.user_only,
        frequency_hz: options.frequency_hz,
        stack_bytes: 0,
        bound,
    };
    let leaving = |scope: &Scope, bound: Bound, tells_switches: bool| {
        let beside = Beside { attr: perf::leaving(bound, tells_switches), scope: scope.clone() };
        if options.off_cpu { vec![beside] } else { Vec::new() }
    };
    let (scope, bound) = whom.scope();
    let beside = leaving(&scope, bound, true);
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
                leaving: options.off_cpu,
            });
        }
        Err(error) => error,
    };
    let Bound::Thread { enable_on_exec: on_exec } = bound else { return Err(refused) };
    // Where the kernel may not be observed there are no samples of leaving, which happens there.
    let beside = leaving(&scope, bound, false);
    let (events, leaving) = match Events::open(&scope, cpus, plan(bound), options.stack_bytes, &beside) {
        Ok(events) if !options.off_cpu || events.plan.kernel => (events, options.off_cpu),
        Ok(_) | Err(OpenError::Denied(_)) if options.off_cpu => {
            (Events::open(&scope, cpus, plan(bound), options.stack_bytes, &[])?, false)
        }
        other => (other?, false),
    };
    Ok(Sampled { events, ours: Ours::Chosen, sampling: Sampling::Threads, on_exec, leaving })
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
