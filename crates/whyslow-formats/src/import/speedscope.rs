//! Imports speedscope's own format: one profile per thread, sampled or as events that open and close frames.

use serde::Deserialize;
use whyslow_profile::{Frame, ImportNote, LocationId, Metric, MetricId, ProcessId, StackId, ThreadId, Unit};

use super::assemble::{Assembly, FunctionText};
use super::json::{self, Index, Number, Text, nanoseconds};
use super::{Format, ImportError, ImportOptions, Imported};

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    shared: Shared<'a>,
    #[serde(borrow)]
    profiles: Vec<Profile<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    exporter: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Shared<'a> {
    #[serde(borrow)]
    frames: Vec<FrameRow<'a>>,
}

#[derive(Deserialize)]
struct FrameRow<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    file: Option<Text<'a>>,
    line: Option<Index>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    unit: Option<Text<'a>>,
    #[serde(default)]
    start_value: Number,
    samples: Option<Vec<Vec<Index>>>,
    weights: Option<Vec<Number>>,
    #[serde(borrow)]
    events: Option<Vec<Event<'a>>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    frame: Index,
    at: Number,
}

pub(super) fn looks_like(start: &[u8]) -> bool {
    json::has_key(start, "$schema") && contains(start, b"speedscope.app/file-format-schema")
        || (json::has_key(start, "shared")
            && json::has_key(start, "frames")
            && json::has_key(start, "profiles"))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let file: File<'_> = json::parse(Format::Speedscope, bytes)?;
    let mut assembly = Assembly::new(file.exporter.as_ref().map_or("speedscope", Text::as_str));
    let name = file.name.as_ref().map_or("speedscope", Text::as_str);
    assembly.profile.meta.command = vec![name.to_owned()];
    let process = assembly.process(0, name);
    let locations = file.shared.frames.iter().map(|frame| location(&mut assembly, frame)).collect();
    let mut import = Import { file: &file, assembly, process, locations, metrics: Vec::new() };
    for (row, profile) in file.profiles.iter().enumerate() {
        import.profile(row, profile)?;
    }
    if import.assembly.profile.samples.iter().all(whyslow_profile::Samples::is_empty) {
        return Err(ImportError::unusable(Format::Speedscope, "no samples"));
    }
    import.assembly.finish()
}

struct Import<'f, 'a> {
    file: &'f File<'a>,
    assembly: Assembly,
    process: ProcessId,
    locations: Vec<LocationId>,
    metrics: Vec<(&'static str, MetricId)>,
}

/// Where the samples of one profile go.
#[derive(Clone, Copy)]
struct Target {
    metric: MetricId,
    thread: ThreadId,
    /// Nanoseconds (or other units) per unit of the file.
    factor: f64,
    /// The value at time 0.
    start: f64,
    /// Whether values are times.
    is_time: bool,
}

impl Import<'_, '_> {
    /// The metric for a unit. Profiles with the same unit share one.
    fn metric(&mut self, unit: Option<&str>) -> (MetricId, f64, bool) {
        // The file does not say what kind of time it is. whyslow's own exports are CPU time.
        let is_from_whyslow =
            self.file.exporter.as_ref().is_some_and(|exporter| exporter.as_str().starts_with("whyslow"));
        let time = if is_from_whyslow { Metric::CPU_TIME } else { "time" };
        let (name, kind, factor) = match unit {
            Some("nanoseconds") => (time, Unit::Nanoseconds, 1.0),
            Some("microseconds") => (time, Unit::Nanoseconds, 1e3),
            Some("milliseconds") => (time, Unit::Nanoseconds, 1e6),
            Some("seconds") => (time, Unit::Nanoseconds, 1e9),
            Some("bytes") => ("bytes", Unit::Bytes, 1.0),
            _ => ("samples", Unit::Count, 1.0),
        };
        let is_time = kind == Unit::Nanoseconds;
        if let Some(&(_, id)) = self.metrics.iter().find(|(known, _)| *known == name) {
            return (id, factor, is_time);
        }
        let id = self.assembly.metric(Metric::of_name(name, kind));
        self.metrics.push((name, id));
        (id, factor, is_time)
    }

    fn profile(&mut self, row: usize, profile: &Profile<'_>) -> Result<(), ImportError> {
        let (metric, factor, is_time) = self.metric(profile.unit.as_ref().map(Text::as_str));
        let name = profile.name.as_ref().map_or("", Text::as_str);
        let thread = self.assembly.thread(self.process, row as u32 + 1, name);
        let target = Target { metric, thread, factor, start: profile.start_value.0, is_time };
        match profile.kind.as_str() {
            "sampled" => self.sampled(row, profile, target),
            "evented" => self.evented(row, profile, target),
            kind => {
                self.assembly.note(ImportNote::ProfilesLeftOut { kind: kind.to_owned() });
                Ok(())
            }
        }
    }

    fn wrong(row: usize, what: String) -> ImportError {
        ImportError::unusable(Format::Speedscope, format!("profile {row}: {what}"))
    }

    fn location(&self, row: usize, frame: Index) -> Result<LocationId, ImportError> {
        let location = frame.of(&self.locations).copied();
        location.ok_or_else(|| {
            Self::wrong(row, format!("a frame beyond the {} in the file", self.locations.len()))
        })
    }

    fn sampled(&mut self, row: usize, profile: &Profile<'_>, target: Target) -> Result<(), ImportError> {
        let samples = profile.samples.as_deref().unwrap_or_default();
        let weights = profile.weights.as_deref().unwrap_or_default();
        if samples.len() != weights.len() {
            return Err(Self::wrong(
                row,
                format!("{} samples, but {} weights", samples.len(), weights.len()),
            ));
        }
        let mut at = 0.0;
        for (frames, weight) in samples.iter().zip(weights) {
            let mut stack = None;
            for &frame in frames {
                let mut location = self.location(row, frame)?;
                if stack.is_none()
                    && frame
                        .of(&self.file.shared.frames)
                        .is_some_and(|f| Assembly::is_truncation(f.name.as_str()))
                {
                    location = LocationId::TRUNCATED;
                }
                stack = Some(self.assembly.stack(stack, location));
            }
            self.add(target, at, weight.0, stack);
            at += weight.0;
        }
        Ok(())
    }

    fn evented(&mut self, row: usize, profile: &Profile<'_>, target: Target) -> Result<(), ImportError> {
        // Open frames, outermost first, each with its stack.
        let mut open: Vec<(Index, StackId)> = Vec::new();
        let mut last = target.start;
        for event in profile.events.iter().flatten() {
            let stack = open.last().map(|&(_, stack)| stack);
            self.add(target, last - target.start, event.at.0 - last, stack);
            last = event.at.0.max(last);
            match event.kind.as_str() {
                "O" => {
                    let location = self.location(row, event.frame)?;
                    open.push((event.frame, self.assembly.stack(stack, location)));
                }
                _ => match open.iter().rposition(|&(frame, _)| frame == event.frame) {
                    // Closing a frame also closes the frames still open inside it.
                    Some(at) => open.truncate(at),
                    None => return Err(Self::wrong(row, "it closes a frame that is not open".to_owned())),
                },
            }
        }
        if !open.is_empty() {
            self.assembly.note(ImportNote::OpenFrames);
        }
        Ok(())
    }

    fn add(&mut self, target: Target, at: f64, weight: f64, stack: Option<StackId>) {
        let value = nanoseconds(weight, target.factor);
        let time = if target.is_time { nanoseconds(at, target.factor) } else { 0 };
        match stack {
            Some(stack) if value > 0 => {
                self.assembly.sample(target.metric, time, target.thread, stack, value);
            }
            _ => {}
        }
        if !target.is_time {
            self.assembly.note(ImportNote::ValuesWithoutTimes);
        }
    }
}

fn location(assembly: &mut Assembly, row: &FrameRow<'_>) -> LocationId {
    let file = row.file.as_ref().map(Text::as_str).filter(|file| !file.is_empty());
    let line = row.line.and_then(|line| line.0).unwrap_or(0);
    // speedscope's line is that of the function. Frames with the same name and different lines remain
    // separate by line.
    let function = assembly.function(&FunctionText { name: row.name.as_str(), file, line: 0, module: None });
    let file = file.map(|file| assembly.text(file));
    assembly.location(None, 0, &[Frame { function, file, line }])
}
