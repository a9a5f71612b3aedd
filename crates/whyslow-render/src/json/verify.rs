//! The result of `whyslow verify` as JSON. `docs/verify-json.md` describes the names.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::Fact;
use whyslow_analyze::diff::{DiffRow, Hot};

use super::diff::{ChangeJson, FocusJson, MoveJson};
use super::{MetricJson, Named, RemarkJson};
use crate::text::{DiffView, VerifyView, verify_summary};

/// The name and version of the schema. A version may gain fields; no field changes its meaning.
pub const VERIFY_SCHEMA: &str = "whyslow-verify/1";

#[derive(Debug, Serialize)]
struct RowJson<'a> {
    name: Cow<'a, str>,
    #[serde(flatten)]
    change: ChangeJson,
}

impl<'a> RowJson<'a> {
    fn new(view: &DiffView<'a>, row: &DiffRow) -> Self {
        Self { name: name(view, row), change: (&row.own).into() }
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
    }
    let VerifyView { diff: both, verification, aim } = *view;
    let diff = both.diff;
    let hot = |hot: &Hot| HotJson {
        name: name(&both, &hot.row),
        value: hot.row.own.after,
        share: hot.share,
        at_most_times_less: hot.at_most(),
    };
    let rows = |rows: &[DiffRow]| rows.iter().map(|row| RowJson::new(&both, row)).collect();
    let moves = diff.moves.iter().map(|one| MoveJson::new(both.before.profile, both.after.profile, one));
    Body {
        schema: VERIFY_SCHEMA,
        summary: verify_summary(view),
        metric: MetricJson { name: &diff.metric, unit: diff.unit.label() },
        runs: [diff.runs; 2],
        caveats: diff.caveats.iter().map(|caveat| RemarkJson::from(caveat.remark())).collect(),
        whole: (&verification.whole.change).into(),
        aim: aim.map(|aim| AimJson { names: &aim.names, focus: FocusJson::new(aim) }),
        better: rows(&verification.better),
        worse: rows(&verification.worse),
        moves: moves.collect(),
        hottest: verification.hottest.iter().map(hot).collect(),
    }
}
