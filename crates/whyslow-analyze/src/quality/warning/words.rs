//! The messages of warnings.

use std::fmt;

use whyslow_profile::{EXACT_FRAMES, StillRunning, Unit};

use super::{ModuleShare, NOTABLE_CPU_NS, Warning};
use crate::remark::{no_leak_check, remark_of};
use whyslow_words::{Count, Percent, duration, number_of};

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => write!(f, "the recording is incomplete: the recorder was killed"),
            Self::NoSamples { cpu_time_ns, .. } if *cpu_time_ns >= NOTABLE_CPU_NS => write!(
                f,
                "the recording has no samples, although the program used {} of CPU time",
                duration(*cpu_time_ns)
            ),
            Self::NoSamples { .. } => write!(f, "the recording has no samples"),
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
            Self::Stripped(modules) if is_partly_named(modules) => write!(
                f,
                "{} stripped: functions with {} of the {} have no names and are shown by address",
                names(modules, "is", "are"),
                Percent(modules.iter().map(|module| module.unnamed_share).sum()),
                samples(modules[0].unit)
            ),
            Self::Stripped(modules) => write!(
                f,
                "{} stripped: {} functions have no names and are shown by address",
                names(modules, "is", "are"),
                its(modules)
            ),
            Self::NoDebugInfo(modules) => {
                write!(
                    f,
                    "{} without debug info: no lines and no inlined functions",
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
                "{} not symbolised yet: {} functions have no names",
                names(modules, "is", "are"),
                its(modules)
            ),
            Self::Truncated { share, .. } => {
                write!(
                    f,
                    "{} of the samples have truncated stacks: total shares of outer functions are too low",
                    Percent(*share)
                )
            }
            Self::NoUnwindInfo { share, module, in_assembly, .. } => {
                write!(f, "{} of the samples have truncated stacks: ", Percent(*share))?;
                match module {
                    Some(module) if *in_assembly => {
                        write!(f, "assembly in {module} has no unwind tables")
                    }
                    Some(module) => write!(f, "{module} has code without unwind tables"),
                    None => write!(f, "some code has no unwind tables"),
                }
            }
            Self::JitStacks { share, runtime } => write!(
                f,
                "{} of the samples have truncated stacks: code that {} compiled at run time keeps no frame pointers",
                Percent(*share),
                runtime.name
            ),
            Self::DeepRecursion { share, deepest } => {
                write!(f, "{} of the samples are in recursion ", Percent(*share))?;
                match deepest {
                    Some(frames) => write!(f, "up to {} frames deep", Count(*frames))?,
                    None => write!(f, "deeper than {EXACT_FRAMES} frames")?,
                }
                write!(f, ": calls that their stacks repeat are shown as [recursion left out]")
            }
            Self::CutAtSignal { share } => write!(
                f,
                "{} of the samples end at a signal handler on its own stack: the interrupted code is unknown",
                Percent(*share)
            ),
            Self::UnnamedJit { share, unit, runtime } => write!(
                f,
                "{} of the {} pass through code that {} compiled at run time: its functions have no names",
                Percent(*share),
                samples(*unit),
                runtime.name
            ),
            Self::Interpreted { share, unit, runtime } => write!(
                f,
                "{} of the {} are below the {} interpreter: functions of the script are not visible",
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
                let lost = number_of(*lost, "lost record", "lost records");
                write!(f, "{lost} of mapped files, threads or processes: some names may be missing")
            }
            Self::Throttled { times, .. } => {
                write!(f, "the kernel throttled sampling {}: some samples are missing", how_often(*times))
            }
            Self::FewerSamplesThanExpected { samples, expected, .. } => write!(
                f,
                "{} arrived, but the CPU time should give {}: shares may be off",
                number_of(*samples, "sample", "samples"),
                Count(*expected)
            ),
            Self::NotCovered { share } => write!(
                f,
                "{} of the CPU time has no sample: it is in programs that whyslow could not enter, or in threads that ran between \
                 two clock ticks; where its thread is known it is shown as [not sampled]",
                Percent(*share)
            ),
            Self::NotSampled { share, threads, .. } => {
                let threads = match threads {
                    0 => String::new(),
                    _ => format!(" ({} none at all)", number_of(*threads, "thread has", "threads have")),
                };
                write!(
                    f,
                    "{} of the CPU time has no sample{threads}: it is shown as [not sampled] under its process and thread",
                    Percent(*share)
                )
            }
            Self::StillRunning { processes, program } => still_running(f, processes, *program),
            Self::SomeCpus { cpus } => {
                write!(f, "only CPU {cpus} was recorded: time on other CPUs is missing")
            }
            Self::KernelHidden { missing_share: None, .. } => write!(f, "kernel time is not in the profile"),
            Self::KernelHidden { missing_share: Some(share), accounted: true } => write!(
                f,
                "no permission to sample the kernel: its {} of the CPU time is shown as [not sampled]",
                Percent(*share)
            ),
            Self::KernelHidden { missing_share: Some(share), accounted: false } => {
                write!(f, "kernel time is not in the profile: {} of the CPU time is missing", Percent(*share))
            }
            Self::KernelUnnamed { share } => {
                write!(f, "the kernel hides the names of its functions ({} of the samples)", Percent(*share))
            }
            Self::UnobservableExecs { times, .. } => {
                write!(
                    f,
                    "a program that is set-uid or that this user may not read was started {}: it is not in the profile",
                    how_often(*times)
                )
            }
            Self::AgentTime { share } => write!(
                f,
                "{} of the CPU time is whyslow's own overhead, shown as [whyslow's agent]",
                Percent(*share)
            ),
            Self::WaitsUnseen { share, .. } => {
                write!(
                    f,
                    "{} of the waiting time has no stack: where threads waited is unknown",
                    Percent(*share)
                )
            }
            Self::NoAllocations => write!(f, "no allocations were recorded"),
            Self::LostHeapEvents { lost, share } => write!(
                f,
                "{} lost ({} of all): counts are too low, and live bytes may be wrong",
                number_of(*lost, "allocation or free was", "allocations and frees were"),
                Percent(*share)
            ),
            Self::UnknownFrees { frees, share } => write!(
                f,
                "{} of blocks whose allocation was not recorded ({} of all frees): they are not counted",
                number_of(*frees, "free was", "frees were"),
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
            Self::CutHeapStacks { share, module, .. } => {
                write!(f, "{} of the allocated bytes have truncated stacks: ", Percent(*share))?;
                match module {
                    Some(module) => write!(f, "{module} has code without unwind tables"),
                    None => write!(f, "code compiled at run time has no unwind tables"),
                }
            }
            Self::HeapNotRecorded { processes, of } if processes == of => {
                write!(f, "the program's heap could not be recorded")
            }
            Self::HeapNotRecorded { processes, of } => {
                write!(
                    f,
                    "the heap of {} of {} processes is not in the recording",
                    Count(*processes),
                    Count(*of)
                )
            }
            Self::NoLeakCheck(why) => write!(f, "no leak check: {}", no_leak_check(why)),
            Self::Noted(note) => f.write_str(&remark_of(note).text),
        }
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
    let what = if all == 1 { "its" } else { "their" };
    let processes = number_of(all, "process was", "processes were");
    let when = if program { "when the recording ended" } else { "by the program when it ended" };
    let left = if program { "still running" } else { "left running" };
    write!(f, "{processes} {left} {when} ({names}): {what} later time is not in the profile")
}

/// Whether a notable part of the samples in these modules is in functions with a name.
fn is_partly_named(modules: &[ModuleShare]) -> bool {
    modules.iter().any(|module| module.unnamed_share < 0.95 * module.share)
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

/// The noun for what a share is a share of.
fn samples(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Nanoseconds | Unit::Count => "samples",
    }
}

fn its(modules: &[ModuleShare]) -> &'static str {
    if modules.len() == 1 { "its" } else { "their" }
}
