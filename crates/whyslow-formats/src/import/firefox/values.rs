//! The weights of samples. The metrics of a file are known only after all of it has been read.

use whyslow_profile::{ImportNote, LeftOutSamples, Metric, StackId, ThreadId, Unit};

use super::NS_PER_MS;
use super::schema::{Meta, SampleTable};
use crate::import::assemble::Assembly;
use crate::import::json::{Text, nanoseconds};

/// One sample: its time, thread, stack and weight.
struct Row {
    time_ns: u64,
    thread: ThreadId,
    stack: StackId,
    value: u64,
    cpu_ns: Option<u64>,
}

/// The samples of all threads.
pub(super) struct Values {
    interval_ns: f64,
    cpu_unit_ns: Option<f64>,
    over_bytes: bool,
    /// Whether weights without a time unit are whyslow's own counts, not samples of one interval each.
    is_from_whyslow: bool,
    /// Whether a thread stands for a measure, as in a DHAT profile that the Firefox Profiler has saved.
    threads_are_measures: bool,
    counts: Vec<Row>,
    time: Vec<Row>,
    bytes: Vec<Row>,
    allocations: Vec<Row>,
    freed: u64,
    negative: u64,
}

impl Values {
    pub(super) fn new(meta: &Meta<'_>) -> Self {
        let units = meta.sample_units.as_ref();
        let cpu_unit_ns = match units.and_then(|units| units.thread_cpu_delta.as_ref()).map(Text::as_str) {
            Some("ns") => Some(1.0),
            // The micro sign and the Greek letter look the same.
            Some("µs" | "μs" | "us") => Some(1e3),
            _ => None,
        };
        let over_bytes =
            units.and_then(|units| units.time.as_ref()).is_some_and(|unit| unit.as_str() == "bytes");
        let interval_ns = if meta.interval.0 > 0.0 { meta.interval.0 * NS_PER_MS } else { NS_PER_MS };
        Self {
            interval_ns,
            cpu_unit_ns,
            over_bytes,
            is_from_whyslow: meta.imported_from.as_ref().is_some_and(|tool| tool.as_str() == "whyslow"),
            threads_are_measures: meta.imported_from.as_ref().is_some_and(|tool| tool.as_str() == "DHAT"),
            counts: Vec::new(),
            time: Vec::new(),
            bytes: Vec::new(),
            allocations: Vec::new(),
            freed: 0,
            negative: 0,
        }
    }

    /// Adds one row of a thread's samples.
    pub(super) fn sample(
        &mut self,
        table: &SampleTable<'_>,
        row: usize,
        time_ns: u64,
        thread: ThreadId,
        stack: StackId,
    ) {
        let weight =
            table.weight.as_ref().map_or(1.0, |weight| weight.get(row).map_or(0.0, |weight| weight.0));
        if weight < 0.0 {
            self.negative += 1;
            return;
        }
        let delta = table.thread_cpu_delta.as_ref().and_then(|delta| delta.get(row));
        let cpu_ns = self.cpu_unit_ns.zip(delta).map(|(unit, delta)| nanoseconds(delta.0, unit));
        let (rows, unit) = match table.weight_type.as_ref().map(Text::as_str) {
            Some("bytes") => (&mut self.bytes, 1.0),
            Some("tracing-ms") => (&mut self.time, NS_PER_MS),
            _ if self.is_from_whyslow => (&mut self.counts, 1.0),
            _ => (&mut self.time, self.interval_ns),
        };
        rows.push(Row { time_ns, thread, stack, value: nanoseconds(weight, unit), cpu_ns });
    }

    /// Adds one row of a thread's allocations, in bytes; negative for frees.
    pub(super) fn allocation(&mut self, time_ns: u64, thread: ThreadId, stack: StackId, bytes: f64) {
        if bytes < 0.0 {
            self.freed += 1;
            return;
        }
        self.allocations.push(Row { time_ns, thread, stack, value: bytes as u64, cpu_ns: None });
    }

    /// Adds the metrics and their samples.
    pub(super) fn add_to(self, assembly: &mut Assembly) {
        if self.over_bytes {
            assembly.note(ImportNote::OffsetsAsTimes);
        }
        if self.negative > 0 {
            let which = LeftOutSamples::Negative;
            assembly.note(ImportNote::SamplesLeftOut { samples: self.negative, which });
        }
        if self.freed > 0 {
            assembly.note(ImportNote::FreedLeftOut { events: self.freed });
        }
        if !self.counts.is_empty() {
            add(assembly, "count", Unit::Count, self.counts.iter(), |row| row.value);
        }
        let has_cpu = self.time.iter().any(|row| row.cpu_ns.is_some());
        let agrees = |row: &Row| row.cpu_ns.unwrap_or(0).abs_diff(row.value) <= row.value / 100 + 1;
        if has_cpu && !self.time.iter().all(agrees) {
            let cpu = self.time.iter().filter(|row| row.cpu_ns.is_some_and(|cpu| cpu > 0));
            add(assembly, Metric::CPU_TIME, Unit::Nanoseconds, cpu, |row| row.cpu_ns.unwrap_or(0));
            add(assembly, "wall-time", Unit::Nanoseconds, self.time.iter(), |row| row.value);
        } else if !self.time.is_empty()
            || (self.bytes.is_empty() && self.allocations.is_empty() && self.counts.is_empty())
        {
            let name = if has_cpu { Metric::CPU_TIME } else { "time" };
            add(assembly, name, Unit::Nanoseconds, self.time.iter(), |row| row.value);
        }
        if self.threads_are_measures {
            let mut threads: Vec<ThreadId> = self.bytes.iter().map(|row| row.thread).collect();
            threads.dedup();
            for thread in threads {
                let name = assembly.profile.text(assembly.profile.threads[thread.index()].name);
                let name = name.to_lowercase().replace(' ', "-");
                let rows = self.bytes.iter().filter(|row| row.thread == thread);
                add(assembly, &name, Unit::Bytes, rows, |row| row.value);
            }
        } else if !self.bytes.is_empty() {
            add(assembly, "bytes", Unit::Bytes, self.bytes.iter(), |row| row.value);
        }
        if !self.allocations.is_empty() {
            add(assembly, "allocated-bytes", Unit::Bytes, self.allocations.iter(), |row| row.value);
            add(assembly, "allocations", Unit::Count, self.allocations.iter(), |_| 1);
        }
    }
}

fn add<'r>(
    assembly: &mut Assembly,
    name: &str,
    unit: Unit,
    rows: impl Iterator<Item = &'r Row>,
    value: impl Fn(&Row) -> u64,
) {
    let metric = assembly.metric(Metric::of_name(name, unit));
    for row in rows {
        assembly.sample(metric, row.time_ns, row.thread, row.stack, value(row));
    }
}
