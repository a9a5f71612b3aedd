//! The one-screen answer as JSON.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::{CallTree, Spent, SyscallTable, Together};
use whyslow_answers::{Answer, EventTotal, Summary};
use whyslow_profile::Profile;

use super::explain::FindingJson;
use super::waits::{ReasonJson, WaitJson};
use super::{
    Context, FunctionJson, Head, MetricJson, OwnJson, OwnStepJson, ProgramJson, StepJson, ThreadsBody,
};

/// Rows per list if no limit is given: what fits a screen.
const ROWS: usize = 10;

/// Everything that the one-screen answer says.
#[derive(Debug, Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    thread_count: u64,
    process_count: u64,
    cores_busy: Option<f64>,
    all_blocked_ns: Option<u64>,
    spent: &'static str,
    programs: Vec<ProgramJson>,
    together: Option<TogetherJson>,
    findings: Vec<FindingJson<'a>>,
    own: Vec<OwnJson<'a>>,
    functions: Vec<FunctionJson<'a>>,
    hot_path: Vec<StepJson<'a>>,
    hot_path_own: Option<OwnStepJson>,
    waits: Vec<WaitJson<'a>>,
    events: Vec<EventJson<'a>>,
    syscalls: Option<SyscallsJson<'a>>,
}

/// The elapsed time by what all threads do, if waits were recorded.
#[derive(Debug, Serialize)]
struct TogetherJson {
    elapsed_ns: u64,
    ran_ns: u64,
    queued_ns: u64,
    blocked_ns: u64,
    reasons: Vec<ReasonJson>,
}

impl TogetherJson {
    fn of(together: Option<&Together>) -> Option<Self> {
        let together = together?;
        let Together { elapsed_ns, ran_ns, queued_ns, blocked_ns, ref reasons, .. } = *together;
        let reasons = ReasonJson::all(reasons, elapsed_ns);
        Some(Self { elapsed_ns, ran_ns, queued_ns, blocked_ns, reasons })
    }
}

/// An event that was recorded in addition to the main metric.
#[derive(Debug, Serialize)]
struct EventJson<'a> {
    metric: MetricJson<'a>,
    value: u64,
    function: Option<Cow<'a, str>>,
    share: Option<f64>,
}

impl<'a> EventJson<'a> {
    fn new(profile: &'a Profile, event: &EventTotal) -> Self {
        Self {
            metric: MetricJson::of(profile, event.metric),
            value: event.value,
            function: event.most.map(|(label, _)| CallTree::name(profile, label)),
            share: event.most.map(|(_, share)| share.value),
        }
    }
}

/// All system calls, and the line that spends most time in them.
#[derive(Debug, Serialize)]
struct SyscallsJson<'a> {
    count: u64,
    total_ns: u64,
    waiting_ns: u64,
    most: Option<SyscallJson<'a>>,
}

#[derive(Debug, Serialize)]
struct SyscallJson<'a> {
    call: &'a str,
    function: Cow<'a, str>,
    file: Option<&'a str>,
    line: Option<u32>,
    count: u64,
    total_ns: u64,
    bytes: u64,
}

impl<'a> SyscallsJson<'a> {
    fn new(profile: &'a Profile, table: &SyscallTable) -> Self {
        let most = table.most_costly(profile).map(|row| SyscallJson {
            call: profile.text(row.call),
            function: CallTree::name(profile, row.label),
            file: row.file.map(|file| profile.text(file)),
            line: (row.line > 0).then_some(row.line),
            count: row.cost.count,
            total_ns: row.cost.total_ns,
            bytes: row.cost.bytes,
        });
        let (count, total_ns) = (table.all.count, table.all.total_ns);
        Self { count, total_ns, waiting_ns: table.waiting_ns, most }
    }
}

/// The one-screen answer, with as many rows per list as fit a screen, or the limit of its query.
pub(super) fn summary<'a>(
    context: &Context<'a>,
    summary: &'a Summary,
    answer: &'a Answer<'_>,
) -> impl Serialize + use<'a> {
    let profile = context.profile;
    let rows = answer.query.limit.unwrap_or(ROWS);
    let head = Context { site_limit: rows, ..*context };
    // The functions are about the main metric, also if the answer is about waits.
    let main = Context { metric: profile.main_metric(), ..*context };
    let (waits, samples, value) = match &summary.spent {
        Spent::Waiting(table) => (Some(table), table.count, table.total_ns),
        Spent::Running | Spent::WaitingUnseen => (None, summary.own.total_samples, summary.own.total_value),
    };
    let overview = &summary.overview;
    let (functions, own) = (&summary.functions, &summary.own);
    let steps = summary.hot_path.steps.iter();
    Body {
        head: head.head("summary", samples, value),
        thread_count: overview.threads,
        process_count: overview.processes,
        cores_busy: (overview.duration_ns > 0)
            .then(|| overview.cpu_time_ns as f64 / overview.duration_ns as f64),
        all_blocked_ns: overview.all_blocked_ns,
        spent: match &summary.spent {
            Spent::Running => "running",
            Spent::Waiting(_) => "waiting",
            Spent::WaitingUnseen => "waiting-unseen",
        },
        programs: ThreadsBody::new(&main, &summary.threads).programs,
        together: TogetherJson::of(summary.together.as_ref()),
        findings: summary.findings.iter().map(|finding| FindingJson::new(profile, finding)).collect(),
        own: own.rows.iter().take(rows).map(|row| OwnJson::new(&main, own, row)).collect(),
        functions: functions
            .rows
            .iter()
            .take(rows)
            .map(|row| FunctionJson::new(&main, functions, row))
            .collect(),
        hot_path: steps.map(|step| StepJson::new(&main, step, functions.total_value)).collect(),
        hot_path_own: OwnStepJson::new(&summary.hot_path, own),
        waits: waits.map_or(Vec::new(), |table| {
            table.rows.iter().take(rows).map(|row| WaitJson::new(profile, table, row)).collect()
        }),
        events: summary.events.iter().map(|event| EventJson::new(profile, event)).collect(),
        syscalls: summary.syscalls.as_ref().map(|table| SyscallsJson::new(profile, table)),
    }
}
