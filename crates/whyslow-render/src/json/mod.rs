//! JSON output for programs. Names are stable within a schema; `docs/report-json.md` describes them.

mod answer;
mod asm;
mod bench;
mod caches;
mod causal;
mod diff;
mod explain;
mod groups;
mod heap;
mod locks;
mod memcheck;
mod memory;
mod own;
mod parallelism;
mod remark;
mod scale;
mod size;
mod stat;
mod suggest;
mod suite;
mod summary;
mod syscalls;
mod tasks;
mod verify;
mod waits;

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::heap::Sites;
use whyslow_analyze::is_counted;
use whyslow_analyze::{
    CallTree, Callers, FunctionRow, FunctionTable, HotPath, HotStep, Label, Lines, Outline, Overview,
    OwnTable, Quality, Ratio, RatioKind, Ratios, Share, SpanTable, Threads,
};
use whyslow_profile::{Carrier, ExitStatus, Host, MetricId, Origin, Profile, StringId, Unit};

pub use self::answer::answer;
pub use self::asm::{ASM_SCHEMA, asm};
pub use self::bench::bench;
pub use self::caches::caches;
pub use self::causal::causal;
pub use self::diff::{DIFF_SCHEMA, diff};
pub use self::explain::{explain, explained_change, sarif};
pub use self::groups::groups;
use self::heap::HeapBody;
pub use self::locks::{critical_path, locks};
pub use self::memcheck::{MemcheckHead, memcheck, memcheck_sarif};
use self::memory::memory;
pub use self::own::hot_lines;
use self::own::{OwnJson, OwnStepJson};
pub use self::parallelism::parallelism;
pub use self::remark::RemarkJson;
pub use self::scale::{SCALE_SCHEMA, scale};
pub use self::size::{SIZE_DIFF_SCHEMA, SIZE_SCHEMA, size, size_change};
pub use self::stat::{LIST_SCHEMA, STAT_SCHEMA, StatDocument, list, stat};
pub use self::suggest::suggestions;
pub use self::suite::{SUITE_SCHEMA, suite};
pub use self::syscalls::syscalls;
pub use self::tasks::tasks;
pub use self::verify::{VERIFY_SCHEMA, verify};
pub use self::waits::waits;
use crate::text::{kernel_label, sampling_label, source_label};

/// The name and version of the schema. A version may gain fields; no field changes its meaning.
pub const SCHEMA: &str = "whyslow-report/1";

/// Formats a view as indented JSON with a trailing newline.
pub fn to_string(view: &impl Serialize) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(view)?;
    text.push('\n');
    Ok(text)
}

/// The fields at the start of every view.
#[derive(Debug, Serialize)]
struct Head<'a> {
    schema: &'static str,
    view: &'static str,
    #[serde(flatten)]
    run: Run<'a>,
    metric: MetricJson<'a>,
    samples: u64,
    value: u64,
    quality: QualityBody,
    #[serde(flatten)]
    heap: Option<HeapBody<'a>>,
}

/// The recorded run.
#[derive(Debug, Serialize)]
struct Run<'a> {
    command: &'a [String],
    recorder: &'a str,
    started_unix_ns: u64,
    duration_ns: u64,
    cpu_time_ns: u64,
    exit: Option<ExitStatus>,
    host: &'a Host,
}

impl<'a> Run<'a> {
    fn of(profile: &'a Profile) -> Self {
        let (meta, overview) = (&profile.meta, Overview::of(profile));
        Self {
            command: &meta.command,
            recorder: &meta.recorder,
            started_unix_ns: meta.started_unix_ns,
            duration_ns: overview.duration_ns,
            cpu_time_ns: overview.cpu_time_ns,
            exit: meta.exit,
            host: &meta.host,
        }
    }
}

#[derive(Debug, Serialize)]
struct MetricJson<'a> {
    name: &'a str,
    unit: &'static str,
    /// For numbers of a machine that does not exist.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    simulated: bool,
}

impl<'a> MetricJson<'a> {
    fn of(profile: &'a Profile, metric: MetricId) -> Self {
        let metric = profile.metrics.get(metric.index());
        Self {
            name: metric.map_or("", |metric| profile.text(metric.name)),
            unit: metric.map_or(Unit::Nanoseconds, |metric| metric.unit).label(),
            simulated: metric.is_some_and(|metric| metric.origin == Origin::Simulated),
        }
    }
}

/// The inputs that all views share.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The selected metric.
    pub metric: MetricId,
    /// The quality of the profile.
    pub quality: &'a Quality,
    /// The allocation sites, if the heap was recorded.
    pub sites: Option<&'a Sites>,
    /// Maximum number of sites written.
    pub site_limit: usize,
}

impl<'a> Context<'a> {
    fn head(&self, view: &'static str, samples: u64, value: u64) -> Head<'a> {
        let Self { profile, metric, quality, sites, site_limit } = *self;
        Head {
            schema: SCHEMA,
            view,
            run: Run::of(profile),
            metric: MetricJson::of(profile, metric),
            samples,
            value,
            quality: QualityBody::new(quality),
            heap: sites.and_then(|sites| HeapBody::new(profile, sites, site_limit)),
        }
    }

    fn unit(&self) -> Unit {
        self.profile.metrics.get(self.metric.index()).map_or(Unit::Nanoseconds, |metric| metric.unit)
    }

    fn cost(&self, own: u64, total: u64, whole: u64) -> Cost {
        let of_whole = |part: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let time = self.unit() == Unit::Nanoseconds;
        Cost {
            self_ns: time.then_some(own),
            total_ns: time.then_some(total),
            self_value: (!time).then_some(own),
            total_value: (!time).then_some(total),
            self_share: of_whole(own),
            total_share: of_whole(total),
        }
    }
}

/// A metric's value: `_ns` for metrics in nanoseconds, `_value` for others.
#[derive(Debug, Serialize)]
struct Cost {
    #[serde(skip_serializing_if = "Option::is_none")]
    self_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    self_value: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_value: Option<u64>,
    self_share: f64,
    total_share: f64,
}

#[derive(Debug, Serialize)]
struct Named<'a> {
    name: Cow<'a, str>,
    #[serde(rename = "crate")]
    crate_name: Option<&'a str>,
    kind: &'static str,
    carrier: Option<&'static str>,
    file: Option<&'a str>,
    line: Option<u32>,
}

impl<'a> Named<'a> {
    fn new(profile: &'a Profile, label: Label) -> Self {
        let function = match label {
            Label::Function(id) => profile.functions.get(id.index()),
            _ => None,
        };
        let text = |id: Option<StringId>| id.map(|id| profile.text(id));
        Self {
            name: CallTree::name(profile, label),
            crate_name: text(function.and_then(|function| function.crate_name)),
            kind: CallTree::kind(profile, label).label(),
            carrier: CallTree::carrier(profile, label).map(Carrier::word),
            file: text(function.and_then(|function| function.file)),
            line: function.map(|function| function.line).filter(|line| *line > 0),
        }
    }
}

#[derive(Debug, Serialize)]
struct FunctionJson<'a> {
    #[serde(flatten)]
    named: Named<'a>,
    #[serde(flatten)]
    cost: Cost,
    self_error: f64,
    total_error: f64,
    self_samples: u64,
    total_samples: u64,
    raw_name: Option<&'a str>,
    module: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<RatiosJson>,
}

/// The counter ratios of a function: `ipc`, and events per thousand instructions.
#[derive(Debug, Serialize)]
pub(super) struct RatiosJson {
    ipc: Option<RatioJson>,
    per_thousand_instructions: std::collections::BTreeMap<String, Option<RatioJson>>,
}

#[derive(Debug, Serialize)]
struct RatioJson {
    value: f64,
    error: f64,
}

impl RatiosJson {
    pub(super) fn new(ratios: &Ratios, label: Label) -> Option<Self> {
        if ratios.columns.is_empty() {
            return None;
        }
        let mut json = Self { ipc: None, per_thousand_instructions: std::collections::BTreeMap::new() };
        for (kind, ratio) in ratios.columns.iter().zip(ratios.of(label)) {
            let ratio = ratio.map(|Ratio { value, error }| RatioJson { value, error });
            match kind {
                RatioKind::Ipc => json.ipc = ratio,
                RatioKind::PerThousandInstructions(event) => {
                    json.per_thousand_instructions.insert(event.clone(), ratio);
                }
            }
        }
        Some(json)
    }
}

impl<'a> FunctionJson<'a> {
    fn new(context: &Context<'a>, table: &FunctionTable, row: &FunctionRow) -> Self {
        let profile = context.profile;
        // The heap recorder's counts are exact: they are not a sample of a larger population.
        let counted = is_counted(profile, context.metric);
        let (raw_name, module) = match row.label {
            Label::Function(id) => {
                let function = &profile.functions[id.index()];
                (Some(profile.text(function.raw_name)), function.module)
            }
            Label::Module(module) => (None, Some(module)),
            _ => (None, None),
        };
        Self {
            named: Named::new(profile, row.label),
            cost: context.cost(row.self_value, row.total_value, table.total_value),
            self_error: if counted { 0.0 } else { table.self_share(row).error },
            total_error: if counted { 0.0 } else { table.total_share(row).error },
            self_samples: row.self_samples,
            total_samples: row.total_samples,
            raw_name,
            module: module.map(|module| profile.text(profile.modules[module.index()].path)),
            counters: RatiosJson::new(&table.ratios, row.label),
        }
    }
}

#[derive(Debug, Serialize)]
struct StepJson<'a> {
    #[serde(flatten)]
    named: Named<'a>,
    #[serde(flatten)]
    cost: Cost,
    inlined: bool,
    repeats: u32,
    repeat_frames: u32,
}

impl<'a> StepJson<'a> {
    fn new(context: &Context<'a>, step: &HotStep, whole: u64) -> Self {
        Self {
            named: Named::new(context.profile, step.label),
            cost: context.cost(step.self_value, step.total_value, whole),
            inlined: step.inlined,
            repeats: step.repeat.times.max(1),
            repeat_frames: step.repeat.frames.max(1),
        }
    }
}

/// The main view: functions by self and by own time, at most `limit` of each, the hottest path and the
/// threads.
pub fn report<'a>(
    context: &Context<'a>,
    table: &FunctionTable,
    own: &OwnTable,
    hot_path: &HotPath,
    threads: &Threads,
    limit: usize,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Report<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        functions: Vec<FunctionJson<'a>>,
        functions_left_out: usize,
        own: Vec<OwnJson<'a>>,
        own_left_out: usize,
        hot_path: Vec<StepJson<'a>>,
        hot_path_own: Option<OwnStepJson>,
        #[serde(flatten)]
        threads: ThreadsBody<'a>,
    }
    let step = |step: &HotStep| StepJson::new(context, step, table.total_value);
    Report {
        head: context.head("functions", table.total_samples, table.total_value),
        functions: table.rows.iter().take(limit).map(|row| FunctionJson::new(context, table, row)).collect(),
        functions_left_out: table.rows.len().saturating_sub(limit),
        own: own.rows.iter().take(limit).map(|row| OwnJson::new(context, own, row)).collect(),
        own_left_out: own.rows.len().saturating_sub(limit),
        hot_path: hot_path.steps.iter().map(step).collect(),
        hot_path_own: OwnStepJson::new(hot_path, own),
        threads: ThreadsBody::new(context, threads),
    }
}

#[derive(Debug, Serialize)]
struct NodeJson<'a> {
    id: usize,
    parent: Option<usize>,
    depth: u32,
    #[serde(flatten)]
    step: StepJson<'a>,
}

/// The nodes of a tree in reading order. A flat list instead of nested objects, because stacks can be deeper
/// than JSON parsers allow.
fn nodes<'a>(context: &Context<'a>, outline: &Outline, whole: u64, min_share: f64) -> Vec<NodeJson<'a>> {
    let items = outline.items(min_share);
    let mut ids = vec![None; outline.tree.len()];
    let mut nodes = Vec::with_capacity(items.len());
    for (id, item) in items.iter().enumerate() {
        let at = item.node as usize;
        ids[at] = Some(id);
        let tree = &outline.tree;
        nodes.push(NodeJson {
            id,
            parent: ids[tree.parent[at] as usize],
            depth: item.depth,
            step: StepJson {
                named: Named::new(context.profile, tree.label[at]),
                cost: context.cost(tree.self_value[at], tree.total_value[at], whole),
                inlined: tree.inlined[at],
                repeats: outline.repeats.of(item.node).times.max(1),
                repeat_frames: outline.repeats.of(item.node).frames.max(1),
            },
        });
    }
    nodes
}

/// A call tree, without branches below a share of the total.
pub fn tree<'a>(
    context: &Context<'a>,
    outline: &Outline,
    samples: u64,
    inverted: bool,
    min_share: f64,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Tree<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        inverted: bool,
        min_share: f64,
        nodes: Vec<NodeJson<'a>>,
    }
    Tree {
        head: context.head("tree", samples, outline.total_value()),
        inverted,
        min_share,
        nodes: nodes(context, outline, outline.total_value(), min_share),
    }
}

/// A function, its callers and its callees. Shares of their nodes are relative to the function's total.
pub fn callers<'a>(context: &Context<'a>, callers: &Callers, min_share: f64) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        function: Target<'a>,
        min_share: f64,
        callers: Vec<NodeJson<'a>>,
        callees: Vec<NodeJson<'a>>,
    }
    let function =
        Target::new(context, &callers.labels, callers.self_value, callers.total_value, callers.whole_value);
    Body {
        head: context.head("callers", callers.whole_samples, callers.whole_value),
        function,
        min_share,
        callers: nodes(context, &callers.callers, callers.total_value, min_share),
        callees: nodes(context, &callers.callees, callers.total_value, min_share),
    }
}

#[derive(Debug, Serialize)]
struct Target<'a> {
    #[serde(flatten)]
    named: Named<'a>,
    #[serde(flatten)]
    cost: Cost,
}

impl<'a> Target<'a> {
    fn new(context: &Context<'a>, labels: &[Label], own: u64, total: u64, whole: u64) -> Self {
        let label = labels.first().copied().unwrap_or(Label::Unknown);
        Self { named: Named::new(context.profile, label), cost: context.cost(own, total, whole) }
    }
}

/// The lines of a function.
pub fn lines<'a>(context: &Context<'a>, lines: &Lines) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct LineJson<'a> {
        file: Option<&'a str>,
        line: Option<u32>,
        text: Option<&'a str>,
        #[serde(flatten)]
        cost: Cost,
        self_share_of_function: f64,
        total_share_of_function: f64,
        self_samples: u64,
        total_samples: u64,
        hottest: bool,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        function: Target<'a>,
        lines: Vec<LineJson<'a>>,
    }
    let profile = context.profile;
    let of_function = |part: u64| Share::new(part, lines.total_value, 0).value;
    let rows = lines.rows.iter().enumerate().map(|(index, row)| LineJson {
        file: row.file.map(|file| profile.text(file)),
        line: Some(row.line).filter(|line| *line > 0),
        text: row.text.map(|text| profile.text(text)),
        cost: context.cost(row.self_value, row.total_value, lines.whole_value),
        self_share_of_function: of_function(row.self_value),
        total_share_of_function: of_function(row.total_value),
        self_samples: row.self_samples,
        total_samples: row.total_samples,
        hottest: lines.hottest == Some(index),
    });
    Body {
        head: context.head("lines", lines.whole_samples, lines.whole_value),
        function: Target::new(context, &lines.labels, lines.self_value, lines.total_value, lines.whole_value),
        lines: rows.collect(),
    }
}

#[derive(Debug, Serialize)]
struct ThreadsBody<'a> {
    threads: Vec<ThreadJson<'a>>,
    processes: Vec<ProcessJson<'a>>,
    programs: Vec<ProgramJson>,
    thread_names: Vec<ThreadNameJson>,
}

/// All processes of one program.
#[derive(Debug, Serialize)]
struct ProgramJson {
    name: String,
    value: u64,
    share: f64,
    samples: u64,
    processes: u64,
}

/// All threads with one name.
#[derive(Debug, Serialize)]
struct ThreadNameJson {
    name: String,
    value: u64,
    share: f64,
    samples: u64,
    threads: u64,
}

#[derive(Debug, Serialize)]
struct ThreadJson<'a> {
    name: &'a str,
    tid: u32,
    process: &'a str,
    pid: u32,
    start_ns: u64,
    end_ns: Option<u64>,
    ran_ns: Option<u64>,
    queued_ns: Option<u64>,
    queued_estimated_ns: Option<u64>,
    blocked_ns: Option<u64>,
    waits: Option<u64>,
    preemptions: Option<u64>,
    value: u64,
    share: f64,
    samples: u64,
}

#[derive(Debug, Serialize)]
struct ProcessJson<'a> {
    name: &'a str,
    pid: u32,
    parent_pid: Option<u32>,
    start_ns: u64,
    end_ns: Option<u64>,
    value: u64,
    share: f64,
    samples: u64,
    threads: u64,
}

impl<'a> ThreadsBody<'a> {
    fn new(context: &Context<'a>, threads: &Threads) -> Self {
        let profile = context.profile;
        let share = |part: u64| Share::new(part, threads.total_value, 0).value;
        let rows = threads.rows.iter().map(|row| {
            let thread = &profile.threads[row.thread.index()];
            let process = &profile.processes[thread.process.index()];
            ThreadJson {
                name: profile.text(thread.name),
                tid: thread.tid,
                process: profile.text(process.name),
                pid: process.pid,
                start_ns: thread.start_ns,
                end_ns: thread.end_ns,
                ran_ns: thread.times.map(|times| times.ran_ns),
                queued_ns: thread.times.map(|times| times.queued_ns),
                queued_estimated_ns: thread.times.map(|times| times.queued_estimated_ns),
                blocked_ns: thread.times.map(|times| times.blocked_ns),
                waits: thread.times.map(|times| times.waits),
                preemptions: thread.times.map(|times| times.preemptions),
                value: row.value,
                share: share(row.value),
                samples: row.samples,
            }
        });
        let processes = threads.processes.iter().map(|row| {
            let process = &profile.processes[row.process.index()];
            ProcessJson {
                name: profile.text(process.name),
                pid: process.pid,
                parent_pid: process.parent.map(|parent| profile.processes[parent.index()].pid),
                start_ns: process.start_ns,
                end_ns: process.end_ns,
                value: row.value,
                share: share(row.value),
                samples: row.samples,
                threads: row.threads,
            }
        });
        let programs = threads.programs.iter().map(|row| ProgramJson {
            name: row.name.clone(),
            value: row.value,
            share: share(row.value),
            samples: row.samples,
            processes: row.count,
        });
        let thread_names = threads.thread_names.iter().map(|row| ThreadNameJson {
            name: row.name.clone(),
            value: row.value,
            share: share(row.value),
            samples: row.samples,
            threads: row.count,
        });
        Self {
            threads: rows.collect(),
            processes: processes.collect(),
            programs: programs.collect(),
            thread_names: thread_names.collect(),
        }
    }
}

/// The threads and processes.
pub fn threads<'a>(context: &Context<'a>, threads: &Threads) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        #[serde(flatten)]
        threads: ThreadsBody<'a>,
    }
    Body {
        head: context.head("threads", threads.total_samples, threads.total_value),
        threads: ThreadsBody::new(context, threads),
    }
}

/// The quality fields of every view.
#[derive(Debug, Serialize)]
pub(crate) struct QualityBody {
    grade: &'static str,
    samples: u64,
    lost: u64,
    lost_records: u64,
    throttled: u64,
    truncated_share: f64,
    left_out_share: f64,
    unresolved_share: f64,
    nameless_share: f64,
    source: String,
    sampling: &'static str,
    not_sampled_share: f64,
    kernel: &'static str,
    missing_kernel_share: f64,
    frequency_hz: u32,
    expected_samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<WaitQualityJson>,
    incomplete: bool,
    warnings: Vec<RemarkJson>,
}

#[derive(Debug, Serialize)]
struct WaitQualityJson {
    waits: u64,
    whole_stacks: u64,
    whole_share: f64,
    unseen_share: f64,
    estimated_share: f64,
    estimated_error: f64,
    in_turns: bool,
    looked_at: bool,
}

impl QualityBody {
    pub(crate) fn new(quality: &Quality) -> Self {
        let waits = quality.waits.as_ref().map(|waits| WaitQualityJson {
            waits: waits.waits,
            whole_stacks: waits.whole,
            whole_share: waits.whole_share,
            unseen_share: waits.no_stack_share,
            estimated_share: waits.estimated_share,
            estimated_error: waits.estimated_error,
            in_turns: waits.in_turns,
            looked_at: waits.snapshots,
        });
        Self {
            grade: quality.grade.label(),
            samples: quality.samples,
            lost: quality.lost,
            lost_records: quality.lost_records,
            throttled: quality.throttled,
            truncated_share: quality.truncated_share,
            left_out_share: quality.left_out_share,
            unresolved_share: quality.unresolved_share,
            nameless_share: quality.nameless_share,
            source: source_label(quality),
            sampling: sampling_label(quality.sampling),
            not_sampled_share: quality.not_sampled_share,
            kernel: kernel_label(quality.kernel),
            missing_kernel_share: quality.missing_kernel_share,
            frequency_hz: quality.frequency_hz,
            expected_samples: quality.expected_samples,
            waits,
            incomplete: quality.incomplete,
            warnings: quality.remarks().into_iter().map(RemarkJson::from).collect(),
        }
    }
}

/// The spans by name, at most `limit` names.
pub fn spans<'a>(context: &Context<'a>, table: &'a SpanTable, limit: usize) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Longest<'a> {
        row: usize,
        start_ns: u64,
        end_ns: u64,
        thread: Option<&'a str>,
        tid: Option<u32>,
        detail: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct SpanJson<'a> {
        name: &'a str,
        count: u64,
        total_ns: u64,
        mean_ns: u64,
        p50_ns: u64,
        p95_ns: u64,
        max_ns: u64,
        value: u64,
        share: f64,
        samples: u64,
        longest: Longest<'a>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        spans: Vec<SpanJson<'a>>,
        spans_left_out: usize,
    }
    let profile = context.profile;
    let rows = table.rows.iter().take(limit).map(|row| {
        let longest = &profile.spans[row.longest];
        let thread = longest.thread.map(|thread| &profile.threads[thread.index()]);
        SpanJson {
            name: &row.name,
            count: row.count,
            total_ns: row.total_ns,
            mean_ns: row.mean_ns(),
            p50_ns: row.p50_ns,
            p95_ns: row.p95_ns,
            max_ns: row.max_ns,
            value: row.value,
            share: Share::new(row.value, table.total_value, 0).value,
            samples: row.samples,
            longest: Longest {
                row: row.longest,
                start_ns: longest.start_ns,
                end_ns: longest.end_ns,
                thread: thread.map(|thread| profile.text(thread.name)),
                tid: thread.map(|thread| thread.tid),
                detail: longest.detail.map(|detail| profile.text(detail)),
            },
        }
    });
    Body {
        head: context.head("spans", table.total_samples, table.total_value),
        spans: rows.collect(),
        spans_left_out: table.rows.len().saturating_sub(limit),
    }
}

/// The quality alone: the fields at the start of every view.
pub fn quality<'a>(context: &Context<'a>, total_value: u64) -> impl Serialize + use<'a> {
    context.head("quality", context.quality.samples, total_value)
}

/// The heap alone: the heap fields of every view of a profile with a heap recording.
pub fn heap<'a>(context: &Context<'a>, samples: u64, value: u64) -> impl Serialize + use<'a> {
    context.head("heap", samples, value)
}
