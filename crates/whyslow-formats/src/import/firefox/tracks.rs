//! Converts markers to spans, and counters to series.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use whyslow_profile::{ImportNote, Span, StringId, ThreadId, Unit};

use super::Import;
use super::code::texts_of;
use super::schema::{Counter, Thread, times};
use crate::import::json::{Index, Text};

/// The part of a marker's data that is kept: the first of these that is a text.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Data<'a> {
    #[serde(borrow, deserialize_with = "lenient")]
    detail: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    name: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    text: Option<Text<'a>>,
}

/// A text, or nothing for any other value (some writers put a text's index there).
fn lenient<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Text<'a>>, D::Error> {
    let raw = <&serde_json::value::RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

impl Import<'_, '_> {
    pub(super) fn markers(&mut self, thread: &Thread<'_>, id: ThreadId) {
        let Some(markers) = &thread.markers else { return };
        let texts = texts_of(self.file, thread);
        // Open starts without an end, per name.
        let mut open: FxHashMap<StringId, Vec<(u64, Option<StringId>)>> = FxHashMap::default();
        for (row, name) in markers.name.iter().enumerate() {
            let Some(name) = name.of(texts) else { continue };
            let name = self.assembly.text(name.as_str());
            let data = markers.data.get(row).copied().flatten();
            let data: Data<'_> =
                data.and_then(|data| serde_json::from_str(data.get()).ok()).unwrap_or_default();
            let detail = data.detail.or(data.name).or(data.text);
            let detail = detail.map(|detail| self.assembly.text(detail.as_str()));
            let start = markers.start_time.get(row).map_or(0, |time| self.ns(time.0));
            let end = markers.end_time.get(row).map_or(0, |time| self.ns(time.0));
            let mut span = |start_ns: u64, end_ns: u64, detail| {
                self.assembly.span(Span {
                    name,
                    thread: Some(id),
                    start_ns,
                    end_ns: end_ns.max(start_ns),
                    detail,
                });
            };
            match markers.phase.get(row).copied().unwrap_or_default() {
                Index(Some(2)) => open.entry(name).or_default().push((start, detail)),
                Index(Some(3)) => {
                    let begun = open.get_mut(&name).and_then(Vec::pop);
                    let (start, detail) = begun.unwrap_or((end, detail));
                    span(start, end, detail);
                }
                Index(Some(1)) => span(start, end, detail),
                Index(_) => span(start, start, detail),
            }
        }
        let unfinished: usize = open.values().map(Vec::len).sum();
        if unfinished > 0 {
            self.assembly.note(ImportNote::OpenMarkers);
        }
    }

    pub(super) fn counter(&mut self, counter: &Counter<'_>) {
        let Some(samples) = &counter.samples else { return };
        let process = counter.pid.map(|pid| pid.get().trim_matches('"').to_owned());
        let process = process.and_then(|pid| self.processes.get(&pid).copied());
        // Memory counters hold changes. Other counters are absolute.
        let sums = counter.category.as_ref().is_some_and(|category| category.as_str() == "Memory");
        let unit = if sums { Unit::Bytes } else { Unit::Count };
        let id = self.assembly.counter(counter.name.as_str(), unit, process);
        let mut sum = 0.0;
        for (time, count) in
            times(samples.time.as_deref(), samples.time_deltas.as_deref()).iter().zip(&samples.count)
        {
            sum += count.0;
            let value = if sums { sum } else { count.0 };
            let time = self.ns(*time);
            self.assembly.counter_value(id, time, value.round() as i64);
        }
    }
}

/// The number of a process or thread: `12`, `"12"`, `"12.1"` (a second process of that number).
pub(super) fn number(raw: &str) -> u32 {
    let digits = raw.trim_matches('"');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}
