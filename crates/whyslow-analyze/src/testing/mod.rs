//! Small profiles written as text, for tests.

mod heap;

pub use heap::{add_heap, heap_profile, sampled_heap};
use whyslow_profile::{
    CodeKind, Frame, Function, FunctionId, LocationId, Metric, Module, ModuleKind, Optimised, Origin,
    Process, ProcessId, Profile, RelativeAddress, Sampler, Samples, SpecialFrame, StackId, StringId,
    SymbolState, Thread, ThreadId, Trigger, Unit, is_bracketed,
};

/// The weight of one sample of [`profile`]: a millisecond.
pub const SAMPLE_NS: u64 = 1_000_000;

/// A profile from folded stacks, one per line: frames from the outside in, then the number of samples.
///
/// ```text
/// main;parse;read 10              10 samples of a millisecond each, on the thread `main`
/// worker: main;parse 5            on the thread `worker`
/// main@app.rs:3;+get@lib.rs:7 1   with lines; a frame with `+` is inlined into the one before
/// main;[libfoo.so] 1              an address without a name
/// [unknown] 1                     an address in no module
/// [truncated];f 1                 a truncated stack
/// ```
/// Kinds follow from names: `std::`, `core::`, `alloc::` are std, `malloc` and `free` the allocator,
/// `_start`, `clone3`, `start_thread`, `__rust_try` and names with `lang_start` or `__libc` the runtime,
/// `sys_` the kernel, `dep::`, `rayon` and `tokio` a dependency; the rest is yours. A function's definition
/// line is 1 in the file of its first frame that names one.
///
/// # Panics
/// If a line has another format.
pub fn profile(folded: &str) -> Profile {
    let mut made = Made::default();
    let name = made.text(Metric::CPU_TIME);
    made.profile
        .metrics
        .push(Metric::cpu_time(Sampler { rate_hz: 1000, ..Sampler::default() }).renamed(name));
    made.profile.samples.push(Default::default());
    let name = made.text("app");
    made.profile.processes.push(Process { pid: 100, parent: None, name, start_ns: 0, end_ns: None });
    made.module("/home/me/app", ModuleKind::Program, SymbolState::Lines);
    made.profile.sealed = true;
    made.profile.meta.command = vec!["./app".to_owned()];
    for line in folded.lines().map(str::trim).filter(|line| !line.is_empty()) {
        made.line(line);
    }
    let samples = made.profile.samples[0].len() as u64;
    made.profile.meta.user_time_ns = samples * SAMPLE_NS;
    made.profile.meta.duration_ns = samples * SAMPLE_NS;
    made.profile
}

/// Sets what triggered the samples of the first metric.
///
/// # Panics
/// If there is no metric.
pub fn sampled_by(profile: &mut Profile, trigger: Trigger, rate_hz: u32) {
    profile.metrics[0].origin = Origin::Sampled(Sampler { trigger, rate_hz });
}

/// Adds a metric of an event, with a sample for each sample of the first metric. `value` gives its weight by
/// the innermost function on its stack; 0 for no sample.
pub fn add_event(profile: &mut Profile, name: &str, origin: Origin, value: impl Fn(&str) -> u64) {
    let row = profile.strings.push(name);
    profile.metrics.push(Metric::event(name, Unit::Count, origin).renamed(row));
    let mut samples = Samples::default();
    let first = &profile.samples[0];
    for at in 0..first.len() {
        let names = profile.locations_of(first.stack[at]).flat_map(|location| {
            profile
                .frames
                .of(location)
                .iter()
                .rev()
                .map(|frame| profile.text(profile.functions[frame.function.index()].name))
        });
        let value = value(names.collect::<Vec<_>>().first().copied().unwrap_or_default());
        if value > 0 {
            samples.push(first.time_ns[at], first.thread[at], first.stack[at], value);
        }
    }
    profile.samples.push(samples);
}

/// Adds source lines to a profile, numbered from 1.
pub fn add_source(profile: &mut Profile, file: &str, text: &str) {
    let file = intern(profile, file);
    for (number, line) in (1..).zip(text.lines()) {
        let text = profile.strings.push(line);
        profile.sources.rows.push(whyslow_profile::SourceLine { file, line: number, text });
    }
    profile.sources.rows.sort_by_key(|row| (row.file, row.line));
}

fn intern(profile: &mut Profile, text: &str) -> StringId {
    let known = profile.strings.iter().position(|known| known == text).map(StringId::from);
    known.unwrap_or_else(|| profile.strings.push(text))
}

#[derive(Default)]
struct Made {
    profile: Profile,
    /// Stack nodes by parent and the text of their frames.
    stacks: Vec<(Option<StackId>, String, StackId)>,
}

impl Made {
    fn text(&mut self, text: &str) -> StringId {
        intern(&mut self.profile, text)
    }

    fn module(&mut self, path: &str, kind: ModuleKind, symbols: SymbolState) -> whyslow_profile::ModuleId {
        let path = self.text(path);
        if let Some(at) = self.profile.modules.iter().position(|module| module.path == path) {
            return at.into();
        }
        self.profile.modules.push(Module { path, build_id: None, kind, symbols, optimised: Optimised::Yes });
        (self.profile.modules.len() - 1).into()
    }

    fn line(&mut self, line: &str) {
        let (stack, count) = line.rsplit_once(' ').expect("a count at the end");
        let count: u64 = count.parse().expect("a count at the end");
        let (thread, stack) = self.thread_and_stack(stack);
        let samples = &mut self.profile.samples[0];
        for _ in 0..count {
            samples.push(samples.len() as u64 * SAMPLE_NS, thread, stack, SAMPLE_NS);
        }
    }

    /// Parses `worker: main;parse`.
    fn thread_and_stack(&mut self, text: &str) -> (ThreadId, StackId) {
        let (thread, stack) = text.split_once(": ").unwrap_or(("main", text));
        let thread = self.thread(thread);
        let mut parts: Vec<Vec<&str>> = Vec::new();
        for frame in stack.split(';') {
            match (frame.strip_prefix('+'), parts.last_mut()) {
                (Some(inlined), Some(into)) => into.push(inlined),
                _ => parts.push(vec![frame]),
            }
        }
        let mut node = None;
        for frames in parts {
            node = Some(self.stack(node, &frames));
        }
        (thread, node.expect("a frame"))
    }

    fn thread(&mut self, name: &str) -> ThreadId {
        let name = self.text(name);
        let threads = &mut self.profile.threads;
        if let Some(at) = threads.iter().position(|thread| thread.name == name) {
            return at.into();
        }
        let tid = 100 + threads.len() as u32;
        threads.push(Thread { process: ProcessId(0), tid, name, start_ns: 0, end_ns: None, times: None });
        (threads.len() - 1).into()
    }

    fn stack(&mut self, parent: Option<StackId>, frames: &[&str]) -> StackId {
        let text = frames.join(";+");
        let known = self.stacks.iter().find(|(over, known, _)| *over == parent && *known == text);
        if let Some((_, _, stack)) = known {
            return *stack;
        }
        let location = self.location(frames);
        let stack = self.profile.stacks.push(parent, location);
        self.stacks.push((parent, text, stack));
        stack
    }

    fn location(&mut self, frames: &[&str]) -> LocationId {
        let address = RelativeAddress(0x1000 + 16 * self.profile.locations.len() as u64);
        match frames[0] {
            name if SpecialFrame::Truncated.is_named(name) => LocationId::TRUNCATED,
            name if SpecialFrame::Unknown.is_named(name) => self.profile.locations.push(None, address),
            name if SpecialFrame::Kernel.is_named(name) => {
                let module = self.module(name, ModuleKind::Kernel, SymbolState::Missing);
                self.profile.locations.push(Some(module), address)
            }
            name if SpecialFrame::NotSampled.is_named(name) => {
                let module = self.module(name, ModuleKind::NotSampled, SymbolState::Missing);
                self.profile.locations.push(Some(module), address)
            }
            name if SpecialFrame::LeftOut.is_named(name) => {
                let module = self.module(name, ModuleKind::LeftOut, SymbolState::NotLoaded);
                self.profile.locations.push(Some(module), address)
            }
            name if is_bracketed(name) => {
                let path = format!("/usr/lib/{}", name.trim_matches(['[', ']']));
                let module = self.module(&path, ModuleKind::Library, SymbolState::Stripped);
                self.profile.locations.push(Some(module), address)
            }
            _ => {
                let rows = frames.iter().map(|frame| self.frame(frame)).collect::<Vec<_>>();
                let location = self.profile.locations.push(Some(0.into()), address);
                self.profile.frames.set(location, &rows);
                location
            }
        }
    }

    fn frame(&mut self, frame: &str) -> Frame {
        let (name, place) = frame.split_once('@').unwrap_or((frame, ""));
        let (file, line) = place.split_once(':').unwrap_or((place, "0"));
        let file = (!file.is_empty()).then(|| self.text(file));
        let line = line.parse().expect("a line number");
        Frame { function: self.function(name, file), file, line }
    }

    fn function(&mut self, name: &str, file: Option<StringId>) -> FunctionId {
        let raw_name = self.text(&format!("_raw_{name}"));
        let crate_name = name.split_once("::").map(|(first, _)| self.text(first));
        let name_id = self.text(name);
        if let Some(at) = self.profile.functions.iter().position(|function| function.name == name_id) {
            return at.into();
        }
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let kind = match name {
            _ if name.contains("lang_start") || starts(&["__libc", "_start"]) => CodeKind::Runtime,
            "clone3" | "start_thread" | "__rust_try" => CodeKind::Runtime,
            _ if starts(&["std::", "core::", "alloc::", "<std::", "<core::", "<alloc::"]) => CodeKind::Std,
            "malloc" | "free" => CodeKind::Allocator,
            _ if starts(&["sys_"]) => CodeKind::Kernel,
            _ if starts(&["dep::", "<dep::", "async block in dep::", "rayon", "tokio::"]) => {
                CodeKind::Dependency
            }
            _ => CodeKind::Yours,
        };
        self.profile.functions.push(Function {
            name: name_id,
            raw_name,
            crate_name,
            kind,
            file,
            line: u32::from(file.is_some()),
            module: Some(0.into()),
        });
        (self.profile.functions.len() - 1).into()
    }
}
