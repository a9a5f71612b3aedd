//! Exports the Firefox Profiler's processed profile: threads, stacks with inlined frames, kinds of code as
//! coloured categories, spans as markers, counters.
//!
//! It is written with serde instead of the crate `fxprof-processed-profile`. That crate looks up run-time
//! addresses in mappings, but the addresses here are already relative to their module. It would also build a
//! second copy of every table before anything is written.

mod code;
mod schema;

use std::io::{self, Write};

use serde_json::{Value, json};
use whyslow_profile::{CodeKind, CounterId, Metric, Unit};

use self::code::{Code, Texts};
use self::schema::{
    Counter, CounterSamples, File, Lib, MarkerData, Markers, NativeSymbols, Samples, Shared, Thread, VERSION,
};
use super::places::file_name;
use super::{Export, LeftOut};

/// The type of markers for spans.
const SPAN: &str = "span";

/// Kinds of code as categories, with the Firefox Profiler's colours. Grey marks the default one.
const CATEGORIES: [(CodeKind, &str, &str); 7] = [
    (CodeKind::Unknown, "Other", "grey"),
    (CodeKind::Yours, "Your code", "blue"),
    (CodeKind::Dependency, "Dependencies", "green"),
    (CodeKind::Std, "Standard library", "lightblue"),
    (CodeKind::Allocator, "Allocator", "red"),
    (CodeKind::Kernel, "Kernel", "orange"),
    (CodeKind::Runtime, "Runtime", "brown"),
];

fn category(kind: CodeKind) -> u32 {
    CATEGORIES.iter().position(|&(known, ..)| known == kind).unwrap_or(0) as u32
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Writes the profile as JSON. Returns what the format cannot hold.
pub fn write_firefox(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let mut texts = Texts::default();
    let rows = threads_to_write(export);
    let pids = pids(export);
    let threads: Vec<Thread<'_>> = threads(export, &rows, &pids, &mut texts);
    let file = File {
        meta: meta(export),
        libs: libs(export),
        counters: counters(export, &rows, &pids),
        threads,
        shared: Shared { string_array: texts.rows },
        pages: [],
    };
    serde_json::to_writer(&mut *out, &file)?;
    Ok(export.other_metrics().into_iter().chain(export.left_out(&[LeftOut::Code])).collect())
}

/// All threads, or with a filter only those with samples.
fn threads_to_write(export: &Export<'_>) -> Vec<usize> {
    let mut used = vec![export.selection.is_everything(); export.profile.threads.len()];
    export.samples.thread.iter().for_each(|thread| used[thread.index()] = true);
    (0..used.len()).filter(|&row| used[row]).collect()
}

/// The process numbers as texts. A repeated number gets a suffix.
fn pids(export: &Export<'_>) -> Vec<String> {
    let mut seen = rustc_hash::FxHashMap::<u32, u32>::default();
    let pids = export.profile.processes.iter().map(|process| {
        let again = seen.entry(process.pid).and_modify(|again| *again += 1).or_default();
        if *again == 0 { process.pid.to_string() } else { format!("{}.{again}", process.pid) }
    });
    pids.collect()
}

fn meta(export: &Export<'_>) -> Value {
    let meta = &export.profile.meta;
    let rate_hz = export.rate_hz();
    let interval = if rate_hz > 0 { 1000.0 / f64::from(rate_hz) } else { 1.0 };
    let categories = CATEGORIES
        .map(|(_, name, color)| json!({ "name": name, "color": color, "subcategories": ["Other"] }));
    let product = match meta.command.as_slice() {
        [] => "whyslow".to_owned(),
        words => words.join(" "),
    };
    json!({
        "preprocessedProfileVersion": VERSION,
        "version": 27,
        "processType": 0,
        "product": product,
        "importedFrom": "whyslow",
        "interval": interval,
        "startTime": ms(meta.started_unix_ns),
        "profilingStartTime": 0,
        "profilingEndTime": ms(end_ns(export)).max(ms(last_ns(export)) + interval),
        "stackwalk": 1,
        "debug": false,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "oscpu": meta.host.os,
        "abi": meta.host.arch,
        "CPUName": meta.host.cpu,
        "logicalCPUs": meta.host.cpus,
        "physicalCPUs": 0,
        "extensions": { "length": 0, "id": [], "name": [], "baseURL": [] },
        "categories": categories,
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
        "markerSchema": [{
            "name": SPAN,
            "display": ["marker-chart", "marker-table", "timeline-overview"],
            "chartLabel": "{marker.name}",
            "tableLabel": "{marker.data.detail}",
            "tooltipLabel": "{marker.name}",
            "fields": [{ "key": "detail", "label": "Detail", "format": "string" }],
        }],
    })
}

/// The time of the last sample.
fn last_ns(export: &Export<'_>) -> u64 {
    export.samples.time_ns.iter().copied().max().unwrap_or(0)
}

/// The end of the recording, including all markers and counters. The Firefox Profiler shows nothing at or
/// after this end.
fn end_ns(export: &Export<'_>) -> u64 {
    let profile = export.profile;
    let spans = profile.spans.iter().map(|span| span.end_ns);
    let counters = profile.counter_values.time_ns.iter().copied();
    spans.chain(counters).map(|time| time.saturating_add(1)).max().unwrap_or(0).max(profile.meta.duration_ns)
}

fn libs<'p>(export: &Export<'p>) -> Vec<Lib<'p>> {
    let profile = export.profile;
    let lib = |module: &whyslow_profile::Module| {
        let path = profile.text(module.path);
        let build_id = module.build_id.map(|id| profile.text(id));
        Lib {
            arch: &profile.meta.host.arch,
            name: file_name(path),
            path,
            debug_name: file_name(path),
            debug_path: path,
            breakpad_id: breakpad_id(build_id.unwrap_or("")),
            code_id: build_id,
        }
    };
    profile.modules.iter().map(lib).collect()
}

/// The first 16 bytes of a build id as a GUID, whose first three parts are little-endian, and an age of 0.
fn breakpad_id(build_id: &str) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let byte =
        |at: usize| build_id.get(2 * at..2 * at + 2).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let mut id: String = ORDER.iter().map(|&at| byte(at).unwrap_or("00")).collect();
    id.make_ascii_uppercase();
    id + "0"
}

fn threads<'p>(export: &Export<'p>, rows: &[usize], pids: &[String], texts: &mut Texts) -> Vec<Thread<'p>> {
    let profile = export.profile;
    let mut samples_of: Vec<Vec<usize>> = vec![Vec::new(); profile.threads.len()];
    for (row, thread) in export.samples.thread.iter().enumerate() {
        samples_of[thread.index()].push(row);
    }
    let mut written = Vec::with_capacity(rows.len());
    for (position, &row) in rows.iter().enumerate() {
        let thread = &profile.threads[row];
        let process = &profile.processes[thread.process.index()];
        let mut code = Code::new(export);
        let samples = samples(export, &samples_of[row], &mut code, texts);
        let markers = markers(export, row, position == 0, texts);
        written.push(Thread {
            process_type: "default",
            process_name: profile.text(process.name),
            process_startup_time: ms(process.start_ns),
            process_shutdown_time: process.end_ns.map(ms),
            register_time: ms(thread.start_ns),
            unregister_time: thread.end_ns.map(ms),
            paused_ranges: [],
            name: profile.text(thread.name),
            is_main_thread: thread.tid == process.pid,
            pid: pids[thread.process.index()].clone(),
            tid: thread.tid,
            show_markers_in_timeline: markers.length > 0,
            samples,
            markers,
            stack_table: code.stacks,
            frame_table: code.frames,
            func_table: code.funcs,
            resource_table: code.resources,
            native_symbols: NativeSymbols::default(),
        });
    }
    written
}

/// The samples of one thread. Times are weighted in milliseconds, so that nothing is rounded to an interval.
fn samples(export: &Export<'_>, rows: &[usize], code: &mut Code<'_, '_>, texts: &mut Texts) -> Samples {
    let all = &export.samples;
    let (weight_type, factor) = match export.unit() {
        Unit::Nanoseconds => ("tracing-ms", 1e6),
        Unit::Bytes => ("bytes", 1.0),
        Unit::Count => ("samples", 1.0),
    };
    let is_cpu = export.unit() == Unit::Nanoseconds && export.metric_name() == Metric::CPU_TIME;
    Samples {
        length: rows.len(),
        stack: rows.iter().map(|&row| code.stack(texts, all.stack[row])).collect(),
        time: rows.iter().map(|&row| ms(all.time_ns[row])).collect(),
        weight: rows.iter().map(|&row| all.value[row] as f64 / factor).collect(),
        weight_type,
        thread_cpu_delta: is_cpu.then(|| rows.iter().map(|&row| all.value[row]).collect()),
    }
}

/// The spans of one thread. Spans without a thread are shown with the first one.
fn markers<'p>(export: &Export<'p>, thread: usize, first: bool, texts: &mut Texts) -> Markers<'p> {
    let profile = export.profile;
    let mut markers = Markers::default();
    for span in &profile.spans {
        if span.thread.map_or(!first, |of| of.index() != thread) {
            continue;
        }
        let is_instant = span.end_ns <= span.start_ns;
        markers.length += 1;
        markers.name.push(texts.id(profile.text(span.name)));
        markers.start_time.push(ms(span.start_ns));
        markers.end_time.push((!is_instant).then(|| ms(span.end_ns)));
        markers.phase.push(u8::from(!is_instant));
        markers.category.push(0);
        markers.data.push(MarkerData { kind: SPAN, detail: span.detail.map(|detail| profile.text(detail)) });
    }
    markers
}

fn counters<'p>(export: &Export<'p>, threads: &[usize], pids: &[String]) -> Vec<Counter<'p>> {
    let profile = export.profile;
    if threads.is_empty() {
        return Vec::new();
    }
    let values = &profile.counter_values;
    let counter = |(row, counter): (usize, &whyslow_profile::Counter)| {
        let process = counter.process.map_or(0, whyslow_profile::ProcessId::index);
        let of_process = |&thread: &usize| profile.threads[thread].process.index() == process;
        // The Firefox Profiler sums up changes of bytes. Other counters are absolute.
        let sums = counter.unit == Unit::Bytes;
        let mut samples = CounterSamples::default();
        let mut before = 0;
        for at in (0..values.len()).filter(|&at| values.counter[at] == CounterId::from(row)) {
            let value = values.value[at];
            samples.length += 1;
            samples.time.push(ms(values.time_ns[at]));
            samples.count.push(if sums { value.saturating_sub(before) } else { value });
            before = value;
        }
        Counter {
            name: profile.text(counter.name),
            category: if sums { "Memory" } else { "Other" },
            description: "",
            pid: pids.get(process).cloned().unwrap_or_default(),
            main_thread_index: threads.iter().position(of_process).unwrap_or(0),
            samples,
        }
    };
    profile.counters.iter().enumerate().map(counter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_become_breakpad_ids() {
        assert_eq!(
            breakpad_id("93ac61ec5a8eb1396f9fbd350e3169a558528a40"),
            "EC61AC938E5A39B16F9FBD350E3169A50"
        );
        assert_eq!(breakpad_id("ä"), "0".repeat(33));
    }

    #[test]
    fn every_kind_has_its_category() {
        for &kind in CodeKind::ALL {
            assert_eq!(CATEGORIES[category(kind) as usize].0, kind);
        }
    }
}
