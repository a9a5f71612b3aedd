//! The warnings about a profile: their kinds, ids and severities. `words` has their messages, `fixes` what to
//! do about them.

mod fixes;
mod words;

use whyslow_profile::{NoLeakCheck, Note, StillRunning, Unit};

pub(super) use fixes::settle;

use super::jit::Runtime;
use crate::remark::{is_refusal, remark_of};
use whyslow_words::{About, Fact, Remark, Severity};

/// A program with less CPU time than this may have no sample.
const NOTABLE_CPU_NS: u64 = 20_000_000;

/// A module and its share of the samples.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleShare {
    /// The file name.
    pub name: String,
    /// Share of the samples whose innermost frame is in it.
    pub share: f64,
    /// What the share is of.
    pub unit: Unit,
    /// What it was built with.
    pub built_with: BuiltWith,
    /// The path of a file of the system, which users do not build themselves.
    pub system_path: Option<String>,
    /// Share of the samples whose innermost frame is in it and has no name.
    pub unnamed_share: f64,
    /// The id of the recording machine's distribution; empty if unknown.
    pub distribution: String,
    /// The cargo command that builds it with lines and records the same again, if it is the recorded program.
    pub cargo_again: Option<String>,
}

/// What a module was built with, as far as the names of its functions show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltWith {
    /// Cargo: it has Rust code.
    Cargo,
    /// Go: it has Go's runtime.
    Go,
    /// Another compiler: it has names, and none is of Rust or Go code.
    Other,
    /// It has no names.
    Unknown,
    /// A package of the distribution: users do not build it.
    Package,
}

impl BuiltWith {
    /// For several modules: which builds one fix for all of them must cover.
    fn of_all(modules: &[ModuleShare]) -> Self {
        let all = |built_with| modules.iter().all(|module| module.built_with == built_with);
        match modules {
            _ if all(Self::Cargo) => Self::Cargo,
            _ if all(Self::Go) => Self::Go,
            _ if all(Self::Other) => Self::Other,
            _ => Self::Unknown,
        }
    }
}

whyslow_profile::facts! {
    /// A problem of a profile. `Display` gives the message, [`Fact::remark`] the whole remark.
    #[derive(Debug, Clone, PartialEq)]
    pub enum Warning {
        /// The recording did not end properly.
        "incomplete" => Incomplete,
        /// There are no samples.
        "no-samples" => NoSamples {
            /// The program's CPU time; 0 if unknown.
            cpu_time_ns: u64,
            /// A higher rate that may help.
            raise_to: Option<u32>,
            /// Whether the program waits nearly all of the time.
            waits: bool,
        },
        /// There are too few samples.
        "too-few-samples" => TooFewSamples {
            /// How many samples there are.
            samples: u64,
            /// A higher rate that may help.
            raise_to: Option<u32>,
            /// The command that records at that rate.
            again: Option<String>,
            /// Whether the program waits nearly all of the time.
            waits: bool,
        },
        /// These modules were compiled without optimisation.
        "debug-build" => DebugBuild(Vec<ModuleShare>),
        /// These modules have no symbols.
        "stripped" => Stripped(Vec<ModuleShare>),
        /// These modules have symbols but no lines.
        "no-debug-info" => NoDebugInfo(Vec<ModuleShare>),
        /// The files of these modules were not found.
        "missing-file" => MissingFile(Vec<ModuleShare>),
        /// The files of these modules were deleted or replaced before whyslow could read them.
        "replaced-file" => ReplacedFile(Vec<ModuleShare>),
        /// These modules have not been symbolised yet.
        "not-symbolised" => NotSymbolised(Vec<ModuleShare>),
        /// Stacks are truncated: they are larger than what was copied.
        "truncated-stacks" => Truncated {
            /// Share of the samples.
            share: f64,
            /// How many bytes of each stack to copy instead, if more is possible.
            copy_more: Option<u32>,
        },
        /// Stacks are truncated at code that cannot be unwound.
        "no-unwind-info" => NoUnwindInfo {
            /// Share of the samples.
            share: f64,
            /// The module in which most of the stacks end.
            module: Option<String>,
            /// What it was built with.
            built_with: BuiltWith,
            /// Whether most of the stacks end in functions written in assembly.
            in_assembly: bool,
        },
        /// Stacks are truncated at JIT-compiled code without frame pointers.
        "jit-stacks" => JitStacks {
            /// Share of the samples.
            share: f64,
            /// The runtime that compiled the code.
            runtime: Runtime,
        },
        /// A part of a deep recursion is left out.
        "deep-recursion" => DeepRecursion {
            /// Share of the samples.
            share: f64,
            /// Frames of the deepest stack, if known.
            deepest: Option<u64>,
        },
        /// Stacks end at a signal handler that runs on its own stack.
        "cut-at-signal" => CutAtSignal {
            /// Share of the samples.
            share: f64,
        },
        /// JIT-compiled code has no names.
        "jit-unnamed" => UnnamedJit {
            /// Share of the samples.
            share: f64,
            /// What the share is of.
            unit: Unit,
            /// The runtime that compiled the code.
            runtime: Runtime,
        },
        /// An interpreter runs a script whose functions are not visible.
        "interpreted" => Interpreted {
            /// Share of the samples.
            share: f64,
            /// What the share is of.
            unit: Unit,
            /// The interpreter.
            runtime: Runtime,
        },
        /// Functions have no names, and no other warning explains it.
        "unnamed" => Unnamed {
            /// Share of the samples.
            share: f64,
            /// What the samples count.
            unit: Unit,
        },
        /// Code ran that does not belong to any file.
        "unknown-code" => UnknownCode {
            /// Share of the samples.
            share: f64,
            /// What the share is of.
            unit: Unit,
        },
        /// Samples were lost.
        "lost-samples" => Lost {
            /// How many.
            lost: u64,
            /// Share of all samples that were taken.
            share: f64,
            /// Requested samples per second of CPU time.
            frequency_hz: u32,
        },
        /// Records of mapped files, threads or processes were lost.
        "lost-records" => LostRecords {
            /// How many.
            lost: u64,
            /// Requested samples per second of CPU time.
            frequency_hz: u32,
        },
        /// The kernel throttled sampling.
        "throttled" => Throttled {
            /// How often.
            times: u64,
            /// Requested samples per second of CPU time.
            frequency_hz: u32,
        },
        /// Fewer samples arrived than the CPU time should give.
        "fewer-samples" => FewerSamplesThanExpected {
            /// How many arrived.
            samples: u64,
            /// How many are expected.
            expected: u64,
            /// A higher rate that may help.
            raise_to: Option<u32>,
        },
        /// Threads exited before their first sample.
        "not-sampled" => NotSampled {
            /// Share of the CPU time without samples.
            share: f64,
            /// How many threads have no samples at all.
            threads: u64,
            /// A higher rate that may help.
            raise_to: Option<u32>,
        },
        /// Timer or ptrace sampling missed some of the CPU time.
        "not-covered" => NotCovered {
            /// Share of the CPU time without samples.
            share: f64,
        },
        /// Processes were still running when the recording ended.
        "still-running" => StillRunning {
            /// How many of each name, the program first when it is one of them.
            processes: Vec<StillRunning>,
            /// Whether the program itself is one of them.
            program: bool,
        },
        /// Only some CPUs were recorded.
        "some-cpus" => SomeCpus {
            /// Which, such as `0,2-3`.
            cpus: String,
        },
        /// Kernel time has no samples.
        "kernel-hidden" => KernelHidden {
            /// Share of the CPU time, where that is known.
            missing_share: Option<f64>,
            /// Whether that time is shown as [not sampled] instead of missing.
            accounted: bool,
        },
        /// Kernel functions have no names.
        "kernel-names-hidden" => KernelUnnamed {
            /// Share of the samples in the kernel.
            share: f64,
        },
        /// Programs started that may not be observed.
        "unobservable-execs" => UnobservableExecs {
            /// How many.
            times: u64,
            /// Whether anything else was recorded.
            other_samples: bool,
        },
        /// A part of the CPU time is the overhead of recording the heap.
        "agent-time" => AgentTime {
            /// Share of the samples.
            share: f64,
        },
        /// A large part of the waiting time has no stack.
        "waits-unseen" => WaitsUnseen {
            /// Share of the waiting time.
            share: f64,
            /// Whether whyslow sampled blocked threads.
            snapshots: bool,
        },
        /// The heap was recorded, but no allocations were found.
        "no-allocations" => NoAllocations,
        /// Allocations and frees were lost.
        "lost-heap-events" => LostHeapEvents {
            /// How many.
            lost: u64,
            /// Share of all allocations and frees.
            share: f64,
        },
        /// Blocks were freed whose allocation was not recorded.
        "unknown-frees" => UnknownFrees {
            /// How many.
            frees: u64,
            /// Share of all frees.
            share: f64,
        },
        /// Not every allocation was recorded.
        "heap-sampled" => HeapSampled {
            /// Bytes between two samples on average.
            sample_bytes: u64,
            /// Relative standard error of the bytes allocated, when it is known.
            error: Option<f64>,
        },
        /// Stacks of allocations are truncated.
        "cut-heap-stacks" => CutHeapStacks {
            /// Share of the allocated bytes.
            share: f64,
            /// The module in which most of the stacks end; `None` for JIT-compiled code.
            module: Option<String>,
            /// What it was built with.
            built_with: BuiltWith,
        },
        /// The heap of some processes is not in the recording.
        "heap-not-recorded" => HeapNotRecorded {
            /// How many.
            processes: u64,
            /// Of how many.
            of: u64,
        },
        /// There is no leak check, and why.
        "no-leak-check" => NoLeakCheck(NoLeakCheck),
        /// A note of the recorder or importer, which has its own id.
        "recorder-note" => Noted(Note),
    }
}

impl Fact for Warning {
    fn remark(&self) -> Remark {
        if let Self::Noted(note) = self {
            return remark_of(note);
        }
        let (id, about, severity) = (self.id(), self.about(), self.severity());
        Remark { id, about, severity, text: self.to_string(), fix: self.fix() }
    }
}

impl Warning {
    fn about(&self) -> About {
        match self {
            Self::Incomplete | Self::StillRunning { .. } | Self::Noted(_) => About::Recording,
            Self::NoSamples { .. }
            | Self::TooFewSamples { .. }
            | Self::Lost { .. }
            | Self::LostRecords { .. }
            | Self::Throttled { .. }
            | Self::FewerSamplesThanExpected { .. }
            | Self::NotSampled { .. }
            | Self::NotCovered { .. }
            | Self::SomeCpus { .. }
            | Self::KernelHidden { .. }
            | Self::UnobservableExecs { .. }
            | Self::AgentTime { .. } => About::Samples,
            Self::DebugBuild(_) => About::Build,
            Self::Stripped(_)
            | Self::NoDebugInfo(_)
            | Self::MissingFile(_)
            | Self::ReplacedFile(_)
            | Self::NotSymbolised(_)
            | Self::UnnamedJit { .. }
            | Self::Interpreted { .. }
            | Self::Unnamed { .. }
            | Self::UnknownCode { .. }
            | Self::KernelUnnamed { .. } => About::Names,
            Self::Truncated { .. }
            | Self::NoUnwindInfo { .. }
            | Self::JitStacks { .. }
            | Self::DeepRecursion { .. }
            | Self::CutAtSignal { .. } => About::Stacks,
            Self::WaitsUnseen { .. } => About::Waits,
            Self::NoAllocations
            | Self::LostHeapEvents { .. }
            | Self::UnknownFrees { .. }
            | Self::HeapSampled { .. }
            | Self::CutHeapStacks { .. }
            | Self::HeapNotRecorded { .. } => About::Heap,
            Self::NoLeakCheck(_) => About::Leaks,
        }
    }

    /// Whether it is about CPU samples, and irrelevant for the heap.
    pub(super) fn is_of_samples(&self) -> bool {
        matches!(self.about(), About::Samples | About::Build | About::Stacks)
            || matches!(
                self,
                Self::UnnamedJit { .. }
                    | Self::Interpreted { .. }
                    | Self::UnknownCode { .. }
                    | Self::KernelUnnamed { .. }
            )
    }

    /// Whether there are few CPU samples because the program waits.
    pub fn is_of_waiting(&self) -> bool {
        matches!(self, Self::NoSamples { waits: true, .. } | Self::TooFewSamples { waits: true, .. })
    }

    /// Whether it says that functions have no names, or why.
    pub fn is_of_names(&self) -> bool {
        self.about() == About::Names
            && !matches!(self, Self::NoDebugInfo(_) | Self::Interpreted { .. } | Self::KernelUnnamed { .. })
    }

    /// Its place among warnings of the same severity: what was requested and is missing, then CPU time without
    /// samples, then the rest.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Noted(Note::Recording(note)) if is_refusal(note) => 0,
            Self::NoSamples { .. } | Self::FewerSamplesThanExpected { .. } => 1,
            _ => 2,
        }
    }

    /// How much it matters.
    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::NoSamples { .. }
            | Self::DebugBuild(_)
            | Self::UnobservableExecs { other_samples: false, .. }
            | Self::LostHeapEvents { .. } => Severity::Serious,
            Self::HeapNotRecorded { processes, of } if processes == of => Severity::Serious,
            Self::CutHeapStacks { share, .. } if *share >= 0.5 => Severity::Serious,
            Self::HeapSampled { error: Some(error), .. } if 1.96 * error >= 0.25 => Severity::Warning,
            Self::UnknownFrees { share, .. } if *share < 0.01 => Severity::Note,
            Self::TooFewSamples { samples, .. } if *samples < 30 => Severity::Serious,
            Self::Truncated { share, .. }
            | Self::NoUnwindInfo { share, .. }
            | Self::JitStacks { share, .. }
            | Self::UnnamedJit { share, .. }
            | Self::Unnamed { share, .. }
            | Self::WaitsUnseen { share, .. }
                if *share >= 0.5 =>
            {
                Severity::Serious
            }
            Self::MissingFile(modules) if modules.iter().map(|module| module.share).sum::<f64>() >= 0.5 => {
                Severity::Serious
            }
            Self::FewerSamplesThanExpected { samples, expected, .. } if samples * 2 < *expected => {
                Severity::Serious
            }
            Self::Lost { share, .. } if *share >= 0.1 => Severity::Serious,
            Self::Lost { share, .. } if *share < 0.01 => Severity::Note,
            Self::KernelHidden { missing_share, .. } if missing_share.is_none_or(|share| share < 0.05) => {
                Severity::Note
            }
            Self::NotSampled { share, .. } | Self::NotCovered { share } if *share < 0.1 => Severity::Note,
            Self::Interpreted { share, .. } if *share < 0.5 => Severity::Note,
            Self::KernelUnnamed { .. }
            | Self::DeepRecursion { .. }
            | Self::UnobservableExecs { .. }
            | Self::AgentTime { .. }
            | Self::StillRunning { .. }
            | Self::SomeCpus { .. }
            | Self::HeapSampled { .. }
            | Self::NoLeakCheck(_) => Severity::Note,
            Self::Noted(note) => remark_of(note).severity,
            _ => Severity::Warning,
        }
    }
}
