//! Live recording on Linux: perf events, ring buffers, the life cycle of the recorded program.

#[cfg(feature = "heap")]
mod agent;
#[cfg(not(feature = "heap"))]
#[path = "no_agent.rs"]
mod agent;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod calls;
mod chosen;
mod counting;
#[cfg(feature = "heap")]
mod heap;
#[cfg(not(feature = "heap"))]
#[path = "no_heap.rs"]
mod heap;
mod host;
mod launch;
mod live;
mod looks;
mod mappings;
mod marks;
mod ours;
mod output;
mod pace;
mod perf;
mod queues;
mod reach;
mod refusal;
mod sampling;
mod session;
mod signals;
mod subject;
mod timing;
mod trial;
mod waiting;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

pub use chosen::{NotRecorded, Probe, WantedSamples};
pub use counting::{CountOptions, Counted, WantedEvent, count, try_events};
#[cfg(not(feature = "heap"))]
pub use heap::HeapOptions;
pub use timing::{Input, RunEnd, Stopwatch, TimedCommand, TimedRun, Written};
pub use trial::{Granted, Refused, Trial, trial};
use whyslow_elf::FileBytes;
#[cfg(feature = "heap")]
pub use whyslow_heap::Config as HeapOptions;
use whyslow_profile::file::Writer;
use whyslow_profile::{ExitStatus, Meta, ModuleId};

/// This machine, as recordings describe it.
pub fn this_host() -> whyslow_profile::Host {
    host::describe(whyslow_proc::machine::allowed_cpus(std::process::id()).len())
}

/// What to record.
#[derive(Debug, Clone)]
pub enum Target {
    /// Start this program and record it with all its threads and children.
    Command(Command),
    /// Record running processes (and the children they make) until they have ended or the recording is stopped. The number
    /// of a thread stands for its process.
    Processes(Vec<u32>),
    /// Record everything on the machine.
    System {
        /// Start this program, and record until it ends; otherwise until the recording is stopped.
        while_runs: Option<Command>,
    },
}

/// A program to start. Everything not set is inherited from the recorder.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The program: a path, or a name to look up in PATH.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables to set on top of the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// The working folder, when it is another.
    pub folder: Option<PathBuf>,
    /// Whether what it prints is thrown away: its standard output, and not its errors.
    pub silent: bool,
}

impl Command {
    /// The file that the system would execute.
    pub fn file(&self) -> Option<PathBuf> {
        let program = Path::new(&self.program);
        let in_folder = |path: &Path| match &self.folder {
            Some(folder) => folder.join(path),
            None => path.to_owned(),
        };
        if self.program.as_encoded_bytes().contains(&b'/') {
            return Some(in_folder(program));
        }
        let set = self.env.iter().rev().find(|(name, _)| name == OsStr::new("PATH"));
        let path = set.map(|(_, value)| value.clone()).or_else(|| std::env::var_os("PATH"))?;
        let is_executable =
            |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
        std::env::split_paths(&path).map(|folder| in_folder(&folder.join(program))).find(is_executable)
    }
}

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// Samples per second of CPU time.
    pub frequency_hz: u32,
    /// Bytes of stack copied with each sample; `None` chooses by the size of the rings.
    pub stack_bytes: Option<u32>,
    /// Stop after this time (attached and system-wide recordings, or to end early).
    pub duration: Option<std::time::Duration>,
    /// Record what runs on these CPUs only.
    pub cpus: Option<Vec<u32>>,
    /// Leave out the kernel even where it could be recorded.
    pub user_only: bool,
    /// Sample CPU time.
    pub cpu: bool,
    /// What samples it.
    pub sampler: SamplerChoice,
    /// Record where threads wait, and how long.
    pub off_cpu: bool,
    /// Record where those are that end waits.
    pub wakers: bool,
    /// Events to record beside CPU time, each as a metric of its own.
    pub events: Vec<WantedSamples>,
    /// Events that were asked for and of which it is known already that they cannot be had.
    pub events_not_there: Vec<NotRecorded>,
    /// Record system calls.
    pub syscalls: bool,
    /// Record the heap too.
    pub heap: Option<HeapOptions>,
    /// Work that can be done while the program runs, on a thread that lets everyone else go first.
    pub meanwhile: Option<fn()>,
}

/// What samples CPU time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum SamplerChoice {
    /// The kernel where it allows that, else the program itself.
    #[default]
    Auto,
    /// The kernel's perf events.
    Perf,
    /// Timers in the program.
    Timer,
    /// Looks from the outside at processes that run already, each of which stops a thread for a moment.
    Ptrace,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            frequency_hz: 997,
            stack_bytes: None,
            duration: None,
            cpus: None,
            user_only: false,
            cpu: true,
            sampler: SamplerChoice::Auto,
            off_cpu: false,
            wakers: false,
            events: Vec::new(),
            events_not_there: Vec::new(),
            syscalls: false,
            heap: None,
            meanwhile: None,
        }
    }
}

/// A finished recording: its raw part is on disk, symbols and the seal are missing.
#[derive(Debug)]
pub struct Recording {
    /// Where it is.
    pub path: PathBuf,
    /// The open file.
    pub writer: Writer,
    /// What is known about it; already written.
    pub meta: Meta,
    /// How the program ended; `None` when it still runs.
    pub exit: Option<ExitStatus>,
    /// The files whose code ran: with them symbols can be looked up although a name leads nowhere or elsewhere by now.
    pub files: Vec<(ModuleId, FileBytes)>,
    /// The first error in writing, if any. The file holds what was recorded before it.
    pub write_error: Option<io::Error>,
    /// The profile that had this name before and was moved aside.
    pub moved_aside: Option<PathBuf>,
    /// Signals stay held back until the profile is finished: an impatient second Ctrl-C must not cost it.
    _signals: signals::Signals,
}

/// Why a recording could not be made. `Display` says what happened, why, and what to try.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program does not exist (exit code 127).
    #[error("{program}: not found")]
    NotFound {
        /// As it was given.
        program: String,
    },
    /// The program exists but cannot be started (exit code 126).
    #[error("{program}: cannot be started: {reason}")]
    NotExecutable {
        /// As it was given.
        program: String,
        /// Why.
        reason: String,
    },
    /// The kernel refuses perf events.
    #[error("{0}")]
    Refused(String),
    /// None of the events that were asked for can be recorded.
    #[error("none of the events that were asked for can be recorded")]
    NoEvents(Vec<NotRecorded>),
    /// The profile cannot be written.
    #[error("{}: cannot be written: {error}", path.display())]
    Output {
        /// Where it should have gone.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// What the program is to read cannot be opened.
    #[error("{}: cannot be read: {error}", path.display())]
    Input {
        /// Where it should have come from.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Anything else the system refused.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// Records until the program or the processes end, a stop signal comes (where there is no program to get it), or the duration is
/// over, streaming to `output`. SIGINT from the terminal reaches the program by itself; signals
/// sent to the recorder alone are passed on.
pub fn record(target: &Target, options: &Options, output: &Path) -> Result<Recording, RecordError> {
    session::record(target, options, output)
}

/// Checks that a profile can be written to a path, and moves an older one there aside: where to. The path then holds an empty file.
pub fn make_room(path: &Path) -> Result<Option<PathBuf>, RecordError> {
    let (output, _) = output::Output::create(path)?;
    output.keep()
}
