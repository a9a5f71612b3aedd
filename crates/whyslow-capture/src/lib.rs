//! Live recording on Linux: perf events, ring buffers, and starting, watching and ending the recorded
//! program.

mod agent;
mod agent_source;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod attended;
mod calls;
mod causal;
mod cgroup;
mod chosen;
mod counting;
mod cpu_sampler;
mod heap;
mod host;
mod inherited;
mod last_moment;
mod launch;
mod live;
mod mappings;
mod marks;
mod output;
mod pace;
mod perf;
mod ptrace_sampling;
mod queues;
mod reach;
mod recorded_processes;
mod recorder;
mod refusal;
mod sampling;
mod session;
mod signals;
mod sockets;
mod source;
mod subject;
mod switches;
mod timing;
mod trial;
mod waiting;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

pub use attended::{Attended, attend, can_start};
pub use causal::{
    CausalOptions, CausalShared, CodePoint, CodeRange, Conditions, Director, HeldSignals, MOST_POINTS,
    ModuleSamples, Outcome, PlannedExperiment, PointCount, PointRole, PointVisits, Reach, SeenPoint,
    SharedDirector, Step, WholeRun,
};
pub use chosen::{NotRecorded, Probe, WantedSamples};
pub use counting::{CountOptions, Counted, WantedEvent, count, try_events};
pub use inherited::command as restored_command;
pub use output::{Kept, Names, NewProfile, numbered_name};
pub use recorder::{Control, Order, Progress, Recorder, Watch};
pub use refusal::experiments_refused;
pub use timing::{Input, RunEnd, Stopwatch, TimedCommand, TimedRun, Written};
pub use trial::{Granted, Refused, Trial, trial};
pub use whyslow_convert::call_names;
use whyslow_elf::FileBytes;
pub use whyslow_heap::Config as HeapOptions;
pub use whyslow_inject::{Means, PointPlace, Spot, exits, means};
use whyslow_profile::file::Writer;
use whyslow_profile::{ExitStatus, Meta, ModuleId};

/// What fuzzing needs from inside.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::marks::testing::read_marks;
}

/// Describes this machine as recordings do.
pub fn this_host() -> whyslow_profile::Host {
    host::describe(whyslow_proc::machine::allowed_cpus(std::process::id()).len())
}

/// What to record.
#[derive(Debug, Clone)]
pub enum Target {
    /// Start this program and record it with all its threads and children.
    Command(Command),
    /// Record running processes, and the children they start, until they exit or the recording is stopped. A
    /// thread number stands for its process.
    Processes(Vec<u32>),
    /// Record everything on the machine.
    System {
        /// Start this program and record until it exits. Without it, record until stopped.
        while_runs: Option<Command>,
    },
}

/// A program to start. Everything that is not set is inherited from the recorder.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// A path, or a name to look up in PATH.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables to set on top of the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// The working folder, if it differs from the recorder's.
    pub folder: Option<PathBuf>,
    /// Whether to discard its standard output. Standard error is kept.
    pub silent: bool,
}

impl Command {
    /// The file that the system executes for this command.
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
    /// Bytes of stack copied with each sample; `None` derives it from the ring size.
    pub stack_bytes: Option<u32>,
    /// Stop after this time: for attached and system-wide recordings, or to end early.
    pub duration: Option<std::time::Duration>,
    /// Record only these CPUs.
    pub cpus: Option<Vec<u32>>,
    /// Exclude kernel mode even where it could be recorded.
    pub user_only: bool,
    /// Sample CPU time.
    pub cpu: bool,
    /// Which sampler to use for CPU time.
    pub sampler: SamplerChoice,
    /// Record where threads wait and for how long.
    pub off_cpu: bool,
    /// Record the stacks of the threads that end waits.
    pub wakers: bool,
    /// Events to record in addition to CPU time, each as its own metric.
    pub events: Vec<WantedSamples>,
    /// Requested events that are already known to be unavailable.
    pub unavailable_events: Vec<NotRecorded>,
    /// Record system calls.
    pub syscalls: bool,
    /// Record the heap too.
    pub heap: Option<HeapOptions>,
    /// Experiment with the program.
    pub causal: Option<CausalOptions>,
    /// Who chose the name of the profile.
    pub names: Names,
    /// Work to do on a low-priority thread while the program runs.
    pub background: Option<fn()>,
}

/// A sampler of CPU time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum SamplerChoice {
    /// Perf events where they are permitted, otherwise timers or ptrace.
    #[default]
    Auto,
    /// The kernel's perf events.
    Perf,
    /// CPU timers inside the program.
    Timer,
    /// Ptrace: briefly stops the threads of running processes and copies their stacks.
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
            unavailable_events: Vec::new(),
            syscalls: false,
            heap: None,
            causal: None,
            names: Names::Given,
            background: None,
        }
    }
}

/// A finished recording. Its raw part is on disk; symbols and the seal are still missing.
#[derive(Debug)]
pub struct Recording {
    /// The path of the profile, which later recordings do not take from it unless the user chose it.
    pub path: PathBuf,
    /// The open file.
    pub writer: Writer,
    /// Its metadata, already written.
    pub meta: Meta,
    /// How the program exited; `None` if it still runs.
    pub exit: Option<ExitStatus>,
    /// The files whose code ran. With them, symbols are found even if a path is deleted or names another file
    /// by now.
    pub files: Vec<(ModuleId, FileBytes)>,
    /// The first write error, if any. The file holds everything recorded before it.
    pub write_error: Option<io::Error>,
    /// Where an older profile of this name was moved.
    pub moved_aside: Option<PathBuf>,
    /// Keeps signals blocked until the profile is finished: an impatient second Ctrl-C must not lose it.
    _signals: signals::Signals,
}

/// Why a recording failed. `Display` says what happened, why, and what to try.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program does not exist (exit code 127).
    #[error("{program}: not found")]
    NotFound {
        /// The program as the user wrote it.
        program: String,
    },
    /// The program exists but cannot be started (exit code 126).
    #[error("{program}: cannot be started: {reason}")]
    NotExecutable {
        /// The program as the user wrote it.
        program: String,
        /// Why.
        reason: String,
    },
    /// Perf events are not permitted or not available.
    #[error("{0}")]
    Refused(String),
    /// None of the requested events can be recorded.
    #[error("none of the requested events can be recorded")]
    NoEvents(Vec<NotRecorded>),
    /// The profile cannot be written.
    #[error("{}: cannot be written: {error}", path.display())]
    Output {
        /// The output path.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The program's input file cannot be opened.
    #[error("{}: cannot be read: {error}", path.display())]
    Input {
        /// The input path.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Any other failure of a system call.
    #[error("{what}: {error}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

/// Records until the program or the processes exit, a stop signal arrives (if there is no program to receive
/// it), or the duration is over. Streams to `output`. A SIGINT from the terminal reaches the program by
/// itself; signals sent only to the recorder are passed on.
pub fn record(target: &Target, options: &Options, output: &Path) -> Result<Recording, RecordError> {
    Recorder::new()?.record(target, options, output)
}
