//! System calls as JSON.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::{CallTree, Share, SyscallCost, SyscallTable};
use whyslow_explain::Finding;
use whyslow_words::{About, Fact};

use super::explain::ViewFindingJson;
use super::remark::RemarkJson;
use super::{Context, Head};

#[derive(Serialize)]
struct CostJson {
    count: u64,
    failed: u64,
    total_ns: u64,
    max_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
    bytes: u64,
    without_stack: u64,
}

impl From<&SyscallCost> for CostJson {
    fn from(cost: &SyscallCost) -> Self {
        Self {
            count: cost.count,
            failed: cost.failed,
            total_ns: cost.total_ns,
            max_ns: cost.max_ns,
            p50_ns: cost.quantile_ns(50),
            p99_ns: cost.quantile_ns(99),
            bytes: cost.bytes,
            without_stack: cost.spread,
        }
    }
}

/// The lines that make system calls, at most `limit` rows.
pub fn syscalls<'a>(
    context: &Context<'a>,
    table: &'a SyscallTable,
    found: &'a [Finding],
    limit: usize,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct TargetJson<'a> {
        name: &'a str,
        #[serde(flatten)]
        cost: CostJson,
    }
    #[derive(Serialize)]
    struct ErrorJson<'a> {
        error: &'a str,
        count: u64,
    }
    #[derive(Serialize)]
    struct SyscallJson<'a> {
        call: &'a str,
        only_waits: bool,
        function: Cow<'a, str>,
        file: Option<&'a str>,
        line: Option<u32>,
        share: f64,
        #[serde(flatten)]
        cost: CostJson,
        errors: Vec<ErrorJson<'a>>,
        targets: Vec<TargetJson<'a>>,
        remarks: Vec<ViewFindingJson<'a>>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        waiting_ns: u64,
        syscalls: Vec<SyscallJson<'a>>,
        syscalls_left_out: usize,
        remarks: Vec<RemarkJson>,
        findings: Vec<ViewFindingJson<'a>>,
    }
    let profile = context.profile;
    let rows = table.rows.iter().take(limit).map(|row| SyscallJson {
        call: profile.text(row.call),
        only_waits: row.only_waits(profile),
        function: CallTree::name(profile, row.label),
        file: row.file.map(|file| profile.text(file)),
        line: (row.line > 0).then_some(row.line),
        share: Share::new(row.cost.total_ns, table.all.total_ns, 0).value,
        cost: (&row.cost).into(),
        errors: row
            .errors
            .iter()
            .map(|(error, count)| ErrorJson { error: profile.text(*error), count: *count })
            .collect(),
        targets: row
            .targets
            .iter()
            .map(|(name, cost)| TargetJson { name: profile.text(*name), cost: cost.into() })
            .collect(),
        remarks: ViewFindingJson::about_calls(profile, found, row),
    });
    Body {
        head: context.head("syscalls", table.all.count, table.all.total_ns),
        waiting_ns: table.waiting_ns,
        syscalls: rows.collect(),
        syscalls_left_out: table.rows.len().saturating_sub(limit),
        remarks: table.note().map(|note| note.remark().into()).into_iter().collect(),
        findings: ViewFindingJson::all(profile, found, About::Counters),
    }
}
