//! Exports experiments of causal profiling as coz writes them by default: JSON lines that its viewer and `coz plot`
//! read.
//!
//! ```text
//! {"type":"startup","time":1762000000000000000}
//! {"type":"experiment","selected":"src/main.rs:12","speedup":0.25,"duration":100000000,"selected_samples":25}
//! {"type":"throughput-point","name":"unit","delta":86}
//! {"type":"latency-point","name":"request","arrivals":5,"departures":4,"difference":1.25}
//! {"type":"runtime","time":2000000000}
//! {"type":"samples","location":"src/main.rs:12","count":70}
//! ```
//! coz compares the experiments of a line with those of the same line without a speed-up. Here a baseline belongs
//! to no line, so it is written for the line of the experiment after it, or of the one before it.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use whyslow_profile::{CausalTarget, Experiment, PointKind, Profile, TargetKind, Visits};

use super::{Export, LeftOut};

/// A line of the file.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line<'a> {
    Startup {
        time: u64,
    },
    #[serde(rename_all = "snake_case")]
    Experiment {
        selected: &'a str,
        speedup: f64,
        duration: u64,
        selected_samples: u64,
    },
    ThroughputPoint {
        name: &'a str,
        delta: u64,
    },
    LatencyPoint {
        name: &'a str,
        arrivals: u64,
        departures: u64,
        difference: f64,
    },
    Runtime {
        time: u64,
    },
    Samples {
        location: &'a str,
        count: u64,
    },
}

impl Line<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

/// Writes the experiments, in the order in which they ran. Returns what the format cannot hold.
pub fn write_coz(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let profile = export.profile;
    let causal = &profile.causal;
    if causal.experiments.is_empty() {
        let what = "coz files hold experiments of causal profiling, and this profile has none";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut visits: Vec<&Visits> = causal.visits.iter().collect();
    visits.sort_by_key(|visits| visits.experiment);
    let selected = selected(profile);
    let mut run = None;
    for (row, (experiment, selected)) in causal.experiments.iter().zip(&selected).enumerate() {
        let Some(selected) = selected else { continue };
        if run != Some(experiment.run) {
            let time = profile.meta.started_unix_ns.saturating_add(experiment.start_ns);
            Line::Startup { time }.write(out)?;
            run = Some(experiment.run);
        }
        let speedup = if experiment.is_baseline() { 0.0 } else { experiment.speedup };
        let (duration, selected_samples) = (experiment.virtual_ns(), experiment.hits);
        Line::Experiment { selected, speedup, duration, selected_samples }.write(out)?;
        let first = visits.partition_point(|visits| visits.experiment.index() < row);
        for visits in visits[first..].iter().take_while(|visits| visits.experiment.index() == row) {
            if let Some(line) = point(profile, experiment, visits) {
                line.write(out)?;
            }
        }
    }
    Line::Runtime { time: profile.meta.duration_ns }.write(out)?;
    for target in causal.targets.iter().filter(|target| target.kind != TargetKind::Placebo) {
        Line::Samples { location: &place(profile, target), count: target.samples }.write(out)?;
    }
    Ok(vec![LeftOut::ExperimentDetails])
}

/// What coz calls selected, for each experiment. `None`: the placebo, and baselines of nothing else.
fn selected(profile: &Profile) -> Vec<Option<Cow<'_, str>>> {
    let causal = &profile.causal;
    let own = |experiment: &Experiment| {
        let target = causal.targets.get(experiment.target?.index())?;
        (target.kind != TargetKind::Placebo).then(|| place(profile, target))
    };
    let mut found: Vec<_> = causal.experiments.iter().map(own).collect();
    // A baseline takes the place of its neighbour.
    let is_free: Vec<bool> =
        causal.experiments.iter().map(|experiment| experiment.target.is_none()).collect();
    let mut near = None;
    for (own, is_free) in found.iter_mut().zip(&is_free).rev() {
        take(own, *is_free, &mut near);
    }
    near = None;
    for (own, is_free) in found.iter_mut().zip(&is_free) {
        take(own, *is_free, &mut near);
    }
    found
}

/// Fills a free place with what is near, and is near to the next one.
fn take<'p>(own: &mut Option<Cow<'p, str>>, is_free: bool, near: &mut Option<Cow<'p, str>>) {
    match own {
        None if is_free => own.clone_from(near),
        None => {}
        Some(_) => near.clone_from(own),
    }
}

/// `src/main.rs:12`; the name of a function.
fn place<'p>(profile: &'p Profile, target: &CausalTarget) -> Cow<'p, str> {
    let function = profile.text(target.function);
    match target.file.map(|file| profile.text(file)) {
        Some(file) if target.kind == TargetKind::Line => format!("{file}:{}", target.line).into(),
        _ if function.is_empty() => "?:0".into(),
        _ if target.kind == TargetKind::WithCallees => format!("{function} (with callees)").into(),
        _ => function.into(),
    }
}

fn point<'p>(profile: &'p Profile, experiment: &Experiment, visits: &Visits) -> Option<Line<'p>> {
    let point = profile.causal.points.get(visits.point.index())?;
    let name = profile.text(point.name);
    Some(match point.kind {
        PointKind::Latency => Line::LatencyPoint {
            name,
            arrivals: visits.arrivals,
            departures: visits.count,
            // The mean number in flight.
            difference: visits.in_flight_ns as f64 / experiment.virtual_ns().max(1) as f64,
        },
        PointKind::Throughput | PointKind::WholeRun => Line::ThroughputPoint { name, delta: visits.count },
    })
}
