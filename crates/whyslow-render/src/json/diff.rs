//! A comparison of two profiles as JSON. `docs/diff-json.md` describes the names.

use serde::Serialize;
use whyslow_analyze::Label;
use whyslow_analyze::diff::{Change, DiffRow, Focus, Move, Place};
use whyslow_profile::Profile;
use whyslow_words::Fact;

use super::{MetricJson, Named, QualityBody, RemarkJson, Run};
use crate::text::{DiffFile, DiffView};

/// The name and version of the schema. A version may gain fields; no field changes its meaning.
pub const DIFF_SCHEMA: &str = "whyslow-diff/1";

#[derive(Debug, Serialize)]
struct SideJson<'a> {
    file: &'a str,
    files: Vec<&'a str>,
    #[serde(flatten)]
    run: Run<'a>,
    quality: QualityBody,
}

impl<'a> SideJson<'a> {
    fn new(DiffFile { name, profile, quality, more }: DiffFile<'a>) -> Self {
        let files = std::iter::once(name).chain(more.iter().map(String::as_str)).collect();
        Self { file: name, files, run: Run::of(profile), quality: QualityBody::new(quality) }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ChangeJson {
    before: u64,
    after: u64,
    change: i64,
    relative: Option<f64>,
    margin: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    q: Option<f64>,
    verdict: &'static str,
}

impl From<&Change> for ChangeJson {
    fn from(change: &Change) -> Self {
        let difference = change.difference();
        let bound = if difference < 0 { i64::MIN } else { i64::MAX };
        Self {
            before: change.before,
            after: change.after,
            change: i64::try_from(difference).unwrap_or(bound),
            relative: change.relative(),
            margin: change.margin,
            ratio: change.ratio.map(|ratio| ratio.estimate),
            ratio_low: change.ratio.map(|ratio| ratio.low),
            ratio_high: change.ratio.map(|ratio| ratio.high),
            p: change.ratio.map(|ratio| ratio.p),
            q: change.ratio.map(|ratio| ratio.q),
            verdict: change.proven().label(),
        }
    }
}

#[derive(Debug, Serialize)]
struct TotalJson<'a> {
    what: &'a str,
    unit: &'static str,
    #[serde(flatten)]
    change: ChangeJson,
}

#[derive(Debug, Serialize)]
struct PlaceJson<'a> {
    file: Option<&'a str>,
    line: Option<u32>,
}

impl<'a> PlaceJson<'a> {
    fn new(profile: &'a Profile, place: Place) -> Self {
        Self {
            file: place.file.map(|file| profile.text(file)),
            line: Some(place.line).filter(|line| *line > 0),
        }
    }
}

/// The sides that have a row.
pub(super) fn seen(row: &DiffRow) -> &'static str {
    match (row.before, row.after) {
        (Some(_), None) => "before",
        (None, _) => "after",
        _ => "both",
    }
}

#[derive(Debug, Serialize)]
struct RowJson<'a> {
    name: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<std::borrow::Cow<'a, str>>,
    #[serde(rename = "crate")]
    crate_name: Option<&'a str>,
    kind: &'static str,
    seen: &'static str,
    place_before: Option<PlaceJson<'a>>,
    place_after: Option<PlaceJson<'a>>,
    #[serde(flatten)]
    own: ChangeJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<ChangeJson>,
}

impl<'a> RowJson<'a> {
    fn new(before: &'a Profile, after: &'a Profile, row: &DiffRow) -> Option<Self> {
        let (profile, place) = match (row.after, row.before) {
            (Some(place), _) => (after, place),
            (None, place) => (before, place?),
        };
        let named = Named::new(profile, place.label);
        Some(Self {
            crate_name: named.crate_name,
            kind: named.kind,
            seen: seen(row),
            was: row
                .before
                .map(|place| Named::new(before, place.label).name)
                .filter(|was| row.after.is_some() && *was != named.name),
            place_before: row.before.map(|place| PlaceJson::new(before, place)),
            place_after: row.after.map(|place| PlaceJson::new(after, place)),
            name: named.name,
            own: (&row.own).into(),
            total: row.total.as_ref().map(ChangeJson::from),
        })
    }
}

#[derive(Debug, Serialize)]
pub(super) struct MoveJson<'a> {
    callees: Vec<std::borrow::Cow<'a, str>>,
    caller: std::borrow::Cow<'a, str>,
    now: &'static str,
    value: u64,
    caller_change: i64,
}

impl<'a> MoveJson<'a> {
    pub(super) fn new(before: &'a Profile, after: &'a Profile, one: &Move) -> Self {
        let name = |places: [Option<Place>; 2]| match places {
            [_, Some(place)] => Named::new(after, place.label).name,
            [Some(place), None] => Named::new(before, place.label).name,
            [None, None] => "".into(),
        };
        Self {
            callees: one.callees.iter().map(|callee| name(*callee)).collect(),
            caller: name(one.caller),
            now: if one.swallowed { "part of the caller" } else { "on their own" },
            value: one.value,
            caller_change: i64::try_from(one.difference).unwrap_or(i64::MAX),
        }
    }
}

#[derive(Debug, Serialize)]
struct PathJson {
    path: Vec<String>,
    #[serde(flatten)]
    own: ChangeJson,
    total: ChangeJson,
}

/// A caller or callee of the function in focus.
#[derive(Debug, Serialize)]
struct NeighbourJson<'a> {
    name: std::borrow::Cow<'a, str>,
    #[serde(flatten)]
    change: ChangeJson,
}

#[derive(Debug, Serialize)]
pub(super) struct FocusJson<'a> {
    own: ChangeJson,
    total: ChangeJson,
    callers: Vec<NeighbourJson<'a>>,
    callees: Vec<NeighbourJson<'a>>,
}

impl<'a> FocusJson<'a> {
    pub(super) fn new(focus: &'a Focus) -> Self {
        let neighbours = |rows: &[(Label, Change)]| {
            let rows = rows.iter();
            rows.map(|(label, change)| NeighbourJson {
                name: Named::new(&focus.profile, *label).name,
                change: change.into(),
            })
            .collect()
        };
        Self {
            own: (&focus.own).into(),
            total: (&focus.total).into(),
            callers: neighbours(&focus.callers),
            callees: neighbours(&focus.callees),
        }
    }
}

/// A comparison, with all its rows unless the view limits them.
pub fn diff<'a>(view: &DiffView<'a>) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        schema: &'static str,
        before: SideJson<'a>,
        after: SideJson<'a>,
        metric: MetricJson<'a>,
        shared_metrics: &'a [String],
        counted: bool,
        runs: [usize; 2],
        caveats: Vec<RemarkJson>,
        totals: Vec<TotalJson<'a>>,
        rows_are: &'static str,
        rows: Vec<RowJson<'a>>,
        rows_left_out: usize,
        moves: Vec<MoveJson<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        focus: Option<FocusJson<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        paths: Option<Vec<PathJson>>,
    }
    let DiffView { diff, before, after, limit, paths, focus } = *view;
    let limit = limit.unwrap_or(usize::MAX);
    let caveats = diff.caveats.iter().map(|caveat| RemarkJson::from(caveat.remark()));
    let totals = diff.totals.iter().map(|total| TotalJson {
        what: &total.what,
        unit: total.unit.label(),
        change: (&total.change).into(),
    });
    Body {
        schema: DIFF_SCHEMA,
        before: SideJson::new(before),
        after: SideJson::new(after),
        metric: MetricJson { name: &diff.metric, unit: diff.unit.label(), simulated: diff.simulated },
        shared_metrics: &diff.shared_metrics,
        counted: diff.counted,
        runs: [diff.runs; 2],
        caveats: caveats.collect(),
        totals: totals.collect(),
        rows_are: if diff.sites { "lines" } else { "functions" },
        rows: diff
            .rows
            .iter()
            .take(limit)
            .filter_map(|row| RowJson::new(before.profile, after.profile, row))
            .collect(),
        rows_left_out: diff.rows.len().saturating_sub(limit),
        moves: diff.moves.iter().map(|one| MoveJson::new(before.profile, after.profile, one)).collect(),
        focus: focus.map(FocusJson::new),
        paths: paths.map(|paths| {
            let nodes = paths.by_own().into_iter().take(limit);
            let path = |node: u32| PathJson {
                path: paths.names(node),
                own: (&paths.own[node as usize]).into(),
                total: (&paths.total[node as usize]).into(),
            };
            nodes.map(path).collect()
        }),
    }
}
