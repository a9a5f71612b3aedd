//! The fix of each warning, and how the fixes of several warnings are kept consistent.

use super::{BuiltWith, ModuleShare, NOTABLE_CPU_NS, Warning};
use crate::perf_level::PerfLevel;
use crate::remark::{leak_check_fix, remark_of};

/// The fix for Go programs without debug info and unwind tables.
const WHOLE_GO: &str = "build without `-ldflags=\"-s -w\"`, and do not run `strip`";

/// Whether a file is musl's C library, which is also its loader.
fn is_musl(module: &str) -> bool {
    module.starts_with("ld-musl") || module.starts_with("libc.musl")
}

impl BuiltWith {
    /// How to build it with unwind tables.
    fn unwind_tables(self) -> Option<&'static str> {
        Some(match self {
            Self::Package => return None,
            Self::Cargo => "build with RUSTFLAGS=\"-C force-unwind-tables=yes\"",
            Self::Go => WHOLE_GO,
            Self::Other => "build with `gcc -fasynchronous-unwind-tables`; assembly needs `.cfi` directives",
            Self::Unknown => {
                "build with RUSTFLAGS=\"-C force-unwind-tables=yes\" (C: -fasynchronous-unwind-tables)"
            }
        })
    }
}

impl Warning {
    /// What to type or change; `None` when nothing helps.
    pub(crate) fn fix(&self) -> Option<String> {
        let lower = |frequency_hz: u32| format!("-F {}", (frequency_hz / 2).max(1));
        Some(match self {
            Self::Incomplete => {
                "stop whyslow with Ctrl-C, not `kill -9`; what was recorded is right".to_owned()
            }
            Self::NoSamples { cpu_time_ns, .. } if *cpu_time_ns >= NOTABLE_CPU_NS => {
                "record again; `whyslow doctor` says what this machine lets you record".to_owned()
            }
            Self::NoSamples { waits: true, .. } | Self::TooFewSamples { waits: true, .. } => {
                "the program waits nearly all of the time: record its waits with `--off-cpu`, and see `whyslow report FILE waits`"
                    .to_owned()
            }
            Self::NoSamples { raise_to, .. } => {
                format!("the program used almost no CPU time: record a longer run{}", or_raise(*raise_to))
            }
            Self::TooFewSamples { raise_to: Some(_), again: Some(command), .. } => {
                format!("record a longer run, or raise the rate: `{command}`")
            }
            Self::TooFewSamples { raise_to, .. } => format!("record a longer run{}", or_raise(*raise_to)),
            Self::DebugBuild(modules) => match BuiltWith::of_all(modules) {
                BuiltWith::Cargo => "build with `cargo build --release`; `cargo whyslow` does it for you",
                BuiltWith::Go => "build without `-gcflags=-N`",
                BuiltWith::Other => "build with optimisation: `gcc -O2 -g`",
                BuiltWith::Unknown | BuiltWith::Package => {
                    "build with `cargo build --release` (C and C++: `gcc -O2 -g`)"
                }
            }
            .to_owned(),
            Self::Stripped(modules) => by_origin(modules, |built_with| match built_with {
                BuiltWith::Cargo => {
                    return format!(
                        "record it with `{}`, which builds it with names and lines; or put `strip = false` and `debug = \
                         \"line-tables-only\"` under [profile.release] in Cargo.toml",
                        with_cargo(modules)
                    );
                }
                BuiltWith::Go => WHOLE_GO,
                BuiltWith::Other => "build with `gcc -g -O2`, and neither link with -s nor run `strip`",
                // A stripped file does not say what it was built with.
                BuiltWith::Unknown | BuiltWith::Package => {
                    "do not strip it: C and C++: `gcc -g -O2` without -s; Rust: `strip = false` and \
                     `debug = \"line-tables-only\"` under [profile.release] in Cargo.toml"
                }
            }
            .to_owned()),
            Self::NoDebugInfo(modules) => by_origin(modules, |built_with| match built_with {
                BuiltWith::Cargo => {
                    return format!(
                        "record it with `{}`, which builds it with line tables and then names the lines; or put `debug = \
                         \"line-tables-only\"` under [profile.release] in Cargo.toml",
                        with_cargo(modules)
                    );
                }
                BuiltWith::Go => WHOLE_GO,
                BuiltWith::Other => "build with debug info: `gcc -g -O2`",
                BuiltWith::Unknown | BuiltWith::Package => {
                    "put `debug = \"line-tables-only\"` under [profile.release] in Cargo.toml (C and C++: `gcc -g`)"
                }
            }
            .to_owned()),
            Self::MissingFile(_) => {
                "open the profile on the machine that recorded it, with the file in its place; or import it with \
                 `--symfs FOLDER`, the folder with copies of the files"
                    .to_owned()
            }
            Self::ReplacedFile(_) => {
                "record again, and do not replace the file before the recording ends".to_owned()
            }
            Self::NotSymbolised(_) => {
                "run `whyslow report FILE` on the machine that recorded it"
                    .to_owned()
            }
            Self::Truncated { copy_more, .. } => {
                let read = "read `whyslow report FILE tree --inverted`, which does not need the outer frames";
                match copy_more {
                    Some(bytes) => {
                        format!("record with `--stack-size {bytes}` to copy more of each stack; or {read}")
                    }
                    None => read.to_owned(),
                }
            }
            Self::NoUnwindInfo { in_assembly: true, .. } => {
                "add `.cfi` directives to it; or read `whyslow report FILE tree --inverted`, which does not need the outer frames"
                    .to_owned()
            }
            Self::NoUnwindInfo { built_with, .. } => return built_with.unwind_tables().map(str::to_owned),
            Self::JitStacks { runtime, .. } => return runtime.stacks_fix(),
            Self::CutAtSignal { .. } | Self::DeepRecursion { .. } => return None,
            Self::UnnamedJit { runtime, .. } => runtime.names_fix(),
            Self::Interpreted { runtime, .. } => runtime.script_fix(),
            Self::UnknownCode { .. } => {
                "if it is JIT-compiled, make its runtime write /tmp/perf-PID.map or a jitdump file".to_owned()
            }
            Self::Unnamed { .. } => {
                "record again with the other tool, with symbols for the program".to_owned()
            }
            Self::Lost { frequency_hz, .. } | Self::LostRecords { frequency_hz, .. } => {
                format!("record at a lower rate: {}", lower(*frequency_hz))
            }
            Self::Throttled { frequency_hz, .. } => format!(
                "record at a lower rate ({}), or allow a higher one: \
                 `sudo sysctl kernel.perf_event_max_sample_rate=100000`",
                lower(*frequency_hz)
            ),
            Self::FewerSamplesThanExpected { raise_to, .. } => {
                let quiet = "record again while the machine (and its host) is idle";
                match raise_to {
                    Some(hz) => format!(
                        "threads that exit between two samples are undercounted: raise the rate with -F {hz}; or {quiet}"
                    ),
                    None => quiet.to_owned(),
                }
            }
            Self::NotCovered { .. } => "allow perf events, which sample every thread: `whyslow doctor` says how".to_owned(),
            Self::NotSampled { raise_to, .. } => format!(
                "record as root, or after `{}`: then short-lived threads get their share of the samples{}",
                PerfLevel::WholeCpus.command(),
                or_raise(*raise_to)
            ),
            Self::StillRunning { program: true, .. } => {
                "record longer with `--duration`, or leave it out to record until the program exits".to_owned()
            }
            Self::StillRunning { program: false, .. } => {
                "attach to one of them to record it: `whyslow record -p PID`".to_owned()
            }
            Self::KernelHidden { .. } => {
                format!("`{}`, then record again", PerfLevel::Kernel.command())
            }
            Self::KernelUnnamed { .. } => {
                "`sudo sysctl kernel.kptr_restrict=0`, then record again".to_owned()
            }
            Self::UnobservableExecs { .. } => {
                "record as root, or record a copy that you can read and that is not set-uid"
                    .to_owned()
            }
            Self::AgentTime { .. } => {
                "compare the other shares with each other; for undisturbed CPU time, record nothing else"
                    .to_owned()
            }
            Self::WaitsUnseen { snapshots: true, .. } => {
                "record as root: then the kernel gives a stack for every wait".to_owned()
            }
            Self::WaitsUnseen { snapshots: false, .. } => return None,
            Self::NoAllocations => {
                "if the program does allocate, whyslow did not find its allocator: keep its symbols (no `strip`), or use the \
                 crate whyslow-alloc"
                    .to_owned()
            }
            Self::LostHeapEvents { .. } => {
                "record with `--sample 512k`, which writes far less; or leave a CPU free for the recorder"
                    .to_owned()
            }
            Self::UnknownFrees { .. } => {
                "record from the start of the program: `whyslow heap -- PROGRAM`"
                    .to_owned()
            }
            Self::HeapSampled { .. } => {
                "record with a smaller `--sample`, or without it to count every allocation".to_owned()
            }
            Self::CutHeapStacks { module: None, .. } => {
                "run it without JIT compilation (LuaJIT: `-joff`; Java: `-Xint`; Node.js: `--jitless`): the interpreter's \
                 stacks are complete"
                    .to_owned()
            }
            Self::CutHeapStacks { module: Some(module), .. } if is_musl(module) => {
                "musl is built without them, so stacks end at its functions that call back (qsort, atexit): record \
                 a build for glibc, or use a musl built with `CFLAGS=-fasynchronous-unwind-tables`"
                    .to_owned()
            }
            Self::CutHeapStacks { built_with, .. } => return built_with.unwind_tables().map(str::to_owned),
            Self::HeapNotRecorded { .. } => {
                "set-uid, stripped static and unreadable programs cannot be recorded: run your own copy with symbols; \
                 the agent needs about 20 MB of address space (`ulimit -v`) and 2 MB more per thread"
                    .to_owned()
            }
            Self::NoLeakCheck(why) => return leak_check_fix(why).map(str::to_owned),
            Self::Noted(note) => return remark_of(note).fix,
            Self::SomeCpus { .. } => return None,
        })
    }
}

/// Keeps fixes from contradicting each other. If one says to record less per second, none says to record
/// more. All name the same rate: the one that helps in every case.
pub(in crate::quality) fn settle(warnings: &mut [Warning]) {
    let too_much = warnings.iter().any(|warning| {
        matches!(warning, Warning::Lost { .. } | Warning::LostRecords { .. } | Warning::Throttled { .. })
    });
    let rate = warnings.iter_mut().filter_map(|warning| *raised_rate(warning)?).max();
    for warning in warnings.iter_mut() {
        if let Some(raise_to @ Some(_)) = raised_rate(warning) {
            *raise_to = rate.filter(|_| !too_much);
        }
        if let Warning::Truncated { copy_more, .. } = warning
            && too_much
        {
            *copy_more = None;
        }
    }
}

/// The rate that a warning's fix names.
fn raised_rate(warning: &mut Warning) -> Option<&mut Option<u32>> {
    match warning {
        Warning::NoSamples { raise_to, .. }
        | Warning::TooFewSamples { raise_to, .. }
        | Warning::FewerSamplesThanExpected { raise_to, .. }
        | Warning::NotSampled { raise_to, .. } => Some(raise_to),
        _ => None,
    }
}

fn or_raise(raise_to: Option<u32>) -> String {
    raise_to.map_or_else(String::new, |hz| format!(", or raise the rate with -F {hz}"))
}

/// The servers with the debug symbols of distributions, by the id in their `os-release`.
const DEBUGINFOD: [(&str, &str); 6] = [
    ("debian", "https://debuginfod.debian.net"),
    ("ubuntu", "https://debuginfod.ubuntu.com"),
    ("fedora", "https://debuginfod.fedoraproject.org"),
    ("arch", "https://debuginfod.archlinux.org"),
    ("opensuse-tumbleweed", "https://debuginfod.opensuse.org"),
    ("opensuse-leap", "https://debuginfod.opensuse.org"),
];

/// The cargo command that records the program again, with lines.
fn with_cargo(modules: &[ModuleShare]) -> &str {
    modules.iter().find_map(|module| module.cargo_again.as_deref()).unwrap_or("cargo whyslow -- ARGS")
}

/// A fix for modules that the user builds, and another for modules of the system.
fn by_origin(modules: &[ModuleShare], own: impl Fn(BuiltWith) -> String) -> String {
    let (system, built): (Vec<_>, Vec<_>) =
        modules.iter().cloned().partition(|module| module.system_path.is_some());
    let own = own(BuiltWith::of_all(&built));
    let Some(path) = system.first().and_then(|module| module.system_path.as_deref()) else {
        return own;
    };
    let server = DEBUGINFOD.iter().find(|(id, _)| *id == system[0].distribution).map(|(_, server)| server);
    let packages = match server {
        Some(server) => format!(
            "fetch its debug symbols with `DEBUGINFOD_URLS={server} debuginfod-find debuginfo {path}` (package debuginfod), \
             then record again"
        ),
        None => format!(
            "install the debug symbols of its package (Debian and Ubuntu: NAME-dbgsym, Fedora: `dnf debuginfo-install NAME`), or \
         fetch them with `debuginfod-find debuginfo {path}`; then record again"
        ),
    };
    match built.as_slice() {
        [] => packages,
        [first, ..] => format!("{}: {own}; {}: {packages}", first.name, system[0].name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fixes_name_one_rate_and_each_its_own_permission() {
        let mut warnings = [
            Warning::TooFewSamples { samples: 9, raise_to: Some(9970), again: None, waits: false },
            Warning::NotSampled { share: 0.5, threads: 1, raise_to: Some(3988) },
            Warning::KernelHidden { missing_share: Some(0.4), accounted: true },
        ];
        settle(&mut warnings);
        let fixes = warnings.map(|warning| warning.fix().unwrap());
        assert!(fixes[0].contains("-F 9970") && fixes[1].contains("-F 9970"), "{fixes:?}");
        assert!(fixes[1].contains("paranoid=0") && fixes[2].contains("paranoid=1"), "{fixes:?}");
    }

    #[test]
    fn does_not_suggest_a_higher_rate_when_samples_were_lost() {
        let mut warnings = [
            Warning::TooFewSamples { samples: 9, raise_to: Some(9970), again: None, waits: false },
            Warning::Lost { lost: 5, share: 0.4, frequency_hz: 997 },
        ];
        settle(&mut warnings);
        assert!(!warnings[0].fix().unwrap().contains("-F"), "{:?}", warnings[0].fix());
    }
}
