//! Merges several runs into one profile: equal rows become one, and the runs follow each other in time.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Profile;
use crate::causal::{CausalPoint, CausalTarget, Experiment, Visits};
use crate::ids::{
    CounterId, ExperimentId, FunctionId, LocationId, MetricId, ModuleId, PointId, ProcessId, RelativeAddress,
    StackId, StringId, TargetId, ThreadId,
};
use crate::meta::{Counters, Host, KernelView, Meta, Sampling};
use crate::metric::{Metric, Origin, Sampler, Subject, Trigger};
use crate::syscalls::Syscalls;
use crate::tables::{
    BranchTarget, Code, Counter, Frame, Function, Module, Process, Samples, SourceLine, Span, Static, Thread,
    Unit, WaitDetail,
};

/// Adds runs to one profile.
///
/// ```text
/// time in the pool = duration of the runs before + time in the run
/// ```
///
/// Equal texts, modules, locations, functions and stacks of all runs become one row; processes and threads
/// remain separate. The heap is left out: peaks and leaks of several runs do not add up. Experiments follow each
/// other, and keep to their own baselines by the number of their run.
#[derive(Debug, Default)]
pub struct Pool {
    profile: Profile,
    runs: u64,
    expected_samples: f64,
    strings: FxHashMap<Box<str>, StringId>,
    modules: FxHashMap<Module, ModuleId>,
    functions: FxHashMap<Function, FunctionId>,
    locations: FxHashMap<(Option<ModuleId>, RelativeAddress, Vec<Frame>), LocationId>,
    stacks: FxHashMap<(Option<StackId>, LocationId), StackId>,
    metrics: FxHashMap<(StringId, Unit), MetricId>,
    source_lines: FxHashSet<(StringId, u32)>,
    codes: FxHashSet<(ModuleId, RelativeAddress)>,
    targets: FxHashSet<(ModuleId, RelativeAddress, bool)>,
}

/// Maps the rows of a run to those of the pool.
struct Places {
    strings: Vec<StringId>,
    modules: Vec<ModuleId>,
    functions: Vec<FunctionId>,
    stacks: Vec<StackId>,
    first_process: usize,
    first_thread: usize,
    /// The duration of the runs before.
    offset_ns: u64,
}

impl Places {
    fn string(&self, id: StringId) -> StringId {
        self.strings[id.index()]
    }

    fn text(&self, id: Option<StringId>) -> Option<StringId> {
        id.map(|id| self.string(id))
    }

    fn process(&self, id: ProcessId) -> ProcessId {
        ProcessId::from(self.first_process + id.index())
    }

    fn thread(&self, id: ThreadId) -> ThreadId {
        ThreadId::from(self.first_thread + id.index())
    }

    fn time(&self, time_ns: u64) -> u64 {
        self.offset_ns.saturating_add(time_ns)
    }
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a run after the existing ones.
    pub fn add(&mut self, run: &Profile) {
        let places = self.add_names(run);
        self.add_tasks(run, &places);
        self.add_values(run, &places);
        self.add_causal(run, &places);
        self.add_sources(run, &places);
        self.add_meta(run);
    }

    /// Adds a run's code and names but none of its samples. Returns the pool's stack for each stack of the
    /// run.
    pub fn add_code_only(&mut self, run: &Profile) -> Vec<StackId> {
        let places = self.add_names(run);
        self.add_sources(run, &places);
        places.stacks
    }

    /// Adds texts, modules, functions, locations and stacks.
    fn add_names(&mut self, run: &Profile) -> Places {
        let mut places = Places {
            strings: run.strings.iter().map(|text| self.string(text)).collect(),
            modules: Vec::with_capacity(run.modules.len()),
            functions: Vec::with_capacity(run.functions.len()),
            stacks: Vec::with_capacity(run.stacks.len()),
            first_process: self.profile.processes.len(),
            first_thread: self.profile.threads.len(),
            offset_ns: self.profile.meta.duration_ns,
        };
        self.add_code(run, &mut places);
        self.add_stacks(run, &mut places);
        places
    }

    /// The runs as one profile.
    pub fn finish(mut self) -> Profile {
        self.profile.sources.rows.sort_by_key(|row| (row.file, row.line));
        let meta = &self.profile.meta;
        let cpu_seconds = meta.user_time_ns.saturating_add(meta.system_time_ns) as f64 / 1e9;
        let main = self.profile.main_metric();
        if cpu_seconds > 0.0
            && let Some(Metric { origin: Origin::Sampled(sampler), .. }) =
                self.profile.metrics.get_mut(main.index())
        {
            sampler.rate_hz = (self.expected_samples / cpu_seconds).round() as u32;
        }
        self.profile
    }

    fn string(&mut self, text: &str) -> StringId {
        if let Some(id) = self.strings.get(text) {
            return *id;
        }
        let id = self.profile.strings.push(text);
        self.strings.insert(text.into(), id);
        id
    }

    /// Modules and functions.
    fn add_code(&mut self, run: &Profile, places: &mut Places) {
        for module in &run.modules {
            let module = Module {
                path: places.string(module.path),
                build_id: places.text(module.build_id),
                ..module.clone()
            };
            let rows = &mut self.profile.modules;
            places.modules.push(intern(&mut self.modules, module, |module| push(rows, module)));
        }
        for function in &run.functions {
            let function = Function {
                name: places.string(function.name),
                raw_name: places.string(function.raw_name),
                crate_name: places.text(function.crate_name),
                file: places.text(function.file),
                module: function.module.map(|module| places.modules[module.index()]),
                ..function.clone()
            };
            let rows = &mut self.profile.functions;
            places.functions.push(intern(&mut self.functions, function, |function| push(rows, function)));
        }
    }

    /// Locations with their frames, and stacks.
    fn add_stacks(&mut self, run: &Profile, places: &mut Places) {
        let mut locations = vec![LocationId::TRUNCATED];
        for index in 1..run.locations.len() {
            let module = run.locations.module[index].map(|module| places.modules[module.index()]);
            let address = run.locations.address[index];
            let frames = run.frames.of(LocationId::from(index)).iter().map(|frame| Frame {
                function: places.functions[frame.function.index()],
                file: places.text(frame.file),
                line: frame.line,
            });
            // Run-time code can differ at the same address of another run, and imported frames have addresses
            // that only number them.
            let key = (module, address, frames.collect::<Vec<_>>());
            let profile = &mut self.profile;
            locations.push(match self.locations.entry(key) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let id = profile.locations.push(module, address);
                    profile.frames.set(id, &new.key().2);
                    *new.insert(id)
                }
            });
        }
        for index in 0..run.stacks.len() {
            let stack = StackId::from(index);
            let parent = run.stacks.parent(stack).map(|parent| places.stacks[parent.index()]);
            let location = locations[run.stacks.location(stack).index()];
            let rows = &mut self.profile.stacks;
            let new = |(parent, location): (Option<StackId>, LocationId)| rows.push(parent, location);
            places.stacks.push(intern(&mut self.stacks, (parent, location), new));
        }
    }

    fn add_tasks(&mut self, run: &Profile, places: &Places) {
        let Profile { processes, threads, .. } = &mut self.profile;
        processes.extend(run.processes.iter().map(|process| Process {
            parent: process.parent.map(|parent| places.process(parent)),
            name: places.string(process.name),
            start_ns: places.time(process.start_ns),
            end_ns: process.end_ns.map(|end| places.time(end)),
            ..process.clone()
        }));
        threads.extend(run.threads.iter().map(|thread| Thread {
            process: places.process(thread.process),
            name: places.string(thread.name),
            start_ns: places.time(thread.start_ns),
            end_ns: thread.end_ns.map(|end| places.time(end)),
            ..thread.clone()
        }));
    }

    /// Samples, spans and counters.
    fn add_values(&mut self, run: &Profile, places: &Places) {
        for (metric, samples) in run.metrics.iter().zip(&run.samples) {
            if metric.of == Subject::Heap {
                continue;
            }
            let metric = metric.renamed(places.string(metric.name));
            let Profile { metrics, samples: tables, .. } = &mut self.profile;
            let id = intern(&mut self.metrics, (metric.name, metric.unit), |_| {
                tables.push(Samples::default());
                push(metrics, metric)
            });
            let pooled = &mut metrics[id.index()];
            pooled.origin = common(pooled.origin, metric.origin);
            let table = &mut tables[id.index()];
            for at in 0..samples.len() {
                let (thread, stack) = (places.thread(samples.thread[at]), samples.stack[at]);
                let time_ns = places.time(samples.time_ns[at]);
                table.push(time_ns, thread, places.stacks[stack.index()], samples.value[at]);
            }
        }
        for row in run.wait_details.rows() {
            self.profile.wait_details.push(WaitDetail {
                thread: places.thread(row.thread),
                end_ns: places.time(row.end_ns),
                data: row.data.map(|(module, address)| (places.modules[module.index()], address)),
                waker: row.waker.map(|thread| places.thread(thread)),
                waker_stack: row.waker_stack.map(|stack| places.stacks[stack.index()]),
                ..row
            });
        }
        self.profile.spans.extend(run.spans.iter().map(|span| Span {
            name: places.string(span.name),
            thread: span.thread.map(|thread| places.thread(thread)),
            start_ns: places.time(span.start_ns),
            end_ns: places.time(span.end_ns),
            detail: places.text(span.detail),
        }));
        self.profile.syscalls.extend(run.syscalls.iter().map(|row| Syscalls {
            time_ns: places.time(row.time_ns),
            thread: places.thread(row.thread),
            stack: places.stacks[row.stack.index()],
            call: places.string(row.call),
            file: places.text(row.file),
            error: places.text(row.error),
            ..row.clone()
        }));
        let Profile { counters, counter_values, .. } = &mut self.profile;
        let first_counter = counters.len();
        counters.extend(run.counters.iter().map(|counter| Counter {
            name: places.string(counter.name),
            process: counter.process.map(|process| places.process(process)),
            ..counter.clone()
        }));
        let values = &run.counter_values;
        for at in 0..values.len() {
            let counter = CounterId::from(first_counter + values.counter[at].index());
            counter_values.push(counter, places.time(values.time_ns[at]), values.value[at]);
        }
    }

    /// Experiments. Equal points and targets become one row.
    fn add_causal(&mut self, run: &Profile, places: &Places) {
        let pool = &mut self.profile.causal;
        let points = run.causal.points.iter().map(|point| {
            let (name, file) = (places.string(point.name), places.text(point.file));
            let point = CausalPoint { name, file, ..*point };
            let known = pool.points.iter().position(|known| *known == point);
            known.map_or_else(|| push(&mut pool.points, point), PointId::from)
        });
        let points = points.collect::<Vec<_>>();
        let targets = run.causal.targets.iter().map(|target| {
            let (function, file) = (places.string(target.function), places.text(target.file));
            let target = CausalTarget { function, file, ..*target };
            match pool.targets.iter().position(|known| same_code(known, &target)) {
                Some(at) => {
                    pool.targets[at] = added(&pool.targets[at], &target);
                    TargetId::from(at)
                }
                None => push(&mut pool.targets, target),
            }
        });
        let targets = targets.collect::<Vec<_>>();
        let first = pool.experiments.len();
        let first_run = pool.experiments.iter().map(|row| row.run.saturating_add(1)).max().unwrap_or(0);
        pool.experiments.extend(run.causal.experiments.iter().map(|row| Experiment {
            start_ns: places.time(row.start_ns),
            target: row.target.map(|target| targets[target.index()]),
            run: first_run.saturating_add(row.run),
            ..*row
        }));
        pool.visits.extend(run.causal.visits.iter().map(|row| Visits {
            experiment: ExperimentId::from(first + row.experiment.index()),
            point: points[row.point.index()],
            ..*row
        }));
    }

    /// Source lines, variable names and machine code. If two runs differ, the first one's are kept.
    fn add_sources(&mut self, run: &Profile, places: &Places) {
        for row in &run.sources.rows {
            let file = places.string(row.file);
            if self.source_lines.insert((file, row.line)) {
                let text = places.string(row.text);
                self.profile.sources.rows.push(SourceLine { file, line: row.line, text });
            }
        }
        for row in &run.statics {
            let module = places.modules[row.module.index()];
            if self.profile.static_at(module, row.start).is_none() {
                let name = places.string(row.name);
                self.profile.statics.push(Static { module, name, ..*row });
            }
        }
        for row in &run.targets {
            let module = places.modules[row.module.index()];
            let target = BranchTarget { module, name: places.string(row.name), ..*row };
            if self.targets.insert((module, target.address, target.is_slot)) {
                self.profile.targets.push(target);
            }
        }
        for code in &run.code.rows {
            let module = places.modules[code.module.index()];
            if self.codes.insert((module, code.start)) {
                self.profile.code.rows.push(Code { module, ..code.clone() });
            }
        }
    }

    fn add_meta(&mut self, run: &Profile) {
        let meta = &run.meta;
        let cpu_seconds = meta.user_time_ns.saturating_add(meta.system_time_ns) as f64 / 1e9;
        self.expected_samples += f64::from(run.main_sampler().rate_hz) * cpu_seconds;
        self.runs += 1;
        let duration_ns = length(run);
        if self.runs == 1 {
            self.profile.sealed = run.sealed;
            self.profile.meta = Meta { duration_ns, heap: None, ..meta.clone() };
            return;
        }
        self.profile.sealed &= run.sealed;
        let pool = &mut self.profile.meta;
        pool.started_unix_ns = pool.started_unix_ns.min(meta.started_unix_ns);
        pool.duration_ns = pool.duration_ns.saturating_add(duration_ns);
        pool.user_time_ns = pool.user_time_ns.saturating_add(meta.user_time_ns);
        pool.system_time_ns = pool.system_time_ns.saturating_add(meta.system_time_ns);
        pool.max_resident_bytes = pool.max_resident_bytes.max(meta.max_resident_bytes);
        pool.kernel = least_seen(pool.kernel, meta.kernel);
        if pool.exit != meta.exit {
            pool.exit = None;
        }
        if pool.imported_from != meta.imported_from {
            pool.imported_from = None;
        }
        if pool.host != meta.host {
            pool.host = Host::default();
        }
        if pool.sampling != meta.sampling {
            // The kind of sampling for which time without samples must be reported.
            let threads = [pool.sampling, meta.sampling].contains(&Sampling::Threads);
            pool.sampling = if threads { Sampling::Threads } else { Sampling::Unknown };
        }
        pool.only_cpus = pool.only_cpus.take().or_else(|| meta.only_cpus.clone());
        for row in &meta.still_running {
            match pool.still_running.iter_mut().find(|known| known.name == row.name) {
                Some(known) => known.processes = known.processes.saturating_add(row.processes),
                None => pool.still_running.push(row.clone()),
            }
        }
        pool.counters = sum(&pool.counters, &meta.counters);
        for note in &meta.notes {
            if !pool.notes.contains(note) {
                pool.notes.push(note.clone());
            }
        }
    }
}

fn same_code(a: &CausalTarget, b: &CausalTarget) -> bool {
    let code = |of: &CausalTarget| (of.kind, of.function, of.file, of.line);
    code(a) == code(b)
}

/// A target with the samples of two recordings. Its share is that of their sum.
fn added(a: &CausalTarget, b: &CausalTarget) -> CausalTarget {
    let samples = a.samples.saturating_add(b.samples);
    let all = |of: &CausalTarget| if of.share > 0.0 { of.samples as f64 / of.share } else { 0.0 };
    let all = all(a) + all(b);
    let share = if all > 0.0 { (samples as f64 / all).min(1.0) } else { a.share.max(b.share) };
    CausalTarget { share, samples, ..*a }
}

/// The origin that holds for the values of both.
fn common(a: Origin, b: Origin) -> Origin {
    match (a, b) {
        _ if a == b => a,
        (Origin::Sampled(a), Origin::Sampled(b)) => Origin::Sampled(Sampler {
            trigger: if a.trigger == b.trigger { a.trigger } else { Trigger::Unknown },
            rate_hz: if a.rate_hz == b.rate_hz { a.rate_hz } else { 0 },
        }),
        _ => Origin::Unknown,
    }
}

/// How long a run took. One that was cut off has no duration, only samples.
fn length(run: &Profile) -> u64 {
    let last = run.samples.iter().flat_map(|samples| &samples.time_ns).max();
    run.meta.duration_ns.max(last.copied().unwrap_or(0))
}

/// The view of the kernel that holds for both: the one that shows less.
fn least_seen(a: KernelView, b: KernelView) -> KernelView {
    let seen = |view| match view {
        KernelView::Hidden => 0,
        KernelView::Unknown => 1,
        KernelView::Callers => 2,
        KernelView::Unnamed => 3,
        KernelView::Included => 4,
    };
    if seen(a) <= seen(b) { a } else { b }
}

/// Adds everything up, except memory and depth, of which it takes the maximum.
fn sum(a: &Counters, b: &Counters) -> Counters {
    let add = u64::saturating_add;
    // Names every field, so that a new one is not forgotten here.
    Counters {
        lost_samples: add(a.lost_samples, b.lost_samples),
        lost_records: add(a.lost_records, b.lost_records),
        throttled: add(a.throttled, b.throttled),
        complete_in_dump: add(a.complete_in_dump, b.complete_in_dump),
        completed_by_join: add(a.completed_by_join, b.completed_by_join),
        completed_by_read: add(a.completed_by_read, b.completed_by_read),
        truncated: add(a.truncated, b.truncated),
        no_unwind_info: add(a.no_unwind_info, b.no_unwind_info),
        cut_at_signal: add(a.cut_at_signal, b.cut_at_signal),
        deepest_stack: a.deepest_stack.max(b.deepest_stack),
        without_user_stack: add(a.without_user_stack, b.without_user_stack),
        unsampled_threads: add(a.unsampled_threads, b.unsampled_threads),
        unobservable_execs: add(a.unobservable_execs, b.unobservable_execs),
        recorder_cpu_ns: add(a.recorder_cpu_ns, b.recorder_cpu_ns),
        recorder_max_resident_bytes: a.recorder_max_resident_bytes.max(b.recorder_max_resident_bytes),
    }
}

/// The id of a row that may already exist.
fn intern<K, I>(ids: &mut FxHashMap<K, I>, row: K, new: impl FnOnce(K) -> I) -> I
where
    K: Clone + Eq + std::hash::Hash,
    I: Copy,
{
    match ids.get(&row) {
        Some(id) => *id,
        None => {
            let id = new(row.clone());
            ids.insert(row, id);
            id
        }
    }
}

fn push<T, I: From<usize>>(rows: &mut Vec<T>, row: T) -> I {
    rows.push(row);
    I::from(rows.len() - 1)
}
