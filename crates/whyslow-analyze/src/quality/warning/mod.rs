//! What can be wrong with a profile: its kinds, their names and how much they matter. `words` says each of them, `fixes` what
//! to do about it.

mod fixes;
mod words;

use whyslow_profile::{StillRunning, Unit};

pub(super) use fixes::settle;

use super::jit::Runtime;

/// How much a warning matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Something is missing from the answer.
    Warning,
    /// The answer may be wrong.
    Serious,
}

impl Severity {
    /// The word used in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Serious => "serious",
        }
    }
}

/// A module and its share of the samples.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleShare {
    /// The file name.
    pub name: String,
    /// Share of the samples whose innermost frame is in it.
    pub share: f64,
    /// What the share is of.
    pub unit: Unit,
    /// How it is built.
    pub built_with: BuiltWith,
    /// The path of a file that came with the system: its user does not build it.
    pub system_path: Option<String>,
}

/// What builds a module, as far as the names of its functions show it.
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
}

impl BuiltWith {
    /// Of several modules: what one fix for all of them must speak of.
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

/// Something wrong with a profile. `Display` says what, [`Warning::fix`] what to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// The recording was not ended properly.
    Incomplete,
    /// There is nothing in it.
    NoSamples {
        /// A higher rate that may help.
        raise_to: Option<u32>,
    },
    /// There is too little in it.
    TooFewSamples {
        /// How many samples there are.
        samples: u64,
        /// A higher rate that may help.
        raise_to: Option<u32>,
    },
    /// These modules were compiled without optimisation.
    DebugBuild(Vec<ModuleShare>),
    /// These modules have no names.
    Stripped(Vec<ModuleShare>),
    /// These modules have names but no lines.
    NoDebugInfo(Vec<ModuleShare>),
    /// The files of these modules were not found.
    MissingFile(Vec<ModuleShare>),
    /// The files of these modules were deleted or replaced before anybody could read them.
    ReplacedFile(Vec<ModuleShare>),
    /// Nobody has looked for the names of these modules.
    NotSymbolised(Vec<ModuleShare>),
    /// Outer frames are missing: more stack was in use than was copied.
    Truncated {
        /// Share of the samples.
        share: f64,
        /// How many bytes of each stack are worth copying instead, if more than were.
        copy_more: Option<u32>,
    },
    /// Outer frames are missing because code cannot be unwound.
    NoUnwindInfo {
        /// Share of the samples.
        share: f64,
        /// The module in whose code most of the stacks end.
        module: Option<String>,
        /// How that is built.
        built_with: BuiltWith,
    },
    /// Outer frames are missing because code that was made at run time keeps no frame pointers.
    JitStacks {
        /// Share of the samples.
        share: f64,
        /// What made the code.
        runtime: Runtime,
    },
    /// Stacks end at a signal handler that runs on a stack of its own.
    CutAtSignal {
        /// Share of the samples.
        share: f64,
    },
    /// Code that was made at run time has no names.
    UnnamedJit {
        /// Share of the samples.
        share: f64,
        /// What the share is of.
        unit: Unit,
        /// What made the code.
        runtime: Runtime,
    },
    /// Functions have no names, and nothing that is known of their modules explains it.
    Unnamed {
        /// Share of the samples.
        share: f64,
        /// What the samples count.
        unit: Unit,
    },
    /// Code ran that belongs to no file.
    UnknownCode {
        /// Share of the samples.
        share: f64,
        /// What the share is of.
        unit: Unit,
    },
    /// Samples were lost.
    Lost {
        /// How many.
        lost: u64,
        /// Share of all samples that were taken.
        share: f64,
        /// Samples asked for per second of CPU time.
        frequency_hz: u32,
    },
    /// News of mapped files, threads or processes was lost.
    LostRecords {
        /// How many.
        lost: u64,
        /// Samples asked for per second of CPU time.
        frequency_hz: u32,
    },
    /// The kernel lowered the rate.
    Throttled {
        /// How often.
        times: u64,
        /// Samples asked for per second of CPU time.
        frequency_hz: u32,
    },
    /// Fewer samples came than the CPU time should have given.
    FewerSamplesThanExpected {
        /// How many came.
        samples: u64,
        /// How many should have come.
        expected: u64,
        /// A higher rate that may help.
        raise_to: Option<u32>,
    },
    /// Threads ended before their first sample.
    NotSampled {
        /// Share of the CPU time that no sample fell into.
        share: f64,
        /// How many threads have no sample at all.
        threads: u64,
        /// A rate that is worth trying.
        raise_to: Option<u32>,
    },
    /// Processes ran on when the recording ended.
    StillRunning {
        /// How many of each name, the program first when it is one of them.
        processes: Vec<StillRunning>,
        /// Whether the program itself is one of them.
        program: bool,
    },
    /// Only some CPUs were recorded.
    SomeCpus {
        /// Which, such as `0,2-3`.
        cpus: String,
    },
    /// Kernel time has no samples.
    KernelHidden {
        /// Share of the CPU time, where that is known.
        missing_share: Option<f64>,
        /// Whether that time is shown as not sampled, and not missing altogether.
        accounted: bool,
        /// The level of `perf_event_paranoid` that shows it.
        level: i8,
    },
    /// Kernel functions have no names.
    KernelUnnamed {
        /// Share of the samples in the kernel.
        share: f64,
    },
    /// Programs were started that may not be observed.
    UnobservableExecs {
        /// How many.
        times: u64,
        /// Whether anything else was recorded.
        other_samples: bool,
    },
    /// A part of the CPU time is what it cost to record the heap.
    AgentTime {
        /// Share of the samples.
        share: f64,
    },
    /// The heap was recorded, and no allocation was seen.
    NoAllocations,
    /// Allocations and frees were lost.
    LostHeapEvents {
        /// How many.
        lost: u64,
        /// Share of all allocations and frees.
        share: f64,
    },
    /// Blocks were freed that nobody saw being made.
    UnknownFrees {
        /// How many.
        frees: u64,
        /// Share of all frees.
        share: f64,
    },
    /// Not every allocation was recorded.
    HeapSampled {
        /// Bytes between two samples on average.
        sample_bytes: u64,
        /// Relative standard error of the bytes allocated, when it is known.
        error: Option<f64>,
    },
    /// Outer frames of allocating stacks are missing.
    CutHeapStacks {
        /// Share of the allocated bytes.
        share: f64,
        /// The module in whose code most of the stacks end; none for code that was made at run time.
        module: Option<String>,
        /// How that is built.
        built_with: BuiltWith,
    },
    /// Processes ran whose heap is not in the recording.
    HeapNotRecorded {
        /// How many.
        processes: u64,
        /// Of how many.
        of: u64,
    },
    /// Leaks could not be looked for, and why.
    NoLeakCheck(String),
    /// What the recorder had to say.
    Recorder(String),
}

impl Warning {
    /// A short name that stays the same for ever.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::NoSamples { .. } => "no-samples",
            Self::TooFewSamples { .. } => "too-few-samples",
            Self::DebugBuild(_) => "debug-build",
            Self::Stripped(_) => "stripped",
            Self::NoDebugInfo(_) => "no-debug-info",
            Self::MissingFile(_) => "missing-file",
            Self::ReplacedFile(_) => "replaced-file",
            Self::NotSymbolised(_) => "not-symbolised",
            Self::Truncated { .. } => "truncated-stacks",
            Self::NoUnwindInfo { .. } => "no-unwind-info",
            Self::JitStacks { .. } => "jit-stacks",
            Self::CutAtSignal { .. } => "cut-at-signal",
            Self::UnnamedJit { .. } => "jit-unnamed",
            Self::UnknownCode { .. } => "unknown-code",
            Self::Unnamed { .. } => "unnamed",
            Self::Lost { .. } => "lost-samples",
            Self::LostRecords { .. } => "lost-records",
            Self::Throttled { .. } => "throttled",
            Self::FewerSamplesThanExpected { .. } => "fewer-samples",
            Self::NotSampled { .. } => "not-sampled",
            Self::StillRunning { .. } => "still-running",
            Self::SomeCpus { .. } => "some-cpus",
            Self::KernelHidden { .. } => "kernel-hidden",
            Self::KernelUnnamed { .. } => "kernel-names-hidden",
            Self::UnobservableExecs { .. } => "unobservable-execs",
            Self::AgentTime { .. } => "agent-time",
            Self::NoAllocations => "no-allocations",
            Self::LostHeapEvents { .. } => "lost-heap-events",
            Self::UnknownFrees { .. } => "unknown-frees",
            Self::HeapSampled { .. } => "heap-sampled",
            Self::CutHeapStacks { .. } => "cut-heap-stacks",
            Self::HeapNotRecorded { .. } => "heap-not-recorded",
            Self::NoLeakCheck(_) => "no-leak-check",
            Self::Recorder(_) => "recorder-note",
        }
    }

    /// Whether it is about samples of CPU time, and nothing to a reader of the heap.
    pub(super) fn is_of_samples(&self) -> bool {
        matches!(
            self,
            Self::NoSamples { .. }
                | Self::TooFewSamples { .. }
                | Self::DebugBuild(_)
                | Self::Truncated { .. }
                | Self::NoUnwindInfo { .. }
                | Self::JitStacks { .. }
                | Self::CutAtSignal { .. }
                | Self::UnnamedJit { .. }
                | Self::UnknownCode { .. }
                | Self::Lost { .. }
                | Self::LostRecords { .. }
                | Self::Throttled { .. }
                | Self::FewerSamplesThanExpected { .. }
                | Self::NotSampled { .. }
                | Self::SomeCpus { .. }
                | Self::KernelHidden { .. }
                | Self::KernelUnnamed { .. }
                | Self::UnobservableExecs { .. }
                | Self::AgentTime { .. }
        )
    }

    /// Whether it says that functions have no names, or why.
    pub fn is_of_names(&self) -> bool {
        matches!(
            self,
            Self::Stripped(_)
                | Self::MissingFile(_)
                | Self::ReplacedFile(_)
                | Self::NotSymbolised(_)
                | Self::UnnamedJit { .. }
                | Self::UnknownCode { .. }
                | Self::Unnamed { .. }
        )
    }

    /// How much it matters.
    pub fn severity(&self) -> Severity {
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
                if *share >= 0.5 =>
            {
                Severity::Serious
            }
            Self::MissingFile(modules) if modules.iter().map(|module| module.share).sum::<f64>() >= 0.5 => {
                Severity::Serious
            }
            Self::Lost { share, .. } if *share >= 0.1 => Severity::Serious,
            Self::Lost { share, .. } if *share < 0.01 => Severity::Note,
            Self::KernelHidden { missing_share, .. } if missing_share.is_none_or(|share| share < 0.05) => {
                Severity::Note
            }
            Self::NotSampled { share, .. } if *share < 0.1 => Severity::Note,
            Self::KernelUnnamed { .. }
            | Self::UnobservableExecs { .. }
            | Self::AgentTime { .. }
            | Self::StillRunning { .. }
            | Self::SomeCpus { .. }
            | Self::HeapSampled { .. }
            | Self::NoLeakCheck(_)
            | Self::Recorder(_) => Severity::Note,
            _ => Severity::Warning,
        }
    }
}
