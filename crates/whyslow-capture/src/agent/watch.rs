//! Loads the agent into the program, with the dynamic loader or at its exec.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use whyslow_agent_embed::{AGENT, SAMPLER};
use whyslow_agent_wire::SOCKET_VARIABLE;
use whyslow_agent_wire::handshake::Hello;
use whyslow_heap::{Batch, Collector, CpuLosses, CpuRecord, NoInspector, Outcome, PatchPlanner};
use whyslow_inject::{Entry, Injector, Planner, Purpose, entry_of};
use whyslow_proc::Mapping;
use whyslow_profile::Meta;

use super::arrivals::Arrivals;
use crate::heap::{Inspector, Snapshots};
use crate::launch::{Running, Suspended};
use crate::{HeapOptions, RecordError, Target};

/// What the agent should do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Record the heap.
    pub(crate) heap: Option<HeapOptions>,
    /// Sample CPU time with at least this period.
    pub(crate) cpu_period_ns: Option<u64>,
}

impl Wanted {
    /// Names what cannot be recorded without the agent.
    fn word(&self) -> &'static str {
        if self.heap.is_some() { "heap" } else { "CPU time" }
    }

    fn agent(&self) -> &'static [u8] {
        if self.heap.is_some() { AGENT } else { SAMPLER }
    }
}

/// A running collector, and how the program gets its agent.
#[derive(Debug)]
pub(crate) struct AgentWatch {
    collector: Collector,
    snapshots: Arc<Snapshots>,
    /// Programs that have started and libraries that were loaded.
    pub(super) arrivals: Arc<Arrivals>,
    pub(crate) wanted: Wanted,
    /// The program to start.
    program: String,
    inject: bool,
}

impl AgentWatch {
    /// Starts the collector, or says why the target cannot be recorded.
    pub(crate) fn start(wanted: Wanted, target: &Target) -> Result<Self, RecordError> {
        let Target::Command(command) = target else {
            let otherwise = if wanted.heap.is_none() {
                ", or stop its threads from outside: --sampler ptrace"
            } else {
                ""
            };
            return Err(RecordError::Refused(format!(
                "the {} of a running process cannot be recorded: start the program with whyslow{otherwise}",
                wanted.word()
            )));
        };
        // A file that is not a program is refused when it is started, with the usual message.
        let is_program = |path: &PathBuf| {
            std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        let entry = command.file().filter(is_program).map_or(Entry::Preload, |path| entry_of(&path));
        if let Entry::Impossible(why) = entry {
            return Err(RecordError::Refused(format!("the {} cannot be recorded: {why}", wanted.word())));
        }
        let snapshots = Arc::new(Snapshots::default());
        let arrivals = Arc::new(Arrivals::default());
        let writer = Arc::clone(&snapshots) as _;
        let cpu_period_ns = wanted.cpu_period_ns;
        let planner = planner(&wanted, &arrivals);
        let started = match &wanted.heap {
            Some(options) => {
                // The leak check at exit also finds the unused bytes of blocks that are still live.
                let leak_check = options.leak_check || options.unused;
                let config = HeapOptions { leak_check, cpu_period_ns, ..options.clone() };
                let inspector = Arc::new(Inspector { leaks: options.leak_check, unused: options.unused });
                Collector::start(config, wanted.agent(), planner, inspector, writer)
            }
            None => {
                let config = HeapOptions { cpu_period_ns, ..HeapOptions::default() };
                Collector::start(config, wanted.agent(), planner, Arc::new(NoInspector), writer)
            }
        };
        let collector = started.map_err(|error| RecordError::Refused(error.to_string()))?;
        let program = command.program.to_string_lossy().into_owned();
        Ok(Self { collector, snapshots, arrivals, wanted, program, inject: entry == Entry::Inject })
    }

    /// The environment variables that the program needs.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        self.collector.environment()
    }

    /// Starts the recording: from now on, other processes can request snapshots.
    pub(crate) fn begin(&self, meta: &Meta, start_ns: u64) {
        self.snapshots.begin(meta, start_ns);
    }

    /// Starts the program with the agent in it.
    pub(crate) fn enter(&mut self, child: Suspended) -> Result<Running, RecordError> {
        self.collector.expect(child.pid, &self.program);
        if !self.inject {
            return child.release();
        }
        let word = self.wanted.word();
        let refused = |error: whyslow_inject::InjectError| {
            RecordError::Refused(format!("the {word} of this static program cannot be recorded: {error}"))
        };
        let injector = match Injector::watch(child.pid) {
            Ok(injector) => injector,
            Err(error) => {
                child.cancel();
                return Err(refused(error));
            }
        };
        let running = child.release()?;
        let socket = self.environment().into_iter().find(|(name, _)| name == SOCKET_VARIABLE);
        let socket = socket.map_or_else(PathBuf::new, |(_, path)| path.into());
        injector.inject(self.wanted.agent(), &socket).map_err(|error| {
            running.kill();
            refused(error)
        })?;
        Ok(running)
    }

    /// Takes the new heap rows.
    pub(crate) fn take(&self) -> Batch {
        self.collector.take()
    }

    /// Takes the CPU samples that arrived since the last call.
    pub(super) fn take_cpu_samples(&self) -> Vec<CpuRecord> {
        self.collector.take_cpu_samples()
    }

    /// Samples per second of a thread's CPU time; `None` if the agent does not sample.
    pub(crate) fn sampling_hz(&self) -> Option<u32> {
        let wish = self.wanted.cpu_period_ns?;
        let period = wish.max(whyslow_proc::kernel::tick_ns()).max(1);
        Some((1_000_000_000 / period) as u32)
    }

    /// The losses of CPU samples.
    pub(crate) fn cpu_losses(&self) -> CpuLosses {
        self.collector.cpu_losses()
    }

    /// Stops the collector and returns the rest.
    pub(crate) fn finish(self) -> Outcome {
        self.collector.finish()
    }
}

/// Plans the patches that a program's code needs, and notes the programs that are sampled.
fn planner(wanted: &Wanted, arrivals: &Arc<Arrivals>) -> Box<dyn PatchPlanner> {
    let purpose = Purpose { heap: wanted.heap.is_some(), samples: wanted.cpu_period_ns.is_some() };
    let (arrivals, planner) = (Arc::clone(arrivals), Planner::new(purpose));
    Box::new(move |hello: &Hello, pid: u32| {
        let mappings = Mapping::all_of(pid);
        if purpose.samples {
            arrivals.add(hello, pid, mappings.as_deref().unwrap_or_default());
        }
        planner.plan(hello, pid, mappings)
    })
}
