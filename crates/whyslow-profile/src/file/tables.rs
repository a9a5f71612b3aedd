//! Writes and reads each table as columns. Writing and reading of a table are side by side, so that they
//! mirror each other.

use super::column::{ColumnReader, ColumnWriter, Malformed};
use crate::Profile;
use crate::ids::{
    CounterId, FunctionId, LocationId, MetricId, ModuleId, ProcessId, RelativeAddress, StackId, StringId,
    ThreadId,
};
use crate::metric::{Metric, Origin, OverTime, Sampler, Subject, Trigger};
use crate::special::ModuleKind;
use crate::tables::{
    Code, CodeKind, Counter, CounterValues, Frame, Function, Module, Optimised, Process, Samples, SourceLine,
    Span, SymbolState, Thread, ThreadTimes, Unit,
};

type Bytes = Vec<u8>;
type Applied = Result<(), Malformed>;

pub(super) const BAD_REFERENCE: Malformed = "a row refers to one that is not there";
const TOO_MANY_ROWS: Malformed = "a table has too many rows";
/// Every metric has its own table, so their number is kept small.
const MAX_METRICS: usize = 1024;

/// An optional row number is stored plus one; 0 is none.
pub(super) fn optional(id: Option<u32>) -> u64 {
    id.map_or(0, |id| u64::from(id) + 1)
}

fn optional_ns(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.saturating_add(1))
}

/// A required row number below `len`.
pub(super) fn row(value: u64, len: usize) -> Result<u32, Malformed> {
    match u32::try_from(value) {
        Ok(id) if (id as usize) < len => Ok(id),
        _ => Err(BAD_REFERENCE),
    }
}

pub(super) fn optional_row(value: u64, len: usize) -> Result<Option<u32>, Malformed> {
    if value == 0 { Ok(None) } else { row(value - 1, len).map(Some) }
}

/// Row numbers have 32 bits, and the largest is reserved.
fn room_for(rows: usize, more: usize) -> Applied {
    if rows + more < u32::MAX as usize { Ok(()) } else { Err(TOO_MANY_ROWS) }
}

/// A process or thread number.
fn task_number(value: u64) -> Result<u32, Malformed> {
    u32::try_from(value).map_err(|_| "a process or thread number is too large")
}

pub(super) fn line(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

/// Puts a row at its index, which is at most one past the end.
pub(super) fn upsert<T>(rows: &mut Vec<T>, at: u64, value: T) -> Applied {
    match usize::try_from(at) {
        Ok(at) if at < rows.len() => rows[at] = value,
        Ok(at) if at == rows.len() => rows.push(value),
        _ => return Err("a row number is out of order"),
    }
    Ok(())
}

/// Checks what can only be known after all chunks were read.
pub(super) fn check_whole(profile: &Profile) -> Applied {
    check_parents(&profile.processes)?;
    if !profile.sources.rows.is_sorted_by_key(|row| (row.file, row.line)) {
        return Err("source lines are out of order");
    }
    // Guarantees that adding up samples does not overflow.
    let fits = |samples: &Samples| samples.value.iter().try_fold(0u64, |sum, value| sum.checked_add(*value));
    if profile.samples.iter().any(|samples| fits(samples).is_none()) {
        return Err("the samples add up to more than a number can hold");
    }
    Ok(())
}

/// Every parent exists, and no process is its own ancestor. A parent may follow its child.
fn check_parents(processes: &[Process]) -> Applied {
    let mut checked = vec![false; processes.len()];
    let mut path = Vec::new();
    for start in 0..processes.len() {
        let mut next = Some(start);
        while let Some(at) = next.filter(|&at| !checked[at]) {
            if path.len() == processes.len() {
                return Err("a process is its own ancestor");
            }
            path.push(at);
            next = processes[at].parent.map(ProcessId::index);
            if next.is_some_and(|at| at >= processes.len()) {
                return Err(BAD_REFERENCE);
            }
        }
        path.drain(..).for_each(|at| checked[at] = true);
    }
    Ok(())
}

pub(super) fn write_strings<'a>(texts: impl Iterator<Item = &'a str>) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns.blobs("text", texts.map(str::as_bytes));
    columns.into_bytes()
}

pub(super) fn read_strings(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    room_for(profile.strings.len(), columns.rows())?;
    for bytes in columns.blobs("text")? {
        let text = std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8")?;
        if profile.strings.byte_len() + text.len() > u32::MAX as usize {
            return Err("the texts are too long");
        }
        profile.strings.push(text);
    }
    Ok(())
}

pub(super) fn write_processes<'a>(rows: impl Iterator<Item = (u32, &'a Process)> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("row", rows.clone().map(|(id, _)| u64::from(id)))
        .numbers("pid", rows.clone().map(|(_, row)| u64::from(row.pid)))
        .numbers("parent", rows.clone().map(|(_, row)| optional(row.parent.map(|id| id.0))))
        .numbers("name", rows.clone().map(|(_, row)| u64::from(row.name.0)))
        .numbers("start", rows.clone().map(|(_, row)| row.start_ns))
        .numbers("end", rows.map(|(_, row)| optional_ns(row.end_ns)));
    columns.into_bytes()
}

pub(super) fn read_processes(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (ids, pid, parent) = (columns.numbers("row")?, columns.numbers("pid")?, columns.numbers("parent")?);
    let (name, start, end) = (columns.numbers("name")?, columns.numbers("start")?, columns.numbers("end")?);
    for at in 0..columns.rows() {
        let process = Process {
            pid: task_number(pid[at])?,
            parent: optional_row(parent[at], u32::MAX as usize)?.map(ProcessId),
            name: StringId(row(name[at], profile.strings.len())?),
            start_ns: start[at],
            end_ns: end[at].checked_sub(1),
        };
        upsert(&mut profile.processes, ids[at], process)?;
    }
    Ok(())
}

pub(super) fn write_threads<'a>(rows: impl Iterator<Item = (u32, &'a Thread)> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("row", rows.clone().map(|(id, _)| u64::from(id)))
        .numbers("process", rows.clone().map(|(_, row)| u64::from(row.process.0)))
        .numbers("tid", rows.clone().map(|(_, row)| u64::from(row.tid)))
        .numbers("name", rows.clone().map(|(_, row)| u64::from(row.name.0)))
        .numbers("start", rows.clone().map(|(_, row)| row.start_ns))
        .numbers("end", rows.clone().map(|(_, row)| optional_ns(row.end_ns)));
    if rows.clone().any(|(_, row)| row.times.is_some()) {
        let times = rows.map(|(_, row)| row.times);
        let all = times.clone().map(Option::unwrap_or_default);
        columns
            .numbers("timed", times.map(|times| u64::from(times.is_some())))
            .numbers("ran", all.clone().map(|times| times.ran_ns))
            .numbers("queued", all.clone().map(|times| times.queued_ns))
            .numbers("queued_estimated", all.clone().map(|times| times.queued_estimated_ns))
            .numbers("blocked", all.clone().map(|times| times.blocked_ns))
            .numbers("waits", all.clone().map(|times| times.waits))
            .numbers("preemptions", all.map(|times| times.preemptions));
    }
    columns.into_bytes()
}

pub(super) fn read_threads(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (ids, process, tid) = (columns.numbers("row")?, columns.numbers("process")?, columns.numbers("tid")?);
    let (name, start, end) = (columns.numbers("name")?, columns.numbers("start")?, columns.numbers("end")?);
    let or_zeros = |name| columns.numbers_or_zeros(name);
    let (timed, ran, queued) = (or_zeros("timed")?, or_zeros("ran")?, or_zeros("queued")?);
    let (blocked, waits, preemptions) = (or_zeros("blocked")?, or_zeros("waits")?, or_zeros("preemptions")?);
    let queued_estimated = or_zeros("queued_estimated")?;
    for at in 0..columns.rows() {
        let times = ThreadTimes {
            ran_ns: ran[at],
            queued_ns: queued[at],
            queued_estimated_ns: queued_estimated[at],
            blocked_ns: blocked[at],
            waits: waits[at],
            preemptions: preemptions[at],
        };
        let thread = Thread {
            process: ProcessId(row(process[at], profile.processes.len())?),
            tid: task_number(tid[at])?,
            name: StringId(row(name[at], profile.strings.len())?),
            start_ns: start[at],
            end_ns: end[at].checked_sub(1),
            times: (timed[at] != 0).then_some(times),
        };
        upsert(&mut profile.threads, ids[at], thread)?;
    }
    Ok(())
}

pub(super) fn write_modules<'a>(rows: impl Iterator<Item = (u32, &'a Module)> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("row", rows.clone().map(|(id, _)| u64::from(id)))
        .numbers("path", rows.clone().map(|(_, row)| u64::from(row.path.0)))
        .numbers("build_id", rows.clone().map(|(_, row)| optional(row.build_id.map(|id| id.0))))
        .numbers("kind", rows.clone().map(|(_, row)| u64::from(row.kind.code())))
        .numbers("waiting", rows.clone().map(|(_, row)| u64::from(row.kind.wait_code())))
        .numbers("symbols", rows.clone().map(|(_, row)| u64::from(row.symbols.code())))
        .numbers("optimised", rows.map(|(_, row)| u64::from(row.optimised.code())));
    columns.into_bytes()
}

pub(super) fn read_modules(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (ids, path, build_id) =
        (columns.numbers("row")?, columns.numbers("path")?, columns.numbers("build_id")?);
    let (kind, symbols) = (columns.numbers("kind")?, columns.numbers("symbols")?);
    let (optimised, waiting) = (columns.numbers("optimised")?, columns.numbers_or_zeros("waiting")?);
    for at in 0..columns.rows() {
        let path = StringId(row(path[at], profile.strings.len())?);
        let module = Module {
            path,
            build_id: optional_row(build_id[at], profile.strings.len())?.map(StringId),
            kind: ModuleKind::from_codes(kind[at], waiting[at], profile.text(path)),
            symbols: SymbolState::from_code(symbols[at]),
            optimised: Optimised::from_code(optimised[at]),
        };
        upsert(&mut profile.modules, ids[at], module)?;
    }
    Ok(())
}

pub(super) fn write_metrics<'a>(rows: impl Iterator<Item = &'a Metric> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("name", rows.clone().map(|row| u64::from(row.name.0)))
        .numbers("unit", rows.clone().map(|row| u64::from(row.unit.code())))
        .numbers("of", rows.clone().map(|row| u64::from(row.of.code())))
        .numbers("origin", rows.clone().map(|row| u64::from(row.origin.code())))
        .numbers("trigger", rows.clone().map(|row| u64::from(row.origin.sampler().trigger.code())))
        .numbers("rate_hz", rows.clone().map(|row| u64::from(row.origin.sampler().rate_hz)))
        .numbers("over_time", rows.map(|row| u64::from(row.over_time.code())));
    columns.into_bytes()
}

pub(super) fn read_metrics(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (name, unit) = (columns.numbers("name")?, columns.numbers("unit")?);
    let (of, origin) = (columns.numbers_or_zeros("of")?, columns.numbers_or_zeros("origin")?);
    let (trigger, rate_hz) = (columns.numbers_or_zeros("trigger")?, columns.numbers_or_zeros("rate_hz")?);
    let over_time = columns.numbers_or_zeros("over_time")?;
    if profile.metrics.len() + columns.rows() > MAX_METRICS {
        return Err(TOO_MANY_ROWS);
    }
    for at in 0..columns.rows() {
        let name = StringId(row(name[at], profile.strings.len())?);
        let sampler = Sampler {
            trigger: Trigger::from_code(trigger[at]),
            rate_hz: u32::try_from(rate_hz[at]).map_err(|_| "a rate is too high")?,
        };
        profile.metrics.push(Metric {
            name,
            unit: Unit::from_code(unit[at]),
            of: Subject::from_code(of[at]),
            origin: Origin::from_code(origin[at], sampler),
            over_time: OverTime::from_code(over_time[at]),
        });
        profile.samples.push(Samples::default());
    }
    Ok(())
}

pub(super) fn write_scales(rows: &[(MetricId, f64)]) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("metric", rows.iter().map(|(metric, _)| u64::from(metric.0)))
        .numbers("ns_per_cycle", rows.iter().map(|(_, worth)| worth.to_bits()));
    columns.into_bytes()
}

/// The length of one cycle in the samples of each metric; `None` if not given.
pub(super) fn read_scales(
    columns: &ColumnReader<'_>,
    profile: &Profile,
    scales: &mut Vec<Option<f64>>,
) -> Applied {
    let (metric, worth) = (columns.numbers("metric")?, columns.numbers("ns_per_cycle")?);
    scales.resize(profile.metrics.len(), None);
    for at in 0..columns.rows() {
        let metric = MetricId(row(metric[at], scales.len())?);
        scales[metric.index()] = Some(f64::from_bits(worth[at]));
    }
    Ok(())
}

pub(super) fn write_locations(
    rows: impl Iterator<Item = (Option<ModuleId>, RelativeAddress)> + Clone,
) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("module", rows.clone().map(|(module, _)| optional(module.map(|id| id.0))))
        .numbers("address", rows.map(|(_, address)| address.0));
    columns.into_bytes()
}

pub(super) fn read_locations(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (module, address) = (columns.numbers("module")?, columns.numbers("address")?);
    room_for(profile.locations.len(), columns.rows())?;
    for at in 0..columns.rows() {
        let module = optional_row(module[at], profile.modules.len())?.map(ModuleId);
        profile.locations.push(module, RelativeAddress(address[at]));
    }
    Ok(())
}

pub(super) fn write_stacks(rows: impl Iterator<Item = (Option<StackId>, LocationId)> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("parent", rows.clone().map(|(parent, _)| optional(parent.map(|id| id.0))))
        .numbers("location", rows.map(|(_, location)| u64::from(location.0)));
    columns.into_bytes()
}

pub(super) fn read_stacks(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (parent, location) = (columns.numbers("parent")?, columns.numbers("location")?);
    room_for(profile.stacks.len(), columns.rows())?;
    for at in 0..columns.rows() {
        let parent = optional_row(parent[at], profile.stacks.len())?.map(StackId);
        let location = LocationId(row(location[at], profile.locations.len())?);
        profile.stacks.push(parent, location);
    }
    Ok(())
}

pub(super) fn write_samples(metric: MetricId, samples: &Samples, rows: std::ops::Range<usize>) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("metric", rows.clone().map(|_| u64::from(metric.0)))
        .numbers("time", samples.time_ns[rows.clone()].iter().copied())
        .numbers("thread", samples.thread[rows.clone()].iter().map(|id| u64::from(id.0)))
        .numbers("stack", samples.stack[rows.clone()].iter().map(|id| u64::from(id.0)))
        .numbers("value", samples.value[rows].iter().copied());
    columns.into_bytes()
}

pub(super) fn read_samples(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (metric, time) = (columns.numbers("metric")?, columns.numbers("time")?);
    let (thread, stack) = (columns.numbers("thread")?, columns.numbers("stack")?);
    let value = columns.numbers("value")?;
    for at in 0..columns.rows() {
        let metric = MetricId(row(metric[at], profile.samples.len())?);
        let thread = ThreadId(row(thread[at], profile.threads.len())?);
        let stack = StackId(row(stack[at], profile.stacks.len())?);
        profile.samples[metric.index()].push(time[at], thread, stack, value[at]);
    }
    Ok(())
}

pub(super) fn write_functions<'a>(rows: impl Iterator<Item = &'a Function> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("name", rows.clone().map(|row| u64::from(row.name.0)))
        .numbers("raw_name", rows.clone().map(|row| u64::from(row.raw_name.0)))
        .numbers("crate", rows.clone().map(|row| optional(row.crate_name.map(|id| id.0))))
        .numbers("kind", rows.clone().map(|row| u64::from(row.kind.code())))
        .numbers("file", rows.clone().map(|row| optional(row.file.map(|id| id.0))))
        .numbers("line", rows.clone().map(|row| u64::from(row.line)))
        .numbers("module", rows.map(|row| optional(row.module.map(|id| id.0))));
    columns.into_bytes()
}

pub(super) fn read_functions(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (name, raw_name) = (columns.numbers("name")?, columns.numbers("raw_name")?);
    let (crate_name, kind) = (columns.numbers("crate")?, columns.numbers("kind")?);
    let (file, lines, module) =
        (columns.numbers("file")?, columns.numbers("line")?, columns.numbers("module")?);
    let texts = profile.strings.len();
    room_for(profile.functions.len(), columns.rows())?;
    for at in 0..columns.rows() {
        profile.functions.push(Function {
            name: StringId(row(name[at], texts)?),
            raw_name: StringId(row(raw_name[at], texts)?),
            crate_name: optional_row(crate_name[at], texts)?.map(StringId),
            kind: CodeKind::from_code(kind[at]),
            file: optional_row(file[at], texts)?.map(StringId),
            line: line(lines[at]),
            module: optional_row(module[at], profile.modules.len())?.map(ModuleId),
        });
    }
    Ok(())
}

/// Frames are grouped by location.
pub(super) fn write_frames(rows: impl Iterator<Item = (LocationId, Frame)> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("location", rows.clone().map(|(location, _)| u64::from(location.0)))
        .numbers("function", rows.clone().map(|(_, frame)| u64::from(frame.function.0)))
        .numbers("file", rows.clone().map(|(_, frame)| optional(frame.file.map(|id| id.0))))
        .numbers("line", rows.map(|(_, frame)| u64::from(frame.line)));
    columns.into_bytes()
}

pub(super) fn read_frames(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (location, function) = (columns.numbers("location")?, columns.numbers("function")?);
    let (file, lines) = (columns.numbers("file")?, columns.numbers("line")?);
    let mut group = Vec::new();
    room_for(profile.frames.len(), columns.rows())?;
    for at in 0..columns.rows() {
        group.push(Frame {
            function: FunctionId(row(function[at], profile.functions.len())?),
            file: optional_row(file[at], profile.strings.len())?.map(StringId),
            line: line(lines[at]),
        });
        if location.get(at + 1) != Some(&location[at]) {
            profile.frames.set(LocationId(row(location[at], profile.locations.len())?), &group);
            group.clear();
        }
    }
    Ok(())
}

pub(super) fn write_sources<'a>(rows: impl Iterator<Item = &'a SourceLine> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("file", rows.clone().map(|row| u64::from(row.file.0)))
        .numbers("line", rows.clone().map(|row| u64::from(row.line)))
        .numbers("text", rows.map(|row| u64::from(row.text.0)));
    columns.into_bytes()
}

pub(super) fn read_sources(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (file, lines, text) = (columns.numbers("file")?, columns.numbers("line")?, columns.numbers("text")?);
    let texts = profile.strings.len();
    for at in 0..columns.rows() {
        profile.sources.rows.push(SourceLine {
            file: StringId(row(file[at], texts)?),
            line: line(lines[at]),
            text: StringId(row(text[at], texts)?),
        });
    }
    Ok(())
}

pub(super) fn write_code<'a>(rows: impl Iterator<Item = &'a Code> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("module", rows.clone().map(|row| u64::from(row.module.0)))
        .numbers("start", rows.clone().map(|row| row.start.0))
        .blobs("bytes", rows.map(|row| row.bytes.as_slice()));
    columns.into_bytes()
}

pub(super) fn read_code(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (module, start, bytes) =
        (columns.numbers("module")?, columns.numbers("start")?, columns.blobs("bytes")?);
    for at in 0..columns.rows() {
        if start[at].checked_add(bytes[at].len() as u64).is_none() {
            return Err("a function's code ends after the last address");
        }
        profile.code.rows.push(Code {
            module: ModuleId(row(module[at], profile.modules.len())?),
            start: RelativeAddress(start[at]),
            bytes: bytes[at].to_vec(),
        });
    }
    Ok(())
}

pub(super) fn write_spans<'a>(rows: impl Iterator<Item = &'a Span> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("name", rows.clone().map(|row| u64::from(row.name.0)))
        .numbers("thread", rows.clone().map(|row| optional(row.thread.map(|id| id.0))))
        .numbers("start", rows.clone().map(|row| row.start_ns))
        .numbers("length", rows.clone().map(|row| row.end_ns.saturating_sub(row.start_ns)))
        .numbers("detail", rows.map(|row| optional(row.detail.map(|id| id.0))));
    columns.into_bytes()
}

pub(super) fn read_spans(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (name, thread, start) =
        (columns.numbers("name")?, columns.numbers("thread")?, columns.numbers("start")?);
    let (length, detail) = (columns.numbers("length")?, columns.numbers("detail")?);
    for at in 0..columns.rows() {
        profile.spans.push(Span {
            name: StringId(row(name[at], profile.strings.len())?),
            thread: optional_row(thread[at], profile.threads.len())?.map(ThreadId),
            start_ns: start[at],
            end_ns: start[at].saturating_add(length[at]),
            detail: optional_row(detail[at], profile.strings.len())?.map(StringId),
        });
    }
    Ok(())
}

pub(super) fn write_counters<'a>(rows: impl Iterator<Item = &'a Counter> + Clone) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("name", rows.clone().map(|row| u64::from(row.name.0)))
        .numbers("unit", rows.clone().map(|row| u64::from(row.unit.code())))
        .numbers("process", rows.map(|row| optional(row.process.map(|id| id.0))));
    columns.into_bytes()
}

pub(super) fn read_counters(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (name, unit, process) =
        (columns.numbers("name")?, columns.numbers("unit")?, columns.numbers("process")?);
    for at in 0..columns.rows() {
        profile.counters.push(Counter {
            name: StringId(row(name[at], profile.strings.len())?),
            unit: Unit::from_code(unit[at]),
            process: optional_row(process[at], profile.processes.len())?.map(ProcessId),
        });
    }
    Ok(())
}

pub(super) fn write_counter_values(values: &CounterValues, rows: std::ops::Range<usize>) -> Bytes {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("counter", values.counter[rows.clone()].iter().map(|id| u64::from(id.0)))
        .numbers("time", values.time_ns[rows.clone()].iter().copied())
        .numbers("value", values.value[rows].iter().map(|value| value.cast_unsigned()));
    columns.into_bytes()
}

pub(super) fn read_counter_values(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (counter, time, value) =
        (columns.numbers("counter")?, columns.numbers("time")?, columns.numbers("value")?);
    for at in 0..columns.rows() {
        let counter = CounterId(row(counter[at], profile.counters.len())?);
        profile.counter_values.push(counter, time[at], value[at].cast_signed());
    }
    Ok(())
}
