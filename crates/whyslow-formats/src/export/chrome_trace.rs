//! Exports trace events for Perfetto (ui.perfetto.dev), chrome://tracing and speedscope: stacks as slices, spans,
//! counters, and names.
//!
//! ```text
//! {"traceEvents":[{"ph":"B","name":…,"pid":…,"tid":…,"ts":microseconds}, {"ph":"E",…}, …]}
//! ```
//! A sample becomes slices as long as its value. Samples that follow each other join their common outer frames.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use whyslow_profile::{LocationId, StackId, ThreadId, Unit};

use super::places::places;
use super::{Export, LeftOut};

/// Writes the selected samples, and all spans and counters. Returns what the format cannot hold.
pub fn write_chrome_trace(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let mut events = Events { out, first: true };
    events.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    names(export, &mut events)?;
    let mut rows_of: Vec<Vec<usize>> = vec![Vec::new(); export.profile.threads.len()];
    for row in 0..export.samples.len() {
        rows_of[export.samples.thread[row].index()].push(row);
    }
    let mut stacks = Stacks { export, of: FxHashMap::default() };
    for (thread, mut rows) in rows_of.into_iter().enumerate() {
        rows.sort_by_key(|row| export.samples.time_ns[*row]);
        slices(&mut stacks, ThreadId::from(thread), &rows, &mut events)?;
    }
    spans(export, &mut events)?;
    counters(export, &mut events)?;
    events.out.write_all(b"\n]}\n")?;
    let mut left_out: Vec<LeftOut> = export.other_metrics().into_iter().collect();
    left_out.extend(export.left_out(&[LeftOut::Inlining, LeftOut::Lines, LeftOut::Code]));
    if export.unit() != Unit::Nanoseconds {
        left_out.push(LeftOut::Times);
    }
    Ok(left_out)
}

/// The list of events while it is written.
struct Events<'o> {
    out: &'o mut dyn Write,
    first: bool,
}

impl Events<'_> {
    fn add(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }
}

/// Microseconds.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// The numbers of a thread and of its process.
fn numbers(export: &Export<'_>, thread: ThreadId) -> (u32, u32) {
    let row = &export.profile.threads[thread.index()];
    (export.profile.processes[row.process.index()].pid, row.tid)
}

fn names(export: &Export<'_>, events: &mut Events<'_>) -> io::Result<()> {
    let profile = export.profile;
    for process in &profile.processes {
        let args = json!({"name": profile.text(process.name)});
        events.add(&json!({"ph": "M", "name": "process_name", "pid": process.pid, "args": args}))?;
    }
    for (row, thread) in profile.threads.iter().enumerate() {
        let (pid, tid) = numbers(export, ThreadId::from(row));
        let args = json!({"name": profile.text(thread.name)});
        events.add(&json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": args}))?;
    }
    Ok(())
}

/// Writes the samples of a thread, which are in the order of time.
fn slices(
    stacks: &mut Stacks<'_, '_>,
    thread: ThreadId,
    rows: &[usize],
    events: &mut Events<'_>,
) -> io::Result<()> {
    let export = stacks.export;
    let (pid, tid) = numbers(export, thread);
    let timed = export.unit() == Unit::Nanoseconds;
    let mut open: Vec<String> = Vec::new();
    let mut end = 0;
    for &row in rows {
        let value = export.samples.value[row];
        let time = if timed { export.samples.time_ns[row] } else { end };
        // A small gap is jitter of the sampler: the sample follows the one before.
        let start = if time.saturating_sub(end) < value { end } else { time };
        let stack = stacks.of(export.samples.stack[row]);
        let common = match start == end {
            true => open.iter().zip(&stack).take_while(|(open, next)| open == next).count(),
            false => 0,
        };
        for name in open.drain(common..).rev() {
            events.add(&json!({"ph": "E", "name": name, "pid": pid, "tid": tid, "ts": micros(end)}))?;
        }
        for name in stack.into_iter().skip(common) {
            events.add(&json!({"ph": "B", "name": name, "pid": pid, "tid": tid, "ts": micros(start)}))?;
            open.push(name);
        }
        end = start.saturating_add(value);
    }
    for name in open.drain(..).rev() {
        events.add(&json!({"ph": "E", "name": name, "pid": pid, "tid": tid, "ts": micros(end)}))?;
    }
    Ok(())
}

/// Spans of a thread are slices of a category of their own, next to the stacks.
fn spans(export: &Export<'_>, events: &mut Events<'_>) -> io::Result<()> {
    let profile = export.profile;
    for (id, span) in profile.spans.iter().enumerate() {
        let (pid, tid) = match span.thread {
            Some(thread) => numbers(export, thread),
            None => (profile.processes.first().map_or(0, |process| process.pid), 0),
        };
        let args = match span.detail {
            Some(detail) => json!({"detail": profile.text(detail)}),
            None => json!({}),
        };
        for (phase, ns) in [("b", span.start_ns), ("e", span.end_ns)] {
            events.add(&json!({
                "ph": phase, "cat": "span", "id": id, "name": profile.text(span.name), "pid": pid, "tid": tid,
                "ts": micros(ns), "args": args,
            }))?;
        }
    }
    Ok(())
}

fn counters(export: &Export<'_>, events: &mut Events<'_>) -> io::Result<()> {
    let profile = export.profile;
    let values = &profile.counter_values;
    for row in 0..values.len() {
        let counter = &profile.counters[values.counter[row].index()];
        let process = counter.process.and_then(|process| profile.processes.get(process.index()));
        let pid = process.map_or(0, |process| process.pid);
        events.add(&json!({
            "ph": "C", "name": profile.text(counter.name), "pid": pid, "ts": micros(values.time_ns[row]),
            "args": {"value": values.value[row]},
        }))?;
    }
    Ok(())
}

/// The names of stacks, outermost first.
struct Stacks<'e, 'p> {
    export: &'e Export<'p>,
    of: FxHashMap<LocationId, Vec<String>>,
}

impl Stacks<'_, '_> {
    fn of(&mut self, stack: StackId) -> Vec<String> {
        let (profile, inline) = (self.export.profile, self.export.inline);
        let locations: Vec<LocationId> = profile.locations_of(stack).collect();
        let mut names = Vec::new();
        for &location in locations.iter().rev() {
            let of_location = self.of.entry(location).or_insert_with(|| {
                places(profile, location, inline).into_iter().map(|place| place.name.into_owned()).collect()
            });
            names.extend(of_location.iter().cloned());
        }
        names
    }
}
