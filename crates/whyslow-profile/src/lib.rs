//! whyslow's data model: column tables that say where a program's resources went, and the `.whyslow` file
//! that holds them.
//!
//! The tables refer to each other by typed row numbers:
//!
//! ```text
//! metric    = name, unit, subject, origin of its values, whether they add up over time
//! sample    = time, thread, stack, value            one table per metric
//! stack     = parent stack, location                a prefix tree; the root is the outermost caller
//! location  = module, relative address              an instruction
//! frame     = location, function, file, line        the meaning of that address; several when code was inlined
//! function  = name, crate, kind of code, file, line
//! thread    = process, tid, name, life span
//! wait      = a sample of off-CPU time; wait_details has its CPU, its futex, its waker
//! span      = name, thread, start, end              marked by the program itself
//! counter   = name, unit, process; with values over time
//! syscalls  = thread, stack, call, file, error; count, time, bytes: added up while recording
//! heap site = stack, counts; one row per allocating stack of a heap recording
//! causal    = progress points, targets, experiments, and how often each point was visited in each of them
//! ```
//!
//! A recorder fills a [`Builder`] and streams it to a [`file::Writer`]; everything after that works on a
//! [`Profile`]. Nothing here knows about Linux, symbol files or rendering.

#[macro_use]
mod coded;
mod async_form;
pub mod batch;
mod builder;
mod carrier;
pub mod causal;
mod facts;
pub mod file;
pub mod heap;
mod ids;
mod memory;
mod meta;
mod metric;
mod note;
mod pool;
mod recursion;
pub mod simulation;
pub mod size;
mod special;
mod strings;
mod syscalls;
mod tables;
mod wall;
mod wrapper;

use std::path::{Component, Path, PathBuf};

pub use async_form::AsyncForm;
pub use builder::Builder;
pub use carrier::{Carrier, Role, function_path};
pub use causal::{Causal, CausalPoint, CausalTarget, Experiment, PointKind, TargetKind, Visits};
pub use facts::Family;
pub use heap::{
    AccessRun, Growth, GrowthBar, Heap, HeapCounts, HeapFacts, HeapProcess, HeapSite, HeapSnapshot,
    HeapTransfer, HistogramBar, HistogramOf, LeakCheck,
};
pub use ids::{
    CounterId, ExperimentId, FunctionId, LocationId, MetricId, ModuleId, PointId, ProcessId, RelativeAddress,
    StackId, StringId, TargetId, ThreadId,
};
pub use memory::{MemoryCurve, MemorySnapshot, MemoryTime, SnapshotKind};
pub use meta::{Counters, ExitStatus, Host, KernelView, Meta, Sampling, StillRunning};
pub use metric::{Metric, Origin, OverTime, Sampler, Subject, Trigger};
pub use note::{
    CausalNote, HeapNote, ImportNote, IoCalls, LeftOutSamples, NoLeakCheck, NoSyscalls, Note, RecordingNote,
    Unwatched, WhyLeftOut,
};
pub use pool::Pool;
pub use recursion::{EXACT as EXACT_FRAMES, Outer, leave_out_recursion};
pub use special::{
    ModuleKind, SpecialFrame, WaitFrame, bracketed, is_bracketed, jit_module, pid_of_jit_module,
};
pub use strings::Strings;
pub use syscalls::{Lengths, Syscalls};
pub use tables::{
    BranchTarget, Code, CodeKind, Codes, Counter, CounterValues, Frame, Frames, Function, Locations, Module,
    Optimised, Process, Samples, SourceLine, SourceLines, Span, Stacks, Static, SymbolState, Thread,
    ThreadTimes, Unit, WaitDetail, WaitDetails, WokenBy,
};
pub use whyslow_numbers::ProfileNs;
pub use wrapper::is_allocation_wrapper;

/// Where a copy of a module's file can be in a folder: at its full path below it, or by its name alone.
pub fn copies_in(folder: &Path, module: &str) -> [PathBuf; 2] {
    let path = module.strip_suffix(" (deleted)").unwrap_or(module);
    let below: PathBuf =
        Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let name = below.file_name().map(PathBuf::from).unwrap_or_default();
    [folder.join(below), folder.join(name)]
}

/// A whole profile in memory.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Profile {
    /// How it was recorded, and the recorder's notes.
    pub meta: Meta,
    /// Every text in the profile, once.
    pub strings: Strings,
    /// The processes that ran.
    pub processes: Vec<Process>,
    /// Their threads.
    pub threads: Vec<Thread>,
    /// Mapped files and other sources of code.
    pub modules: Vec<Module>,
    /// Addresses on stacks.
    pub locations: Locations,
    /// Named functions.
    pub functions: Vec<Function>,
    /// The meaning of each location.
    pub frames: Frames,
    /// The prefix tree of stacks.
    pub stacks: Stacks,
    /// The metrics; row `i` describes `samples[i]`.
    pub metrics: Vec<Metric>,
    /// One table of samples per metric.
    pub samples: Vec<Samples>,
    /// Details of individual waits.
    pub wait_details: WaitDetails,
    /// The named variables that threads waited on.
    pub statics: Vec<Static>,
    /// Stretches of time that the program marked.
    pub spans: Vec<Span>,
    /// Series of numbers over time.
    pub counters: Vec<Counter>,
    /// Their values.
    pub counter_values: CounterValues,
    /// System calls, added up per call site, call, file and result.
    pub syscalls: Vec<Syscalls>,
    /// The rows of each allocating stack of a heap recording.
    pub heap: Heap,
    /// The experiments of causal profiling.
    pub causal: Causal,
    /// Source lines around hot code.
    pub sources: SourceLines,
    /// Machine code of the hot functions.
    pub code: Codes,
    /// Names of the functions that this code calls.
    pub targets: Vec<BranchTarget>,
    /// Whether the recording was sealed. A recorder that was killed leaves an unsealed profile.
    pub sealed: bool,
}

impl Profile {
    /// The text behind an id.
    pub fn text(&self, id: StringId) -> &str {
        self.strings.get(id)
    }

    /// The variable at this address of a module, if its name is known.
    pub fn static_at(&self, module: ModuleId, address: RelativeAddress) -> Option<&Static> {
        let covers = |row: &&Static| {
            row.module == module && address.0.checked_sub(row.start.0).is_some_and(|into| into < row.len)
        };
        self.statics.iter().find(covers)
    }

    /// All metrics, in order.
    pub fn metric_ids(&self) -> impl Iterator<Item = MetricId> + use<> {
        (0..self.metrics.len()).map(MetricId::from)
    }

    /// The first metric of which this is true.
    pub fn metric_where(&self, is_one: impl FnMut(&Metric) -> bool) -> Option<MetricId> {
        self.metrics.iter().position(is_one).map(MetricId::from)
    }

    /// The first metric of this subject.
    pub fn metric_of(&self, subject: Subject) -> Option<MetricId> {
        self.metric_where(|metric| metric.of == subject)
    }

    /// The metric with this name.
    pub fn metric_named(&self, name: &str) -> Option<MetricId> {
        self.metric_where(|metric| self.text(metric.name) == name)
    }

    /// The metric to show first: CPU time if recorded, otherwise the first one.
    pub fn main_metric(&self) -> MetricId {
        self.metric_of(Subject::Cpu).unwrap_or_default()
    }

    /// The samples of the main metric, if there is one.
    pub fn main_samples(&self) -> Option<(&Metric, &Samples)> {
        let row = self.main_metric().index();
        self.metrics.get(row).zip(self.samples.get(row))
    }

    /// The sampler of the main metric.
    pub fn main_sampler(&self) -> Sampler {
        self.main_samples().map_or_else(Sampler::default, |(metric, _)| metric.origin.sampler())
    }

    /// Sets the requested sampling rate, if it was the same for all metrics.
    pub fn sampled_at(&mut self, rate_hz: u32) {
        for metric in &mut self.metrics {
            if let Origin::Sampled(sampler) = &mut metric.origin {
                sampler.rate_hz = rate_hz;
            }
        }
    }

    /// Adds a metric with its samples, or replaces those of the metric with its name.
    pub fn set_metric(&mut self, metric: Metric<&str>, samples: Samples) -> MetricId {
        let id = self.metric_named(metric.name).unwrap_or_else(|| {
            let name = self.strings.push(metric.name);
            self.metrics.push(metric.renamed(name));
            self.samples.push(Samples::default());
            MetricId::from(self.metrics.len() - 1)
        });
        self.samples[id.index()] = samples;
        id
    }

    /// The location of each stack from the leaf outwards.
    pub fn locations_of(&self, stack: StackId) -> impl Iterator<Item = LocationId> + '_ {
        self.stacks.towards_root(stack).map(|node| self.stacks.location(node))
    }

    /// True if the outermost frames of this stack are missing.
    pub fn is_truncated(&self, stack: StackId) -> bool {
        self.locations_of(stack).last() == Some(LocationId::TRUNCATED)
    }

    /// True if this location stands for frames that are left out of a deep recursion.
    pub fn is_left_out(&self, location: LocationId) -> bool {
        let module = self.locations.module.get(location.index()).copied().flatten();
        module.is_some_and(|module| {
            self.modules.get(module.index()).is_some_and(|module| module.kind == ModuleKind::LeftOut)
        })
    }

    /// True if this stack stands for CPU time without a sample.
    pub fn is_not_sampled(&self, stack: StackId) -> bool {
        let module = self.locations.module[self.stacks.location(stack).index()];
        module.is_some_and(|module| {
            self.modules.get(module.index()).is_some_and(|module| module.kind == ModuleKind::NotSampled)
        })
    }
}

#[cfg(test)]
mod copies_tests {
    use super::*;

    #[test]
    fn copies_are_below_their_folder() {
        let copies = |module| copies_in(Path::new("/copies"), module).map(|path| path.display().to_string());
        assert_eq!(copies("/usr/bin/app"), ["/copies/usr/bin/app", "/copies/app"]);
        assert_eq!(copies("/tmp/app (deleted)"), ["/copies/tmp/app", "/copies/app"]);
        assert_eq!(copies("../../etc/passwd"), ["/copies/etc/passwd", "/copies/passwd"]);
        assert_eq!(copies("[vdso]"), ["/copies/[vdso]", "/copies/[vdso]"]);
    }
}
