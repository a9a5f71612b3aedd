//! Opening the events of a recording: of whole CPUs where that is allowed, else of the recorded threads.

use whyslow_profile::Sampling;

use crate::ours::Ours;
use crate::perf::{Bound, Events, OpenError, Plan, Scope};
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
}

/// Events of CPUs take a sample of whatever runs, so that a share does not depend on how long threads live; the kernel allows them
/// to root and at `perf_event_paranoid` 0. They see all processes: those that are not recorded are left out here, and cost an
/// interrupt per sample each.
pub(crate) fn open(whom: &Whom, cpus: &[u32], options: &Options) -> Result<Sampled, OpenError> {
    let plan = |bound| Plan {
        cycles: true,
        precise: 0,
        kernel: !options.user_only,
        frequency_hz: options.frequency_hz,
        stack_bytes: 0,
        bound,
    };
    let refused = match Events::open(&Scope::System, cpus, plan(Bound::Cpu), options.stack_bytes, &[]) {
        Ok(events) => {
            let ours = match whom {
                Whom::Child(child) => Ours::from_exec_of(*child),
                Whom::Processes(processes) => Ours::from_now_on(processes),
                Whom::Machine => Ours::Machine { recorder: std::process::id() },
            };
            return Ok(Sampled { events, ours, sampling: Sampling::Cpus, on_exec: false });
        }
        Err(error) => error,
    };
    let (threads, on_exec) = match whom {
        Whom::Machine => return Err(refused),
        Whom::Child(child) => (vec![*child], true),
        Whom::Processes(processes) => {
            host::raise_file_limit();
            (
                processes
                    .iter()
                    .flat_map(|pid| whyslow_proc::process::threads(*pid).unwrap_or_default())
                    .collect(),
                false,
            )
        }
    };
    let bound = Bound::Thread { enable_on_exec: on_exec };
    let events = Events::open(&Scope::Threads(threads), cpus, plan(bound), options.stack_bytes, &[])?;
    Ok(Sampled { events, ours: Ours::Chosen, sampling: Sampling::Threads, on_exec })
}
