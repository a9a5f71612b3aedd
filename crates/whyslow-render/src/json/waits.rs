//! Waits as JSON.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::{BlockedWorker, CallTree, Share, WaitTable};
use whyslow_profile::Profile;
use whyslow_words::Fact;

use super::{Context, Head, RemarkJson};

/// The places where threads wait, at most `limit` of them.
pub fn waits<'a>(
    context: &Context<'a>,
    table: &'a WaitTable,
    blocked: &[BlockedWorker],
    limit: usize,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct WaitJson<'a> {
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
    #[derive(Serialize)]
    struct ReasonJson {
        reason: &'static str,
        total_ns: u64,
        share: f64,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        reasons: Vec<ReasonJson>,
        waits: Vec<WaitJson<'a>>,
        waits_left_out: usize,
        findings: Vec<RemarkJson>,
    }
    let profile = context.profile;
    let share = |part: u64| Share::new(part, table.total_ns, 0).value;
    let rows = table.rows.iter().take(limit).map(|row| WaitJson {
        reason: row.reason.label(),
        function: CallTree::name(profile, row.label),
        file: row.file.map(|file| profile.text(file)),
        line: (row.line > 0).then_some(row.line),
        total_ns: row.total_ns,
        share: share(row.total_ns),
        count: row.count,
        max_ns: row.max_ns,
        p50_ns: row.p50_ns,
        p99_ns: row.p99_ns,
    });
    let reasons = table.reasons.iter().map(|(reason, total)| ReasonJson {
        reason: reason.label(),
        total_ns: *total,
        share: share(*total),
    });
    Body {
        head: context.head("waits", table.count, table.total_ns),
        reasons: reasons.collect(),
        waits: rows.collect(),
        waits_left_out: table.rows.len().saturating_sub(limit),
        findings: findings(profile, blocked),
    }
}

/// Remarks about calls that block worker threads.
pub(super) fn findings(profile: &Profile, blocked: &[BlockedWorker]) -> Vec<RemarkJson> {
    blocked.iter().map(|row| row.finding(profile).remark().into()).collect()
}
