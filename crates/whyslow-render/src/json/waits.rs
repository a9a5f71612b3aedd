//! Waits as JSON.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::{CallTree, Reason, Share, WaitRow, WaitTable};
use whyslow_explain::Finding;
use whyslow_profile::Profile;
use whyslow_words::About;

use super::explain::ViewFindingJson;
use super::{Context, Head};

/// A place where threads wait.
#[derive(Debug, Serialize)]
pub(super) struct WaitJson<'a> {
    reason: &'static str,
    function: Cow<'a, str>,
    file: Option<&'a str>,
    line: Option<u32>,
    total_ns: u64,
    share: f64,
    count: u64,
    max_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
}

impl<'a> WaitJson<'a> {
    pub(super) fn new(profile: &'a Profile, table: &WaitTable, row: &WaitRow) -> Self {
        Self {
            reason: row.reason.label(),
            function: CallTree::name(profile, row.label),
            file: row.file.map(|file| profile.text(file)),
            line: (row.line > 0).then_some(row.line),
            total_ns: row.total_ns,
            share: Share::new(row.total_ns, table.total_ns, 0).value,
            count: row.count,
            max_ns: row.max_ns,
            p50_ns: row.p50_ns,
            p99_ns: row.p99_ns,
        }
    }
}

/// How long threads waited for one reason.
#[derive(Debug, Serialize)]
pub(super) struct ReasonJson {
    reason: &'static str,
    total_ns: u64,
    share: f64,
}

impl ReasonJson {
    pub(super) fn all(reasons: &[(Reason, u64)], whole_ns: u64) -> Vec<Self> {
        let share = |part: u64| Share::new(part, whole_ns, 0).value;
        let row = |(reason, total): &(Reason, u64)| Self {
            reason: reason.label(),
            total_ns: *total,
            share: share(*total),
        };
        reasons.iter().map(row).collect()
    }
}

/// The places where threads wait, at most `limit` of them.
pub fn waits<'a>(
    context: &Context<'a>,
    table: &'a WaitTable,
    found: &'a [Finding],
    limit: usize,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        reasons: Vec<ReasonJson>,
        waits: Vec<WaitJson<'a>>,
        waits_left_out: usize,
        findings: Vec<ViewFindingJson<'a>>,
    }
    let profile = context.profile;
    let rows = table.rows.iter().take(limit).map(|row| WaitJson::new(profile, table, row));
    Body {
        head: context.head("waits", table.count, table.total_ns),
        reasons: ReasonJson::all(&table.reasons, table.total_ns),
        waits: rows.collect(),
        waits_left_out: table.rows.len().saturating_sub(limit),
        findings: ViewFindingJson::all(profile, found, About::Waits),
    }
}
