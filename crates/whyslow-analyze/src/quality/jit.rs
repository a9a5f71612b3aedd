//! JIT-compiled code: which runtime compiled it, and how to get its names and complete stacks.

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::{LocationId, ModuleId, ModuleKind, ProcessId, Profile, StackId};

use crate::labels::{is_named, module_file_name};
use crate::selection::Weights;

/// A runtime that compiles or interprets other programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Its name.
    pub name: String,
    /// How to make it write the names of its code.
    names: &'static str,
    /// How to make its code keep frame pointers; empty if it already does, or if another remark says it.
    frame_pointers: &'static str,
    /// How to see the functions of an interpreted script.
    script: &'static str,
}

/// How a runtime is recognised: by how the names of its files, or of its process, begin.
struct Known {
    name: &'static str,
    files: &'static [&'static str],
    names: &'static str,
    frame_pointers: &'static str,
    script: Script,
}

/// How to see the functions of a script that an interpreter runs. The interpreter's own stack shows only its own
/// functions.
enum Script {
    /// It compiles its scripts, or it is not known.
    Compiled,
    /// The same for every version.
    Always(&'static str),
    /// From this version on, and before.
    Since([u32; 2], &'static str, &'static str),
}

/// Java needs all of them, so they are named together.
const JAVA: &str = "run it with `java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit` \
                    (JDK 17 or later; before: -XX:+PreserveFramePointer and perf-map-agent)";

const KNOWN: [Known; 12] = [
    Known {
        name: "Java",
        files: &["libjvm", "java"],
        names: JAVA,
        frame_pointers: JAVA,
        script: Script::Compiled,
    },
    Known {
        name: ".NET",
        files: &["libcoreclr", "dotnet"],
        names: "set DOTNET_PerfMapEnabled=1 for it",
        frame_pointers: "",
        script: Script::Compiled,
    },
    Known {
        name: "LuaJIT",
        files: &["luajit", "libluajit"],
        names: "build LuaJIT with `make XCFLAGS=-DLUAJIT_USE_PERFTOOLS`; or use its own profiler for hot lines: `luajit -jp=l`",
        frame_pointers: "LuaJIT's traces keep no frame pointers: `luajit -joff` shows the interpreter's stacks, `luajit -jp` shows Lua's",
        script: Script::Always("`luajit -jp=l` shows the lines of the script"),
    },
    Known {
        name: "node",
        files: &["node", "libnode", "nodejs"],
        names: "run it with `node --perf-basic-prof` (or NODE_OPTIONS=--perf-basic-prof)",
        frame_pointers: "",
        script: Script::Compiled,
    },
    Known {
        name: "deno",
        files: &["deno"],
        names: "run it with `deno run --v8-flags=--perf-basic-prof`",
        frame_pointers: "",
        script: Script::Compiled,
    },
    Known {
        name: "Chromium",
        files: &["chrome", "chromium", "electron", "libelectron"],
        names: "run it with `--no-sandbox --js-flags=--perf-basic-prof`",
        frame_pointers: "",
        script: Script::Compiled,
    },
    Known {
        name: "PHP",
        files: &["php", "libphp", "opcache"],
        names: "run it with `php -d opcache.jit_debug=0x10`",
        frame_pointers: "",
        script: Script::Always("use a profiler for PHP, such as Excimer or SPX"),
    },
    Known {
        name: "Ruby",
        files: &["ruby", "libruby"],
        names: "run it with `ruby --yjit-perf=map` (Ruby 3.3 or later)",
        frame_pointers: "run it with `ruby --yjit-perf=fp`",
        script: Script::Since(
            [3, 3],
            "run it with `ruby --yjit --yjit-perf`, which names compiled methods; or use a profiler for Ruby, such as rbspy",
            "use a profiler for Ruby, such as rbspy or stackprof; Ruby 3.3 or later names compiled methods with `--yjit --yjit-perf`",
        ),
    },
    Known {
        name: "Erlang",
        files: &["beam", "erl"],
        names: "run it with `erl +JPperf map`",
        frame_pointers: "run it with `erl +JPfp true`",
        script: Script::Compiled,
    },
    Known {
        name: "Julia",
        files: &["libjulia", "julia"],
        names: "set ENABLE_JITPROFILING=1 for it",
        frame_pointers: "",
        script: Script::Compiled,
    },
    Known {
        name: "Python",
        files: &["python", "libpython"],
        names: "run it with `python -X perf` (Python 3.12 or later)",
        frame_pointers: "use a Python that was built with -fno-omit-frame-pointer, or `python -X perf_jit` (3.13 or later)",
        script: Script::Since(
            [3, 12],
            "run it with `python -X perf` (or PYTHONPERFSUPPORT=1)",
            "this Python cannot name them: run it with Python 3.12 or later and `-X perf`, or use a profiler for Python, such as \
             py-spy",
        ),
    },
    Known {
        name: "Perl",
        files: &["perl", "libperl"],
        names: "",
        frame_pointers: "",
        script: Script::Always("use a profiler for Perl, such as Devel::NYTProf"),
    },
];

impl Known {
    /// Whether a file is one of its own: `python3.11` and `libpython3.11.so.1.0` are Python's, `python-app` is not.
    fn has_file(&self, file: &str) -> bool {
        self.files.iter().any(|begin| {
            let rest = file.strip_prefix(begin).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(|c: char| c == '.' || c.is_ascii_digit())
            })
        })
    }

    fn runtime(&self, file: &str) -> Runtime {
        let script = match self.script {
            Script::Compiled => "",
            Script::Always(fix) => fix,
            Script::Since(since, fix, older) => match version(file) {
                Some(version) if version < since => older,
                _ => fix,
            },
        };
        Runtime { name: self.name.to_owned(), names: self.names, frame_pointers: self.frame_pointers, script }
    }
}

/// `[3, 11]` of `python3.11` and `libpython3.11.so.1.0`.
fn version(file: &str) -> Option<[u32; 2]> {
    let digits = &file[file.find(|c: char| c.is_ascii_digit())?..];
    let mut parts = digits.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??])
}

/// Whether a file belongs to a runtime that compiles or interprets other programs.
pub(super) fn is_of_runtime(file: &str) -> bool {
    KNOWN.iter().any(|known| known.has_file(file))
}

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

    /// The fix for scripts whose functions are not visible.
    pub(super) fn script_fix(&self) -> String {
        self.script.to_owned()
    }

    /// The same, for a second remark that has the same fix for names and stacks as the first.
    fn said(mut self) -> Self {
        if self.frame_pointers == self.names {
            self.frame_pointers = "";
        }
        self
    }

    /// Recognised by the names of the files that ran in a process; otherwise named after the process.
    fn of<'a>(files: impl Iterator<Item = &'a str> + Clone, process: &str) -> Self {
        let is = |known: &&Known| {
            let begins = |name: &str| known.files.iter().any(|file| name.starts_with(file));
            files.clone().any(begins) || begins(process)
        };
        match KNOWN.iter().find(is) {
            Some(known) => known.runtime(process),
            None => Self { name: process.to_owned(), names: "", frame_pointers: "", script: "" },
        }
    }
}

/// The weight of a runtime's code.
#[derive(Debug, Clone)]
pub(super) struct RuntimeCode {
    pub(super) runtime: Runtime,
    /// Stacks pass through its code, and no function of it has a name; or their innermost frame has none.
    pub(super) unnamed: u64,
    /// Stacks are truncated at its code.
    pub(super) lost_at: u64,
}

impl RuntimeCode {
    /// The same for the remark about truncated stacks, after one about names.
    pub(super) fn after_names(&self) -> Self {
        Self { runtime: self.runtime.clone().said(), ..self.clone() }
    }
}

/// What each stack shows of code made at run time, and of interpreters.
struct Passes {
    unnamed: Vec<bool>,
    lost_at: Vec<bool>,
    /// The interpreter that it passes through, without any code made at run time.
    interpreter: Vec<Option<ModuleId>>,
}

impl Passes {
    /// `None` if the profile has neither.
    fn of(profile: &Profile) -> Option<Self> {
        let is_jit: Vec<bool> = profile.modules.iter().map(|module| module.kind == ModuleKind::Jit).collect();
        let interprets = |row: usize| {
            let file = module_file_name(profile, ModuleId::from(row));
            let known = KNOWN.iter().find(|known| known.has_file(file));
            known.is_some_and(|known| !matches!(known.script, Script::Compiled))
        };
        let interprets: Vec<bool> = (0..profile.modules.len()).map(interprets).collect();
        if !is_jit.iter().chain(&interprets).any(|row| *row) {
            return None;
        }
        let stacks = &profile.stacks;
        let (mut through, mut named) = (vec![false; stacks.len()], vec![false; stacks.len()]);
        let mut passes = Self {
            unnamed: vec![false; stacks.len()],
            lost_at: vec![false; stacks.len()],
            interpreter: vec![None; stacks.len()],
        };
        for stack in 0..stacks.len() {
            let id = StackId::from(stack);
            let location = stacks.location(id);
            let module = profile.locations.module[location.index()].filter(|row| row.index() < is_jit.len());
            let jit = module.is_some_and(|row| is_jit[row.index()]);
            let has_name = is_named(profile, location);
            let parent = stacks.parent(id);
            let above = |of: &[bool]| parent.is_some_and(|parent| of[parent.index()]);
            named[stack] = above(&named) || (jit && has_name);
            through[stack] = above(&through) || (jit && !has_name);
            passes.unnamed[stack] = (jit && !has_name) || (through[stack] && !named[stack]);
            passes.lost_at[stack] = match parent {
                Some(parent) if stacks.location(parent) == LocationId::TRUNCATED => jit,
                _ => above(&passes.lost_at),
            };
            // The outermost file is the program.
            let outer = parent.and_then(|parent| passes.interpreter[parent.index()]);
            let here = module.filter(|row| interprets[row.index()]);
            passes.interpreter[stack] = outer.or(here);
        }
        for stack in 0..stacks.len() {
            if named[stack] || through[stack] {
                passes.interpreter[stack] = None;
            }
        }
        Some(passes)
    }
}

/// For each stack, whether it runs a script whose functions are not visible: an interpreter's, or nameless code
/// made at run time. What its runtime does there is the script's doing.
pub fn runs_hidden_script(profile: &Profile) -> Vec<bool> {
    let Some(Passes { unnamed, interpreter, .. }) = Passes::of(profile) else {
        return vec![false; profile.stacks.len()];
    };
    unnamed.into_iter().zip(interpreter).map(|(unnamed, by)| unnamed || by.is_some()).collect()
}

/// The interpreters that samples pass through without showing what they run, with the value of these samples,
/// heaviest first.
pub(super) fn interpreters(profile: &Profile, weights: &Weights) -> Vec<(Runtime, u64)> {
    let Some(passes) = Passes::of(profile) else { return Vec::new() };
    let mut found: Vec<(Runtime, u64)> = Vec::new();
    for (module, &value) in passes.interpreter.iter().zip(&weights.value) {
        let Some(module) = module.filter(|_| value > 0) else { continue };
        let file = module_file_name(profile, module);
        let Some(known) = KNOWN.iter().find(|known| known.has_file(file)) else { continue };
        match found.iter_mut().find(|(runtime, _)| runtime.name == known.name) {
            Some((_, sum)) => *sum = sum.saturating_add(value),
            None => found.push((known.runtime(file), value)),
        }
    }
    found.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
    found
}

/// The code of each runtime in the main metric, heaviest first.
pub(super) fn runtimes(profile: &Profile, weights: &Weights) -> Vec<RuntimeCode> {
    let stacks = &profile.stacks;
    let Some(Passes { unnamed, lost_at, .. }) = Passes::of(profile) else { return Vec::new() };
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
                "80.0 % of the samples pass through code that {name} compiled at run time: its functions have no names"
            );
            assert_eq!((warning.id(), warning.to_string(), grade), ("jit-unnamed", text, Grade::Poor));
            assert!(warning.fix().unwrap().contains(switch), "{:?}", warning.fix());
        }
    }

    #[test]
    fn recognises_a_runtime_by_its_library_whatever_the_process_name() {
        let (warning, grade) = first(&profile("server", "[libjvm.so];[jit.so] 60\nmain 240"));
        assert!(
            warning.to_string().starts_with("20.0 % of the samples pass through code that Java"),
            "{warning}"
        );
        assert_eq!(grade, Grade::Fair);
    }

    /// What JIT-compiled code calls is as nameless as the code itself: its callers are unknown.
    #[test]
    fn samples_below_jit_code_count_unless_it_has_a_name() {
        let below = profile("node", "node::Start;[jit.so];v8::JsonStringifier 270\nnode::Start 30");
        let (warning, grade) = first(&below);
        assert!(warning.to_string().starts_with("90.0 % of the samples pass through"), "{warning}");
        assert_eq!((warning.id(), grade), ("jit-unnamed", Grade::Poor));
        assert!(warning.fix().unwrap().contains("--perf-basic-prof"));
        let mut named =
            profile("node", "node::Start;[jit.so];handle;v8::JsonStringifier 270\nnode::Start 30");
        let jit = named.modules.iter().position(|module| module.kind == ModuleKind::Jit).unwrap();
        let name = |profile: &Profile, row: usize| {
            let frame = profile.frames.of(LocationId::from(row)).first();
            frame.map(|frame| profile.text(profile.functions[frame.function.index()].name).to_owned())
        };
        let handle = (0..named.locations.len()).find(|&row| name(&named, row).as_deref() == Some("handle"));
        named.locations.module[handle.unwrap()] = Some(ModuleId::from(jit));
        assert_eq!(Quality::of(&named).warnings, []);
    }

    #[test]
    fn a_script_is_invisible_below_its_interpreter() {
        for (file, name, fix) in [
            ("python3.11", "Python", "py-spy"),
            ("libpython3.12.so.1.0", "Python", "-X perf"),
            ("libruby-3.1.so.3.1.2", "Ruby", "rbspy"),
            ("php8.2", "PHP", "Excimer"),
            ("luajit-2.1.0-beta3", "LuaJIT", "-jp"),
            ("perl", "Perl", "NYTProf"),
        ] {
            let profile = testing::profile(&format!("main;[{file}];blas 300"));
            let warnings = Quality::of(&profile).warnings;
            let warning = warnings.iter().find(|warning| warning.id() == "interpreted").unwrap();
            let text = format!(
                "100.0 % of the samples are below the {name} interpreter: functions of the script are not visible"
            );
            assert_eq!(warning.to_string(), text);
            assert!(warning.fix().unwrap().contains(fix), "{:?}", warning.fix());
        }
        for file in ["python-app", "phpstorm", "rubyish.so", "libnode.so", "libjvm.so"] {
            let warnings = Quality::of(&testing::profile(&format!("main;[{file}];blas 300"))).warnings;
            assert!(warnings.iter().all(|warning| warning.id() != "interpreted"), "{file}");
        }
    }

    /// Java's compiled code has neither names nor frame pointers: one message has all flags.
    #[test]
    fn all_flags_of_a_runtime_are_named_once() {
        let mut java = profile("java", "[truncated];[jit.so] 300");
        java.meta.counters.no_unwind_info = 300;
        let fixes: Vec<String> = Quality::of(&java).warnings.iter().filter_map(Warning::fix).collect();
        let with = |flag: &str| fixes.iter().filter(|fix| fix.contains(flag)).count();
        assert_eq!((with("-XX:+PreserveFramePointer"), with("-XX:+DumpPerfMapAtExit")), (1, 1), "{fixes:?}");
    }

    #[test]
    fn small_share_gets_no_warning() {
        assert_eq!(Quality::of(&profile("node", "main;[jit.so] 4\nmain 296")).warnings, []);
    }

    #[test]
    fn truncated_stacks_in_jit_code_have_their_own_warning() {
        let mut erlang = profile("beam.smp", "[truncated];[jit.so];main 300");
        erlang.meta.counters.no_unwind_info = 300;
        let warnings = Quality::of(&erlang).warnings;
        let warning = warnings.iter().find(|warning| warning.id() == "jit-stacks").unwrap();
        assert!(warning.fix().unwrap().contains("+JPfp"), "{:?}", warning.fix());
    }
}
