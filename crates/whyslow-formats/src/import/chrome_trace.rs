//! Imports trace events, as Chrome, rustc's self-profile and tracing-chrome write them, and V8's `.cpuprofile`.
//!
//! ```text
//! [ event, … ]      or      {"traceEvents": [ event, … ], …}
//! event = {"ph": phase, "name": …, "ts": microseconds, "pid": …, "tid": …, "dur": …, "args": {…}}
//!
//! B E    a slice begins, ends                   X        both at once, with `dur` or `tdur`
//! b e    the same, not tied to a thread         i I R n  an instant
//! C      values of a counter                    M        names of processes and threads
//! P      parts of a V8 profile (or I: all of it)   others   skipped and counted
//!
//! {"traceEvents": […], "stackFrames": {…}, "samples": […]}        samples next to the events: see [`frames`]
//! ```
//! Slices become spans, and also stacks: at each point in time, a thread is in its innermost slice.

mod asynchronous;
mod document;
mod frames;
mod slices;
mod v8;

use rustc_hash::FxHashMap;
use serde_json::Value;
use whyslow_profile::{CounterId, ImportNote, Metric, ProcessId, Span, StringId, ThreadId, Unit};

use super::assemble::Assembly;
use super::{Format, ImportError, ImportOptions, Imported, json};
use asynchronous::{End, Ends, Key};
use document::{Event, Id};
use frames::FrameSamples;
use slices::Slices;
use v8::V8;

/// The maximum length of an event's arguments as text.
const LONGEST_DETAIL: usize = 1000;
const NS_PER_US: f64 = 1000.0;

pub(super) fn looks_like(start: &[u8]) -> bool {
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let has = |key: &str| text.windows(key.len()).any(|window| window == key.as_bytes());
    match text.first() {
        Some(b'[') => text[1..].trim_ascii_start().starts_with(b"{") && has("\"ph\""),
        Some(b'{') => {
            has("\"traceEvents\"")
                // DevTools writes source maps and scripts before the events.
                || (has("\"metadata\"") && has("\"dataOrigin\""))
                || (has("\"nodes\"") && has("\"callFrame\""))
                || (has("\"head\"") && has("\"functionName\"") && has("\"hitCount\""))
                || (has("\"stackFrames\"") && has("\"samples\""))
        }
        _ => false,
    }
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut trace = Trace::new();
    match document::read(text, &mut trace) {
        Ok(()) => {}
        // The closing bracket may be missing, because the program crashed.
        Err(error) if error.is_eof() && text.trim_ascii_start().starts_with(b"[") && trace.events > 0 => {
            trace.assembly.note(ImportNote::EventsWithoutEnd);
        }
        Err(error) => return Err(json::located(Format::ChromeTrace, bytes, text, &error)),
    }
    trace.finish()
}

/// The profile while it is built. Until the end, times are the file's microseconds.
struct Trace {
    assembly: Assembly,
    processes: FxHashMap<Id, ProcessId>,
    threads: FxHashMap<(Id, Id), ThreadId>,
    process_names: FxHashMap<Id, String>,
    thread_names: FxHashMap<(Id, Id), String>,
    slices: FxHashMap<ThreadId, Slices>,
    /// Slices that do not belong to a thread.
    ends: Ends,
    marks: Vec<Mark>,
    counters: FxHashMap<(ProcessId, StringId), CounterId>,
    values: Vec<(CounterId, f64, f64)>,
    v8: V8,
    /// Samples next to the events.
    sampled: FrameSamples,
    events: u64,
    left_out: u64,
    unmatched: u64,
}

/// A span that is not part of a stack.
struct Mark {
    name: StringId,
    thread: Option<ThreadId>,
    start: f64,
    end: f64,
    detail: Option<StringId>,
}

impl Trace {
    fn new() -> Self {
        Self {
            assembly: Assembly::new("Chrome trace"),
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            process_names: FxHashMap::default(),
            thread_names: FxHashMap::default(),
            slices: FxHashMap::default(),
            ends: Ends::default(),
            marks: Vec::new(),
            counters: FxHashMap::default(),
            values: Vec::new(),
            v8: V8::default(),
            sampled: FrameSamples::default(),
            events: 0,
            left_out: 0,
            unmatched: 0,
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.events += 1;
        let name = event.name.as_str();
        match event.phase.as_str() {
            "B" => {
                let (thread, name, detail) =
                    (self.thread(event), self.assembly.text(name), self.detail(event));
                self.slices.entry(thread).or_default().begin(event.time.0, name, detail);
            }
            "E" => {
                let thread = self.thread(event);
                let name = (!name.is_empty()).then(|| self.assembly.text(name));
                self.slices.entry(thread).or_default().end(event.time.0, name);
            }
            "X" => {
                let (thread, name, detail) =
                    (self.thread(event), self.assembly.text(name), self.detail(event));
                // A trace of thread time alone has no `dur`.
                let duration = event.duration.or(event.thread_duration).unwrap_or_default();
                let end = event.time.0 + duration.0.max(0.0);
                self.slices.entry(thread).or_default().add(event.time.0, end, name, detail);
            }
            "b" | "S" | "e" | "F" => {
                let begins = matches!(event.phase.as_str(), "b" | "S");
                let (key, detail) = (self.key(event), self.detail(event));
                self.ends.add(key, End { time: event.time.0, begins, detail });
            }
            "i" | "I" if name == "CpuProfile" && V8::is_whole(event) => {
                let thread = self.thread(event);
                self.v8.whole(event, thread);
            }
            "i" | "I" | "R" | "n" => {
                let (name, detail) = (self.assembly.text(name), self.detail(event));
                let thread = Some(self.thread(event));
                let (start, end) = (event.time.0, event.time.0);
                self.marks.push(Mark { name, thread, start, end, detail });
            }
            "C" => self.counter(event),
            "M" => self.metadata(event),
            "P" if matches!(name, "Profile" | "ProfileChunk") => {
                let thread = self.thread(event);
                if !self.v8.chunk(event, thread) {
                    self.left_out += 1;
                }
            }
            _ => self.left_out += 1,
        }
    }

    fn process(&mut self, pid: &Id) -> ProcessId {
        let Self { assembly, processes, .. } = self;
        *processes.entry(pid.clone()).or_insert_with(|| {
            let number = pid.number(assembly.profile.processes.len());
            assembly.process(number, &format!("process {pid}"))
        })
    }

    fn thread(&mut self, event: &Event<'_>) -> ThreadId {
        self.thread_of(&event.pid, &event.tid)
    }

    fn thread_of(&mut self, pid: &Id, tid: &Id) -> ThreadId {
        if let Some(&known) = self.threads.get(&(pid.clone(), tid.clone())) {
            return known;
        }
        let process = self.process(pid);
        let number = tid.number(self.assembly.profile.threads.len());
        let thread = self.assembly.thread(process, number, &format!("thread {tid}"));
        self.threads.insert((pid.clone(), tid.clone()), thread);
        thread
    }

    /// What the other end of a slice without a thread has as well.
    fn key(&mut self, event: &Event<'_>) -> Key {
        let ids = &event.ids;
        let id = [&event.id, &ids.global, &ids.local].into_iter().find(|id| !id.is_none());
        let is_global = !event.id.is_none() || !ids.global.is_none();
        Key {
            process: (!is_global).then(|| self.process(&event.pid)),
            category: self.assembly.text(event.category.as_str()),
            scope: self.assembly.text(event.scope.as_str()),
            id: id.map(Id::to_string).unwrap_or_default(),
            name: self.assembly.text(event.name.as_str()),
        }
    }

    /// The arguments of an event as text.
    fn detail(&mut self, event: &Event<'_>) -> Option<StringId> {
        let Value::Object(args) = &event.args else { return None };
        let mut text = String::new();
        for (key, value) in args {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(key);
            text.push_str(": ");
            match value {
                Value::String(value) => text.push_str(value),
                other => text.push_str(&other.to_string()),
            }
            if text.len() > LONGEST_DETAIL {
                let end = (0..=LONGEST_DETAIL).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                text.truncate(end);
                text.push('…');
                break;
            }
        }
        (!text.is_empty()).then(|| self.assembly.text(&text))
    }

    fn counter(&mut self, event: &Event<'_>) {
        let Value::Object(args) = &event.args else { return };
        let process = self.process(&event.pid);
        for (series, value) in args {
            let Some(value) = value.as_f64() else { continue };
            let mut name = event.name.as_str().to_owned();
            if !event.id.is_none() {
                name.push_str(&format!("[{}]", event.id));
            }
            if args.len() > 1 {
                name.push_str(&format!(" {series}"));
            }
            let text = self.assembly.text(&name);
            let assembly = &mut self.assembly;
            let counter = self.counters.entry((process, text));
            let counter = *counter.or_insert_with(|| assembly.counter(&name, Unit::Count, Some(process)));
            self.values.push((counter, event.time.0, value));
        }
    }

    fn metadata(&mut self, event: &Event<'_>) {
        let Some(name) = event.args.get("name").and_then(Value::as_str) else { return };
        match event.name.as_str() {
            "process_name" => {
                self.process_names.insert(event.pid.clone(), name.to_owned());
            }
            "thread_name" => {
                self.thread_names.insert((event.pid.clone(), event.tid.clone()), name.to_owned());
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Result<Imported, ImportError> {
        let (joined, unmatched) = std::mem::take(&mut self.ends).join();
        self.marks.extend(joined);
        self.unmatched += unmatched;
        let sampled = std::mem::take(&mut self.sampled);
        let sampled_on: Vec<ThreadId> =
            sampled.samples.iter().map(|sample| self.thread_of(&sample.pid, &sample.tid)).collect();
        let first =
            self.slices.values().filter_map(Slices::first).chain(self.v8.first()).chain(sampled.first());
        let first = first.chain(self.marks.iter().map(|mark| mark.start));
        let first = first.chain(self.values.iter().map(|value| value.1)).fold(f64::INFINITY, f64::min);
        if first == f64::INFINITY {
            let what = "no slices, instants, counters or samples";
            return Err(ImportError::unusable(Format::ChromeTrace, what));
        }
        let since = |time: f64| json::nanoseconds(time - first, NS_PER_US);
        for (pid, name) in &self.process_names {
            if let Some(process) = self.processes.get(pid) {
                self.assembly.profile.processes[process.index()].name = self.assembly.text(name);
            }
        }
        for (key, name) in &self.thread_names {
            if let Some(thread) = self.threads.get(key) {
                self.assembly.profile.threads[thread.index()].name = self.assembly.text(name);
            }
        }
        let mut slices: Vec<(ThreadId, Slices)> = self.slices.drain().collect();
        slices.sort_by_key(|(thread, _)| *thread);
        if slices.iter().any(|(_, slices)| slices.first().is_some()) {
            let metric = self.assembly.metric(Metric::of_name(Metric::WALL_TIME, Unit::Nanoseconds));
            for (thread, mut slices) in slices {
                let (unmatched, without_end) = slices.join();
                self.unmatched += unmatched;
                if without_end > 0 {
                    self.assembly.note(ImportNote::OpenStretches);
                }
                slices.finish(&mut self.assembly, metric, thread, since);
            }
        }
        for mark in &self.marks {
            let (start_ns, end_ns) = (since(mark.start), since(mark.end.max(mark.start)));
            let &Mark { name, thread, detail, .. } = mark;
            self.assembly.span(Span { name, thread, start_ns, end_ns, detail });
        }
        let mut fractions = false;
        for &(counter, time, value) in &self.values {
            fractions |= value.fract() != 0.0;
            self.assembly.counter_value(counter, since(time), value.round() as i64);
        }
        self.v8.finish(&mut self.assembly, since);
        sampled.finish(&mut self.assembly, &sampled_on, since);
        if fractions {
            self.assembly.note(ImportNote::RoundedCounters);
        }
        if self.unmatched > 0 {
            self.assembly.note(ImportNote::UnmatchedEvents { events: self.unmatched });
        }
        if self.left_out > 0 {
            self.assembly.note(ImportNote::OtherEvents { events: self.left_out });
        }
        self.assembly.finish()
    }
}

#[cfg(test)]
mod tests;
