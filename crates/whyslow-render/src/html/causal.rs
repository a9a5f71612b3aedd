//! The viewer's payload for causal profiling: what speeding up each target would buy, as `whyslow-causal` says.

use rustc_hash::FxHashMap;
use serde::Serialize;
use whyslow_analyze::remark_of;
use whyslow_causal::words::sentence;
use whyslow_causal::{Curve, Estimates, Overload, PointEstimates, Row, Verdict, estimate};
use whyslow_profile::{CausalNote, CausalTarget, FunctionId, Note, Profile, StringId};

use super::container::{Columns, NONE};
use super::payload::collect;
use super::texts::Texts;

/// Facts about all experiments.
#[derive(Debug, Serialize)]
pub(super) struct CausalHead {
    experiments: usize,
    /// Why there are no estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// The estimates, if there were experiments.
pub(super) fn estimates(profile: &Profile) -> Option<Estimates> {
    let causal = &profile.causal;
    (!causal.is_empty()).then(|| estimate(causal, profile.meta.host.cpus))
}

impl CausalHead {
    pub(super) fn of(profile: &Profile, estimates: &Estimates) -> Self {
        let refused = estimates.refused.map(|overload| remark_of(&note(overload)).text);
        Self { experiments: profile.causal.experiments.len(), refused }
    }
}

fn note(overload: Overload) -> Note {
    let permille = |share: f64| (share * 1000.0).round() as u64;
    Note::Causal(CausalNote::CausalOverloaded {
        queued_permille: permille(overload.queued),
        limit_permille: permille(whyslow_causal::QUEUED_LIMIT),
        busy_threads: overload.busy_threads.into(),
        cpus: overload.cpus.into(),
    })
}

/// Adds progress points, their targets (best first, the placebo last), and the curve of each.
pub(super) fn push_causal<'p>(
    profile: &'p Profile,
    estimates: &Estimates,
    columns: &mut Columns<'p>,
    texts: &mut Texts<'_>,
) {
    let causal = &profile.causal;
    let points = &estimates.points;
    let of = |point: &PointEstimates| causal.points[point.point.index()];
    columns.u32("causal_points.name", collect(points, |point| texts.of(of(point).name)));
    columns.u8("causal_points.kind", collect(points, |point| of(point).kind.code()));
    columns.u32("causal_points.file", collect(points, |point| texts.maybe(of(point).file)));
    columns.u32("causal_points.line", collect(points, |point| of(point).line));
    columns.f64("causal_points.visits", collect(points, |point| point.visits as f64));
    columns.u32("causal_points.baselines", collect(points, |point| count(point.baselines)));
    columns.u32("causal_points.dropped", collect(points, |point| count(point.dropped)));

    let rows: Vec<(u32, &Row)> = (0..)
        .zip(points)
        .flat_map(|(at, point)| point.rows.iter().chain(&point.placebo).map(move |row| (at, row)))
        .collect();
    let target = |row: &Row| causal.targets[row.target.index()];
    let functions = Functions::of(profile);
    columns.u32("causal.point", collect(&rows, |(point, _)| *point));
    columns.u8("causal.kind", collect(&rows, |(_, row)| target(row).kind.code()));
    columns.u32("causal.name", collect(&rows, |(_, row)| texts.of(target(row).function)));
    columns.u32("causal.function", collect(&rows, |(_, row)| functions.find(profile, &target(row))));
    columns.u32("causal.file", collect(&rows, |(_, row)| texts.maybe(target(row).file)));
    columns.u32("causal.line", collect(&rows, |(_, row)| target(row).line));
    columns.f64("causal.share", collect(&rows, |(_, row)| target(row).share));
    columns.u8("causal.verdict", collect(&rows, |(_, row)| verdict(row.verdict)));
    let words = collect(&rows, |(_, row)| texts.add(sentence(row, &target(row))));
    columns.u32("causal.words", words);
    columns.u32("causal.experiments", collect(&rows, |(_, row)| count(row.experiments)));

    let curve: Vec<(u32, &Curve)> =
        (0..).zip(&rows).flat_map(|(at, (_, row))| row.curve.iter().map(move |one| (at, one))).collect();
    columns.u32("causal_curve.row", collect(&curve, |(row, _)| *row));
    let mut number = |name: &str, of: fn(&Curve) -> f64| {
        columns.f64(format!("causal_curve.{name}"), collect(&curve, |(_, one)| of(one)));
    };
    number("speedup", |one| one.speedup);
    number("effect", |one| one.effect);
    number("low", |one| one.low);
    number("high", |one| one.high);
    columns.u32("causal_curve.experiments", collect(&curve, |(_, one)| count(one.experiments)));
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn verdict(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Effect => 0,
        Verdict::None { .. } => 1,
        Verdict::Undecided { .. } => 2,
    }
}

/// The functions of a profile, by name.
struct Functions {
    by_name: FxHashMap<StringId, Vec<FunctionId>>,
}

impl Functions {
    fn of(profile: &Profile) -> Self {
        let mut by_name: FxHashMap<StringId, Vec<FunctionId>> = FxHashMap::default();
        for (row, function) in profile.functions.iter().enumerate() {
            by_name.entry(function.name).or_default().push(FunctionId::from(row));
        }
        Self { by_name }
    }

    /// The function of a target: the one with its name, in its file if there are several.
    fn find(&self, profile: &Profile, target: &CausalTarget) -> u32 {
        let name = profile.text(target.function);
        let same_text = || {
            let mut rows = self.by_name.iter();
            rows.find(|(id, _)| !name.is_empty() && profile.text(**id) == name).map(|(_, rows)| rows)
        };
        let Some(rows) = self.by_name.get(&target.function).or_else(same_text) else { return NONE };
        let in_file = rows.iter().find(|row| profile.functions[row.index()].file == target.file);
        in_file.or(rows.first()).map_or(NONE, |row| row.0)
    }
}
