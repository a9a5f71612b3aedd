//! Imports pprof's `profile.proto`, as Go, pprof-rs, jemalloc_pprof and many others write it.
//!
//! Each value type becomes a metric. pprof's default comes first. Labels name threads. Labels of other kinds
//! (`request=/login`) follow the thread's name, so that they can be selected like it. The format has no
//! times, and equal stacks are usually summed up.

mod tables;
mod wire;

use rustc_hash::FxHashMap;
use whyslow_profile::{
    Frame, ImportNote, LeftOutSamples, LocationId, Metric, MetricId, ModuleId, ModuleKind, ProcessId,
    SpecialFrame, ThreadId, Unit, is_bracketed,
};

use self::tables::{Label, Location, Sample, Tables, ValueType, each_sample};
use self::wire::{Message, Value};
use super::assemble::{Assembly, FunctionText};
use super::{Format, GUESS_BYTES, ImportError, ImportOptions, Imported};

/// The format has no magic number: all visible fields have to be those of a profile, in any order.
pub(super) fn looks_like(start: &[u8]) -> bool {
    let mut fields = Message::file(start).fields();
    let mut tables = 0;
    loop {
        match fields.next() {
            Ok(Some((number, value))) if is_field(number, value) => tables += usize::from(number <= 6),
            Ok(Some(_)) => return false,
            Ok(None) => return tables > 1,
            // Only the start of a long file may be cut inside a field.
            Err(_) => return tables > 1 && start.len() >= GUESS_BYTES,
        }
    }
}

/// Whether a profile can have such a field. Table rows are checked too, because any bytes can be the fields
/// of some message.
fn is_field(number: u64, value: Value<'_>) -> bool {
    let holds = |most: u64| match value {
        Value::Bytes(row) => {
            let mut fields = row.fields();
            loop {
                match fields.next() {
                    Ok(None) => break true,
                    Ok(Some((inner, _))) if inner <= most => {}
                    _ => break false,
                }
            }
        }
        _ => false,
    };
    match number {
        1 => holds(2),
        2 => holds(3),
        3 => holds(10),
        4 | 5 => holds(5),
        6 => matches!(value, Value::Bytes(_)),
        11 => holds(2),
        7..=10 | 12 | 14 | 15 => matches!(value, Value::Number(_)),
        13 => !matches!(value, Value::Other),
        _ => false,
    }
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let file = Message::file(bytes);
    let tables = Tables::read(file)?;
    if tables.sample_types.is_empty() {
        return Err(ImportError::unusable(Format::Pprof, "the types of its values are missing"));
    }
    let mut import = Import::new(&tables);
    each_sample(file, |message, sample| import.sample(message, &sample))?;
    import.finish()
}

struct Import<'t, 'a> {
    tables: &'t Tables<'a>,
    assembly: Assembly,
    /// The metric and factor of each value type.
    metrics: Vec<(MetricId, u64)>,
    /// The same for the base of a comparison.
    before: Vec<Option<MetricId>>,
    modules: Vec<ModuleId>,
    /// Locations that were seen, by row.
    locations: FxHashMap<usize, LocationId>,
    processes: FxHashMap<(String, u32), ProcessId>,
    threads: FxHashMap<(ProcessId, String, u32), ThreadId>,
    negative: u64,
    without_stack: u64,
    left_out_labels: Vec<String>,
}

/// The label of samples that belong to the base of `pprof -diff_base`. Their values are negative.
const BASE: &str = "pprof::base";

/// The maximum number of threads that labels may create. Further labels are left out.
const MOST_THREADS: usize = 1000;

/// The maximum length of labels after a thread's name.
const LONGEST_LABELS: usize = 200;

impl<'t, 'a> Import<'t, 'a> {
    fn new(tables: &'t Tables<'a>) -> Self {
        let mut assembly = Assembly::new("pprof");
        let mut rate_hz = 0;
        let meta = &mut assembly.profile.meta;
        meta.started_unix_ns = tables.time_ns;
        meta.duration_ns = tables.duration_ns;
        if let Some(period) = tables.period_type
            && let (Unit::Nanoseconds, factor) = unit(tables.text(period.unit))
            && tables.period > 0
        {
            let period_ns = tables.period.saturating_mul(factor);
            rate_hz = u32::try_from(1_000_000_000 / period_ns.max(1)).unwrap_or(0);
        }
        let modules: Vec<ModuleId> = tables
            .mappings
            .iter()
            .enumerate()
            .map(|(row, mapping)| {
                let path = match tables.text(mapping.file) {
                    "" => SpecialFrame::NoName.text(),
                    path => path,
                };
                let build_id = Some(tables.text(mapping.build_id));
                assembly.module(path, build_id, module_kind(path, row == 0))
            })
            .collect();
        if let Some(mapping) = tables.mappings.first() {
            let path = tables.text(mapping.file);
            assembly.profile.meta.command = vec![path.to_owned()];
        }
        let metrics = metrics(tables, &mut assembly);
        assembly.profile.sampled_at(rate_hz);
        Self {
            tables,
            assembly,
            before: vec![None; metrics.len()],
            metrics,
            modules,
            locations: FxHashMap::default(),
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            negative: 0,
            without_stack: 0,
            left_out_labels: Vec::new(),
        }
    }

    fn sample(&mut self, message: Message<'_>, sample: &Sample) -> Result<(), ImportError> {
        if sample.values.len() != self.metrics.len() {
            return Err(message.wrong(format!(
                "a sample has {} values for {} value types",
                sample.values.len(),
                self.metrics.len()
            )));
        }
        let thread = self.thread(&sample.labels);
        let mut stack = None;
        for &id in sample.locations.iter().rev() {
            let Some(&row) = self.tables.location_rows.get(&id) else {
                return Err(message.wrong(format!("a sample refers to location {id}, which does not exist")));
            };
            let location = match self.locations.get(&row) {
                Some(&location) => location,
                None => {
                    let location = self.location(&self.tables.locations[row], stack.is_none());
                    self.locations.insert(row, location);
                    location
                }
            };
            stack = Some(self.assembly.stack(stack, location));
        }
        let Some(stack) = stack else {
            self.without_stack += 1;
            return Ok(());
        };
        let is_base = sample.labels.iter().any(|label| self.tables.text(label.key) == BASE);
        for (kind, &value) in sample.values.iter().enumerate() {
            let (metric, factor) = self.metrics[kind];
            match value.cast_signed() {
                0 => {}
                value if is_base => {
                    let metric = self.metric_before(kind);
                    let value = value.unsigned_abs().saturating_mul(factor);
                    self.assembly.sample(metric, 0, thread, stack, value);
                }
                ..0 => self.negative += 1,
                _ => self.assembly.sample(metric, 0, thread, stack, value.saturating_mul(factor)),
            }
        }
        Ok(())
    }

    /// The metric of a value type in the base.
    fn metric_before(&mut self, kind: usize) -> MetricId {
        if let Some(known) = self.before[kind] {
            return known;
        }
        let after = &self.assembly.profile.metrics[self.metrics[kind].0.index()];
        let (name, unit) = (format!("{}-before", self.assembly.profile.text(after.name)), after.unit);
        let metric = self.assembly.metric(Metric::of_name(&name, unit));
        self.before[kind] = Some(metric);
        metric
    }

    /// The thread that a sample's labels name.
    fn thread(&mut self, labels: &[Label]) -> ThreadId {
        let (mut name, mut number) = ("", 0u64);
        let (mut process_name, mut pid) = ("", 0u64);
        let mut others = Vec::new();
        for label in labels {
            let (key, text) = (self.tables.text(label.key), self.tables.text(label.text));
            match key {
                "thread" | "thread_name" | "thread name" | "threadname" | "thread.name"
                    if !text.is_empty() =>
                {
                    name = text;
                }
                "thread" | "thread_id" | "thread id" | "thread.id" | "tid" => number = label.number,
                "process" | "process_name" | "process.name" if !text.is_empty() => process_name = text,
                "process" | "process_id" | "process.id" | "pid" => pid = label.number,
                BASE => {}
                _ if !text.is_empty() => others.push((key, text)),
                key if !self.left_out_labels.iter().any(|known| known == key) => {
                    self.left_out_labels.push(key.to_owned());
                }
                _ => {}
            }
        }
        let small = |number: u64| u32::try_from(number).unwrap_or(0);
        let process = self.process(process_name, small(pid));
        let number = small(number);
        others.sort_unstable();
        others.dedup();
        let text: String = others.iter().map(|(key, text)| format!(" {key}={text}")).collect();
        let key = (process, format!("{name}{text}"), number);
        if let Some(&id) = self.threads.get(&key) {
            return id;
        }
        let text = if self.threads.len() < MOST_THREADS && text.len() <= LONGEST_LABELS {
            text
        } else {
            for (label, _) in others {
                if !self.left_out_labels.iter().any(|known| known == label) {
                    self.left_out_labels.push(label.to_owned());
                }
            }
            String::new()
        };
        let key = (process, format!("{name}{text}"), number);
        if let Some(&id) = self.threads.get(&key) {
            return id;
        }
        let shown = match (name, number) {
            ("", 0) => format!("all threads{text}"),
            ("", number) => format!("thread {number}{text}"),
            (name, _) => format!("{name}{text}"),
        };
        let id = self.assembly.thread(process, number, &shown);
        self.threads.insert(key, id);
        id
    }

    fn process(&mut self, name: &str, pid: u32) -> ProcessId {
        let key = (name.to_owned(), pid);
        if let Some(&id) = self.processes.get(&key) {
            return id;
        }
        let path = self.tables.mappings.first().map_or("", |mapping| self.tables.text(mapping.file));
        let program = path.rsplit('/').next().unwrap_or(path);
        let id = self.assembly.process(pid, if name.is_empty() { program } else { name });
        self.processes.insert(key, id);
        id
    }

    fn location(&mut self, row: &Location, at_root: bool) -> LocationId {
        let mapping = self.tables.mapping_rows.get(&row.mapping).copied();
        let module = mapping.map(|mapping| self.modules[mapping]);
        let address = match mapping.map(|mapping| &self.tables.mappings[mapping]) {
            Some(mapping) => row.address.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset),
            None => row.address,
        };
        let mut frames = Vec::with_capacity(row.lines.len());
        for line in row.lines.iter().rev() {
            let Some(&function) = self.tables.function_rows.get(&line.function) else { continue };
            let function = &self.tables.functions[function];
            let raw = match self.tables.text(function.system_name) {
                "" => self.tables.text(function.name),
                raw => raw,
            };
            if row.lines.len() == 1 && at_root && Assembly::is_truncation(raw) {
                return LocationId::TRUNCATED;
            }
            let small = |number: u64| u32::try_from(number).unwrap_or(0);
            let file = Some(self.tables.text(function.file)).filter(|file| !file.is_empty());
            let text = FunctionText { name: raw, file, line: small(function.start_line), module };
            let function = self.assembly.function(&text);
            let file = file.map(|file| self.assembly.text(file));
            frames.push(Frame { function, file, line: small(line.line) });
        }
        if frames.is_empty() {
            self.assembly.note(ImportNote::PprofUnnamed);
        }
        self.assembly.location(module, address, &frames)
    }

    fn finish(mut self) -> Result<Imported, ImportError> {
        let assembly = &mut self.assembly;
        assembly.note(ImportNote::NoTimes);
        assembly.leave_out(self.negative, LeftOutSamples::Negative);
        assembly.leave_out(self.without_stack, LeftOutSamples::WithoutStack);
        if !self.left_out_labels.is_empty() {
            self.left_out_labels.truncate(5);
            assembly.note(ImportNote::LabelsLeftOut { labels: self.left_out_labels });
        }
        self.assembly.finish()
    }
}

/// Adds a metric per value type, the default one first. Returns the metric of each type.
fn metrics(tables: &Tables<'_>, assembly: &mut Assembly) -> Vec<(MetricId, u64)> {
    let name = |kind: &ValueType| tables.text(kind.name);
    let kinds = &tables.sample_types;
    let default = tables.text(tables.default_type);
    let first = kinds.iter().position(|kind| !default.is_empty() && name(kind) == default);
    let first = first.unwrap_or(kinds.len() - 1);
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    order[..=first].rotate_right(1);
    let mut metrics = vec![(MetricId(0), 1); kinds.len()];
    for row in order {
        let (unit, factor) = unit(tables.text(kinds[row].unit));
        let name = match name(&kinds[row]) {
            "cpu" if unit == Unit::Nanoseconds => Metric::CPU_TIME.to_owned(),
            "" => "value".to_owned(),
            name => name.replace([' ', '_'], "-"),
        };
        metrics[row] = (assembly.metric(Metric::of_name(&name, unit)), factor);
    }
    metrics
}

/// The unit in whyslow's terms, and the factor to convert to it.
fn unit(text: &str) -> (Unit, u64) {
    match text {
        "nanoseconds" | "nanosecond" | "ns" => (Unit::Nanoseconds, 1),
        "microseconds" | "microsecond" | "us" => (Unit::Nanoseconds, 1_000),
        "milliseconds" | "millisecond" | "ms" => (Unit::Nanoseconds, 1_000_000),
        "seconds" | "second" | "s" => (Unit::Nanoseconds, 1_000_000_000),
        "bytes" | "byte" => (Unit::Bytes, 1),
        "kilobytes" | "kilobyte" | "kb" => (Unit::Bytes, 1 << 10),
        "megabytes" | "megabyte" | "mb" => (Unit::Bytes, 1 << 20),
        _ => (Unit::Count, 1),
    }
}

/// The kind of a mapping: the first one of a file is the program.
fn module_kind(path: &str, first: bool) -> ModuleKind {
    let file = path.rsplit('/').next().unwrap_or(path);
    match file {
        _ if path.starts_with("[vdso") => ModuleKind::Vdso,
        _ if path.starts_with("[kernel") => ModuleKind::Kernel,
        _ if is_bracketed(path) => ModuleKind::Unknown,
        _ if file.ends_with(".so") || file.contains(".so.") => ModuleKind::Library,
        _ if first => ModuleKind::Program,
        _ => ModuleKind::Unknown,
    }
}
