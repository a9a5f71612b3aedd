//! What can be wrong with a profile, and what to do about it.

use std::fmt;

use whyslow_profile::{StillRunning, Unit};

use super::jit::Runtime;
use crate::units::{Count, Percent, number_of};

/// The fix for Go programs without debug information and unwind tables.
const WHOLE_GO: &str = "build without `-ldflags=\"-s -w\"`, and do not run `strip`";

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
            Self::CutHeapStacks { share } if *share >= 0.5 => Severity::Serious,
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

    /// What to type or change, when something can be done.
    pub fn fix(&self) -> Option<String> {
        let lower = |frequency_hz: u32| format!("-F {}", (frequency_hz / 2).max(1));
        Some(match self {
            Self::Incomplete => {
                "record again and end with Ctrl-C, not `kill -9`; what is here is right".to_owned()
            }
            Self::NoSamples { raise_to } => {
                format!("the program used next to no CPU time: record a longer run{}", or_raise(*raise_to))
            }
            Self::TooFewSamples { raise_to, .. } => format!("record a longer run{}", or_raise(*raise_to)),
            Self::DebugBuild(modules) => match BuiltWith::of_all(modules) {
                BuiltWith::Cargo => "build with `cargo build --release`; `cargo whyslow` does it by itself",
                BuiltWith::Go => "build without `-gcflags=-N`",
                BuiltWith::Other => "build with optimisation: `gcc -O2 -g`",
                BuiltWith::Unknown => "build with `cargo build --release` (C and C++: `gcc -O2 -g`)",
            }
            .to_owned(),
            Self::Stripped(modules) => by_origin(modules, |built_with| match built_with {
                BuiltWith::Cargo => {
                    "put `strip = false` and `debug = \"line-tables-only\"` under [profile.release] \
                     in Cargo.toml; `cargo whyslow` does it by itself"
                }
                BuiltWith::Go => WHOLE_GO,
                BuiltWith::Other => "build with `gcc -g`, and neither link with -s nor run `strip`",
                // A stripped file does not say what it was built with.
                BuiltWith::Unknown => {
                    "put `strip = false` and `debug = \"line-tables-only\"` under [profile.release] \
                     in Cargo.toml (C and C++: `gcc -g`, and no `strip`)"
                }
            }),
            Self::NoDebugInfo(modules) => by_origin(modules, |built_with| match built_with {
                BuiltWith::Cargo => {
                    "put `debug = \"line-tables-only\"` under [profile.release] in Cargo.toml; \
                     `cargo whyslow` does it by itself"
                }
                BuiltWith::Go => WHOLE_GO,
                BuiltWith::Other => "build with debug information: `gcc -g`",
                BuiltWith::Unknown => {
                    "put `debug = \"line-tables-only\"` under [profile.release] in Cargo.toml (C and C++: `gcc -g`)"
                }
            }),
            Self::MissingFile(_) => {
                "open the profile on the machine it was recorded on, with the file still in place; or import with \
                 --symfs FOLDER, where copies of the files are"
                    .to_owned()
            }
            Self::ReplacedFile(_) => {
                "leave the file in place until the recording has ended, and record again".to_owned()
            }
            Self::NotSymbolised(_) => {
                "run `whyslow report FILE` on the machine it was recorded on: it looks the names up"
                    .to_owned()
            }
            Self::Truncated { copy_more, .. } => {
                let read = "read `whyslow report FILE tree --inverted`, which does not need the outer frames";
                match copy_more {
                    Some(bytes) => {
                        format!("record with --stack-size {bytes}, which copies more of each stack; or {read}")
                    }
                    None => read.to_owned(),
                }
            }
            Self::NoUnwindInfo { built_with, .. } => match built_with {
                BuiltWith::Cargo => "build with RUSTFLAGS=\"-C force-unwind-tables=yes\"",
                BuiltWith::Go => WHOLE_GO,
                BuiltWith::Other => "build with `gcc -fasynchronous-unwind-tables`",
                BuiltWith::Unknown => {
                    "build with RUSTFLAGS=\"-C force-unwind-tables=yes\" (C: -fasynchronous-unwind-tables)"
                }
            }
            .to_owned(),
            Self::JitStacks { runtime, .. } => return runtime.stacks_fix(),
            Self::CutAtSignal { .. } => return None,
            Self::UnnamedJit { runtime, .. } => runtime.names_fix(),
            Self::UnknownCode { .. } => {
                "if a compiler made it at run time, let that write /tmp/perf-PID.map or a jitdump file".to_owned()
            }
            Self::Unnamed { .. } => {
                "give the other tool the program with its symbols, and write its file again".to_owned()
            }
            Self::Lost { frequency_hz, .. } | Self::LostRecords { frequency_hz, .. } => {
                format!("record with a lower rate: {}", lower(*frequency_hz))
            }
            Self::Throttled { frequency_hz, .. } => format!(
                "record with a lower rate ({}), or allow a higher one: \
                 `sudo sysctl kernel.perf_event_max_sample_rate=100000`",
                lower(*frequency_hz)
            ),
            Self::FewerSamplesThanExpected { raise_to, .. } => {
                let quiet = "the machine was busy, or its host gave it too little time: record again when it is quiet";
                match raise_to {
                    Some(hz) => format!(
                        "threads that end between two samples are seen too little: raise the rate with -F {hz}; or {quiet}"
                    ),
                    None => quiet.to_owned(),
                }
            }
            Self::NotSampled { raise_to, .. } => format!(
                "record as root, or after `sudo sysctl kernel.perf_event_paranoid=0`: then a thread gets its share of the \
                 samples however short it lives{}",
                or_raise(*raise_to)
            ),
            Self::StillRunning { program: true, .. } => {
                "record longer with --duration, or without it until the program ends".to_owned()
            }
            Self::StillRunning { program: false, .. } => {
                "to record one of them, attach to it: `whyslow record -p PID`".to_owned()
            }
            Self::KernelHidden { level, .. } => {
                format!("`sudo sysctl kernel.perf_event_paranoid={level}`, then record again")
            }
            Self::KernelUnnamed { .. } => {
                "`sudo sysctl kernel.kptr_restrict=0`, then record again".to_owned()
            }
            Self::UnobservableExecs { .. } => {
                "the kernel observes only programs that are readable and not set-uid: record a copy that is, or as root"
                    .to_owned()
            }
            Self::AgentTime { .. } => {
                "compare the other shares with each other; for CPU time as it is without that, record without --heap"
                    .to_owned()
            }
            Self::NoAllocations => {
                "if it allocates all the same, its allocator was not found: keep its symbols (no `strip`), or use the \
                 crate whyslow-alloc"
                    .to_owned()
            }
            Self::LostHeapEvents { .. } => {
                "record with `--sample 512k`, which writes far less; or leave the recorder a CPU of its own"
                    .to_owned()
            }
            Self::UnknownFrees { .. } => {
                "their blocks were made before the recording began: start the program with `whyslow heap -- PROGRAM`"
                    .to_owned()
            }
            Self::HeapSampled { .. } => {
                "record with a smaller --sample, or without: then every allocation is counted".to_owned()
            }
            Self::CutHeapStacks { .. } => {
                "build with RUSTFLAGS=\"-C force-unwind-tables=yes\" (C: -fasynchronous-unwind-tables)".to_owned()
            }
            Self::HeapNotRecorded { .. } => {
                "set-uid, stripped static and unreadable programs cannot be watched: run a copy with symbols that is \
                 your own; the agent itself needs some 20 MB of address space (`ulimit -v`) and 2 MB more per thread"
                    .to_owned()
            }
            Self::SomeCpus { .. } | Self::NoLeakCheck(_) | Self::Recorder(_) => return None,
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => write!(f, "the recording is incomplete: the recorder was killed"),
            Self::NoSamples { .. } => write!(f, "there is no sample in the recording"),
            Self::TooFewSamples { samples, .. } => {
                let error = 0.5 / (*samples as f64).sqrt();
                write!(
                    f,
                    "only {}: shares are rough (up to ±{} points)",
                    number_of(*samples, "sample", "samples"),
                    points(1.96 * error)
                )
            }
            Self::DebugBuild(modules) => {
                write!(f, "{} built without optimisation", names(modules, "was", "were"))
            }
            Self::Stripped(modules) => write!(
                f,
                "{} stripped: {} functions have no names and are shown by address",
                names(modules, "is", "are"),
                its(modules)
            ),
            Self::NoDebugInfo(modules) => {
                write!(
                    f,
                    "{} without debug information: no lines and no inlined functions",
                    names(modules, "is", "are")
                )
            }
            Self::MissingFile(modules) => write!(
                f,
                "{} not found: {} functions have no names",
                names(modules, "was", "were"),
                its(modules)
            ),
            Self::ReplacedFile(modules) => write!(
                f,
                "{} deleted or replaced before the names of {} functions could be read",
                names(modules, "was", "were"),
                its(modules)
            ),
            Self::NotSymbolised(modules) => write!(
                f,
                "{} not been looked up: {} functions have no names",
                names(modules, "has", "have"),
                its(modules)
            ),
            Self::Truncated { share, .. } => {
                write!(
                    f,
                    "{} of the samples lack their outer frames: total shares are too low",
                    Percent(*share)
                )
            }
            Self::NoUnwindInfo { share, module, .. } => {
                write!(f, "{} of the samples lack their outer frames: ", Percent(*share))?;
                match module {
                    Some(module) => write!(f, "{module} has code without unwind tables"),
                    None => write!(f, "code without unwind tables is on the stack"),
                }
            }
            Self::JitStacks { share, runtime } => write!(
                f,
                "{} of the samples lack their outer frames: code that {} made at run time keeps no frame pointers",
                Percent(*share),
                runtime.name
            ),
            Self::CutAtSignal { share } => write!(
                f,
                "{} of the samples end at a signal handler: it ran on a stack of its own, and what it interrupted could not be \
                 proved",
                Percent(*share)
            ),
            Self::UnnamedJit { share, unit, runtime } => write!(
                f,
                "{} of the {} are in code that {} made at run time: its functions have no names",
                Percent(*share),
                samples(*unit),
                runtime.name
            ),
            Self::UnknownCode { share, unit } => {
                let (share, what) = (Percent(*share), samples(*unit));
                write!(f, "{share} of the {what} are in code that belongs to no file")
            }
            Self::Unnamed { share, unit } => {
                let (share, what) = (Percent(*share), samples(*unit));
                write!(f, "{share} of the {what} are in functions without a name")
            }
            Self::Lost { lost, share, .. } => {
                let lost = number_of(*lost, "sample was lost", "samples were lost");
                write!(f, "{lost} ({} of all)", Percent(*share))
            }
            Self::LostRecords { lost, .. } => {
                write!(
                    f,
                    "{} of files, threads or processes lost: some names may be missing",
                    number_of(*lost, "record", "records")
                )
            }
            Self::Throttled { times, .. } => {
                write!(f, "the kernel lowered the sampling rate {}", how_often(*times))
            }
            Self::FewerSamplesThanExpected { samples, expected, .. } => write!(
                f,
                "{} came where the CPU time should have given {}",
                number_of(*samples, "sample", "samples"),
                Count(*expected)
            ),
            Self::NotSampled { share, threads, .. } => {
                let threads = match threads {
                    0 => String::new(),
                    1 => " (1 thread has none at all)".to_owned(),
                    _ => format!(" ({} threads have none at all)", Count(*threads)),
                };
                write!(
                    f,
                    "{} of the CPU time has no sample{threads}: it is shown as [not sampled] under its process and thread",
                    Percent(*share)
                )
            }
            Self::StillRunning { processes, program } => still_running(f, processes, *program),
            Self::SomeCpus { cpus } => {
                write!(f, "only what ran on CPU {cpus} was recorded: times on other CPUs are missing")
            }
            Self::KernelHidden { missing_share: None, .. } => write!(f, "kernel time is not in the profile"),
            Self::KernelHidden { missing_share: Some(share), accounted: true, .. } => write!(
                f,
                "the kernel may not be looked into: its {} of the CPU time is part of [not sampled]",
                Percent(*share)
            ),
            Self::KernelHidden { missing_share: Some(share), accounted: false, .. } => {
                write!(f, "kernel time is not in the profile: {} of the CPU time is missing", Percent(*share))
            }
            Self::KernelUnnamed { share } => {
                write!(f, "the kernel hides the names of its functions ({} of the samples)", Percent(*share))
            }
            Self::UnobservableExecs { times, .. } => {
                write!(
                    f,
                    "a program that this user may not read or that is set-uid was started {}: it is not in the profile",
                    how_often(*times)
                )
            }
            Self::AgentTime { share } => write!(
                f,
                "{} of the CPU time is whyslow's own ([whyslow's heap agent]): what it costs to record the heap",
                Percent(*share)
            ),
            Self::NoAllocations => write!(f, "no allocation was seen"),
            Self::LostHeapEvents { lost, share } => write!(
                f,
                "{} allocations and frees were lost ({} of all): counts are too low, and what is live may be wrong",
                Count(*lost),
                Percent(*share)
            ),
            Self::UnknownFrees { frees, share } => write!(
                f,
                "{} frees were of blocks that nobody saw being made ({} of all frees): they are not counted",
                Count(*frees),
                Percent(*share)
            ),
            Self::HeapSampled { sample_bytes, error } => {
                write!(
                    f,
                    "one sample per {} bytes on average: all numbers are estimates",
                    Count(*sample_bytes)
                )?;
                match error {
                    Some(error) => write!(f, " (bytes allocated ±{})", Percent(1.96 * error)),
                    None => Ok(()),
                }
            }
            Self::CutHeapStacks { share } => {
                write!(f, "{} of the allocated bytes lack the outer frames of their stacks", Percent(*share))
            }
            Self::HeapNotRecorded { processes, of } if processes == of => {
                write!(f, "the heap of the program could not be watched")
            }
            Self::HeapNotRecorded { processes, of } => {
                write!(
                    f,
                    "the heap of {} of {} processes is not in the recording",
                    Count(*processes),
                    Count(*of)
                )
            }
            Self::NoLeakCheck(why) => write!(f, "leaks were not looked for: {why}"),
            Self::Recorder(note) => f.write_str(note),
        }
    }
}

/// Lets no fix contradict another: where less has to be recorded per second, none asks for more; one rate and one level of
/// the kernel's permission are asked for, the ones that help everywhere.
pub(super) fn settle(warnings: &mut [Warning]) {
    let too_much = warnings.iter().any(|warning| {
        matches!(warning, Warning::Lost { .. } | Warning::LostRecords { .. } | Warning::Throttled { .. })
    });
    let whole_cpus = warnings.iter().any(|warning| matches!(warning, Warning::NotSampled { .. }));
    let rate = warnings.iter_mut().filter_map(|warning| *raised_rate(warning)?).max();
    for warning in warnings.iter_mut() {
        if let Some(raise_to @ Some(_)) = raised_rate(warning) {
            *raise_to = rate.filter(|_| !too_much);
        }
        match warning {
            Warning::Truncated { copy_more, .. } if too_much => *copy_more = None,
            Warning::KernelHidden { level, .. } if whole_cpus => *level = 0,
            _ => {}
        }
    }
}

/// The rate that a warning's fix asks for.
fn raised_rate(warning: &mut Warning) -> Option<&mut Option<u32>> {
    match warning {
        Warning::NoSamples { raise_to }
        | Warning::TooFewSamples { raise_to, .. }
        | Warning::FewerSamplesThanExpected { raise_to, .. }
        | Warning::NotSampled { raise_to, .. } => Some(raise_to),
        _ => None,
    }
}

fn or_raise(raise_to: Option<u32>) -> String {
    raise_to.map_or_else(String::new, |hz| format!(", or raise the rate with -F {hz}"))
}

/// A fix for modules that the user builds, and one for those that came with the system.
fn by_origin(modules: &[ModuleShare], own: impl Fn(BuiltWith) -> &'static str) -> String {
    let (system, built): (Vec<_>, Vec<_>) =
        modules.iter().cloned().partition(|module| module.system_path.is_some());
    let own = own(BuiltWith::of_all(&built));
    let Some(path) = system.first().and_then(|module| module.system_path.as_deref()) else {
        return own.to_owned();
    };
    let packages = format!(
        "install the debug symbols of its package (Debian and Ubuntu: NAME-dbgsym, Fedora: `dnf debuginfo-install NAME`), or let \
         `debuginfod-find debuginfo {path}` fetch them; then record again"
    );
    match built.as_slice() {
        [] => packages,
        [first, ..] => format!("{}: {own}; {}: {packages}", first.name, system[0].name),
    }
}

/// `the program (app) was still running …`, `3 processes were left running …: sleep, worker (×2)`.
fn still_running(f: &mut fmt::Formatter<'_>, processes: &[StillRunning], program: bool) -> fmt::Result {
    const NAMED: usize = 5;
    let all: u64 = processes.iter().map(|row| row.processes).sum();
    let name = |row: &StillRunning| match row.processes {
        1 => row.name.clone(),
        times => format!("{} (×{times})", row.name),
    };
    let mut names = processes.iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ");
    if processes.len() > NAMED {
        names.push_str(", …");
    }
    let (processes, what) = match all {
        1 => ("1 process was".to_owned(), "its"),
        _ => (format!("{} processes were", Count(all)), "their"),
    };
    let when = if program { "when the recording ended" } else { "by the program when it ended" };
    let left = if program { "still running" } else { "left running" };
    write!(f, "{processes} {left} {when} ({names}): {what} time from then on is not in the profile")
}

fn points(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

fn how_often(times: u64) -> String {
    match times {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{} times", Count(times)),
    }
}

/// `a (60.0 % of the samples) is`, `a, b and c (…) are`.
fn names(modules: &[ModuleShare], one: &str, several: &str) -> String {
    let share = Percent(modules.iter().map(|module| module.share).sum());
    let names = modules.iter().map(|module| module.name.as_str()).collect::<Vec<_>>();
    let (list, verb) = match names.as_slice() {
        [] => (String::new(), several),
        [name] => ((*name).to_owned(), one),
        [before @ .., last] => (format!("{} and {last}", before.join(", ")), several),
    };
    let what = samples(modules.first().map_or_else(Unit::default, |module| module.unit));
    format!("{list} ({share} of the {what}) {verb}")
}

/// What shares are of.
fn samples(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Nanoseconds | Unit::Count => "samples",
    }
}

fn its(modules: &[ModuleShare]) -> &'static str {
    if modules.len() == 1 { "its" } else { "their" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rate_and_one_permission_are_asked_for() {
        let mut warnings = [
            Warning::TooFewSamples { samples: 9, raise_to: Some(9970) },
            Warning::NotSampled { share: 0.5, threads: 1, raise_to: Some(3988) },
            Warning::KernelHidden { missing_share: Some(0.4), accounted: true, level: 1 },
        ];
        settle(&mut warnings);
        let fixes = warnings.map(|warning| warning.fix().unwrap());
        assert!(fixes[0].contains("-F 9970") && fixes[1].contains("-F 9970"), "{fixes:?}");
        assert!(fixes[1].contains("paranoid=0") && fixes[2].contains("paranoid=0"), "{fixes:?}");
    }

    #[test]
    fn more_is_not_asked_for_where_samples_were_lost() {
        let mut warnings = [
            Warning::TooFewSamples { samples: 9, raise_to: Some(9970) },
            Warning::Lost { lost: 5, share: 0.4, frequency_hz: 997 },
        ];
        settle(&mut warnings);
        assert!(!warnings[0].fix().unwrap().contains("-F"), "{:?}", warnings[0].fix());
    }
}
