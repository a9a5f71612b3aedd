//! What speeding up a line or a function would buy, as JSON.

use serde::Serialize;
use whyslow_causal::words::sentence;
use whyslow_causal::{Curve, Estimates, Overload, PointEstimates, QUEUED_LIMIT, Row, Verdict};
use whyslow_profile::Profile;

use super::{Context, Head};

#[derive(Serialize)]
struct CurveJson {
    speedup: f64,
    effect: f64,
    low: f64,
    high: f64,
    experiments: usize,
}

impl From<&Curve> for CurveJson {
    fn from(of: &Curve) -> Self {
        let Curve { speedup, effect, low, high, experiments } = *of;
        Self { speedup, effect, low, high, experiments }
    }
}

#[derive(Serialize)]
struct RowJson<'a> {
    progress: &'a str,
    kind: &'static str,
    function: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    cpu_share: f64,
    samples: u64,
    verdict: &'static str,
    beyond: Option<f64>,
    missing: Option<usize>,
    message: String,
    experiments: usize,
    hits: u64,
    points: Vec<CurveJson>,
}

impl<'a> RowJson<'a> {
    fn new(profile: &'a Profile, point: &PointEstimates, row: &Row) -> Self {
        let target = &profile.causal.targets[row.target.index()];
        let (beyond, missing) = match row.verdict {
            Verdict::Effect => (None, None),
            Verdict::None { beyond } => (Some(beyond), None),
            Verdict::Undecided { missing } => (None, Some(missing)),
        };
        Self {
            progress: profile.text(profile.causal.points[point.point.index()].name),
            kind: target.kind.label(),
            function: profile.text(target.function),
            file: target.file.map(|file| profile.text(file)),
            line: (target.line > 0).then_some(target.line),
            cpu_share: target.share,
            samples: target.samples,
            verdict: row.verdict.label(),
            beyond,
            missing,
            message: sentence(row, target),
            experiments: row.experiments,
            hits: row.hits,
            points: row.curve.iter().map(CurveJson::from).collect(),
        }
    }
}

#[derive(Serialize)]
struct PointJson<'a> {
    name: &'a str,
    kind: &'static str,
    file: Option<&'a str>,
    line: Option<u32>,
    visits: u64,
    baselines: usize,
    dropped: usize,
    unvisited: usize,
    placebo: Option<RowJson<'a>>,
}

#[derive(Serialize)]
struct RefusedJson {
    queued: f64,
    limit: f64,
    busy_threads: u32,
    cpus: u32,
}

impl From<&Overload> for RefusedJson {
    fn from(of: &Overload) -> Self {
        let Overload { queued, busy_threads, cpus } = *of;
        Self { queued, limit: QUEUED_LIMIT, busy_threads, cpus }
    }
}

/// What the experiments say, at most `limit` rows of each progress point.
pub fn causal<'a>(context: &Context<'a>, found: &'a Estimates, limit: usize) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        experiments: usize,
        delay_share: f64,
        refused: Option<RefusedJson>,
        progress_points: Vec<PointJson<'a>>,
        results: Vec<RowJson<'a>>,
    }
    let profile = context.profile;
    let points = found.points.iter().map(|of| {
        let point = &profile.causal.points[of.point.index()];
        PointJson {
            name: profile.text(point.name),
            kind: point.kind.label(),
            file: point.file.map(|file| profile.text(file)),
            line: (point.line > 0).then_some(point.line),
            visits: of.visits,
            baselines: of.baselines,
            dropped: of.dropped,
            unvisited: of.unvisited,
            placebo: of.placebo.as_ref().map(|row| RowJson::new(profile, of, row)),
        }
    });
    let rows = found
        .points
        .iter()
        .flat_map(|of| of.rows.iter().take(limit).map(move |row| RowJson::new(profile, of, row)));
    let experiments = &profile.causal.experiments;
    let sum = |of: fn(&whyslow_profile::Experiment) -> u64| {
        experiments.iter().fold(0u64, |sum, row| sum.saturating_add(of(row)))
    };
    let length = sum(|row| row.length_ns);
    Body {
        head: context.head("causal", sum(|row| row.samples), length),
        experiments: experiments.len(),
        delay_share: sum(|row| row.delay_ns) as f64 / length.max(1) as f64,
        refused: found.refused.as_ref().map(RefusedJson::from),
        progress_points: points.collect(),
        results: rows.collect(),
    }
}
