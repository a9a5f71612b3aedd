//! The viewer's payload for findings: their words, their lines, and the stacks behind each.

use serde::Serialize;
use whyslow_explain::{Cost, Evidence, Explanation, Finding, Place, RuleId, Topic};
use whyslow_profile::heap::metric;
use whyslow_profile::simulation::D1_MISSES;
use whyslow_profile::{Profile, Subject};

use super::container::{Columns, NONE};
use super::heap::function;
use super::payload::{collect, shown_row};
use super::texts::Texts;
use crate::text;

/// A profile's findings.
#[derive(Debug, Clone, Copy)]
pub struct Explained<'a> {
    /// The findings, and the shape of the profile.
    pub explanation: &'a Explanation,
    /// The profile's file, quoted for the shell.
    pub path: &'a str,
}

/// The sentences about the profile as a whole.
#[derive(Debug, Serialize)]
pub(super) struct ExplainedHead {
    shape: String,
    allowed: usize,
}

impl ExplainedHead {
    pub(super) fn of(profile: &Profile, Explained { explanation, path }: Explained<'_>) -> Self {
        Self { shape: text::shape(profile, explanation, path), allowed: explanation.allowed }
    }
}

/// Adds the findings, largest gain first.
pub(super) fn push_findings<'p>(
    profile: &'p Profile,
    findings: &[Finding],
    columns: &mut Columns<'p>,
    texts: &mut Texts<'_>,
) {
    if findings.is_empty() {
        return;
    }
    let mut text = |name: &str, of: &dyn Fn(&Finding) -> String| {
        columns.u32(format!("findings.{name}"), collect(findings, |finding| texts.add(of(finding))));
    };
    text("id", &|finding| finding.rule.id.to_string());
    text("title", &|finding| finding.title.clone());
    text("of", &|finding| finding.of.label().to_owned());
    text("confidence", &|finding| finding.confidence.label().to_owned());
    text("advice", &|finding| finding.advice.clone());
    text("verify", &|finding| finding.verify.clone());
    text("gain", &|finding| text::gain(profile, finding).unwrap_or_default());
    columns.f64("findings.share", collect(findings, |finding| finding.share));
    columns.f64("findings.low", collect(findings, |finding| finding.interval[0]));
    columns.f64("findings.high", collect(findings, |finding| finding.interval[1]));
    columns.u32("findings.metric", collect(findings, |finding| metric_of(profile, finding.of)));
    columns.u32("findings.topics", collect(findings, |finding| topics(finding.rule.id)));
    let places = collect(findings, |finding| finding.place);
    push_places(profile, "findings", &places, columns, texts);

    let evidence = rows(findings, |finding| &finding.evidence);
    columns.u32("finding_evidence.finding", collect(&evidence, |(finding, _)| *finding));
    let words = collect(&evidence, |(_, Evidence { text, .. })| texts.add(text.clone()));
    columns.u32("finding_evidence.text", words);
    let shares = collect(&evidence, |(_, evidence)| evidence.share.unwrap_or(f64::NAN));
    columns.f64("finding_evidence.share", shares);
    let places = collect(&evidence, |(_, evidence)| evidence.place);
    push_places(profile, "finding_evidence", &places, columns, texts);

    let stacks = rows(findings, |finding| &finding.stacks);
    columns.u32("finding_stacks.finding", collect(&stacks, |(finding, _)| *finding));
    columns.u32("finding_stacks.stack", collect(&stacks, |(_, stack)| stack.0));
}

/// A bit for each topic that a rule belongs to.
fn topics(id: RuleId) -> u32 {
    let bits = Topic::ALL.iter().enumerate();
    bits.filter(|(_, topic)| topic.rules().contains(&id)).fold(0, |bits, (place, _)| bits | 1 << place)
}

/// The items of all findings, each with its finding's row.
fn rows<T>(findings: &[Finding], of: impl Fn(&Finding) -> &Vec<T>) -> Vec<(u32, &T)> {
    (0..).zip(findings).flat_map(|(row, finding)| of(finding).iter().map(move |one| (row, one))).collect()
}

fn push_places<'p>(
    profile: &Profile,
    table: &str,
    places: &[Option<Place>],
    columns: &mut Columns<'p>,
    texts: &mut Texts<'_>,
) {
    let functions = collect(places, |place| place.map_or(NONE, |place| function(profile, place.label)));
    columns.u32(format!("{table}.function"), functions);
    let files = collect(places, |place| texts.maybe(place.and_then(|place| place.file)));
    columns.u32(format!("{table}.file"), files);
    columns.u32(format!("{table}.line"), collect(places, |place| place.map_or(0, |place| place.line)));
}

/// The viewer's number of the metric of a cost.
fn metric_of(profile: &Profile, of: Cost) -> u32 {
    let about = |subject| profile.metric_of(subject);
    let named = |name| profile.metric_named(name);
    let metric = match of {
        Cost::Cpu | Cost::Elapsed => about(Subject::Cpu),
        Cost::Time => about(Subject::Wall).or_else(|| about(Subject::Wait)),
        Cost::Allocations => named(metric::ALLOCATIONS),
        Cost::Bytes => named(metric::BYTES_ALLOCATED),
        Cost::Peak => named(metric::LIVE_AT_PEAK),
        Cost::Misses => named(D1_MISSES).or_else(|| named("D1mr")),
    };
    metric.map_or(NONE, |metric| shown_row(profile, metric))
}
