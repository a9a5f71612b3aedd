//! Fills a profile row by row: interns texts, locations and stacks, and holds the rows that are not written
//! yet.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use whyslow_numbers::ProfileNs;

use crate::Profile;
use crate::causal::{Causal, CausalPoint, CausalTarget, Experiment, Visits};
use crate::heap::Heap;
use crate::ids::{
    CounterId, ExperimentId, LocationId, MetricId, ModuleId, PointId, ProcessId, RelativeAddress, StackId,
    StringId, TargetId, ThreadId,
};
use crate::meta::Meta;
use crate::metric::Metric;
use crate::recursion::{self, Calls, Outer, Tree};
use crate::special::SpecialFrame;
use crate::syscalls::Syscalls;
use crate::tables::{
    Counter, CounterValues, Module, Process, Samples, Span, Thread, WaitDetail, WaitDetails,
};

/// How many stack nodes are kept for sharing before their memory is released: about 64 MB of table.
const STACKS_REMEMBERED: usize = 2_000_000;

const NO_PARENT: u32 = u32::MAX;

/// Rows that the next flush writes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending<T> {
    /// The id of the first row.
    pub(crate) first: u32,
    /// The rows.
    pub(crate) rows: Vec<T>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { first: 0, rows: Vec::new() }
    }
}

impl<T> Pending<T> {
    fn push(&mut self, row: T) -> u32 {
        let id = self.first + self.rows.len() as u32;
        self.rows.push(row);
        id
    }

    fn clear(&mut self) {
        self.first += self.rows.len() as u32;
        self.rows.clear();
    }
}

/// Builds a profile as a stream. Flushed rows are forgotten, except those that later rows need to share:
/// memory grows with the number of distinct texts, addresses and (up to a limit) stacks, never with the
/// number of samples.
#[derive(Debug)]
pub struct Builder {
    string_ids: FxHashMap<Arc<str>, StringId>,
    texts: Vec<Arc<str>>,
    location_ids: FxHashMap<(u32, u64), LocationId>,
    stack_ids: FxHashMap<(u32, u32), StackId>,
    /// The caller and location of each stack in `stack_ids`, from `first_remembered` on.
    remembered: Vec<(u32, LocationId)>,
    first_remembered: u32,
    calls: Calls,
    /// The locations that are not code.
    special: FxHashMap<SpecialFrame, LocationId>,
    pub(crate) strings: Pending<Arc<str>>,
    pub(crate) locations: Pending<(Option<ModuleId>, RelativeAddress)>,
    pub(crate) stacks: Pending<(Option<StackId>, LocationId)>,
    pub(crate) processes: Vec<Process>,
    pub(crate) dirty_processes: Vec<ProcessId>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) dirty_threads: Vec<ThreadId>,
    pub(crate) modules: Pending<Module>,
    pub(crate) metrics: Pending<Metric>,
    pub(crate) scales: Vec<(MetricId, f64)>,
    pub(crate) samples: Vec<Samples>,
    pub(crate) wait_details: WaitDetails,
    pub(crate) spans: Vec<Span>,
    pub(crate) counters: Pending<Counter>,
    pub(crate) counter_values: CounterValues,
    pub(crate) syscalls: Vec<Syscalls>,
    pub(crate) heap: Heap,
    pub(crate) points: Pending<CausalPoint>,
    pub(crate) targets: Vec<CausalTarget>,
    pub(crate) dirty_targets: Vec<TargetId>,
    pub(crate) experiments: Pending<Experiment>,
    pub(crate) visits: Vec<Visits>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            string_ids: FxHashMap::default(),
            texts: Vec::new(),
            location_ids: FxHashMap::default(),
            stack_ids: FxHashMap::default(),
            remembered: Vec::new(),
            first_remembered: 0,
            calls: Calls::default(),
            special: FxHashMap::default(),
            strings: Pending::default(),
            // Row 0 is `LocationId::TRUNCATED`, which every profile has implicitly.
            locations: Pending { first: 1, rows: Vec::new() },
            stacks: Pending::default(),
            processes: Vec::new(),
            dirty_processes: Vec::new(),
            threads: Vec::new(),
            dirty_threads: Vec::new(),
            modules: Pending::default(),
            metrics: Pending::default(),
            scales: Vec::new(),
            samples: Vec::new(),
            wait_details: WaitDetails::default(),
            spans: Vec::new(),
            counters: Pending::default(),
            counter_values: CounterValues::default(),
            syscalls: Vec::new(),
            heap: Heap::default(),
            points: Pending::default(),
            targets: Vec::new(),
            dirty_targets: Vec::new(),
            experiments: Pending::default(),
            visits: Vec::new(),
        }
    }
}

impl Builder {
    /// An empty profile.
    pub fn new() -> Self {
        Self::default()
    }

    /// The id of a text.
    pub fn string(&mut self, text: &str) -> StringId {
        if let Some(&id) = self.string_ids.get(text) {
            return id;
        }
        let text: Arc<str> = text.into();
        let id = StringId(self.strings.push(Arc::clone(&text)));
        self.texts.push(Arc::clone(&text));
        self.string_ids.insert(text, id);
        id
    }

    /// A new id for a text that rarely repeats. The text is forgotten once it is written, so that memory does
    /// not grow with such texts.
    pub fn string_once(&mut self, text: &str) -> StringId {
        self.texts.push(Arc::default());
        StringId(self.strings.push(text.into()))
    }

    /// The text of an id; empty for one of [`Builder::string_once`].
    pub fn text(&self, id: StringId) -> &str {
        self.texts.get(id.index()).map_or("", |text| text)
    }

    /// The id of an address in a module.
    pub fn location(&mut self, module: Option<ModuleId>, address: RelativeAddress) -> LocationId {
        let key = (module.map_or(u32::MAX, |module| module.0), address.0);
        *self.location_ids.entry(key).or_insert_with(|| LocationId(self.locations.push((module, address))))
    }

    /// The id of a location that is not code.
    pub fn special(&mut self, frame: SpecialFrame) -> LocationId {
        if let Some(known) = self.special.get(&frame) {
            return *known;
        }
        let name = self.string(frame.text());
        let module = self.module(Module::special(frame, name));
        let location = self.location(Some(module), RelativeAddress(0));
        self.special.insert(frame, location);
        location
    }

    /// The id of a stack: this location, called from `parent`.
    #[inline]
    pub fn stack(&mut self, parent: Option<StackId>, location: LocationId) -> StackId {
        let key = (parent.map_or(NO_PARENT, |parent| parent.0), location.0);
        *self.stack_ids.entry(key).or_insert_with(|| {
            self.remembered.push((key.0, location));
            StackId(self.stacks.push((parent, location)))
        })
    }

    /// A frame that is called from another one, for [`Self::innermost`].
    #[inline]
    pub fn call(&mut self, caller: Option<Outer>, location: LocationId) -> Outer {
        self.with_calls(|builder, calls| recursion::call(builder, calls, caller, location))
    }

    /// The id of the stack that ends with the first of these frames, which are innermost first. What a deep
    /// recursion repeats is left out.
    pub fn innermost(&mut self, outwards: impl Iterator<Item = Outer>) -> Option<StackId> {
        recursion::innermost(self, outwards)
    }

    /// The id of the stack of these locations, outermost first, called from `root`. What a deep recursion
    /// repeats is left out.
    pub fn stack_of(
        &mut self,
        root: Option<StackId>,
        locations: impl ExactSizeIterator<Item = LocationId>,
    ) -> Option<StackId> {
        self.with_calls(|builder, calls| recursion::whole(builder, calls, root, locations))
    }

    fn with_calls<T>(&mut self, run: impl FnOnce(&mut Self, &mut Calls) -> T) -> T {
        let mut calls = std::mem::take(&mut self.calls);
        let result = run(self, &mut calls);
        self.calls = calls;
        result
    }

    /// Adds a process.
    pub fn process(&mut self, process: Process) -> ProcessId {
        let id = ProcessId::from(self.processes.len());
        self.processes.push(process);
        self.dirty_processes.push(id);
        id
    }

    /// Adds a thread.
    pub fn thread(&mut self, thread: Thread) -> ThreadId {
        let id = ThreadId::from(self.threads.len());
        self.threads.push(thread);
        self.dirty_threads.push(id);
        id
    }

    /// Changes the row of a process.
    pub fn update_process(&mut self, id: ProcessId, change: impl FnOnce(&mut Process)) {
        change(&mut self.processes[id.index()]);
        self.dirty_processes.push(id);
    }

    /// Changes the row of a thread.
    pub fn update_thread(&mut self, id: ThreadId, change: impl FnOnce(&mut Thread)) {
        change(&mut self.threads[id.index()]);
        self.dirty_threads.push(id);
    }

    /// A process by id.
    pub fn process_row(&self, id: ProcessId) -> &Process {
        &self.processes[id.index()]
    }

    /// A thread by id.
    pub fn thread_row(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }

    /// Adds a module.
    pub fn module(&mut self, module: Module) -> ModuleId {
        ModuleId(self.modules.push(module))
    }

    /// Adds a metric with an empty table of samples.
    pub fn metric(&mut self, metric: Metric<&str>) -> MetricId {
        let name = self.string(metric.name);
        self.samples.push(Samples::default());
        MetricId(self.metrics.push(metric.renamed(name)))
    }

    /// Sets the length of one cycle in the samples of a metric, in nanoseconds.
    pub fn cycle_worth(&mut self, metric: MetricId, nanoseconds: f64) {
        self.scales.push((metric, nanoseconds));
    }

    /// Adds a sample.
    #[inline]
    pub fn sample(
        &mut self,
        metric: MetricId,
        time: ProfileNs,
        thread: ThreadId,
        stack: StackId,
        value: u64,
    ) {
        self.samples[metric.index()].push(time.0, thread, stack, value);
    }

    /// Adds the details of a wait, in addition to its sample.
    pub fn wait_detail(&mut self, detail: WaitDetail) {
        self.wait_details.push(detail);
    }

    /// Adds a span.
    pub fn span(&mut self, span: Span) {
        self.spans.push(span);
    }

    /// Adds a counter.
    pub fn counter(&mut self, counter: Counter) -> CounterId {
        CounterId(self.counters.push(counter))
    }

    /// Adds a value of a counter.
    pub fn counter_value(&mut self, counter: CounterId, time: ProfileNs, value: i64) {
        self.counter_values.push(counter, time.0, value);
    }

    /// Adds a row of system calls.
    pub fn syscalls(&mut self, row: Syscalls) {
        self.syscalls.push(row);
    }

    /// The heap tables. They are complete before they are written: after the recording has ended.
    pub fn heap_mut(&mut self) -> &mut Heap {
        &mut self.heap
    }

    /// Sets the heap tables: once, after the recording has ended.
    pub fn heap(&mut self, heap: Heap) {
        self.heap = heap;
    }

    /// Adds a progress point.
    pub fn progress_point(&mut self, point: CausalPoint) -> PointId {
        PointId(self.points.push(point))
    }

    /// Adds a target of experiments.
    pub fn causal_target(&mut self, target: CausalTarget) -> TargetId {
        let id = TargetId::from(self.targets.len());
        self.targets.push(target);
        self.dirty_targets.push(id);
        id
    }

    /// Changes the row of a target.
    pub fn update_causal_target(&mut self, id: TargetId, change: impl FnOnce(&mut CausalTarget)) {
        change(&mut self.targets[id.index()]);
        self.dirty_targets.push(id);
    }

    /// Adds an experiment, when it has ended.
    pub fn experiment(&mut self, experiment: Experiment) -> ExperimentId {
        ExperimentId(self.experiments.push(experiment))
    }

    /// Adds the visits of a progress point during an experiment.
    pub fn visits(&mut self, visits: Visits) {
        self.visits.push(visits);
    }

    /// The whole profile, sealed and without symbols; `None` if part of it was already written to a file.
    pub fn into_profile(self, meta: Meta) -> Option<Profile> {
        let written = self.strings.first > 0 || self.locations.first > 1 || self.stacks.first > 0;
        if written || self.points.first > 0 || self.experiments.first > 0 {
            return None;
        }
        if self.modules.first > 0 || self.metrics.first > 0 || self.counters.first > 0 {
            return None;
        }
        let mut profile = Profile { meta, sealed: true, ..Profile::default() };
        self.strings.rows.iter().for_each(|text| {
            profile.strings.push(text);
        });
        for (module, address) in self.locations.rows {
            profile.locations.push(module, address);
        }
        for (parent, location) in self.stacks.rows {
            profile.stacks.push(parent, location);
        }
        profile.processes = self.processes;
        profile.threads = self.threads;
        profile.modules = self.modules.rows;
        profile.metrics = self.metrics.rows;
        profile.samples = self.samples;
        for (metric, nanoseconds) in self.scales {
            profile.samples[metric.index()].scale(nanoseconds);
        }
        profile.wait_details = self.wait_details;
        profile.spans = self.spans;
        profile.counters = self.counters.rows;
        profile.counter_values = self.counter_values;
        profile.syscalls = self.syscalls;
        profile.heap = self.heap;
        profile.causal = Causal {
            points: self.points.rows,
            targets: self.targets,
            experiments: self.experiments.rows,
            visits: self.visits,
        };
        Some(profile)
    }

    /// The number of samples that a flush would write.
    pub fn pending_samples(&self) -> usize {
        self.samples.iter().map(Samples::len).sum()
    }

    /// Drops all unwritten samples, spans, counter values, system calls and visits, for when writing has
    /// failed for good.
    pub fn discard_samples(&mut self) {
        self.samples.iter_mut().for_each(Samples::clear);
        self.wait_details.clear();
        self.spans.clear();
        self.counter_values.clear();
        self.syscalls.clear();
        self.visits.clear();
    }

    /// Forgets the rows that have been written.
    pub(crate) fn flushed(&mut self) {
        self.strings.clear();
        self.locations.clear();
        self.stacks.clear();
        self.modules.clear();
        self.metrics.clear();
        self.scales.clear();
        self.dirty_processes.clear();
        self.dirty_threads.clear();
        self.samples.iter_mut().for_each(Samples::clear);
        self.wait_details.clear();
        self.spans.clear();
        self.counters.clear();
        self.counter_values.clear();
        self.syscalls.clear();
        self.heap = Heap::default();
        self.points.clear();
        self.dirty_targets.clear();
        self.experiments.clear();
        self.visits.clear();
        if self.stack_ids.len() > STACKS_REMEMBERED {
            self.stack_ids = FxHashMap::default();
            self.remembered = Vec::new();
            self.first_remembered = self.stacks.first;
        }
    }
}

impl Tree for Builder {
    fn add(&mut self, parent: Option<StackId>, location: LocationId) -> StackId {
        self.stack(parent, location)
    }

    fn node(&self, stack: StackId) -> Option<(Option<StackId>, LocationId)> {
        let at = stack.0.checked_sub(self.first_remembered)? as usize;
        let &(parent, location) = self.remembered.get(at)?;
        Some(((parent != NO_PARENT).then_some(StackId(parent)), location))
    }

    fn mark(&mut self) -> LocationId {
        self.special(SpecialFrame::LeftOut)
    }
}
