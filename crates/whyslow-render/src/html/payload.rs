//! The viewer's payload for a profile. `viewer/PAYLOAD.md` describes every column.

use std::io::{self, Write};
use std::rc::Rc;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use whyslow_analyze::{
    CallTree, Charges, Label, Overview, Quality, concurrency, first_alike, starter_of, wait_metric,
};
use whyslow_causal::Estimates;
use whyslow_profile::{
    Carrier, LocationId, Metric, MetricId, Origin, Profile, Role, Samples, StackId, Subject,
};

use super::causal::{CausalHead, estimates, push_causal};
use super::code::{push_code, where_samples_fall};
use super::container::{Columns, Description, NONE};
use super::findings::{Explained, ExplainedHead, push_findings};
use super::heap::{HeapHead, heap};
use super::parallelism::{ParallelismHead, push_charges};
use super::syscalls::push_syscalls;
use super::tasks::push_tasks;
use super::texts::Texts;
use super::waits::{Details, WaitHead, push_locks, reasons};
use crate::json;
use crate::names::{generic_name, short_name};

/// The name and version of the layout.
pub(super) const SCHEMA: &str = "whyslow-view/1";

/// The gzip level. Of a million samples, 1 gives 12.6 MB in 0.23 s, 4 gives 8.8 MB in 0.5 s, 6 gives 8.6 MB
/// in 0.7 s.
const EFFORT: u32 = 4;

#[derive(Serialize)]
struct Header<'p> {
    schema: &'static str,
    context: Context<'p>,
    quality: json::QualityBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    heap: Option<HeapHead<'p>>,
    carriers: Vec<Family>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skid: Option<&'static str>,
    #[serde(flatten)]
    waits: Option<WaitHead>,
    parallelism: ParallelismHead,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<ExplainedHead>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causal: Option<CausalHead>,
    columns: Description,
}

/// A family of functions that only carry other code.
#[derive(Serialize)]
pub(super) struct Family {
    word: &'static str,
    role: &'static str,
}

impl Family {
    pub(super) fn of(carrier: Carrier) -> Self {
        let role = match carrier.role() {
            Role::StartUp => "start-up",
            Role::ThreadStart => "thread-start",
            Role::Executor => "executor",
            Role::PanicCatching => "panic-catching",
            Role::Plumbing => "plumbing",
        };
        Self { word: carrier.word(), role }
    }
}

#[derive(Serialize)]
struct Context<'p> {
    command: &'p [String],
    file: &'p str,
    duration_ns: u64,
    samples: u64,
    recorder: &'p str,
    started_unix_ns: u64,
}

/// Writes everything in a profile, with its findings if requested. `file` is the name of the profile's file.
pub(super) fn write_container(
    profile: &Profile,
    quality: &Quality,
    file: &str,
    explained: Option<Explained<'_>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let estimates = estimates(profile);
    let head = |columns| Header {
        schema: SCHEMA,
        context: Context {
            command: &profile.meta.command,
            file,
            duration_ns: Overview::of(profile).duration_ns,
            samples: quality.samples,
            recorder: &profile.meta.recorder,
            started_unix_ns: profile.meta.started_unix_ns,
        },
        quality: json::QualityBody::new(quality),
        heap: HeapHead::of(profile),
        carriers: Carrier::all().map(Family::of).collect(),
        skid: where_samples_fall(profile),
        waits: WaitHead::of(profile),
        parallelism: ParallelismHead::of(profile),
        explained: explained.map(|explained| ExplainedHead::of(profile, explained)),
        causal: estimates.as_ref().map(|estimates| CausalHead::of(profile, estimates)),
        columns,
    };
    columns(profile, explained, estimates.as_ref()).write(head, out)
}

/// The compressor for payloads.
pub(super) fn compressed<W: Write>(out: W) -> GzEncoder<W> {
    GzEncoder::new(out, Compression::new(EFFORT))
}

fn columns<'p>(
    profile: &'p Profile,
    explained: Option<Explained<'_>>,
    estimates: Option<&Estimates>,
) -> Columns<'p> {
    let mut columns = Columns::default();
    let mut texts = Texts::new(&profile.strings);
    programs(profile, &mut columns, &mut texts);
    symbols(profile, &mut columns, &mut texts);
    stacks(profile, &mut columns);
    samples(profile, &mut columns, &mut texts);
    push_syscalls(profile, &mut columns, &mut texts);
    marks(profile, &mut columns, &mut texts);
    sources(profile, &mut columns, &mut texts);
    push_code(profile, &mut columns, &mut texts);
    heap(profile, &mut columns, &mut texts);
    let findings = explained.map_or(&[][..], |explained| &explained.explanation.findings);
    push_findings(profile, findings, &mut columns, &mut texts);
    if let Some(estimates) = estimates {
        push_causal(profile, estimates, &mut columns, &mut texts);
    }
    let (bytes, ends) = texts.finish();
    columns.u8("strings.bytes", bytes);
    columns.u32("strings.ends", ends);
    columns
}

/// Adds processes, threads and modules.
fn programs<'p>(profile: &'p Profile, columns: &mut Columns<'p>, texts: &mut Texts<'_>) {
    let rows = &profile.processes;
    columns.u32("processes.pid", rows.iter().map(|row| row.pid));
    columns.u32("processes.parent", rows.iter().map(|row| row.parent.map_or(NONE, |parent| parent.0)));
    columns.u32("processes.name", collect(rows, |row| texts.of(row.name)));
    columns.f64("processes.start", rows.iter().map(|row| row.start_ns as f64));
    columns.f64("processes.end", rows.iter().map(|row| time_or_nan(row.end_ns)));

    let rows = &profile.threads;
    columns.u32("threads.process", rows.iter().map(|row| row.process.0));
    columns.u32("threads.tid", rows.iter().map(|row| row.tid));
    columns.u32("threads.name", collect(rows, |row| texts.of(row.name)));
    columns.f64("threads.start", rows.iter().map(|row| row.start_ns as f64));
    columns.f64("threads.end", rows.iter().map(|row| time_or_nan(row.end_ns)));
    let starter = |thread: usize| starter_of(profile, thread.into()).map_or(NONE, |starter| starter.0);
    columns.u32("threads.starter", (0..rows.len()).map(starter));

    let rows = &profile.modules;
    columns.u32("modules.path", collect(rows, |row| texts.of(row.path)));
    columns.u8("modules.kind", rows.iter().map(|row| row.kind.code()));
}

/// Adds functions, locations and frames.
pub(super) fn symbols<'p>(profile: &'p Profile, columns: &mut Columns<'p>, texts: &mut Texts<'_>) {
    let rows = &profile.functions;
    columns.u32("functions.name", collect(rows, |row| texts.of(row.name)));
    let text = |id| profile.text(id);
    columns.u32("functions.short", collect(rows, |row| texts.add(short_name(text(row.name)))));
    let generic = collect(rows, |row| generic_name(text(row.name)).map_or(NONE, |name| texts.add(name)));
    columns.u32("functions.generic", generic);
    columns.u32("functions.same", first_alike(profile));
    columns.u32("functions.crate", collect(rows, |row| texts.maybe(row.crate_name)));
    columns.u8("functions.kind", rows.iter().map(|row| row.kind.code()));
    columns.u32("functions.file", collect(rows, |row| texts.maybe(row.file)));
    columns.u32("functions.line", rows.iter().map(|row| row.line));
    let carrier = |id: usize| CallTree::carrier(profile, Label::Function(id.into()));
    columns.u8("functions.carrier", (0..rows.len()).map(move |id| carrier(id).map_or(0, |of| of.code() + 1)));
    columns.u32("functions.module", rows.iter().map(|row| row.module.map_or(NONE, |module| module.0)));

    let locations = &profile.locations;
    columns.u32("locations.module", locations.module.iter().map(|row| row.map_or(NONE, |module| module.0)));
    columns.f64("locations.address", locations.address.iter().map(|row| row.0 as f64));
    let mut starts = Vec::with_capacity(locations.len() + 1);
    let mut frames = Vec::with_capacity(profile.frames.len());
    starts.push(0);
    for location in (0..locations.len()).map(LocationId::from) {
        frames.extend_from_slice(profile.frames.of(location));
        starts.push(frames.len() as u32);
    }
    columns.u32("locations.frames", starts);
    columns.u32("frames.file", collect(&frames, |row| texts.maybe(row.file)));
    columns.u32("frames.line", collect(&frames, |row| row.line));
    columns.u32("frames.function", frames.into_iter().map(|row| row.function.0));
}

fn stacks<'p>(profile: &'p Profile, columns: &mut Columns<'p>) {
    let stacks = &profile.stacks;
    let rows = || (0..stacks.len()).map(StackId::from);
    columns.u32("stacks.parent", rows().map(|row| stacks.parent(row).map_or(NONE, |parent| parent.0)));
    columns.u32("stacks.location", rows().map(|row| stacks.location(row).0));
}

/// The metrics in the order of the payload: the main one first.
fn shown(profile: &Profile) -> impl Iterator<Item = MetricId> + use<> {
    let main = profile.main_metric();
    let (first, others): (Vec<_>, Vec<_>) = profile.metric_ids().partition(|metric| *metric == main);
    first.into_iter().chain(others)
}

/// The viewer's number of a metric: its row in the payload.
pub(super) fn shown_row(profile: &Profile, metric: MetricId) -> u32 {
    (0..).zip(shown(profile)).find(|(_, shown)| *shown == metric).map_or(0, |(row, _)| row)
}

/// The state that a viewer begins with: causal profiling if there are experiments, the tree map of a file, for
/// [`Page::opened_with`](super::Page::opened_with).
pub fn first_view(profile: &Profile) -> &'static str {
    if profile.main_metric() == MetricId::default()
        && profile.metric_named(whyslow_profile::size::METRIC).is_some()
    {
        return "tab=map";
    }
    if profile.causal.experiments.is_empty() { "" } else { "tab=causal" }
}

/// The state of a viewer that shows this metric, for [`Page::opened_with`](super::Page::opened_with).
pub fn view_of_metric(profile: &Profile, metric: MetricId) -> String {
    let shown = shown_row(profile, metric);
    // The viewer writes numbers in base 36.
    let mut digits = Vec::new();
    let mut rest = shown;
    while rest > 0 {
        digits.push(char::from_digit(rest % 36, 36).unwrap_or('0'));
        rest /= 36;
    }
    if shown == 0 { String::new() } else { format!("m={}", digits.iter().rev().collect::<String>()) }
}

/// Adds the metrics, the main one first, each with a table of samples in order of time.
fn samples<'p>(profile: &'p Profile, columns: &mut Columns<'p>, texts: &mut Texts<'_>) {
    let of = |metric: MetricId| (&profile.metrics[metric.index()], &profile.samples[metric.index()], metric);
    let rows: Vec<_> = shown(profile).map(of).collect();
    let concurrency = concurrency(profile);
    let charges = Charges::new(profile, true);
    push_charges(profile, &charges, columns, texts);
    push_tasks(profile, &charges, columns, texts);
    columns.u32("metrics.name", collect(&rows, |(row, ..)| texts.of(row.name)));
    columns.u8("metrics.unit", collect(&rows, |(row, ..)| row.unit.code()));
    columns.u8("metrics.of", collect(&rows, |(row, ..)| row.of.code()));
    columns.u8("metrics.sampled", collect(&rows, |(row, ..)| u8::from(row.origin.is_sampled())));
    let simulated = |row: &Metric| u8::from(row.origin == Origin::Simulated);
    columns.u8("metrics.simulated", collect(&rows, |(row, ..)| simulated(row)));
    let has_waits = wait_metric(profile).is_some();
    for (row, (kind, samples, metric)) in rows.into_iter().enumerate() {
        let order = order(samples);
        let column = |name: &str| format!("samples.{row}.{name}");
        columns.u32(column("time_delta"), time_deltas(samples, order.clone()));
        let each = |order: Option<Rc<[u32]>>| {
            (0..samples.len()).map(move |row| order.as_ref().map_or(row, |order| order[row] as usize))
        };
        if has_waits && matches!(kind.of, Subject::Cpu | Subject::Wait | Subject::Wall) {
            // Within a microsecond a thread can wake another and wait itself.
            let rest = each(order.clone()).map(|row| (samples.time_ns[row] % 1000) as u32);
            columns.u32(column("nanoseconds"), rest);
        }
        columns.u32(column("thread"), each(order.clone()).map(|row| samples.thread[row].0));
        columns.u32(column("stack"), each(order.clone()).map(|row| samples.stack[row].0));
        if let Some((_, concurrency)) = concurrency.as_ref().filter(|(cpu, _)| *cpu == metric) {
            let rows = each(order.clone()).map(|row| concurrency[row]).collect::<Vec<_>>();
            columns.u32(column("running"), collect(&rows, |row| row.running));
            columns.u32(column("busy"), collect(&rows, |row| row.busy));
        }
        if let Some(reasons) = reasons(profile, metric) {
            columns.u8(column("reason"), each(order.clone()).map(move |row| reasons[row]));
        }
        if let Some(details) = Details::of(profile, metric) {
            details.push(columns, column, &each(order.clone()).collect::<Vec<_>>());
        }
        if wait_metric(profile) == Some(metric) {
            push_locks(profile, metric, columns, texts, column, &each(order.clone()).collect::<Vec<_>>());
        }
        columns.f64(column("value"), each(order).map(|row| samples.value[row] as f64));
    }
}

/// The rows sorted by time; `None` if they already are.
fn order(samples: &Samples) -> Option<Rc<[u32]>> {
    if samples.time_ns.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    order.sort_by_key(|row| samples.time_ns[*row as usize]);
    Some(order.into())
}

/// Whole microseconds between samples. A pause that does not fit (more than 71 minutes) is caught up at the
/// next sample.
fn time_deltas(samples: &Samples, order: Option<Rc<[u32]>>) -> impl ExactSizeIterator<Item = u32> + '_ {
    const MOST: u64 = NONE as u64 - 1;
    let mut reached = 0;
    (0..samples.len()).map(move |row| {
        let row = order.as_ref().map_or(row, |order| order[row] as usize);
        let delta = (samples.time_ns[row] / 1000 - reached).min(MOST);
        reached += delta;
        delta as u32
    })
}

/// Adds spans and counters.
fn marks<'p>(profile: &'p Profile, columns: &mut Columns<'p>, texts: &mut Texts<'_>) {
    let mut rows = profile.spans.iter().collect::<Vec<_>>();
    rows.sort_by_key(|row| row.start_ns);
    columns.u32("spans.name", collect(&rows, |row| texts.of(row.name)));
    columns.u32("spans.thread", collect(&rows, |row| row.thread.map_or(NONE, |thread| thread.0)));
    columns.u32("spans.detail", collect(&rows, |row| texts.maybe(row.detail)));
    columns.f64("spans.end", collect(&rows, |row| row.end_ns as f64));
    columns.f64("spans.start", rows.into_iter().map(|row| row.start_ns as f64));

    let rows = &profile.counters;
    columns.u32("counters.name", collect(rows, |row| texts.of(row.name)));
    columns.u8("counters.unit", rows.iter().map(|row| row.unit.code()));
    columns.u32("counters.process", rows.iter().map(|row| row.process.map_or(NONE, |process| process.0)));

    let values = &profile.counter_values;
    let mut order = (0..values.len()).collect::<Vec<_>>();
    order.sort_by_key(|&row| (values.counter[row], values.time_ns[row]));
    columns.u32("counter_values.counter", collect(&order, |&row| values.counter[row].0));
    columns.f64("counter_values.time", collect(&order, |&row| values.time_ns[row] as f64));
    columns.f64("counter_values.value", order.into_iter().map(|row| values.value[row] as f64));
}

/// Adds source lines, by file and line.
fn sources<'p>(profile: &'p Profile, columns: &mut Columns<'p>, texts: &mut Texts<'_>) {
    let mut rows = collect(&profile.sources.rows, |row| (texts.of(row.file), row.line, row.text));
    rows.sort_by_key(|&(file, line, _)| (file, line));
    columns.u32("sources.file", collect(&rows, |&(file, ..)| file));
    columns.u32("sources.line", collect(&rows, |&(_, line, _)| line));
    columns.u32("sources.text", collect(&rows, |&(.., text)| texts.of(text)));
}

/// Collects one value per row.
pub(super) fn collect<R, T>(rows: &[R], value: impl FnMut(&R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn time_or_nan(time_ns: Option<u64>) -> f64 {
    time_ns.map_or(f64::NAN, |time| time as f64)
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{ThreadId, Unit};

    use super::*;

    fn deltas(times_ns: &[u64]) -> Vec<u32> {
        let mut samples = Samples::default();
        times_ns.iter().for_each(|time| samples.push(*time, ThreadId(0), StackId(0), 1));
        time_deltas(&samples, order(&samples)).collect()
    }

    #[test]
    fn times_do_not_drift() {
        assert_eq!(deltas(&[1_999, 3_998, 5_997]), [1, 2, 2]);
        assert_eq!(deltas(&[5_000, 1_000, 3_000]), [1, 2, 2]);
    }

    #[test]
    fn a_page_opens_with_the_metric_where_the_payload_has_it() {
        let mut profile = whyslow_analyze::testing::profile("main;a 1");
        let samples = profile.samples[0].clone();
        for at in 0..40 {
            let name = profile.strings.push(&format!("event-{at}"));
            let metric = Metric::of_name("event", Unit::Count).renamed(name);
            // The first two come before CPU time.
            let row = if at < 2 { 0 } else { profile.metrics.len() };
            profile.metrics.insert(row, metric);
            profile.samples.insert(row, samples.clone());
        }
        assert_eq!(profile.main_metric(), MetricId(2));
        let view = |metric| view_of_metric(&profile, MetricId(metric));
        assert_eq!([view(2), view(0), view(1), view(3), view(36)], ["", "m=1", "m=2", "m=3", "m=10"]);
    }

    #[test]
    fn a_long_pause_is_caught_up() {
        let hour = 3_600_000_000_000;
        let made = deltas(&[0, 2 * hour, 2 * hour + 1_000]);
        assert_eq!(made[1], NONE - 1);
        assert_eq!(made.iter().map(|delta| u64::from(*delta)).sum::<u64>(), 2 * hour / 1000 + 1);
    }
}
