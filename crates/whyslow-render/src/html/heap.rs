//! The viewer's payload for the heap: allocation sites, resolved, and the totals.

use std::collections::BTreeMap;

use serde::Serialize;
use whyslow_analyze::Label;
use whyslow_analyze::heap::{BlockAccesses, Ends, Intervals, SiteRow, Sites};
use whyslow_profile::{HeapCounts, HeapFacts, LeakCheck, Profile};
use whyslow_words::Fact;

use super::container::{Columns, NONE};
use super::payload::collect;
use super::texts::Texts;
use crate::text::access_words;

/// Facts about the heap as a whole, for the payload's header.
#[derive(Serialize)]
pub(super) struct HeapHead<'p> {
    #[serde(flatten)]
    facts: &'p HeapFacts,
    /// Whether leaks were searched for.
    leaks_checked: bool,
    totals: BTreeMap<&'static str, u64>,
    /// The intervals of the totals, if they are estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    intervals: Option<Ends>,
}

impl<'p> HeapHead<'p> {
    /// The heap facts, if the heap was recorded.
    pub(super) fn of(profile: &'p Profile) -> Option<Self> {
        let facts = profile.meta.heap.as_ref()?;
        let totals = HeapCounts::COLUMNS.iter().copied().zip(profile.heap.totals().numbers()).collect();
        let leaks_checked = matches!(facts.leaks, LeakCheck::AtExit | LeakCheck::AtSnapshot(_));
        let intervals = Intervals::of(profile).map(|known| known.all_of_program(profile));
        Some(Self { facts, leaks_checked, totals, intervals })
    }
}

/// Adds the allocation sites, most bytes at the peak first, and their histograms.
pub(super) fn heap<'p>(profile: &'p Profile, columns: &mut Columns<'p>, texts: &mut Texts<'_>) {
    if profile.heap.is_empty() {
        return;
    }
    let rows = Sites::build(profile).rows;
    columns.u32("heap.function", collect(&rows, |row| function(profile, row.label)));
    columns.u32("heap.file", collect(&rows, |row| texts.maybe(row.file)));
    columns.u32("heap.line", collect(&rows, |row| row.line));
    let own = |row: &SiteRow| row.own.map_or(NONE, |own| function(profile, own.label));
    columns.u32("heap.own_function", collect(&rows, own));
    columns.u32("heap.own_file", collect(&rows, |row| texts.maybe(row.own.and_then(|own| own.file))));
    columns.u32("heap.own_line", collect(&rows, |row| row.own.map_or(0, |own| own.line)));
    columns.u32("heap.stack", collect(&rows, |row| row.stack.0));
    columns.u32("heap.stacks", collect(&rows, |row| row.rows.len() as u32));
    columns.u8("heap.growth", collect(&rows, |row| row.growth.code()));
    let advice = |row: &SiteRow| {
        let capacity = row.capacity_advice().map(|advice| advice.remark().text);
        let used = BlockAccesses::of(profile, row).map(|accesses| access_words(&accesses));
        let words: Vec<String> = capacity.into_iter().chain(used).filter(|words| !words.is_empty()).collect();
        if words.is_empty() { NONE } else { texts.add(words.join("; ")) }
    };
    columns.u32("heap.advice", collect(&rows, advice));
    for (at, name) in HeapCounts::COLUMNS.iter().enumerate() {
        columns.f64(format!("heap.{name}"), collect(&rows, |row| row.counts.numbers()[at] as f64));
    }
    stacks(profile, &rows, columns);
    bars(profile, &rows, columns);
}

/// Adds the site of every allocating stack, sorted by stack.
fn stacks<'p>(profile: &Profile, rows: &[SiteRow], columns: &mut Columns<'p>) {
    let sites = (0u32..).zip(rows).flat_map(|(line, row)| row.rows.iter().map(move |&site| (site, line)));
    let lines = sites.map(|(site, line)| (profile.heap.sites[site as usize].stack.0, line));
    let lines = lines.collect::<BTreeMap<_, _>>().into_iter().collect::<Vec<_>>();
    columns.u32("heap_stacks.stack", collect(&lines, |(stack, _)| *stack));
    columns.u32("heap_stacks.site", collect(&lines, |(_, line)| *line));
}

/// Adds the histograms of the stacks, summed per site and sorted by site, quantity and bar.
fn bars<'p>(profile: &Profile, rows: &[SiteRow], columns: &mut Columns<'p>) {
    let mut line_of = vec![u32::MAX; profile.heap.sites.len()];
    for (line, row) in (0u32..).zip(rows) {
        row.rows.iter().for_each(|&site| line_of[site as usize] = line);
    }
    let mut bars: BTreeMap<(u32, u8, u8), u64> = BTreeMap::new();
    for bar in &profile.heap.histograms {
        let Some(&line) = line_of.get(bar.site as usize) else { continue };
        let sum = bars.entry((line, bar.of.code(), bar.bar)).or_default();
        *sum = sum.saturating_add(bar.blocks);
    }
    let bars = bars.into_iter().collect::<Vec<_>>();
    columns.u32("heap_bars.site", collect(&bars, |((line, ..), _)| *line));
    columns.u8("heap_bars.of", collect(&bars, |((_, of, _), _)| *of));
    columns.u8("heap_bars.bar", collect(&bars, |((.., bar), _)| *bar));
    columns.f64("heap_bars.blocks", collect(&bars, |(_, blocks)| *blocks as f64));
}

/// The viewer's number for a label's function.
pub(super) fn function(profile: &Profile, label: Label) -> u32 {
    let functions = profile.functions.len() as u32;
    let unknown = functions + profile.modules.len() as u32;
    match label {
        Label::Function(id) => id.0,
        Label::Module(id) => functions + id.0,
        Label::Unknown => unknown,
        Label::Truncated => unknown + 1,
        Label::Root | Label::Carried(_) => unknown + 2,
    }
}
