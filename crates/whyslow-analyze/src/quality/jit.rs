//! JIT-compiled code: which runtime compiled it, and how to get its names and complete stacks.

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::{LocationId, ModuleId, ModuleKind, ProcessId, Profile, StackId};

use crate::labels::{is_named, module_file_name};
use crate::selection::Weights;

/// A runtime with a JIT compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Its name.
    pub name: String,
    /// How to make it write the names of its code.
    names: &'static str,
    /// How to make its code keep frame pointers; empty if it already does.
    frame_pointers: &'static str,
}

/// How a runtime is recognised: by how the names of its files, or of its process, begin.
struct Known {
    name: &'static str,
    files: &'static [&'static str],
    names: &'static str,
    frame_pointers: &'static str,
}

const KNOWN: [Known; 11] = [
    Known {
        name: "Java",
        files: &["libjvm.so", "java"],
        names: "run it with `java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit` (JDK 17 or later; before: perf-map-agent)",
        frame_pointers: "run it with `java -XX:+PreserveFramePointer`",
    },
    Known {
        name: ".NET",
        files: &["libcoreclr.so", "dotnet"],
        names: "set DOTNET_PerfMapEnabled=1 for it",
        frame_pointers: "",
    },
    Known {
        name: "LuaJIT",
        files: &["luajit", "libluajit"],
        names: "build LuaJIT with `make XCFLAGS=-DLUAJIT_USE_PERFTOOLS`; or use its own profiler for hot lines: `luajit -jp=l`",
        frame_pointers: "LuaJIT's traces keep no frame pointers: `luajit -joff` shows the interpreter's stacks, `luajit -jp` shows Lua's",
    },
    Known {
        name: "node",
        files: &["node", "libnode.so", "nodejs"],
        names: "run it with `node --perf-basic-prof` (or NODE_OPTIONS=--perf-basic-prof)",
        frame_pointers: "",
    },
    Known {
        name: "deno",
        files: &["deno"],
        names: "run it with `deno run --v8-flags=--perf-basic-prof`",
        frame_pointers: "",
    },
    Known {
        name: "Chromium",
        files: &["chrome", "chromium", "electron", "libelectron"],
        names: "run it with `--no-sandbox --js-flags=--perf-basic-prof`",
        frame_pointers: "",
    },
    Known {
        name: "PHP",
        files: &["php", "libphp", "opcache.so"],
        names: "run it with `php -d opcache.jit_debug=0x10`",
        frame_pointers: "",
    },
    Known {
        name: "Ruby",
        files: &["ruby", "libruby"],
        names: "run it with `ruby --yjit-perf=map` (Ruby 3.3 or later)",
        frame_pointers: "run it with `ruby --yjit-perf=fp`",
    },
    Known {
        name: "Erlang",
        files: &["beam.smp", "erl"],
        names: "run it with `erl +JPperf map`",
        frame_pointers: "run it with `erl +JPfp true`",
    },
    Known {
        name: "Julia",
        files: &["libjulia", "julia"],
        names: "set ENABLE_JITPROFILING=1 for it",
        frame_pointers: "",
    },
    Known {
        name: "Python",
        files: &["python", "libpython"],
        names: "run it with `python -X perf` (Python 3.12 or later)",
        frame_pointers: "use a Python that was built with -fno-omit-frame-pointer, or `python -X perf_jit` (3.13 or later)",
    },
];

impl Runtime {
    /// The fix for missing names.
    pub(super) fn names_fix(&self) -> String {
        if self.names.is_empty() {
            "make the runtime write /tmp/perf-PID.map or a jitdump file; most JIT compilers have an option for it"
                .to_owned()
        } else {
            self.names.to_owned()
        }
    }

    /// The fix for truncated stacks, if there is one.
    pub(super) fn stacks_fix(&self) -> Option<String> {
        (!self.frame_pointers.is_empty()).then(|| self.frame_pointers.to_owned())
    }

    /// Recognised by the names of the files that ran in a process; otherwise named after the process.
    fn of<'a>(files: impl Iterator<Item = &'a str> + Clone, process: &str) -> Self {
        let is = |known: &&Known| {
            let begins = |name: &str| known.files.iter().any(|file| name.starts_with(file));
            files.clone().any(begins) || begins(process)
        };
        match KNOWN.iter().find(is) {
            Some(known) => {
                let name = known.name.to_owned();
                Self { name, names: known.names, frame_pointers: known.frame_pointers }
            }
            None => Self { name: process.to_owned(), names: "", frame_pointers: "" },
        }
    }
}

/// The weight of a runtime's code.
#[derive(Debug, Clone)]
pub(super) struct RuntimeCode {
    pub(super) runtime: Runtime,
    /// The innermost frame is in its code and has no name.
    pub(super) unnamed: u64,
    /// Stacks are truncated at its code.
    pub(super) lost_at: u64,
}

/// The code of each runtime in the main metric, heaviest first.
pub(super) fn runtimes(profile: &Profile, weights: &Weights) -> Vec<RuntimeCode> {
    let made_at_run_time = |module: Option<ModuleId>| match module {
        Some(module) => {
            profile.modules.get(module.index()).is_some_and(|module| module.kind == ModuleKind::Jit)
        }
        None => false,
    };
    let stacks = &profile.stacks;
    let mut unnamed = vec![false; stacks.len()];
    let mut lost_at = vec![false; stacks.len()];
    for stack in 0..stacks.len() {
        let id = StackId::from(stack);
        let location = stacks.location(id);
        let is_jit = made_at_run_time(profile.locations.module[location.index()]);
        unnamed[stack] = is_jit && !is_named(profile, location);
        lost_at[stack] = match stacks.parent(id) {
            Some(parent) if stacks.location(parent) == LocationId::TRUNCATED => is_jit,
            Some(parent) => lost_at[parent.index()],
            None => false,
        };
    }
    let matters = |stack: usize| (unnamed[stack] || lost_at[stack]) && weights.value[stack] > 0;
    if !(0..stacks.len()).any(matters) {
        return Vec::new();
    }
    // The process of a sample shows which runtime its code belongs to.
    let mut by_process: FxHashMap<ProcessId, (u64, u64)> = FxHashMap::default();
    let Some((_, samples)) = profile.main_samples() else { return Vec::new() };
    let rows = || samples.stack.iter().zip(&samples.thread).zip(&samples.value);
    let process_of =
        |thread: &whyslow_profile::ThreadId| profile.threads.get(thread.index()).map(|thread| thread.process);
    for ((stack, thread), &value) in rows() {
        let (unnamed, lost_at) = (unnamed[stack.index()], lost_at[stack.index()]);
        if (unnamed || lost_at)
            && let Some(process) = process_of(thread)
        {
            let sums = by_process.entry(process).or_default();
            sums.0 = sums.0.saturating_add(if unnamed { value } else { 0 });
            sums.1 = sums.1.saturating_add(if lost_at { value } else { 0 });
        }
    }
    let mut modules: FxHashMap<ProcessId, Vec<ModuleId>> = FxHashMap::default();
    let mut visited: FxHashSet<(ProcessId, StackId)> = FxHashSet::default();
    for ((stack, thread), _) in rows() {
        let Some(process) = process_of(thread).filter(|process| by_process.contains_key(process)) else {
            continue;
        };
        let seen = modules.entry(process).or_default();
        let mut at = Some(*stack);
        while let Some(stack) = at.filter(|stack| visited.insert((process, *stack))) {
            if let Some(module) = profile.locations.module[stacks.location(stack).index()]
                && !seen.contains(&module)
            {
                seen.push(module);
            }
            at = stacks.parent(stack);
        }
    }
    let mut found: Vec<RuntimeCode> = Vec::new();
    for (process, (unnamed, lost_at)) in by_process {
        let seen = modules.get(&process).map_or(&[][..], Vec::as_slice);
        let files = seen.iter().map(|module| module_file_name(profile, *module));
        let name = profile.processes.get(process.index()).map_or("", |process| profile.text(process.name));
        let runtime = Runtime::of(files, name);
        match found.iter_mut().find(|code| code.runtime == runtime) {
            Some(code) => {
                code.unnamed = code.unnamed.saturating_add(unnamed);
                code.lost_at = code.lost_at.saturating_add(lost_at);
            }
            None => found.push(RuntimeCode { runtime, unnamed, lost_at }),
        }
    }
    found.sort_by(|a, b| {
        (b.unnamed, b.lost_at, &a.runtime.name).cmp(&(a.unnamed, a.lost_at, &b.runtime.name))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::{Grade, Quality, Warning};
    use crate::testing;

    /// A profile of a process with this name and its JIT-compiled code in the module `jit.so`.
    fn profile(process: &str, folded: &str) -> Profile {
        let mut profile = testing::profile(folded);
        profile.processes[0].name = profile.strings.push(process);
        let jit = (0..profile.modules.len())
            .find(|&row| module_file_name(&profile, ModuleId::from(row)) == "jit.so")
            .unwrap();
        profile.modules[jit].kind = ModuleKind::Jit;
        profile.modules[jit].path = profile.strings.push("[jit:100]");
        profile
    }

    fn first(profile: &Profile) -> (Warning, Grade) {
        let mut quality = Quality::of(profile);
        (quality.warnings.remove(0), quality.grade)
    }

    #[test]
    fn jit_code_without_names_lowers_the_grade() {
        for (process, name, switch) in [
            ("node", "node", "--perf-basic-prof"),
            ("java", "Java", "-XX:+DumpPerfMapAtExit"),
            ("luajit", "LuaJIT", "LUAJIT_USE_PERFTOOLS"),
            ("dotnet", ".NET", "DOTNET_PerfMapEnabled=1"),
            ("python3.12", "Python", "-X perf"),
            ("something", "something", "/tmp/perf-PID.map"),
        ] {
            let (warning, grade) = first(&profile(process, "main;[jit.so] 240\nmain 60"));
            let text = format!(
                "80.0 % of the samples are in code that {name} compiled at run time: its functions have no names"
            );
            assert_eq!((warning.id(), warning.to_string(), grade), ("jit-unnamed", text, Grade::Poor));
            assert!(warning.fix().unwrap().contains(switch), "{:?}", warning.fix());
        }
    }

    #[test]
    fn recognises_a_runtime_by_its_library_whatever_the_process_name() {
        let (warning, grade) = first(&profile("server", "[libjvm.so];[jit.so] 60\nmain 240"));
        assert!(warning.to_string().starts_with("20.0 % of the samples are in code that Java"), "{warning}");
        assert_eq!(grade, Grade::Fair);
    }

    #[test]
    fn small_share_gets_no_warning() {
        assert_eq!(Quality::of(&profile("node", "main;[jit.so] 4\nmain 296")).warnings, []);
    }

    #[test]
    fn truncated_stacks_in_jit_code_have_their_own_warning() {
        let mut java = profile("java", "[truncated];[jit.so];main 300");
        java.meta.counters.no_unwind_info = 300;
        let (warning, _) = first(&java);
        assert_eq!(warning.id(), "jit-stacks");
        assert!(warning.fix().unwrap().contains("PreserveFramePointer"), "{:?}", warning.fix());
    }
}
