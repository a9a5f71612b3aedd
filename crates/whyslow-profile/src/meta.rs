//! How a profile was recorded, and the counts that its quality is judged by.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::heap::HeapFacts;
use crate::memory::MemoryCurve;
use crate::note::Note;
use crate::simulation::Simulation;

/// Facts about the recording as a whole. Stored as JSON inside the file: unknown fields are ignored and
/// missing ones take their default, so that old and new versions read each other's files.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// The command line that was recorded, or the process that was attached to.
    pub command: Vec<String>,
    /// The file that was its standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_input: Option<String>,
    /// The version of whyslow (or the name of the tool) that recorded it.
    pub recorder: String,
    /// Wall-clock time of the start, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// From start to end, in nanoseconds. 0 if the recording is not sealed.
    pub duration_ns: u64,
    /// How the program exited, if it did.
    #[serde(deserialize_with = "known_or_default")]
    pub exit: Option<ExitStatus>,
    /// Bytes of stack copied with each sample; 0 if unknown.
    pub stack_bytes: u32,
    /// The tool that recorded it, if it was imported.
    pub imported_from: Option<String>,
    /// What the samples are bound to.
    #[serde(deserialize_with = "known_or_default")]
    pub sampling: Sampling,
    /// The only recorded CPUs, such as `0,2-3`.
    pub only_cpus: Option<String>,
    /// Whether kernel frames and kernel time are in the profile.
    #[serde(deserialize_with = "known_or_default")]
    pub kernel: KernelView,
    /// CPU time in user mode of the program and the children it waited for, as the kernel accounts it.
    pub user_time_ns: u64,
    /// CPU time in kernel mode, in the same way.
    pub system_time_ns: u64,
    /// Peak resident set size in bytes of the program.
    pub max_resident_bytes: u64,
    /// The machine.
    pub host: Host,
    /// The recorder's counts.
    pub counters: Counters,
    /// Recorded processes that still ran when the recording ended, by name.
    pub still_running: Vec<StillRunning>,
    /// Facts about the heap, if it was recorded.
    pub heap: Option<HeapFacts>,
    /// Memory over time, if another tool recorded it as snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryCurve>,
    /// How it was simulated, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulation>,
    /// The recorder's notes to the reader. In files of earlier versions, `notes` are sentences; the other
    /// field name keeps facts away from readers that know only sentences.
    #[serde(rename = "noted", alias = "notes")]
    pub notes: Vec<Note>,
}

impl Meta {
    /// Whether allocations may be missing from a heap recording.
    pub fn misses_allocations(&self) -> bool {
        let hides = |note: &Note| matches!(note, Note::Heap(note) if note.hides_allocations());
        self.heap.as_ref().is_some_and(HeapFacts::is_partly_seen) || self.notes.iter().any(hides)
    }
}

/// Reads an enum to which a later version may have added variants.
pub(crate) fn known_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

/// How a program exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
}

/// What the samples are bound to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Not known.
    #[default]
    Unknown,
    /// Each CPU is sampled, whatever runs on it: a thread gets its share however short its life is.
    Cpus,
    /// Each thread is sampled separately: its first sample is after a whole period. Time without a sample is
    /// accounted for from how long each thread was on a CPU.
    Threads,
    /// Each thread samples itself with a timer on its own CPU clock, at ticks of the kernel's clock: a thread
    /// gets its share however short its life is.
    Timers,
    /// Running threads are briefly stopped with ptrace. A sample stands for the CPU time since the previous
    /// one.
    #[serde(rename = "looks")]
    Ptrace,
}

/// Processes that still ran when the recording ended.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StillRunning {
    /// Their name.
    pub name: String,
    /// How many there are.
    pub processes: u64,
}

/// What the profile contains of the kernel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelView {
    /// Not known.
    #[default]
    Unknown,
    /// Kernel time is sampled, and its functions have symbols.
    Included,
    /// Kernel time is sampled, but the kernel hides its addresses.
    Unnamed,
    /// Only user mode was sampled: kernel time is missing.
    Hidden,
    /// Kernel time is sampled, and attributed to the code that called the kernel.
    Callers,
}

/// The machine a profile was recorded on.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Operating system and kernel release.
    pub os: String,
    /// The distribution, by the id in its `os-release`: `debian`. Empty if not recorded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub distribution: String,
    /// Architecture.
    pub arch: String,
    /// CPU model name.
    pub cpu: String,
    /// CPUs the program could use.
    pub cpus: u32,
    /// Name of the hypervisor or container, if one was recognised.
    pub virtualisation: Option<String>,
    /// CPU features beyond the architecture's baseline, by the kernel's names: `avx2`, `fma`. Empty if not
    /// recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// Counts kept while recording.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Samples that the kernel could not deliver because a ring was full.
    pub lost_samples: u64,
    /// Other lost records (maps, forks): a few addresses may remain unresolved.
    pub lost_records: u64,
    /// How often the kernel lowered the sampling rate.
    pub throttled: u64,
    /// Samples whose stack reached its outermost frame within the copied bytes.
    pub complete_in_dump: u64,
    /// Samples completed by a verified join with the thread's last complete stack.
    pub completed_by_join: u64,
    /// Samples completed by a verified read of the live process.
    pub completed_by_read: u64,
    /// Truncated samples: the copied bytes ended and nothing could be verified.
    pub truncated: u64,
    /// Samples truncated at code without unwind information.
    pub no_unwind_info: u64,
    /// Samples that end at the frame of a signal whose handler has its own stack: the interrupted stack could
    /// not be proved.
    pub cut_at_signal: u64,
    /// Frames of the deepest stack, with those that are left out of a deep recursion; 0 if unknown.
    pub deepest_stack: u64,
    /// Samples taken while the thread had no user registers (kernel threads, exiting tasks).
    pub without_user_stack: u64,
    /// Threads that exited without a sample although they used CPU time.
    pub unsampled_threads: u64,
    /// Processes that executed a set-uid file or one that this user may not read: the kernel removes their
    /// events.
    pub unobservable_execs: u64,
    /// Peak resident set size of the recorder itself, in bytes.
    pub recorder_max_resident_bytes: u64,
    /// CPU time of the recorder from start to the program's end.
    pub recorder_cpu_ns: u64,
}
