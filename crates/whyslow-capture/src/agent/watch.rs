//! Loads the agent into the program, with the dynamic loader or at its exec.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use whyslow_agent_embed::{AGENT, CAUSAL, SAMPLER};
use whyslow_agent_host::{
    AgentHost, Clock, Experiments, Finished, PatchPlanner, Purpose, Samples, SubjectSlot,
};
use whyslow_agent_wire::handshake::Hello;
use whyslow_agent_wire::purpose::{Purpose as Kind, Purposes};
use whyslow_heap::Accounting;
use whyslow_inject::{Entry, Injector, Planner, entry_of};
use whyslow_numbers::Start;
use whyslow_proc::Mapping;
use whyslow_profile::Meta;

use super::arrivals::Arrivals;
use crate::causal::RunSlot;
use crate::heap::{Inspector, Snapshots};
use crate::launch::{Running, Suspended};
use crate::{CausalOptions, HeapOptions, RecordError, Target};

/// What the agent should do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Record the heap.
    pub(crate) heap: Option<HeapOptions>,
    /// Sample CPU time with at least this period.
    pub(crate) cpu_period_ns: Option<u64>,
    /// Delay threads in experiments.
    pub(crate) causal: Option<CausalOptions>,
}

impl Wanted {
    /// Whether no agent is needed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.kinds() == Purposes::NONE
    }

    /// The agent's purposes.
    fn kinds(&self) -> Purposes {
        let heap = self.heap.as_ref().map(|_| Kind::Heap);
        let samples = self.cpu_period_ns.map(|_| Kind::Samples);
        let causal = self.causal.as_ref().map(|_| Kind::Causal);
        heap.into_iter().chain(samples).chain(causal).fold(Purposes::NONE, Purposes::and)
    }

    /// What counts and reads for them.
    fn purposes(
        &self,
        clock: Clock,
        snapshots: &Arc<Snapshots>,
        subject: &SubjectSlot,
        whole_run: &RunSlot,
    ) -> Vec<Box<dyn Purpose>> {
        let mut purposes: Vec<Box<dyn Purpose>> = Vec::new();
        if let Some(options) = &self.heap {
            // The leak check at exit also finds the unused bytes of blocks that are still live.
            let leak_check = options.leak_check || options.unused;
            let config = HeapOptions { leak_check, ..options.clone() };
            let inspector = Arc::new(Inspector { leaks: options.leak_check, unused: options.unused });
            purposes.push(Box::new(Accounting::new(config, clock, inspector, Arc::clone(snapshots) as _)));
        }
        purposes.extend(self.cpu_period_ns.map(|period| Box::new(Samples::new(period)) as _));
        purposes.extend(self.causal.as_ref().map(|options| {
            let period_ns = options.period.as_nanos() as u64;
            let (subject, on_start) = (Arc::clone(subject), whole_run.on_start(options, clock));
            Box::new(Experiments::new(clock, period_ns, options.point_names(), subject, on_start)) as _
        }));
        purposes
    }

    /// Names what cannot be recorded without the agent.
    fn word(&self) -> &'static str {
        match self {
            Self { heap: Some(_), .. } => "heap",
            Self { causal: Some(_), .. } => "effect of faster code",
            _ => "CPU time",
        }
    }

    /// The agent's file: the loader resolves the allocator's functions to the one that records the heap, and coz's to the
    /// one for experiments.
    fn agent(&self) -> &'static [u8] {
        match self {
            Self { heap: Some(_), .. } => AGENT,
            Self { causal: Some(_), .. } => CAUSAL,
            _ => SAMPLER,
        }
    }
}

/// The running host, and how the program gets its agent.
#[derive(Debug)]
pub(crate) struct AgentWatch {
    host: AgentHost,
    snapshots: Arc<Snapshots>,
    arrivals: Arc<Arrivals>,
    /// The program that is experimented on.
    subject: SubjectSlot,
    /// Its run, if that is one experiment.
    whole_run: RunSlot,
    wanted: Wanted,
    /// The program to start.
    program: String,
    inject: bool,
}

impl AgentWatch {
    /// Starts the host, or says why the target cannot be recorded.
    pub(crate) fn start(wanted: Wanted, target: &Target) -> Result<Self, RecordError> {
        let Target::Command(command) = target else {
            let otherwise = if wanted.heap.is_none() && wanted.causal.is_none() {
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
        let (subject, whole_run) = (SubjectSlot::default(), RunSlot::default());
        let clock = Clock::start();
        let planner = planner(&wanted, &arrivals);
        let purposes = wanted.purposes(clock, &snapshots, &subject, &whole_run);
        let host = AgentHost::start(clock, wanted.agent(), planner, purposes)
            .map_err(|error| RecordError::Refused(error.to_string()))?;
        let program = command.program.to_string_lossy().into_owned();
        let inject = entry == Entry::Inject;
        Ok(Self { host, snapshots, arrivals, subject, whole_run, wanted, program, inject })
    }

    /// The environment variables that the program needs.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        self.host.environment()
    }

    /// Starts the recording: from now on, other processes can request snapshots.
    pub(crate) fn begin(&self, meta: &Meta, start: Start) {
        self.snapshots.begin(meta, start);
    }

    /// Starts the program with the agent in it.
    pub(crate) fn enter(&mut self, child: Suspended) -> Result<Running, RecordError> {
        self.host.expect(child.pid, &self.program);
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
        injector.inject(self.wanted.agent(), &self.host.socket()).map_err(|error| {
            running.kill();
            refused(error)
        })?;
        Ok(running)
    }

    /// The host.
    pub(crate) fn host(&self) -> &AgentHost {
        &self.host
    }

    /// What the agent is for.
    pub(crate) fn purposes(&self) -> Purposes {
        self.wanted.kinds()
    }

    /// Programs that have started and libraries that were loaded.
    pub(crate) fn arrivals(&self) -> Arc<Arrivals> {
        Arc::clone(&self.arrivals)
    }

    /// Where the program that is experimented on is found.
    pub(crate) fn subject(&self) -> SubjectSlot {
        Arc::clone(&self.subject)
    }

    /// Where its run is found, if that is one experiment.
    pub(crate) fn whole_run(&self) -> RunSlot {
        self.whole_run.clone()
    }

    /// Samples per second of a thread's CPU time; `None` if the agent does not sample.
    pub(crate) fn sampling_hz(&self) -> Option<u32> {
        let wish = self.wanted.cpu_period_ns?;
        let period = wish.max(whyslow_proc::kernel::tick_ns()).max(1);
        Some((1_000_000_000 / period) as u32)
    }

    /// Switches the agents off and reads the rest.
    pub(crate) fn finish(self) -> Finished {
        self.host.finish()
    }
}

/// Plans the patches that a program's code needs, and notes the programs that are sampled.
fn planner(wanted: &Wanted, arrivals: &Arc<Arrivals>) -> Box<dyn PatchPlanner> {
    let purposes = wanted.kinds();
    let points = wanted.causal.as_ref().map(CausalOptions::point_places).unwrap_or_default();
    let (arrivals, planner) = (Arc::clone(arrivals), Planner::new(purposes).with_points(points));
    Box::new(move |hello: &Hello, pid: u32| {
        let mappings = Mapping::all_of(pid);
        if purposes.has(Kind::Samples) {
            arrivals.add(hello, pid, mappings.as_deref().unwrap_or_default());
        }
        planner.plan(hello, pid, mappings)
    })
}
