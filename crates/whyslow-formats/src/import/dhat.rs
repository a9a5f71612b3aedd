//! Imports DHAT's JSON, version 2, as Valgrind's DHAT and the dhat crate write it: one row per allocation
//! site.

use serde::Deserialize;
use whyslow_profile::heap::{LeakCheck, metric};
use whyslow_profile::{
    Frame, HeapCounts, HeapFacts, ImportNote, LocationId, Metric, MetricId, NoLeakCheck, Origin, ProfileNs,
    StackId, ThreadId, Unit,
};

use super::assemble::{Assembly, FunctionText};
use super::callgrind::{Simulated, add_process};
use super::heap::{Accesses, Rows};
use super::json::{self, Index, Number, Text};
use super::{Format, ImportError, ImportOptions, Imported};

#[derive(Deserialize)]
struct File<'a> {
    #[serde(rename = "dhatFileVersion")]
    version: u32,
    #[serde(borrow)]
    mode: Option<Text<'a>>,
    #[serde(borrow)]
    bsu: Option<Text<'a>>,
    #[serde(borrow)]
    bksu: Option<Text<'a>>,
    #[serde(borrow)]
    cmd: Option<Text<'a>>,
    pid: Option<Index>,
    #[serde(borrow)]
    tu: Option<Text<'a>>,
    te: Option<Number>,
    tg: Option<Number>,
    pps: Vec<Point>,
    #[serde(borrow)]
    ftbl: Vec<Text<'a>>,
}

/// An allocation site: its totals, its live blocks at the peak and at the end, and its stack.
#[derive(Deserialize)]
struct Point {
    #[serde(default)]
    tb: u64,
    #[serde(default)]
    tbk: u64,
    tl: Option<u64>,
    mb: Option<u64>,
    mbk: Option<u64>,
    gb: Option<u64>,
    gbk: Option<u64>,
    eb: Option<u64>,
    ebk: Option<u64>,
    rb: Option<u64>,
    wb: Option<u64>,
    /// Accesses of each byte of its blocks: a number per byte, or a negative count and the number of that many bytes.
    #[serde(default)]
    acc: Vec<i64>,
    /// Innermost first.
    fs: Vec<Index>,
}

pub(super) fn looks_like(start: &[u8]) -> bool {
    json::has_key(start, "dhatFileVersion")
}

/// Metrics in addition to the heap's own: name, unit, and the value of a point. Metrics without values are
/// omitted.
type Column = (&'static str, Unit, fn(&Point) -> Option<u64>);
const HEAP: [Column; 5] = [
    (metric::BYTES_ALLOCATED, Unit::Bytes, |point| Some(point.tb)),
    (metric::ALLOCATIONS, Unit::Count, |point| Some(point.tbk)),
    (metric::BYTES_FREED, Unit::Bytes, |point| Some(point.tb.saturating_sub(point.eb?))),
    ("read-bytes", Unit::Bytes, |point| point.rb),
    ("written-bytes", Unit::Bytes, |point| point.wb),
];
/// The same for files that count something else: copies, or ad hoc events.
const OTHERS: [Column; 4] = [
    ("units", Unit::Count, |point| Some(point.tb)),
    ("events", Unit::Count, |point| Some(point.tbk)),
    ("read-bytes", Unit::Bytes, |point| point.rb),
    ("written-bytes", Unit::Bytes, |point| point.wb),
];

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let file = parsed(bytes)?;
    let mode = file.mode.as_ref().map_or("heap", Text::as_str);
    let mut assembly = Assembly::new(&format!("DHAT ({mode})"));
    let command = file.cmd.as_ref().map_or("", Text::as_str);
    assembly.profile.meta.command = command.split_whitespace().map(str::to_owned).collect();
    let program = command.split_whitespace().next().unwrap_or("program");
    let pid = file.pid.and_then(|pid| pid.0).unwrap_or(0);
    let process = assembly.process(pid, program.rsplit('/').next().unwrap_or(program));
    let thread = assembly.thread(process, pid, "all threads");
    let columns = file.columns();
    let metrics = columns_of(&mut assembly, &[&file], columns);
    let mut heap = HeapOf::default();
    add_file(&mut assembly, &file, thread, &metrics, &mut heap)?;
    heap.finish(&mut assembly, thread, 1);
    assembly.note(ImportNote::NoTimesAndThreads);
    assembly.finish()
}

/// Reads the files of a recording with Valgrind's DHAT into one profile, one per process.
pub fn access_counts(processes: &[Simulated<'_>]) -> Result<Imported, ImportError> {
    let mut assembly = Assembly::new("dhat");
    let files = processes.iter().map(|process| parsed(process.bytes)).collect::<Result<Vec<_>, _>>()?;
    let all: Vec<&File<'_>> = files.iter().collect();
    let metrics = columns_of(&mut assembly, &all, &HEAP);
    let mut heap = HeapOf { is_heap: true, ..HeapOf::default() };
    let mut first = None;
    for (process, file) in processes.iter().zip(&files) {
        let thread = add_process(&mut assembly, process);
        first.get_or_insert(thread);
        add_file(&mut assembly, file, thread, &metrics, &mut heap)?;
    }
    if let Some(thread) = first {
        heap.finish(&mut assembly, thread, processes.len() as u64);
    }
    let mut imported = assembly.finish()?;
    imported.profile.meta.imported_from = None;
    whyslow_symbols::keep_sources(&mut imported.profile);
    Ok(imported)
}

fn parsed(bytes: &[u8]) -> Result<File<'_>, ImportError> {
    let file: File<'_> = json::parse(Format::Dhat, bytes)?;
    if file.version != 2 {
        let what = format!("version {} is not supported, only version 2", file.version);
        return Err(ImportError::unusable(Format::Dhat, what));
    }
    Ok(file)
}

type Metrics = Vec<(MetricId, Column)>;

/// Adds the metrics of the columns that one of the files has.
fn columns_of(assembly: &mut Assembly, files: &[&File<'_>], columns: &[Column]) -> Metrics {
    let has = |(.., value): &&Column| {
        files.iter().any(|file| file.pps.is_empty() || file.pps.iter().any(|point| value(point).is_some()))
    };
    let used: Vec<&Column> = columns.iter().filter(has).collect();
    let metric = |column: &Column| Metric::of_name(column.0, column.1).with_origin(Origin::Counted);
    used.into_iter().map(|column| (assembly.metric(metric(column)), *column)).collect()
}

impl File<'_> {
    /// There is a peak only if blocks are freed.
    fn is_heap(&self) -> bool {
        !self.pps.is_empty() && self.pps.iter().all(|point| point.gb.is_some() && point.eb.is_some())
    }

    fn columns(&self) -> &'static [Column] {
        if self.is_heap() { &HEAP } else { &OTHERS }
    }

    /// Whether its times are times: the dhat crate writes the micro sign.
    fn has_times(&self) -> bool {
        self.tu.as_ref().is_some_and(|unit| matches!(unit.as_str(), "us" | "µs" | "μs"))
    }
}

/// The heap of all files.
#[derive(Default)]
struct HeapOf {
    rows: Rows,
    accesses: Accesses,
    is_heap: bool,
    peak_ns: ProfileNs,
}

impl HeapOf {
    fn finish(self, assembly: &mut Assembly, thread: ThreadId, processes: u64) {
        if !self.is_heap {
            return;
        }
        let peak = self.rows.sites.iter().fold(0u64, |sum, site| sum.saturating_add(site.counts.peak_bytes));
        let facts = HeapFacts {
            peak_bytes: peak,
            peak_ns: self.peak_ns,
            temporary_within: 1,
            leaks: LeakCheck::Impossible(NoLeakCheck::OtherTool { tool: "DHAT".to_owned() }),
            processes,
            allocators: vec!["malloc".to_owned()],
            ..HeapFacts::default()
        };
        let accesses = self.accesses.runs();
        self.rows.finish(assembly, facts, thread);
        assembly.profile.heap.accesses = accesses;
        assembly.note(ImportNote::DhatBlocks);
    }
}

fn add_file(
    assembly: &mut Assembly,
    file: &File<'_>,
    thread: ThreadId,
    metrics: &Metrics,
    heap: &mut HeapOf,
) -> Result<(), ImportError> {
    let is_time = file.has_times();
    if let Some(end) = file.te.filter(|_| is_time) {
        assembly.profile.meta.duration_ns = json::nanoseconds(end.0, 1e3);
    }
    let custom =
        |unit: &Option<Text<'_>>, usual: &str| unit.as_ref().is_some_and(|unit| unit.as_str() != usual);
    if custom(&file.bsu, "bytes") || custom(&file.bksu, "blocks") {
        let unit = file.bsu.as_ref().map_or("units", Text::as_str);
        assembly.note(ImportNote::NotBytes { unit: unit.to_owned() });
    }
    let locations: Vec<LocationId> =
        file.ftbl.iter().map(|frame| location(assembly, frame.as_str())).collect();
    let is_heap = file.is_heap();
    for (row, point) in file.pps.iter().enumerate() {
        let stack = add(assembly, row, point, &locations, metrics, thread)?;
        if is_heap {
            let site = heap.rows.row(stack);
            point.count(&mut heap.rows.sites[site].counts, is_time);
            heap.accesses.add(site, &point.acc);
        }
    }
    heap.is_heap |= is_heap;
    if let Some(time) = file.tg.filter(|_| is_time) {
        heap.peak_ns = ProfileNs(json::nanoseconds(time.0, 1e3));
    }
    Ok(())
}

impl Point {
    /// Adds its numbers to those of its stack. Lifetimes count only if they are times, not instructions.
    fn count(&self, counts: &mut HeapCounts, is_time: bool) {
        let freed = |all: u64, left: Option<u64>| all.saturating_sub(left.unwrap_or(0));
        let lifetime_ns = self.tl.filter(|_| is_time).map_or(0, |us| us.saturating_mul(1000));
        for (sum, more) in [
            (&mut counts.bytes_allocated, self.tb),
            (&mut counts.allocations, self.tbk),
            (&mut counts.bytes_freed, freed(self.tb, self.eb)),
            (&mut counts.frees, freed(self.tbk, self.ebk)),
            (&mut counts.max_bytes, self.mb.unwrap_or(0)),
            (&mut counts.max_blocks, self.mbk.unwrap_or(0)),
            (&mut counts.peak_bytes, self.gb.unwrap_or(0)),
            (&mut counts.peak_blocks, self.gbk.unwrap_or(0)),
            (&mut counts.live_at_exit_bytes, self.eb.unwrap_or(0)),
            (&mut counts.live_at_exit_blocks, self.ebk.unwrap_or(0)),
            (&mut counts.lifetime_ns, lifetime_ns),
            (&mut counts.bytes_read, self.rb.unwrap_or(0)),
            (&mut counts.bytes_written, self.wb.unwrap_or(0)),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

fn add(
    assembly: &mut Assembly,
    row: usize,
    point: &Point,
    locations: &[LocationId],
    columns: &[(MetricId, Column)],
    thread: ThreadId,
) -> Result<StackId, ImportError> {
    let mut stack = None;
    for frame in point.fs.iter().rev() {
        let Some(&location) = frame.of(locations) else {
            let what = format!("point {row} refers to a frame beyond the {} in the file", locations.len());
            return Err(ImportError::unusable(Format::Dhat, what));
        };
        stack = Some(assembly.stack(stack, location));
    }
    let stack = stack.unwrap_or_else(|| {
        let unknown = assembly.location(None, 0, &[]);
        assembly.stack(None, unknown)
    });
    for &(metric, (.., value)) in columns {
        if let Some(value) = value(point).filter(|&value| value > 0) {
            assembly.sample(metric, 0, thread, stack, value);
        }
    }
    Ok(stack)
}

/// The location of a frame such as `0x10A2B3: app::f (main.rs:12)`, `[root]`, or `0x4: ??? (in
/// /usr/lib/libc.so.6)`.
pub(super) fn location(assembly: &mut Assembly, text: &str) -> LocationId {
    let (address, rest) = match text.strip_prefix("0x").and_then(|rest| rest.split_once(": ")) {
        Some((digits, rest)) => (u64::from_str_radix(digits, 16).unwrap_or(0), rest),
        None => (0, text),
    };
    let (name, place) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((name, place)) => (name, place),
        None => (rest, ""),
    };
    let path = place.strip_prefix("in ");
    let module = path.map(|path| assembly.module_once(path));
    let (file, line) = if path.is_some() { (None, 0) } else { file_and_line(place) };
    if name == "???" || module.is_some_and(|module| assembly.is_unnamed(module, name)) {
        return assembly.location(module, 0, &[]);
    }
    let function = assembly.function(&FunctionText { name, file, line: 0, module });
    let file = file.map(|file| assembly.text(file));
    assembly.location(module, address, &[Frame { function, file, line }])
}

/// `main.rs:12` or `main.rs:12:5`.
pub(super) fn file_and_line(place: &str) -> (Option<&str>, u32) {
    let Some((before, last)) = place.rsplit_once(':') else {
        return (Some(place).filter(|place| !place.is_empty()), 0);
    };
    let Ok(last) = last.parse() else { return (Some(place), 0) };
    match before.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => (Some(file), line),
        None => (Some(before), last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_apart() {
        assert_eq!(file_and_line("main.rs:12"), (Some("main.rs"), 12));
        assert_eq!(file_and_line("src/main.rs:12:5"), (Some("src/main.rs"), 12));
        assert_eq!(file_and_line("vg_replace_malloc.c"), (Some("vg_replace_malloc.c"), 0));
        assert_eq!(file_and_line(""), (None, 0));
    }
}
