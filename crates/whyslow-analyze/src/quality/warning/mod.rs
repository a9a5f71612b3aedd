//! What can be wrong with a profile: its kinds, their names and how much they matter. `words` says each of them, `fixes` what
//! to do about it.

mod fixes;
mod words;

use whyslow_profile::{NoLeakCheck, Note, StillRunning, Unit};

pub(super) use fixes::settle;

use super::jit::Runtime;
use crate::remark::{About, Fact, Remark, Severity};

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

whyslow_profile::facts! {
    /// Something wrong with a profile. `Display` says what, [`Fact::remark`] all of it.
    #[derive(Debug, Clone, PartialEq)]
    pub enum Warning {
        /// The recording was not ended properly.
        "incomplete" => Incomplete,
        /// There is nothing in it.
        "no-samples" => NoSamples {
            /// A higher rate that may help.
            raise_to: Option<u32>,
        },
        /// There is too little in it.
        "too-few-samples" => TooFewSamples {
            /// How many samples there are.
            samples: u64,
            /// A higher rate that may help.
            raise_to: Option<u32>,
        },
        /// These modules were compiled without optimisation.
        "debug-build" => DebugBuild(Vec<ModuleShare>),
        /// These modules have no names.
        "stripped" => Stripped(Vec<ModuleShare>),
        /// These modules have names but no lines.
        "no-debug-info" => NoDebugInfo(Vec<ModuleShare>),
        /// The files of these modules were not found.
        "missing-file" => MissingFile(Vec<ModuleShare>),
        /// The files of these modules were deleted or replaced before anybody could read them.
        "replaced-file" => ReplacedFile(Vec<ModuleShare>),
        /// Nobody has looked for the names of these modules.
        "not-symbolised" => NotSymbolised(Vec<ModuleShare>),
        /// Outer frames are missing: more stack was in use than was copied.
        "truncated-stacks" => Truncated {
            /// Share of the samples.
            share: f64,
            /// How many bytes of each stack are worth copying instead, if more than were.
            copy_more: Option<u32>,
        },
        /// Outer frames are missing because code cannot be unwound.
        "no-unwind-info" => NoUnwindInfo {
            /// Share of the samples.
            share: f64,
            /// The module in whose code most of the stacks end.
            module: Option<String>,
            /// How that is built.
            built_with: BuiltWith,
        },
        /// Outer frames are missing because code that was made at run time keeps no frame pointers.
        "jit-stacks" => JitStacks {
            /// Share of the samples.
            share: f64,
            /// What made the code.
            runtime: Runtime,
        },
        /// Stacks end at a signal handler that runs on a stack of its own.
        "cut-at-signal" => CutAtSignal {
            /// Share of the samples.
            share: f64,
        },
        /// Code that was made at run time has no names.
        "jit-unnamed" => UnnamedJit {
            /// Share of the samples.
            share: f64,
            /// What the share is of.
            unit: Unit,
            /// What made the code.
            runtime: Runtime,
        },
        /// Functions have no names, and nothing that is known of their modules explains it.
        "unnamed" => Unnamed {
            /// Share of the samples.
            share: f64,
            /// What the samples count.
            unit: Unit,
        },
        /// Code ran that belongs to no file.
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
            /// Samples asked for per second of CPU time.
            frequency_hz: u32,
        },
        /// News of mapped files, threads or processes was lost.
        "lost-records" => LostRecords {
            /// How many.
            lost: u64,
            /// Samples asked for per second of CPU time.
            frequency_hz: u32,
        },
        /// The kernel lowered the rate.
        "throttled" => Throttled {
            /// How often.
            times: u64,
            /// Samples asked for per second of CPU time.
            frequency_hz: u32,
        },
        /// Fewer samples came than the CPU time should have given.
        "fewer-samples" => FewerSamplesThanExpected {
            /// How many came.
            samples: u64,
            /// How many should have come.
            expected: u64,
            /// A higher rate that may help.
            raise_to: Option<u32>,
        },
        /// Threads ended before their first sample.
        "not-sampled" => NotSampled {
            /// Share of the CPU time that no sample fell into.
            share: f64,
            /// How many threads have no sample at all.
            threads: u64,
            /// A rate that is worth trying.
            raise_to: Option<u32>,
        },
        /// Programs sampled themselves, and some of their CPU time was seen by nobody.
        "not-covered" => NotCovered {
            /// Share of the CPU time that no sample stands for.
            share: f64,
        },
        /// Processes ran on when the recording ended.
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
            /// Whether that time is shown as not sampled, and not missing altogether.
            accounted: bool,
            /// The level of `perf_event_paranoid` that shows it.
            level: i8,
        },
        /// Kernel functions have no names.
        "kernel-names-hidden" => KernelUnnamed {
            /// Share of the samples in the kernel.
            share: f64,
        },
        /// Programs were started that may not be observed.
        "unobservable-execs" => UnobservableExecs {
            /// How many.
            times: u64,
            /// Whether anything else was recorded.
            other_samples: bool,
        },
        /// A part of the CPU time is what it cost to record the heap.
        "agent-time" => AgentTime {
            /// Share of the samples.
            share: f64,
        },
        /// Where threads waited is not known of a large part of the waiting time.
        "waits-unseen" => WaitsUnseen {
            /// Share of the waiting time.
            share: f64,
            /// Whether threads were looked at while they waited.
            looked_at: bool,
        },
        /// The heap was recorded, and no allocation was seen.
        "no-allocations" => NoAllocations,
        /// Allocations and frees were lost.
        "lost-heap-events" => LostHeapEvents {
            /// How many.
            lost: u64,
            /// Share of all allocations and frees.
            share: f64,
        },
        /// Blocks were freed that nobody saw being made.
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
        /// Outer frames of allocating stacks are missing.
        "cut-heap-stacks" => CutHeapStacks {
            /// Share of the allocated bytes.
            share: f64,
            /// The module in whose code most of the stacks end; none for code that was made at run time.
            module: Option<String>,
            /// How that is built.
            built_with: BuiltWith,
        },
        /// Processes ran whose heap is not in the recording.
        "heap-not-recorded" => HeapNotRecorded {
            /// How many.
            processes: u64,
            /// Of how many.
            of: u64,
        },
        /// Leaks could not be looked for, and why.
        "no-leak-check" => NoLeakCheck(NoLeakCheck),
        /// What the recorder or importer had to say, under an id of its own.
        "recorder-note" => Noted(Note),
    }
}

impl Fact for Warning {
    fn remark(&self) -> Remark {
        if let Self::Noted(note) = self {
            return note.remark();
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
            | Self::Unnamed { .. }
            | Self::UnknownCode { .. }
            | Self::KernelUnnamed { .. } => About::Names,
            Self::Truncated { .. }
            | Self::NoUnwindInfo { .. }
            | Self::JitStacks { .. }
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

    /// Whether it is about samples of CPU time, and nothing to a reader of the heap.
    pub(super) fn is_of_samples(&self) -> bool {
        matches!(self.about(), About::Samples | About::Build | About::Stacks)
            || matches!(self, Self::UnnamedJit { .. } | Self::UnknownCode { .. } | Self::KernelUnnamed { .. })
    }

    /// Whether it says that functions have no names, or why.
    pub fn is_of_names(&self) -> bool {
        self.about() == About::Names && !matches!(self, Self::NoDebugInfo(_) | Self::KernelUnnamed { .. })
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
            Self::Lost { share, .. } if *share >= 0.1 => Severity::Serious,
            Self::Lost { share, .. } if *share < 0.01 => Severity::Note,
            Self::KernelHidden { missing_share, .. } if missing_share.is_none_or(|share| share < 0.05) => {
                Severity::Note
            }
            Self::NotSampled { share, .. } | Self::NotCovered { share } if *share < 0.1 => Severity::Note,
            Self::KernelUnnamed { .. }
            | Self::UnobservableExecs { .. }
            | Self::AgentTime { .. }
            | Self::StillRunning { .. }
            | Self::SomeCpus { .. }
            | Self::HeapSampled { .. }
            | Self::NoLeakCheck(_)
            | Self::Noted(_) => Severity::Note,
            _ => Severity::Warning,
        }
    }
}
