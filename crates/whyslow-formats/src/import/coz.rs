//! Imports profile.coz: the experiments of the causal profiler coz, in both of its forms.
//!
//! ```text
//! startup           time=1762000000000000000
//! experiment        selected=src/main.c:12    speedup=0.25    duration=100000000    selected-samples=25
//! throughput-point  name=src/main.c:30        delta=86
//! latency-point     name=request              arrivals=5      departures=4          difference=1
//! runtime           time=2000000000
//! samples           location=src/main.c:12    count=70
//!
//! {"type":"experiment","selected":"src/main.c:12","speedup":0.25,"duration":100000000,"selected_samples":25}
//! ```
//! The first form has tabs between its fields, the second is one JSON object per line. Each run appends to the
//! file. A duration is without the delays. The points of an experiment follow it. Older versions call a
//! throughput point `progress-point`.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use whyslow_profile::{
    CausalPoint, CausalTarget, Experiment, ExperimentId, ImportNote, PointId, PointKind, StringId, TargetId,
    TargetKind, Visits,
};

use super::assemble::Assembly;
use super::{Format, ImportError, ImportOptions, Imported, lines};

/// Differences of counters that coz takes as unsigned numbers are not negative, but huge.
const WRAPPED: u64 = 1 << 63;
/// Nanoseconds since 1970 of the year 2001: smaller times count from another moment.
const A_DATE_NS: u64 = 1_000_000_000_000_000_000;

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    let Some((_, first)) = lines::numbered(start).next() else { return false };
    if first.starts_with('{') {
        let record = Record::of_json(&first);
        return record.is_ok_and(|record| {
            record.kind == "startup" && record.time.is_some()
                || record.kind == "experiment" && record.selected.is_some() && record.speedup.is_some()
        });
    }
    lines::is_text(start)
        && (first.starts_with("startup\ttime=") || first.starts_with("experiment\tselected="))
}

/// One line. Every kind uses some of the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    time: Option<u64>,
    selected: Option<String>,
    speedup: Option<f64>,
    duration: Option<u64>,
    #[serde(rename = "selected_samples")]
    hits: Option<u64>,
    name: Option<String>,
    delta: Option<u64>,
    arrivals: Option<u64>,
    departures: Option<u64>,
    difference: Option<f64>,
    location: Option<String>,
    count: Option<u64>,
}

impl Record {
    fn of(line: &str) -> Result<Self, String> {
        if line.starts_with('{') { Self::of_json(line) } else { Self::of_fields(line) }
    }

    fn of_json(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|error| {
            let what = error.to_string();
            what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what).to_owned()
        })
    }

    fn of_fields(line: &str) -> Result<Self, String> {
        fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<Option<T>, String> {
            value.parse().map(Some).map_err(|_| format!("{key} is not a number"))
        }
        let mut fields = line.split('\t');
        let mut record = Self { kind: fields.next().unwrap_or_default().to_owned(), ..Self::default() };
        for field in fields {
            let (key, value) = field.split_once('=').ok_or("a field has no value")?;
            let text = || Some(value.to_owned());
            match key {
                "time" => record.time = number(key, value)?,
                "selected" => record.selected = text(),
                "speedup" => record.speedup = number(key, value)?,
                "duration" => record.duration = number(key, value)?,
                "selected-samples" => record.hits = number(key, value)?,
                "name" => record.name = text(),
                "delta" => record.delta = number(key, value)?,
                "arrivals" => record.arrivals = number(key, value)?,
                "departures" => record.departures = number(key, value)?,
                "difference" => record.difference = number(key, value)?,
                "location" => record.location = text(),
                "count" => record.count = number(key, value)?,
                _ => {}
            }
        }
        Ok(record)
    }
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut reader = Reader::new();
    let mut last: Option<(u64, String)> = None;
    let mut left_out = lines::LeftOut::default();
    for (number, line) in lines::numbered(bytes) {
        if let Some((number, what)) = last.take() {
            return Err(ImportError::at_line(Format::Coz, number, what));
        }
        if line.is_empty() {
            continue;
        }
        last = reader.line(&line).err().map(|what| (number, what));
    }
    if let Some((number, what)) = last {
        // The last line of a program that was killed while it wrote.
        if bytes.ends_with(b"\n") || reader.is_empty() {
            return Err(ImportError::at_line(Format::Coz, number, what));
        }
        left_out.add(number, what);
    }
    if reader.is_empty() {
        let what = "no experiments: coz selected no line, or no progress point was reached";
        return Err(ImportError::unusable(Format::Coz, what));
    }
    if let Some(note) = left_out.note() {
        reader.assembly.note(note);
    }
    reader.finish()
}

struct Reader {
    assembly: Assembly,
    /// The number of the current run. Each begins with a line `startup`.
    run: Option<u32>,
    /// Where the current experiment begins: one after the other, since coz does not write when they were.
    now_ns: u64,
    /// The experiment that points belong to; `None` where it is left out.
    experiment: Option<ExperimentId>,
    has_begun: bool,
    targets: FxHashMap<StringId, TargetId>,
    points: FxHashMap<(PointKind, StringId), PointId>,
    /// The samples of each line of code: of earlier runs, and so far in this one.
    samples: FxHashMap<StringId, [u64; 2]>,
}

impl Reader {
    fn new() -> Self {
        Self {
            assembly: Assembly::new("coz"),
            run: None,
            now_ns: 0,
            experiment: None,
            has_begun: false,
            targets: FxHashMap::default(),
            points: FxHashMap::default(),
            samples: FxHashMap::default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.assembly.profile.causal.experiments.is_empty()
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let record = Record::of(line)?;
        match record.kind.as_str() {
            "startup" => self.start(&record),
            "experiment" => self.experiment(&record)?,
            "throughput-point" | "throughput_point" | "progress-point" => {
                let delta = record.delta.ok_or("a point without a delta")?;
                self.visits(&record, PointKind::Throughput, |visits| visits.count = delta)?;
            }
            "latency-point" | "latency_point" => self.latency(&record)?,
            "samples" => {
                let location = record.location.as_deref().ok_or("samples without a location")?;
                let count = record.count.ok_or("samples without a count")?;
                let location = self.assembly.text(location);
                // Each of these lines counts from the start of the run.
                self.samples.entry(location).or_default()[1] = count;
            }
            "runtime" | "shutdown" => {}
            kind => {
                return Err(format!("unknown kind of line: {}", kind.chars().take(40).collect::<String>()));
            }
        }
        Ok(())
    }

    fn start(&mut self, record: &Record) {
        self.run = Some(self.run.map_or(0, |run| run.saturating_add(1)));
        self.has_begun = false;
        self.experiment = None;
        for [before, now] in self.samples.values_mut() {
            *before = before.saturating_add(std::mem::take(now));
        }
        let meta = &mut self.assembly.profile.meta;
        if let Some(time) = record.time.filter(|time| *time >= A_DATE_NS && meta.started_unix_ns == 0) {
            meta.started_unix_ns = time;
        }
    }

    fn experiment(&mut self, record: &Record) -> Result<(), String> {
        let selected = record.selected.as_deref().ok_or("an experiment without a selected line")?;
        let speedup = record.speedup.ok_or("an experiment without a speedup")?;
        let duration = record.duration.ok_or("an experiment without a duration")?;
        if !(0.0..=1.0).contains(&speedup) {
            return Err(format!("a speedup of {speedup}, which is not from 0 to 1"));
        }
        self.has_begun = true;
        self.experiment = None;
        // Its macros themselves, which coz's own viewer leaves out, too.
        if selected.contains("/coz.h:") || duration == 0 || duration >= WRAPPED {
            return Ok(());
        }
        let target = self.target(selected);
        let experiments = &mut self.assembly.profile.causal.experiments;
        experiments.push(Experiment {
            start_ns: self.now_ns,
            length_ns: duration,
            target: Some(target),
            speedup,
            delay_ns: 0,
            hits: record.hits.unwrap_or(0),
            samples: 0,
            queued: 0.0,
            busy_threads: 0,
            waits: 0,
            run: self.run.unwrap_or(0),
        });
        self.experiment = Some(ExperimentId::from(experiments.len() - 1));
        self.now_ns = self.now_ns.saturating_add(duration);
        Ok(())
    }

    fn latency(&mut self, record: &Record) -> Result<(), String> {
        let arrivals = record.arrivals.ok_or("a point without arrivals")?;
        let departures = record.departures.ok_or("a point without departures")?;
        let difference = record.difference.ok_or("a point without a difference")?;
        if !(difference >= 0.0 && difference.is_finite()) {
            return Err("a difference that is not a number of requests".to_owned());
        }
        if arrivals >= WRAPPED || departures >= WRAPPED || difference >= WRAPPED as f64 {
            return Ok(());
        }
        self.visits(record, PointKind::Latency, |visits| {
            visits.arrivals = arrivals;
            visits.count = departures;
            // So many were in flight, all the time.
            visits.in_flight_ns = (difference * visits.in_flight_ns as f64) as u64;
        })
    }

    /// Adds the visits of a point in the current experiment. `fill` gets them with the length of the
    /// experiment as time in flight.
    fn visits(
        &mut self,
        record: &Record,
        kind: PointKind,
        fill: impl FnOnce(&mut Visits),
    ) -> Result<(), String> {
        let name = record.name.as_deref().ok_or("a point without a name")?;
        if !self.has_begun {
            return Err("a point before the first experiment of its run".to_owned());
        }
        let Some(experiment) = self.experiment else { return Ok(()) };
        let point = self.point(kind, name);
        let causal = &mut self.assembly.profile.causal;
        let in_flight_ns = match kind {
            PointKind::Latency => causal.experiments[experiment.index()].length_ns,
            _ => 0,
        };
        let mut visits =
            Visits { experiment, point, count: 0, first_ns: 0, last_ns: 0, arrivals: 0, in_flight_ns };
        fill(&mut visits);
        causal.visits.push(visits);
        Ok(())
    }

    fn target(&mut self, selected: &str) -> TargetId {
        let name = self.assembly.text(selected);
        if let Some(&known) = self.targets.get(&name) {
            return known;
        }
        let (file, line) = self.place(selected);
        // coz does not know functions.
        let function = self.assembly.text("");
        let targets = &mut self.assembly.profile.causal.targets;
        targets.push(CausalTarget { kind: TargetKind::Line, function, file, line, share: 0.0, samples: 0 });
        let id = TargetId::from(targets.len() - 1);
        self.targets.insert(name, id);
        id
    }

    fn point(&mut self, kind: PointKind, text: &str) -> PointId {
        let name = self.assembly.text(text);
        if let Some(&known) = self.points.get(&(kind, name)) {
            return known;
        }
        let (file, line) = self.place(text);
        let file = file.filter(|_| line > 0);
        let points = &mut self.assembly.profile.causal.points;
        points.push(CausalPoint { kind, name, file, line });
        let id = PointId::from(points.len() - 1);
        self.points.insert((kind, name), id);
        id
    }

    /// `src/main.c:12` as file and line; the line is 0 where there is none.
    fn place(&mut self, text: &str) -> (Option<StringId>, u32) {
        let (file, line) = match text.rsplit_once(':') {
            Some((file, line)) => line.parse().map_or((text, 0), |line| (file, line)),
            None => (text, 0),
        };
        ((!file.is_empty()).then(|| self.assembly.text(file)), line)
    }

    fn finish(mut self) -> Result<Imported, ImportError> {
        let samples = |[before, now]: [u64; 2]| before.saturating_add(now);
        let all = self.samples.values().fold(0u64, |sum, counts| sum.saturating_add(samples(*counts)));
        let targets = &mut self.assembly.profile.causal.targets;
        for (name, counts) in self.samples {
            if let Some(target) = self.targets.get(&name) {
                let target = &mut targets[target.index()];
                target.samples = samples(counts);
                target.share = target.samples as f64 / all.max(1) as f64;
            }
        }
        self.assembly.profile.meta.duration_ns = self.now_ns;
        self.assembly.note(ImportNote::CozExperiments);
        self.assembly.finish()
    }
}
