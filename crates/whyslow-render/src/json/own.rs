//! Functions and lines of the user's own code as JSON.

use serde::Serialize;
use whyslow_analyze::heap::is_heap_metric;
use whyslow_analyze::{By, HotLine, HotLines, HotPath, OwnRow, OwnTable, PathEnd, Share};
use whyslow_profile::Unit;

use super::{Context, Head, Named, RatiosJson};

/// The cost charged to a function or line: `_ns` for metrics in nanoseconds, `_value` for others.
#[derive(Debug, Serialize)]
struct OwnCost {
    #[serde(skip_serializing_if = "Option::is_none")]
    own_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    own_value: Option<u64>,
    own_share: f64,
}

impl OwnCost {
    fn new(context: &Context<'_>, value: u64, whole: u64) -> Self {
        let time = context.unit() == Unit::Nanoseconds;
        Self {
            own_ns: time.then_some(value),
            own_value: (!time).then_some(value),
            own_share: Share::new(value, whole, 0).value,
        }
    }
}

/// The self cost of a function or line.
#[derive(Debug, Serialize)]
struct SelfCost {
    #[serde(skip_serializing_if = "Option::is_none")]
    self_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    self_value: Option<u64>,
    self_share: f64,
    self_samples: u64,
}

impl SelfCost {
    fn new(context: &Context<'_>, value: u64, samples: u64, whole: u64) -> Self {
        let time = context.unit() == Unit::Nanoseconds;
        Self {
            self_ns: time.then_some(value),
            self_value: (!time).then_some(value),
            self_share: Share::new(value, whole, 0).value,
            self_samples: samples,
        }
    }
}

/// A function that time is charged to.
#[derive(Debug, Serialize)]
pub(super) struct OwnJson<'a> {
    #[serde(flatten)]
    named: Named<'a>,
    #[serde(flatten)]
    own: OwnCost,
    own_error: f64,
    own_samples: u64,
    #[serde(flatten)]
    itself: SelfCost,
    hottest_line: Option<OwnLineJson<'a>>,
    most_beneath: Option<BeneathJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<RatiosJson>,
}

#[derive(Debug, Serialize)]
struct OwnLineJson<'a> {
    file: &'a str,
    line: u32,
    text: Option<&'a str>,
    #[serde(flatten)]
    own: OwnCost,
}

#[derive(Debug, Serialize)]
struct BeneathJson<'a> {
    #[serde(flatten)]
    named: Named<'a>,
    #[serde(flatten)]
    own: OwnCost,
}

impl<'a> OwnJson<'a> {
    pub(super) fn new(context: &Context<'a>, table: &OwnTable, row: &OwnRow) -> Self {
        let (profile, whole) = (context.profile, table.total_value);
        // The heap recorder's counts are exact: they are not a sample of a larger population.
        let counted = is_heap_metric(profile, context.metric);
        let text = |id| profile.text(id);
        Self {
            named: Named::new(profile, row.label),
            own: OwnCost::new(context, row.own_value, whole),
            own_error: if counted { 0.0 } else { table.own_share(row).error },
            own_samples: row.own_samples,
            itself: SelfCost::new(context, row.self_value, row.self_samples, whole),
            hottest_line: row.line.map(|hottest| OwnLineJson {
                file: text(hottest.file),
                line: hottest.line,
                text: profile.sources.get(hottest.file, hottest.line).map(text),
                own: OwnCost::new(context, hottest.value, whole),
            }),
            most_beneath: row.beneath.map(|beneath| BeneathJson {
                named: Named::new(profile, beneath.label),
                own: OwnCost::new(context, beneath.value, whole),
            }),
            counters: RatiosJson::new(&table.ratios, row.label),
        }
    }
}

/// The step of the hottest path that the most time is charged to.
#[derive(Debug, Serialize)]
pub(super) struct OwnStepJson {
    /// `function` or `branch`.
    leads_to: &'static str,
    step: usize,
    own_share: f64,
    path_share: f64,
}

impl OwnStepJson {
    pub(super) fn new(path: &HotPath, table: &OwnTable) -> Option<Self> {
        let share = |value: u64| Share::new(value, table.total_value, 0).value;
        (!path.steps.is_empty()).then(|| Self {
            leads_to: match path.end {
                PathEnd::Function => "function",
                PathEnd::Branch => "branch",
            },
            step: path.own_step,
            own_share: share(path.own_value),
            path_share: share(path.path_value),
        })
    }
}

/// The cost of a line.
#[derive(Debug, Serialize)]
pub(super) struct HotLineJson<'a> {
    function: Named<'a>,
    file: Option<&'a str>,
    line: Option<u32>,
    text: Option<&'a str>,
    #[serde(flatten)]
    own: OwnCost,
    own_samples: u64,
    #[serde(flatten)]
    itself: SelfCost,
}

impl<'a> HotLineJson<'a> {
    pub(super) fn new(context: &Context<'a>, lines: &HotLines, row: &HotLine) -> Self {
        let (profile, whole) = (context.profile, lines.total_value);
        Self {
            function: Named::new(profile, row.label),
            file: row.file.map(|file| profile.text(file)),
            line: Some(row.line).filter(|line| *line > 0),
            text: row.text.map(|text| profile.text(text)),
            own: OwnCost::new(context, row.own_value, whole),
            own_samples: row.own_samples,
            itself: SelfCost::new(context, row.self_value, row.self_samples, whole),
        }
    }
}

/// The most expensive lines of all functions, at most `limit` of them.
pub fn hot_lines<'a>(context: &Context<'a>, lines: &HotLines, limit: usize) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        function: (),
        by: &'static str,
        lines: Vec<HotLineJson<'a>>,
        lines_left_out: usize,
    }
    Body {
        head: context.head("lines", lines.total_samples, lines.total_value),
        function: (),
        by: match lines.by {
            By::Own => "own",
            By::SelfValue => "self",
        },
        lines: lines.rows.iter().take(limit).map(|row| HotLineJson::new(context, lines, row)).collect(),
        lines_left_out: lines.rows.len().saturating_sub(limit),
    }
}
