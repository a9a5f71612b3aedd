//! Samples next to trace events, as Chrome's tools and Hermes write them.
//!
//! ```text
//! stackFrames = {"5": {"name": …, "category": …, "parent": "4"}, …}
//! samples     = [{"sf": 5, "ts": microseconds, "pid": …, "tid": …, "weight": 1, "name": …}, …]
//! ```
//! Numbers can be in quotes.

use rustc_hash::FxHashMap;
use serde::de::{Deserialize, Deserializer};
use serde_json::Value;
use whyslow_profile::{Frame, LeftOutSamples, Metric, Sampler, StackId, ThreadId, Unit};

use super::super::assemble::{Assembly, FunctionText};
use super::super::dhat::file_and_line;
use super::super::perf_event;
use super::document::Id;

/// A frame and its caller.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct StackFrame {
    name: String,
    parent: Id,
}

/// A sample.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct FrameSample {
    #[serde(rename = "sf")]
    frame: Id,
    #[serde(rename = "ts")]
    pub(super) time: Quoted,
    weight: Option<Quoted>,
    /// The event that took it.
    name: Option<String>,
    pub(super) pid: Id,
    pub(super) tid: Id,
}

/// A number that may be in quotes.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Quoted(pub(super) f64);

impl<'de> Deserialize<'de> for Quoted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = match Value::deserialize(deserializer)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        Ok(Self(number.filter(|number: &f64| number.is_finite()).unwrap_or(0.0)))
    }
}

/// All samples and their frames.
#[derive(Debug, Default)]
pub(super) struct FrameSamples {
    pub(super) frames: FxHashMap<String, StackFrame>,
    pub(super) samples: Vec<FrameSample>,
}

impl FrameSamples {
    /// When the first sample was taken.
    pub(super) fn first(&self) -> Option<f64> {
        self.samples.iter().map(|sample| sample.time.0).reduce(f64::min)
    }

    /// Adds the samples, each with its thread, to the profile.
    pub(super) fn finish(&self, assembly: &mut Assembly, threads: &[ThreadId], since: impl Fn(f64) -> u64) {
        if self.samples.is_empty() {
            return;
        }
        let metric = assembly.metric(match self.counted_event() {
            Some(event) => perf_event::metric(event, Unit::Count, Sampler::default()),
            None => Metric::of_name("samples", Unit::Count),
        });
        let mut known: FxHashMap<&str, Option<StackId>> = FxHashMap::default();
        let mut without_stack = 0;
        for (sample, &thread) in self.samples.iter().zip(threads) {
            let weight = sample.weight.map_or(1, |weight| weight.0.round() as u64);
            match self.stack(assembly, &sample.frame.to_string(), &mut known) {
                Some(stack) if weight > 0 => {
                    assembly.sample(metric, since(sample.time.0), thread, stack, weight);
                }
                _ => without_stack += 1,
            }
        }
        assembly.leave_out(without_stack, LeftOutSamples::WithoutStack);
    }

    /// The event that the weights count, if all samples have the same.
    fn counted_event(&self) -> Option<&str> {
        let event = self.samples.first()?.name.as_deref().filter(|name| !name.is_empty())?;
        let same = self.samples.iter().all(|sample| sample.name.as_deref() == Some(event));
        let counts = self.samples.iter().any(|sample| sample.weight.is_some_and(|weight| weight.0 > 1.0));
        (same && counts).then_some(event)
    }

    fn stack<'s>(
        &'s self,
        assembly: &mut Assembly,
        frame: &str,
        known: &mut FxHashMap<&'s str, Option<StackId>>,
    ) -> Option<StackId> {
        // Walks from the frame outwards to a known one, then back. A frame that is its own caller ends the
        // walk.
        let mut path: Vec<(&'s str, &'s StackFrame)> = Vec::new();
        let mut at = self.frames.get_key_value(frame);
        let mut stack = None;
        while let Some((id, frame)) = at {
            if let Some(&found) = known.get(id.as_str()) {
                stack = found;
                break;
            }
            if path.len() > self.frames.len() {
                return None;
            }
            path.push((id, frame));
            at = self.frames.get_key_value(&frame.parent.to_string());
        }
        for (id, frame) in path.into_iter().rev() {
            if frame.name != "[root]" {
                let (name, file, line) = name_and_place(&frame.name);
                let function = assembly.function(&FunctionText { name, file, line: 0, module: None });
                let file = file.map(|file| assembly.text(file));
                let location = assembly.location(None, 0, &[Frame { function, file, line }]);
                stack = Some(assembly.stack(stack, location));
            }
            known.insert(id, stack);
        }
        stack
    }
}

/// `render(app.js:12:3)` as Hermes writes it.
fn name_and_place(text: &str) -> (&str, Option<&str>, u32) {
    let place = text.strip_suffix(')').and_then(|text| text.rsplit_once('('));
    match place.map(|(name, place)| (name, file_and_line(place))) {
        Some((name, (file, line))) if line > 0 && !name.is_empty() => (name.trim_end(), file, line),
        _ if text.is_empty() => ("(anonymous)", None, 0),
        _ => (text, None, 0),
    }
}
