//! Exports speedscope's own format: one sampled profile per thread, with shared frames.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;
use whyslow_profile::{LocationId, StackId, Unit};

use super::places::places;
use super::{Export, LeftOut};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'p> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: String,
    exporter: String,
    active_profile_index: usize,
    shared: Shared<'p>,
    profiles: Vec<Thread>,
}

#[derive(Serialize)]
struct Shared<'p> {
    frames: Vec<Frame<'p>>,
}

#[derive(Serialize)]
struct Frame<'p> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// Writes one profile per thread and shows the busiest first. Returns what the format cannot hold.
pub fn write_speedscope(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let mut frames = Frames { export, rows: Vec::new(), ids: FxHashMap::default(), of: FxHashMap::default() };
    let unit = match export.unit() {
        Unit::Nanoseconds => "nanoseconds",
        Unit::Bytes => "bytes",
        Unit::Count => "none",
    };
    let profile = export.profile;
    let mut threads: Vec<Option<Thread>> = profile.threads.iter().map(|_| None).collect();
    let samples = &export.samples;
    for row in 0..samples.len() {
        let id = samples.thread[row];
        let thread = threads[id.index()].get_or_insert_with(|| Thread {
            kind: "sampled",
            name: thread_name(export, id.index()),
            unit,
            start_value: 0,
            end_value: 0,
            samples: Vec::new(),
            weights: Vec::new(),
        });
        thread.samples.push(frames.stack(samples.stack[row]));
        thread.weights.push(samples.value[row]);
        thread.end_value = thread.end_value.saturating_add(samples.value[row]);
    }
    let profiles: Vec<Thread> = threads.into_iter().flatten().collect();
    let busiest = (0..profiles.len()).max_by_key(|&row| (profiles[row].end_value, std::cmp::Reverse(row)));
    let file = File {
        schema: SCHEMA,
        name: profile.meta.command.join(" "),
        exporter: format!("whyslow@{}", env!("CARGO_PKG_VERSION")),
        active_profile_index: busiest.unwrap_or(0),
        shared: Shared { frames: frames.rows },
        profiles,
    };
    serde_json::to_writer(&mut *out, &file)?;
    let mut left_out: Vec<LeftOut> = export.other_metrics().into_iter().collect();
    left_out.extend(export.left_out(&[LeftOut::Inlining]));
    if export.unit() == Unit::Nanoseconds {
        left_out.push(LeftOut::Gaps);
    }
    left_out.extend(export.left_out(&[LeftOut::Lines, LeftOut::Spans, LeftOut::Counters, LeftOut::Code]));
    Ok(left_out)
}

/// A thread's name with the numbers that distinguish it from threads of the same name.
fn thread_name(export: &Export<'_>, row: usize) -> String {
    let profile = export.profile;
    let thread = &profile.threads[row];
    let name = profile.text(thread.name);
    if profile.processes.len() > 1 {
        let process = &profile.processes[thread.process.index()];
        return format!("{} ({}) / {name} ({})", profile.text(process.name), process.pid, thread.tid);
    }
    format!("{name} ({})", thread.tid)
}

/// One row per function that a reader can distinguish.
struct Frames<'e, 'p> {
    export: &'e Export<'p>,
    rows: Vec<Frame<'p>>,
    ids: FxHashMap<(String, Option<&'p str>, u32), u32>,
    of: FxHashMap<LocationId, Box<[u32]>>,
}

impl Frames<'_, '_> {
    /// The frames of a stack, outermost first.
    fn stack(&mut self, stack: StackId) -> Vec<u32> {
        let profile = self.export.profile;
        let locations: Vec<LocationId> = profile.locations_of(stack).collect();
        let mut frames = Vec::with_capacity(locations.len());
        for &location in locations.iter().rev() {
            if !self.of.contains_key(&location) {
                let ids = self.location(location);
                self.of.insert(location, ids);
            }
            frames.extend_from_slice(&self.of[&location]);
        }
        frames
    }

    fn location(&mut self, location: LocationId) -> Box<[u32]> {
        let places = places(self.export.profile, location, self.export.inline);
        let ids = places.into_iter().map(|place| {
            // One frame per function, whatever line was running.
            let definition = self.export.definition(place.label);
            let key = (place.name.into_owned(), definition.0, definition.1);
            match self.ids.get(&key) {
                Some(&id) => id,
                None => {
                    let id = self.rows.len() as u32;
                    let line = (key.2 > 0).then_some(key.2);
                    self.rows.push(Frame { name: key.0.clone(), file: key.1, line });
                    self.ids.insert(key, id);
                    id
                }
            }
        });
        ids.collect()
    }
}
