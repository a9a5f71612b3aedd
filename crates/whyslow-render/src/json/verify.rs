//! The result of `whyslow verify` as JSON. `docs/verify-json.md` describes the names.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::diff::{Change, DiffRow, Hot};
use whyslow_words::Fact;

use super::diff::{ChangeJson, FocusJson, MoveJson, seen};
use super::{MetricJson, Named, RemarkJson};
use crate::text::{DiffView, VerifyView, verify_summary};

/// The name and version of the schema. A version may gain fields; no field changes its meaning.
pub const VERIFY_SCHEMA: &str = "whyslow-verify/1";

#[derive(Debug, Serialize)]
struct RowJson<'a> {
    name: Cow<'a, str>,
    /// Its name before, if that was another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<Cow<'a, str>>,
    seen: &'static str,
    #[serde(flatten)]
    change: ChangeJson,
}

impl<'a> RowJson<'a> {
    fn new(view: &DiffView<'a>, row: &DiffRow, change: &Change) -> Self {
        let name = name(view, row);
        let was = row.before.map(|place| Named::new(view.before.profile, place.label).name);
        Self { was: was.filter(|was| *was != name), name, seen: seen(row), change: change.into() }
    }
}

fn name<'a>(view: &DiffView<'a>, row: &DiffRow) -> Cow<'a, str> {
    match (row.after, row.before) {
        (Some(place), _) => Named::new(view.after.profile, place.label).name,
        (None, Some(place)) => Named::new(view.before.profile, place.label).name,
        (None, None) => "".into(),
    }
}

#[derive(Debug, Serialize)]
struct HotJson<'a> {
    name: Cow<'a, str>,
    value: u64,
    share: f64,
    at_most_times_less: Option<f64>,
}

#[derive(Debug, Serialize)]
struct AimJson<'a> {
    names: &'a [String],
    #[serde(flatten)]
    focus: FocusJson<'a>,
}

/// The answer, as a paragraph and as numbers.
pub fn verify<'a>(view: &VerifyView<'a>) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        schema: &'static str,
        summary: String,
        metric: MetricJson<'a>,
        runs: [usize; 2],
        caveats: Vec<RemarkJson>,
        whole: ChangeJson,
        aim: Option<AimJson<'a>>,
        better: Vec<RowJson<'a>>,
        worse: Vec<RowJson<'a>>,
        moves: Vec<MoveJson<'a>>,
        hottest: Vec<HotJson<'a>>,
        yours: YoursJson<'a>,
    }
    #[derive(Serialize)]
    struct YoursJson<'a> {
        better: Vec<RowJson<'a>>,
        worse: Vec<RowJson<'a>>,
        hottest: Vec<HotJson<'a>>,
    }
    let VerifyView { diff: both, verification, aim } = *view;
    let diff = both.diff;
    type Value = fn(&DiffRow) -> &Change;
    let (own, yours): (Value, Value) = (|row| &row.own, DiffRow::yours);
    let hot = |hot: &Hot, value: Value| HotJson {
        name: name(&both, &hot.row),
        value: value(&hot.row).after,
        share: hot.share,
        at_most_times_less: hot.at_most(),
    };
    let hottest = |rows: &[Hot], value: Value| rows.iter().map(|row| hot(row, value)).collect();
    let rows = |rows: &[DiffRow], value: Value| {
        rows.iter().map(|row| RowJson::new(&both, row, value(row))).collect()
    };
    let moves = diff.moves.iter().map(|one| MoveJson::new(both.before.profile, both.after.profile, one));
    Body {
        schema: VERIFY_SCHEMA,
        summary: verify_summary(view),
        metric: MetricJson { name: &diff.metric, unit: diff.unit.label(), simulated: diff.simulated },
        runs: [diff.runs; 2],
        caveats: diff.caveats.iter().map(|caveat| RemarkJson::from(caveat.remark())).collect(),
        whole: (&verification.whole.change).into(),
        aim: aim.map(|aim| AimJson { names: &aim.names, focus: FocusJson::new(aim) }),
        better: rows(&verification.better, own),
        worse: rows(&verification.worse, own),
        moves: moves.collect(),
        hottest: hottest(&verification.hottest, own),
        yours: YoursJson {
            better: rows(&verification.yours.better, yours),
            worse: rows(&verification.yours.worse, yours),
            hottest: hottest(&verification.yours.hottest, yours),
        },
    }
}
