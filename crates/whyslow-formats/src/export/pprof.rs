//! Exports pprof's `profile.proto`, compressed with gzip: all metrics, summed over equal stacks of a thread,
//! with inlined functions.

use std::cmp::Reverse;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;
use whyslow_analyze::Selection;
use whyslow_profile::heap::metric;
use whyslow_profile::{LocationId, Metric, MetricId, ModuleId, ModuleKind, StackId, ThreadId, Unit};

use super::places::{Place, module_of, places};
use super::{Export, LeftOut};

/// The size of each module's invented address range: modules must not overlap.
const MODULE_SPACE: u64 = 1 << 40;

/// Writes the profile. Returns what the format cannot hold.
pub fn write_pprof(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let mut packed = GzEncoder::new(out, Compression::default());
    packed.write_all(&encode(export))?;
    packed.finish()?;
    let mut left_out: Vec<LeftOut> = other_heap_metrics(export).into_iter().collect();
    left_out.extend(export.left_out(&[LeftOut::Times, LeftOut::Spans, LeftOut::Counters, LeftOut::Code]));
    Ok(left_out)
}

/// A message being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Writes a number. 0 is omitted, because a missing number reads as 0.
    fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let mut inner = Self::default();
        values.for_each(|value| inner.varint(value));
        self.bytes(field, &inner.0);
    }
}

/// The texts of the file; row 0 is empty.
struct Texts {
    rows: Vec<String>,
    ids: FxHashMap<String, u64>,
}

impl Texts {
    fn id(&mut self, text: &str) -> u64 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.rows.len() as u64;
        self.rows.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }
}

/// The values of one thread's samples at one stack, one number per column.
type Sums = FxHashMap<(ThreadId, StackId), Vec<i64>>;

fn encode(export: &Export<'_>) -> Vec<u8> {
    let profile = export.profile;
    let mut texts = Texts { rows: vec![String::new()], ids: FxHashMap::from_iter([(String::new(), 0)]) };
    let mut file = Message::default();
    let columns = columns(export);
    for column in &columns {
        let (name, unit) = (texts.id(&column.name), texts.id(unit_name(column.unit)));
        file.message(1, |kind| {
            kind.number(1, name);
            kind.number(2, unit);
        });
    }
    let mut keys: Vec<(ThreadId, StackId)> = Vec::new();
    let sums = sums(export, &columns, &mut keys);
    let label_keys = ["thread", "thread_id", "process", "process_id"].map(|key| texts.id(key));
    for &(thread, stack) in &keys {
        let row = &profile.threads[thread.index()];
        let process = &profile.processes[row.process.index()];
        let names = [profile.text(row.name), profile.text(process.name)].map(|name| texts.id(name));
        file.message(2, |sample| {
            sample.packed(1, profile.locations_of(stack).map(|location| u64::from(location.0) + 1));
            sample.packed(2, sums[&(thread, stack)].iter().map(|&value| value.cast_unsigned()));
            let labels = [(names[0], 0), (0, row.tid), (names[1], 0), (0, process.pid)];
            for (key, (text, number)) in label_keys.into_iter().zip(labels) {
                sample.message(3, |label| {
                    label.number(1, key);
                    label.number(2, text);
                    label.number(3, u64::from(number));
                });
            }
        });
    }
    mappings(export, &mut file, &mut texts);
    locations(export, &mut file, &mut texts, keys.iter().map(|&(_, stack)| stack));
    file.number(9, profile.meta.started_unix_ns);
    file.number(10, profile.meta.duration_ns);
    if let Some((name, unit, period)) = period(export) {
        let (name, unit) = (texts.id(name), texts.id(unit_name(unit)));
        file.message(11, |kind| {
            kind.number(1, name);
            kind.number(2, unit);
        });
        file.number(12, period);
    }
    let name = texts.id(&kind_name(export.metric_name()));
    file.number(14, name);
    for text in &texts.rows {
        file.bytes(6, text.as_bytes());
    }
    file.0
}

/// A value of every sample.
struct Column {
    name: String,
    unit: Unit,
    holds: Holds,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// The number of samples of the chosen metric.
    Samples,
    /// The value of this metric.
    Metric(MetricId),
    /// The blocks that were live at the end.
    LiveBlocks,
}

/// The value types of a heap: whyslow's name, and the name that Go established.
const HEAP: [(&str, &str); 3] = [
    (metric::ALLOCATIONS, "alloc_objects"),
    (metric::BYTES_ALLOCATED, "alloc_space"),
    (metric::LIVE_AT_EXIT, "inuse_space"),
];
const LIVE_BLOCKS: &str = "inuse_objects";
/// Heap metrics without such a type.
const NOT_IN_PPROF: [&str; 4] =
    [metric::BYTES_FREED, metric::LIVE_AT_PEAK, metric::TEMPORARY, metric::UNUSED];

/// The columns: the samples of the chosen metric and the value of each metric, then the four types of a heap.
fn columns(export: &Export<'_>) -> Vec<Column> {
    let profile = export.profile;
    let of_heap =
        |name: &str| HEAP.iter().any(|&(metric_name, _)| metric_name == name) || NOT_IN_PPROF.contains(&name);
    let is_heap = |metric: &Metric| profile.meta.heap.is_some() && of_heap(profile.text(metric.name));
    let others = || profile.metric_ids().zip(&profile.metrics).filter(|(_, row)| !is_heap(row));
    let name = |metric: &Metric| kind_name(profile.text(metric.name));
    let mut columns = Vec::new();
    if others().next().is_some() || profile.metrics.is_empty() {
        let taken = others().any(|(_, row)| name(row) == "samples");
        let count = if taken { "sample_count" } else { "samples" };
        columns.push(Column { name: count.to_owned(), unit: Unit::Count, holds: Holds::Samples });
    }
    columns.extend(others().map(|(metric, row)| Column {
        name: name(row),
        unit: row.unit,
        holds: Holds::Metric(metric),
    }));
    for (metric_name, pprof_type) in HEAP {
        let found = profile.metric_where(|row| is_heap(row) && profile.text(row.name) == metric_name);
        let Some(metric) = found else { continue };
        if pprof_type == "inuse_space" {
            let name = LIVE_BLOCKS.to_owned();
            columns.push(Column { name, unit: Unit::Count, holds: Holds::LiveBlocks });
        }
        let unit = profile.metrics[metric.index()].unit;
        columns.push(Column { name: pprof_type.to_owned(), unit, holds: Holds::Metric(metric) });
    }
    columns
}

/// pprof's name for a metric.
fn kind_name(metric: &str) -> String {
    let heap =
        HEAP.iter().find(|&&(metric_name, _)| metric_name == metric).map(|&(_, pprof_type)| pprof_type);
    match metric {
        Metric::CPU_TIME => "cpu".to_owned(),
        _ => heap.unwrap_or(metric).to_owned(),
    }
}

/// The sampling period: type, unit and amount.
fn period(export: &Export<'_>) -> Option<(&'static str, Unit, u64)> {
    let meta = &export.profile.meta;
    let between = 1_000_000_000_u64.checked_div(u64::from(export.rate_hz()));
    match (export.unit(), &meta.heap) {
        (Unit::Nanoseconds, _) => between.map(|between| ("cpu", Unit::Nanoseconds, between)),
        (_, Some(heap)) => Some(("space", Unit::Bytes, heap.sample_bytes.unwrap_or(1))),
        _ => None,
    }
}

/// Heap metrics without a pprof type.
fn other_heap_metrics(export: &Export<'_>) -> Option<LeftOut> {
    let profile = export.profile;
    let names = profile.metrics.iter().map(|metric| profile.text(metric.name));
    let left = names.filter(|name| profile.meta.heap.is_some() && NOT_IN_PPROF.contains(name));
    let left: Vec<String> = left.map(str::to_owned).collect();
    (!left.is_empty()).then_some(LeftOut::Metrics(left))
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "nanoseconds",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
    }
}

/// Sums up the samples of all columns. Keys are in the order in which they were first seen.
fn sums(export: &Export<'_>, columns: &[Column], keys: &mut Vec<(ThreadId, StackId)>) -> Sums {
    let mut sums = Sums::default();
    for (at, column) in columns.iter().enumerate() {
        let Holds::Metric(metric) = column.holds else { continue };
        let other;
        let chosen = metric == export.selection.metric;
        let samples = if chosen {
            &export.samples
        } else {
            other = Selection { metric, ..export.selection.clone() }.samples(export.profile);
            &other
        };
        let count = columns.iter().position(|column| column.holds == Holds::Samples).filter(|_| chosen);
        for row in 0..samples.len() {
            let key = (samples.thread[row], samples.stack[row]);
            let values = sums.entry(key).or_insert_with(|| {
                keys.push(key);
                vec![0; columns.len()]
            });
            let value = i64::try_from(samples.value[row]).unwrap_or(i64::MAX);
            values[at] = values[at].saturating_add(value);
            if let Some(count) = count {
                values[count] += 1;
            }
        }
    }
    if let Some(blocks) = columns.iter().position(|column| column.holds == Holds::LiveBlocks) {
        live_blocks(export, &mut sums, keys, blocks);
    }
    sums
}

/// Blocks live at the end are known per stack. Threads share them in proportion to the bytes in the next
/// column.
fn live_blocks(export: &Export<'_>, sums: &mut Sums, keys: &[(ThreadId, StackId)], column: usize) {
    let mut left: FxHashMap<StackId, (u64, u64)> = FxHashMap::default();
    for site in &export.profile.heap.sites {
        let (blocks, bytes) = left.entry(site.stack).or_default();
        *blocks = blocks.saturating_add(site.counts.live_at_exit_blocks);
        *bytes = bytes.saturating_add(site.counts.live_at_exit_bytes);
    }
    for key in keys {
        let (Some(values), Some((blocks, bytes))) = (sums.get_mut(key), left.get_mut(&key.1)) else {
            continue;
        };
        let own = values[column + 1].unsigned_abs().min(*bytes);
        let share = u128::from(*blocks) * u128::from(own);
        // Blocks of no bytes have no samples: they go to the first thread.
        let share = share.checked_div(u128::from(*bytes)).map_or(*blocks, |share| share as u64);
        values[column] = i64::try_from(share).unwrap_or(i64::MAX);
        *blocks -= share;
        *bytes -= own;
    }
}

fn module_start(module: usize) -> u64 {
    (module as u64 + 1).wrapping_mul(MODULE_SPACE)
}

/// pprof treats the first mapping as the program, and shows its file and build id.
fn mappings(export: &Export<'_>, file: &mut Message, texts: &mut Texts) {
    let profile = export.profile;
    let main = main_program(export);
    let others = (0..profile.modules.len()).filter(|&row| Some(row) != main);
    for row in main.into_iter().chain(others) {
        let module = &profile.modules[row];
        let path = texts.id(profile.text(module.path));
        let build_id = module.build_id.map_or(0, |id| texts.id(profile.text(id)));
        file.message(3, |mapping| {
            mapping.number(1, row as u64 + 1);
            mapping.number(2, module_start(row));
            mapping.number(3, module_start(row + 1));
            mapping.number(5, path);
            mapping.number(6, build_id);
            // Names, files, lines and inlined frames are already resolved.
            (7..=10).for_each(|field| mapping.number(field, 1));
        });
    }
}

/// The program with most of the chosen metric; the first one seen if the metric is empty.
fn main_program(export: &Export<'_>) -> Option<usize> {
    let profile = export.profile;
    let is_program = |module: &usize| profile.modules[*module].kind == ModuleKind::Program;
    // Stack → its outermost program: parents come before their children.
    let mut program_of: Vec<Option<usize>> = Vec::with_capacity(profile.stacks.len());
    for stack in (0..profile.stacks.len()).map(StackId::from) {
        let outer = profile.stacks.parent(stack).and_then(|parent| program_of[parent.index()]);
        let here = || module_of(profile, profile.stacks.location(stack)).map(ModuleId::index);
        program_of.push(outer.or_else(|| here().filter(is_program)));
    }
    let mut spent = vec![0u64; profile.modules.len()];
    for (stack, value) in export.samples.stack.iter().zip(&export.samples.value) {
        if let Some(program) = program_of[stack.index()] {
            spent[program] = spent[program].saturating_add(*value);
        }
    }
    let programs = (0..profile.modules.len()).filter(is_program);
    programs.max_by_key(|&program| (spent[program], Reverse(program)))
}

/// Writes the locations on these stacks, and the functions they use.
fn locations(
    export: &Export<'_>,
    file: &mut Message,
    texts: &mut Texts,
    stacks: impl Iterator<Item = StackId>,
) {
    let profile = export.profile;
    let mut seen = vec![false; profile.stacks.len()];
    let mut used = vec![false; profile.locations.len()];
    for stack in stacks {
        for node in profile.stacks.towards_root(stack) {
            if std::mem::replace(&mut seen[node.index()], true) {
                break;
            }
            used[profile.stacks.location(node).index()] = true;
        }
    }
    let mut functions = FxHashMap::default();
    for row in (0..used.len()).filter(|&row| used[row]) {
        let location = LocationId::from(row);
        let module = module_of(profile, location);
        let start = module.map_or(0, |module| module_start(module.index()));
        let address = start.wrapping_add(profile.locations.address[row].0);
        let places = places(profile, location, export.inline);
        let lines: Vec<(u64, u64)> = places
            .iter()
            .rev()
            .map(|place| (function(export, file, texts, &mut functions, place), u64::from(place.line)))
            .collect();
        file.message(4, |message| {
            message.number(1, row as u64 + 1);
            message.number(2, module.map_or(0, |module| module.index() as u64 + 1));
            message.number(3, address);
            for (function, line) in lines {
                message.message(4, |message| {
                    message.number(1, function);
                    message.number(2, line);
                });
            }
        });
    }
}

type Functions = FxHashMap<(String, u64, u32), u64>;

/// The id of a function. Writes the function if it is new.
fn function(
    export: &Export<'_>,
    file: &mut Message,
    texts: &mut Texts,
    functions: &mut Functions,
    place: &Place<'_>,
) -> u64 {
    let source = export.definition(place.label).0.or(place.file).map_or(0, |file| texts.id(file));
    let key = (place.name.clone().into_owned(), source, place.definition);
    if let Some(&id) = functions.get(&key) {
        return id;
    }
    let id = functions.len() as u64 + 1;
    let name = texts.id(&key.0);
    file.message(5, |message| {
        message.number(1, id);
        message.number(2, name);
        message.number(3, name);
        message.number(4, source);
        message.number(5, u64::from(place.definition));
    });
    functions.insert(key, id);
    id
}
