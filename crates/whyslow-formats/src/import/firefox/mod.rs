//! Imports the Firefox Profiler's processed profile, up to version 70, as samply and many other tools write
//! it, and Firefox's own recordings ([`gecko`]), also within a recording of its former DevTools.
//!
//! Weights become time in nanoseconds (a sample counts the recording's interval) or bytes. If a file also has
//! the CPU time of each sample and it differs, there are two metrics: CPU time and wall time.

mod code;
mod gecko;
mod paths;
mod schema;
mod symbols;
mod tracks;
mod values;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use whyslow_profile::{
    ImportNote, LeftOutSamples, ModuleId, ModuleKind, ProcessId, SpecialFrame, StackId, is_bracketed,
};

use self::code::Code;
use self::gecko::Gecko;
use self::schema::{File, Lib, Thread, times};
use self::symbols::Sidecar;
use self::values::Values;
use super::assemble::Assembly;
use super::json::{self, nanoseconds};
use super::{Format, ImportError, ImportOptions, Imported};

const NS_PER_MS: f64 = 1e6;

/// The number of bytes to search for the first keys of a file.
const START: usize = 64 << 10;

/// The oldest version of Firefox's own recordings that is read.
const OLDEST: u32 = 4;

/// The newest known version.
const NEWEST: u32 = 70;

pub(super) fn looks_like(start: &[u8]) -> bool {
    json::has_key(start, "preprocessedProfileVersion")
        || (json::has_key(start, "interval")
            && json::has_key(start, "meta")
            && (json::has_key(start, "markerSchema") || json::has_key(start, "stackwalk")))
        || is_wrapped(start)
}

/// Whether it starts like a file of the former performance tool in Firefox's DevTools: a profile within a
/// recording.
fn is_wrapped(start: &[u8]) -> bool {
    ["label", "duration"].iter().all(|key| json::has_key(start, key))
        && ["profile", "markers", "ticks"].iter().any(|key| json::has_key(start, key))
}

/// A recording of that tool.
#[derive(Deserialize)]
struct Recording<'a> {
    #[serde(borrow)]
    profile: Option<&'a RawValue>,
}

pub(super) fn read(bytes: &[u8], options: &ImportOptions) -> Result<Imported, ImportError> {
    let bytes = match is_wrapped(&bytes[..bytes.len().min(START)]) {
        true => json::parse::<Recording<'_>>(Format::Firefox, bytes)?
            .profile
            .map_or(bytes, |profile| profile.get().as_bytes()),
        false => bytes,
    };
    let mut file: File<'_> =
        json::parse(Format::Firefox, bytes).map_err(|error| too_old(bytes).unwrap_or(error))?;
    if file.meta.preprocessed_profile_version.is_none() {
        let gecko = json::parse::<Gecko<'_>>(Format::Firefox, bytes);
        file = gecko.map_err(|error| too_old(bytes).unwrap_or(error))?.processed();
    }
    let symbol_file = options.path.as_deref().and_then(symbols::read_next_to);
    let sidecar = symbol_file.as_deref().and_then(|bytes| Sidecar::parse(bytes, &file.libs));
    Import::new(&file).run(sidecar.as_ref())
}

/// The version of a file that does not parse.
#[derive(Deserialize)]
struct Versioned {
    meta: Version,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The error for a file of a version that has other tables.
fn too_old(bytes: &[u8]) -> Option<ImportError> {
    let version = json::parse::<Versioned>(Format::Firefox, bytes).ok()?.meta.version;
    let what = format!(
        "its version, {version}, is from before 2017; open it in profiler.firefox.com, save it there, and import that"
    );
    (version < OLDEST).then(|| ImportError::unusable(Format::Firefox, what))
}

struct Import<'f, 'a> {
    file: &'f File<'a>,
    assembly: Assembly,
    /// The profile's time 0, in the file's milliseconds.
    zero: f64,
    processes: FxHashMap<String, ProcessId>,
    /// Modules by path and build id.
    modules: FxHashMap<(String, String), ModuleId>,
    without_stack: u64,
}

impl<'f, 'a> Import<'f, 'a> {
    fn new(file: &'f File<'a>) -> Self {
        let mut assembly = Assembly::new("Firefox Profiler");
        let meta = &file.meta;
        let text = |text: &Option<json::Text<'_>>| {
            text.as_ref().map_or(String::new(), |text| text.as_str().to_owned())
        };
        let target = &mut assembly.profile.meta;
        target.command = meta.product.iter().map(|product| product.as_str().to_owned()).collect();
        target.started_unix_ns = nanoseconds(meta.start_time.0, NS_PER_MS);
        target.host.os = text(&meta.oscpu);
        target.host.cpu = text(&meta.cpu_name);
        target.host.cpus = meta.logical_cpus.and_then(|cpus| cpus.0).unwrap_or(0);
        if meta.preprocessed_profile_version.is_some_and(|version| version > NEWEST) {
            assembly.note(ImportNote::NewerFormat { known: NEWEST.into() });
        }
        Self {
            file,
            assembly,
            zero: start_of(file),
            processes: FxHashMap::default(),
            modules: FxHashMap::default(),
            without_stack: 0,
        }
    }

    fn ns(&self, ms: f64) -> u64 {
        nanoseconds(ms - self.zero, NS_PER_MS)
    }

    fn run(mut self, sidecar: Option<&Sidecar<'_>>) -> Result<Imported, ImportError> {
        let file = self.file;
        let libs: Vec<ModuleId> = file.libs.iter().map(|lib| self.module(lib)).collect();
        let shared = Code::shared(&file.shared).map(|code| {
            let used = file.threads.iter().flat_map(used_stacks);
            code.add_stacks(&mut self.assembly, &libs, sidecar, used)
        });
        let mut values = Values::new(&file.meta);
        for thread in &file.threads {
            let own_libs: Option<Vec<ModuleId>> =
                thread.libs.as_ref().map(|libs| libs.iter().map(|lib| self.module(lib)).collect());
            let libs = own_libs.as_ref().unwrap_or(&libs);
            let own = Code::of_thread(file, thread)
                .map(|code| code.add_stacks(&mut self.assembly, libs, sidecar, used_stacks(thread)));
            let stacks = own.as_deref().or(shared.as_deref()).unwrap_or_default();
            self.thread(thread, stacks, &mut values);
        }
        values.add_to(&mut self.assembly);
        let interval_ms = file.meta.interval.0;
        self.assembly.profile.sampled_at(if interval_ms > 0.0 {
            (1000.0 / interval_ms).round() as u32
        } else {
            0
        });
        for counter in file.counters.iter().flatten() {
            self.counter(counter);
        }
        self.assembly.leave_out(self.without_stack, LeftOutSamples::WithoutStack);
        self.assembly.finish()
    }

    fn module(&mut self, lib: &Lib<'_>) -> ModuleId {
        let path = [&lib.path, &lib.name, &lib.debug_name].into_iter().flatten().map(json::Text::as_str);
        let path = path.into_iter().find(|path| !path.is_empty()).unwrap_or(SpecialFrame::NoName.text());
        let build_id = lib.code_id.as_ref().map_or("", json::Text::as_str);
        let known = self.modules.get(&(path.to_owned(), build_id.to_owned()));
        if let Some(&known) = known {
            return known;
        }
        let module = self.assembly.module(path, Some(build_id), module_kind(path));
        self.modules.insert((path.to_owned(), build_id.to_owned()), module);
        module
    }

    fn thread(&mut self, thread: &Thread<'_>, stacks: &[Option<StackId>], values: &mut Values) {
        let process = self.process(thread);
        let tid = thread.tid.map_or(0, |tid| tracks::number(tid.get()));
        let id = self.assembly.thread(process, tid, thread.name.as_str());
        let (start, end) = (
            thread.register_time.map(|time| self.ns(time.0)),
            thread.unregister_time.map(|time| self.ns(time.0)),
        );
        let row = &mut self.assembly.profile.threads[id.index()];
        row.start_ns = start.unwrap_or(0);
        row.end_ns = end;

        let samples = &thread.samples;
        let times_ms = times(samples.time.as_deref(), samples.time_deltas.as_deref());
        for (row, stack) in samples.stack.iter().enumerate() {
            match stack.of(stacks) {
                Some(&Some(stack)) => {
                    let time = times_ms.get(row).map_or(0, |&time| self.ns(time));
                    values.sample(samples, row, time, id, stack);
                }
                _ => self.without_stack += 1,
            }
        }
        if let Some(allocations) = &thread.native_allocations {
            let times_ms = times(allocations.time.as_deref(), allocations.time_deltas.as_deref());
            for (row, stack) in allocations.stack.iter().enumerate() {
                let weight = allocations
                    .weight
                    .as_ref()
                    .and_then(|weight| weight.get(row))
                    .map_or(0.0, |weight| weight.0);
                if let Some(&Some(stack)) = stack.of(stacks) {
                    let time = times_ms.get(row).map_or(0, |&time| self.ns(time));
                    values.allocation(time, id, stack, weight);
                }
            }
        }
        self.markers(thread, id);
    }

    fn process(&mut self, thread: &Thread<'_>) -> ProcessId {
        let key = thread.pid.map_or("0", |pid| pid.get()).trim_matches('"').to_owned();
        let name = thread.process_name.as_ref().unwrap_or(&thread.name);
        let id = match self.processes.get(&key) {
            Some(&id) => id,
            None => {
                let id = self.assembly.process(tracks::number(&key), name.as_str());
                self.processes.insert(key, id);
                let start = thread.process_startup_time.map_or(0, |time| self.ns(time.0));
                let end =
                    thread.process_shutdown_time.filter(|time| time.0 > 0.0).map(|time| self.ns(time.0));
                let row = &mut self.assembly.profile.processes[id.index()];
                row.start_ns = start;
                row.end_ns = end;
                id
            }
        };
        if thread.is_main_thread && thread.process_name.is_none() {
            let name = self.assembly.text(thread.name.as_str());
            self.assembly.profile.processes[id.index()].name = name;
        }
        id
    }
}

/// The rows of the stack table that a thread's samples use.
fn used_stacks<'t>(thread: &'t Thread<'_>) -> impl Iterator<Item = usize> + 't {
    let allocations = thread.native_allocations.iter().flat_map(|table| &table.stack);
    thread.samples.stack.iter().chain(allocations).filter_map(|stack| stack.0).map(|stack| stack as usize)
}

/// The start of a recording in its own milliseconds: 0, or later if it started long after that.
fn start_of(file: &File<'_>) -> f64 {
    let first = file.threads.iter().filter_map(|thread| {
        let samples = &thread.samples;
        let times = samples.time.as_deref().or(samples.time_deltas.as_deref())?;
        times.first().map(|time| time.0)
    });
    let first = first.fold(f64::INFINITY, f64::min);
    let start = file.meta.profiling_start_time.map_or(0.0, |start| start.0);
    start.min(first)
}

/// The kind of a library, by its path: it may be from another operating system.
fn module_kind(path: &str) -> ModuleKind {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let lower = file.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| lower.ends_with(ending));
    if file.starts_with("[vdso") {
        ModuleKind::Vdso
    } else if file.starts_with("[kernel")
        || matches!(lower.as_str(), "kernel" | "vmlinux" | "ntoskrnl.exe")
        || ends(&[".ko", ".sys"])
    {
        ModuleKind::Kernel
    } else if ends(&[".so", ".dylib", ".dll"])
        || lower.contains(".so.")
        || path.starts_with("/System/Library/")
    {
        ModuleKind::Library
    } else if file.starts_with("jit-") || ends(&[".dump"]) || file.starts_with("[jit") {
        ModuleKind::Jit
    } else if is_bracketed(file) {
        ModuleKind::Unknown
    } else {
        ModuleKind::Program
    }
}
