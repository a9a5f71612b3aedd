//! The heap as JSON: totals and allocation sites.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::heap::{BlockAccesses, Ends, SiteOrder, SiteRow, Sites, TrailStep};
use whyslow_analyze::{CallTree, Label, StackFrame, Warning, frames_of, no_leak_check};
use whyslow_profile::{HeapCounts, HeapFacts, HeapProcess, HeapSnapshot, LeakCheck, Profile};
use whyslow_words::Fact;

use super::RemarkJson;

/// Maximum number of frames written of a site's stack, from the inside out.
const MOST_FRAMES: usize = 256;

/// The heap fields that every view of a profile with a heap recording has.
#[derive(Debug, Serialize)]
pub(super) struct HeapBody<'a> {
    heap: HeapJson<'a>,
    sites: Vec<SiteJson<'a>>,
    sites_left_out: usize,
}

#[derive(Debug, Serialize)]
struct HeapJson<'a> {
    #[serde(flatten)]
    counts: Counts,
    peak_bytes: u64,
    peak_ns: u64,
    leaks: Option<Leaks>,
    leak_check: Cow<'a, str>,
    leak_check_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<HeapSnapshot>,
    growth_class: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unused: Option<Unused>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accesses: Option<AccessesJson>,
    temporary_within: u64,
    lost_events: u64,
    unknown_frees: u64,
    inherited_frees: u64,
    sample_bytes: Option<u64>,
    sample_error: Option<f64>,
    max_resident_bytes: Option<u64>,
    processes: u64,
    by_process: &'a [HeapProcess],
    processes_not_checked: u64,
    programs_left_out: u64,
    allocators: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    intervals: Option<Ends>,
    wrappers: Vec<Cow<'a, str>>,
}

#[derive(Debug, Serialize)]
struct SiteJson<'a> {
    function: Cow<'a, str>,
    file: Option<&'a str>,
    line: Option<u32>,
    kind: &'static str,
    #[serde(rename = "crate")]
    crate_name: Option<&'a str>,
    own: Option<LineJson<'a>>,
    callers: Vec<StepJson<'a>>,
    #[serde(flatten)]
    counts: Counts,
    peak_bytes: u64,
    max_bytes: u64,
    max_blocks: u64,
    leaks: Option<Leaks>,
    growth_class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unused: Option<Unused>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accesses: Option<AccessesJson>,
    stack: Vec<String>,
    stack_left_out: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    intervals: Option<Ends>,
}

/// A line on the stack of an allocation site.
#[derive(Debug, Serialize)]
struct LineJson<'a> {
    function: Cow<'a, str>,
    file: Option<&'a str>,
    line: Option<u32>,
}

/// A caller of a site, and its part of the site's bytes at the peak.
#[derive(Debug, Serialize)]
struct StepJson<'a> {
    #[serde(flatten)]
    line: LineJson<'a>,
    depth: usize,
    peak_bytes: u64,
}

/// The counts of the whole heap or of one site.
#[derive(Debug, Serialize)]
struct Counts {
    allocations: u64,
    frees: u64,
    bytes_allocated: u64,
    bytes_freed: u64,
    peak_blocks: u64,
    live_at_exit_blocks: u64,
    live_at_exit_bytes: u64,
    temporary: u64,
    freed_elsewhere: u64,
    lifetime_mean_ns: u64,
    growth: GrowthJson,
}

#[derive(Debug, Serialize)]
struct GrowthJson {
    chains: u64,
    grown: u64,
    bytes_copied: u64,
    largest: u64,
    suggested_capacity: Option<u64>,
    spared_reallocations: Option<u64>,
    spared_bytes_copied: Option<u64>,
    typical_unused_bytes: Option<u64>,
    advice: Option<RemarkJson>,
}

#[derive(Debug, Serialize)]
struct Leaks {
    definitely: Lost,
    indirectly: Lost,
    possibly: Lost,
    reachable: Lost,
    suppressed: Lost,
}

#[derive(Debug, Serialize)]
struct Lost {
    blocks: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Unused {
    bytes: u64,
    examined_bytes: u64,
    passed_over_blocks: u64,
    passed_over_bytes: u64,
}

/// Reads and writes of blocks, and of each byte of blocks of one size.
#[derive(Debug, Serialize)]
struct AccessesJson {
    bytes_read: u64,
    bytes_written: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<BlockJson>,
}

#[derive(Debug, Serialize)]
struct BlockJson {
    bytes: u64,
    blocks: u64,
    never_bytes: u64,
    once_bytes: u64,
    more_bytes: u64,
    offsets: Vec<OffsetsJson>,
}

#[derive(Debug, Serialize)]
struct OffsetsJson {
    start: u64,
    length: u64,
    accesses_per_block: f64,
    is_least: bool,
}

impl AccessesJson {
    /// Of a part of the heap; `None` if the heap's accesses were not counted.
    fn new(heap: &HeapCounts, of: &HeapCounts, block: Option<BlockAccesses>) -> Option<Self> {
        (heap.bytes_read > 0 || heap.bytes_written > 0).then(|| Self {
            bytes_read: of.bytes_read,
            bytes_written: of.bytes_written,
            block: block.map(|block| {
                let [never_bytes, once_bytes, more_bytes] = block.parts();
                let offsets = block.runs.iter().map(|run| OffsetsJson {
                    start: run.start,
                    length: run.length,
                    accesses_per_block: run.per_block,
                    is_least: run.is_least,
                });
                let (bytes, blocks) = (block.bytes, block.blocks);
                BlockJson { bytes, blocks, never_bytes, once_bytes, more_bytes, offsets: offsets.collect() }
            }),
        })
    }
}

impl<'a> HeapBody<'a> {
    /// The heap of a profile with at most `limit` sites; `None` if it was not recorded.
    pub(super) fn new(profile: &'a Profile, sites: &Sites, limit: usize) -> Option<Self> {
        let facts = profile.meta.heap.as_ref()?;
        let rows = sites.rows.iter().take(limit).map(|row| SiteJson::new(profile, facts, sites, row));
        Some(Self {
            heap: HeapJson::new(profile, facts, sites),
            sites: rows.collect(),
            sites_left_out: sites.rows.len().saturating_sub(limit),
        })
    }
}

impl<'a> HeapJson<'a> {
    fn new(profile: &'a Profile, facts: &'a HeapFacts, sites: &Sites) -> Self {
        let totals = &sites.totals;
        let (leak_check, leak_check_ns) = match &facts.leaks {
            LeakCheck::NotDone => ("not done".into(), None),
            LeakCheck::Impossible(why) => {
                let fix = Warning::NoLeakCheck(why.clone()).remark().fix.map(|fix| format!("; {fix}"));
                let why = no_leak_check(why);
                (format!("impossible: {why}{}", fix.unwrap_or_default()).into(), None)
            }
            LeakCheck::AtExit => ("at exit".into(), None),
            LeakCheck::AtSnapshot(time_ns) => ("at a snapshot".into(), Some(time_ns.0)),
        };
        Self {
            counts: Counts::new(totals, None),
            peak_bytes: facts.peak_bytes,
            peak_ns: facts.peak_ns.0,
            leaks: Leaks::new(facts, totals),
            leak_check,
            leak_check_ns,
            snapshot: facts.snapshot,
            growth_class: if facts.growth.is_empty() { "unknown" } else { &facts.growth },
            unused: Unused::new(facts, totals),
            accesses: AccessesJson::new(totals, totals, None),
            temporary_within: facts.temporary_within,
            lost_events: facts.lost_events,
            unknown_frees: facts.unknown_frees,
            inherited_frees: facts.inherited_frees,
            sample_bytes: facts.sample_bytes,
            sample_error: facts.sample_error,
            max_resident_bytes: Some(profile.meta.max_resident_bytes).filter(|bytes| *bytes > 0),
            processes: facts.processes,
            by_process: &facts.by_process,
            processes_not_checked: facts.processes_not_checked,
            programs_left_out: facts.programs_left_out,
            allocators: &facts.allocators,
            intervals: sites.intervals.as_ref().map(|known| known.all_of_program(profile)),
            wrappers: sites.wrappers.evident.iter().map(|&label| CallTree::name(profile, label)).collect(),
        }
    }
}

impl<'a> SiteJson<'a> {
    fn new(profile: &'a Profile, facts: &HeapFacts, sites: &Sites, row: &SiteRow) -> Self {
        let known = sites.intervals.as_ref();
        let crate_name = match row.label {
            Label::Function(id) => profile.functions.get(id.index()).and_then(|function| function.crate_name),
            _ => None,
        };
        let mut frames = frames_of(profile, row.stack);
        Self {
            function: CallTree::name(profile, row.label),
            file: row.file.map(|file| profile.text(file)),
            line: Some(row.line).filter(|line| *line > 0),
            kind: CallTree::kind(profile, row.label).label(),
            crate_name: crate_name.map(|name| profile.text(name)),
            own: row.own.map(|own| LineJson::new(profile, &own)),
            callers: callers(profile, sites, row),
            counts: Counts::new(&row.counts, Some(row)),
            peak_bytes: row.counts.peak_bytes,
            max_bytes: row.counts.max_bytes,
            max_blocks: row.counts.max_blocks,
            leaks: Leaks::new(facts, &row.counts),
            growth_class: row.growth.label(),
            unused: Unused::new(facts, &row.counts),
            accesses: AccessesJson::new(&sites.totals, &row.counts, BlockAccesses::of(profile, row)),
            stack: frames.by_ref().take(MOST_FRAMES).map(|frame| frame_text(profile, &frame)).collect(),
            stack_left_out: frames.count(),
            intervals: known.map(|known| known.all_of_row(profile, row)),
        }
    }
}

impl<'a> LineJson<'a> {
    fn new(profile: &'a Profile, frame: &StackFrame) -> Self {
        Self {
            function: CallTree::name(profile, frame.label),
            file: frame.file.map(|file| profile.text(file)),
            line: Some(frame.line).filter(|line| *line > 0),
        }
    }
}

/// The callers of a site that holds most of the peak: the chain as long as one caller has most of it, then
/// the callers it splits into.
fn callers<'a>(profile: &'a Profile, sites: &Sites, row: &SiteRow) -> Vec<StepJson<'a>> {
    if row.counts.peak_bytes <= sites.totals.peak_bytes / 2 {
        return Vec::new();
    }
    let trail = sites.callers(profile, row, SiteOrder::Peak);
    let step = |depth: usize, step: &TrailStep| StepJson {
        line: LineJson::new(profile, &step.frame),
        depth,
        peak_bytes: step.value,
    };
    let steps = (1..).zip(&trail.steps).map(|(depth, at)| step(depth, at));
    let branches = trail.branches.iter().map(|at| step(trail.steps.len() + 1, at));
    steps.chain(branches).collect()
}

/// Formats a frame: `app::load at src/load.rs:12`.
fn frame_text(profile: &Profile, frame: &StackFrame) -> String {
    let mut text = CallTree::name(profile, frame.label).into_owned();
    if let Some(file) = frame.file {
        text.push_str(&format!(" at {}", profile.text(file)));
        if frame.line > 0 {
            text.push_str(&format!(":{}", frame.line));
        }
    }
    text
}

impl Counts {
    /// The counts of a site, or of the whole.
    fn new(counts: &HeapCounts, line: Option<&SiteRow>) -> Self {
        let capacity = line.and_then(|row| row.advice.capacity());
        Self {
            allocations: counts.allocations,
            frees: counts.frees,
            bytes_allocated: counts.bytes_allocated,
            bytes_freed: counts.bytes_freed,
            peak_blocks: counts.peak_blocks,
            live_at_exit_blocks: counts.live_at_exit_blocks,
            live_at_exit_bytes: counts.live_at_exit_bytes,
            temporary: counts.temporary,
            freed_elsewhere: counts.freed_elsewhere,
            lifetime_mean_ns: counts.lifetime_ns / counts.allocations.max(1),
            growth: GrowthJson {
                chains: counts.growth_chains,
                grown: counts.grown,
                bytes_copied: counts.bytes_copied,
                largest: counts.largest_grown,
                suggested_capacity: capacity.map(|capacity| capacity.bytes),
                spared_reallocations: capacity.map(|capacity| capacity.spared_reallocations),
                spared_bytes_copied: capacity.map(|capacity| capacity.spared_bytes),
                typical_unused_bytes: capacity.map(|capacity| capacity.typical_unused),
                advice: line.and_then(SiteRow::capacity_advice).map(|advice| advice.remark().into()),
            },
        }
    }
}

impl Leaks {
    /// `None` if there was no leak check.
    fn new(facts: &HeapFacts, counts: &HeapCounts) -> Option<Self> {
        let checked = matches!(facts.leaks, LeakCheck::AtExit | LeakCheck::AtSnapshot(_));
        let lost = |blocks, bytes| Lost { blocks, bytes };
        checked.then(|| Self {
            definitely: lost(counts.definitely_lost_blocks, counts.definitely_lost_bytes),
            indirectly: lost(counts.indirectly_lost_blocks, counts.indirectly_lost_bytes),
            possibly: lost(counts.possibly_lost_blocks, counts.possibly_lost_bytes),
            reachable: lost(counts.reachable_blocks, counts.reachable_bytes),
            suppressed: lost(counts.suppressed_blocks, counts.suppressed_bytes),
        })
    }
}

impl Unused {
    /// `None` if blocks were not examined.
    fn new(facts: &HeapFacts, counts: &HeapCounts) -> Option<Self> {
        facts.unused.then_some(Self {
            bytes: counts.unused_bytes,
            examined_bytes: counts.examined_bytes,
            passed_over_blocks: counts.passed_over_blocks,
            passed_over_bytes: counts.passed_over_bytes,
        })
    }
}
