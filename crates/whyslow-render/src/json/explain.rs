//! Findings as JSON, and as SARIF for tools that show analysis results.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use whyslow_analyze::{CallTree, SyscallRow};
use whyslow_explain::{Change, Evidence, Experimented, Explanation, Finding, Place, Rule, Shape};
use whyslow_profile::Profile;
use whyslow_words::{About, Severity};

use super::{Context, Head};
use crate::text;

/// Every finding.
pub fn explain<'a>(
    context: &Context<'a>,
    samples: u64,
    value: u64,
    explanation: &'a Explanation,
    file: &str,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        findings: Vec<FindingJson<'a>>,
        allowed: usize,
        experiments: Vec<ExperimentedJson<'a>>,
        shape: String,
        hotspot: Option<HotspotJson<'a>>,
    }
    Body {
        head: context.head("explain", samples, value),
        findings: explanation
            .findings
            .iter()
            .map(|finding| FindingJson::new(context.profile, finding))
            .collect(),
        allowed: explanation.allowed,
        experiments: explanation
            .experiments
            .iter()
            .map(|of| ExperimentedJson::new(context.profile, of))
            .collect(),
        shape: text::shape(context.profile, explanation, file),
        hotspot: HotspotJson::new(context.profile, &explanation.shape),
    }
}

/// What experiments say about a line or a function.
#[derive(Debug, Serialize)]
struct ExperimentedJson<'a> {
    progress: &'a str,
    function: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    verdict: &'static str,
    message: String,
}

impl<'a> ExperimentedJson<'a> {
    fn new(profile: &'a Profile, of: &Experimented) -> Self {
        let target = of.target(profile);
        Self {
            progress: profile.text(profile.causal.points[of.point.index()].name),
            function: profile.text(target.function),
            file: target.file.map(|file| profile.text(file)),
            line: (target.line > 0).then_some(target.line),
            verdict: of.row.verdict.label(),
            message: of.sentence(profile),
        }
    }
}

/// The function with most of the time, if one has.
#[derive(Debug, Serialize)]
struct HotspotJson<'a> {
    function: Cow<'a, str>,
    share: f64,
    explained: f64,
    file: Option<&'a str>,
    line: Option<u32>,
    line_share: Option<f64>,
}

impl<'a> HotspotJson<'a> {
    fn new(profile: &'a Profile, shape: &Shape) -> Option<Self> {
        let Shape::Hotspot { function, share, line, explained } = *shape else { return None };
        let (_, file, at) = of_place(profile, line.map(|(place, _)| place));
        let line_share = line.map(|(_, share)| share);
        Some(Self {
            function: CallTree::name(profile, function),
            share,
            explained,
            file,
            line: at,
            line_share,
        })
    }
}

/// One finding.
#[derive(Debug, Serialize)]
pub(crate) struct FindingJson<'a> {
    id: &'static str,
    title: &'a str,
    of: &'static str,
    share: f64,
    share_low: f64,
    share_high: f64,
    confidence: &'static str,
    function: Option<Cow<'a, str>>,
    file: Option<&'a str>,
    line: Option<u32>,
    evidence: Vec<EvidenceJson<'a>>,
    advice: &'a str,
    max_speedup: Option<f64>,
    speedup: Option<f64>,
    bound: Option<BoundJson<'a>>,
    verify: &'a str,
}

/// A finding in a view of `report`: the fields of a remark, and those of a finding.
#[derive(Debug, Serialize)]
pub(super) struct ViewFindingJson<'a> {
    about: &'static str,
    severity: &'static str,
    message: String,
    fix: Option<&'a str>,
    #[serde(flatten)]
    finding: FindingJson<'a>,
}

impl<'a> ViewFindingJson<'a> {
    fn new(profile: &'a Profile, finding: &'a Finding, about: About) -> Self {
        Self {
            about: about.label(),
            severity: Severity::Note.label(),
            message: text::message(finding),
            fix: Some(finding.advice.as_str()).filter(|advice| !advice.is_empty()),
            finding: FindingJson::new(profile, finding),
        }
    }

    /// All findings of a view.
    pub(super) fn all(profile: &'a Profile, findings: &'a [Finding], about: About) -> Vec<Self> {
        findings.iter().map(|finding| Self::new(profile, finding, about)).collect()
    }

    /// Those with evidence about the calls of a row.
    pub(super) fn about_calls(profile: &'a Profile, findings: &'a [Finding], row: &SyscallRow) -> Vec<Self> {
        let place = Place { label: row.label, file: row.file, line: row.line };
        let is_it = |evidence: &Evidence| evidence.call == Some(row.call) && evidence.place == Some(place);
        let of_row = findings.iter().filter(|finding| finding.evidence.iter().any(is_it));
        of_row.map(|finding| Self::new(profile, finding, About::Counters)).collect()
    }
}

/// The functions that bound the speedup.
#[derive(Debug, Serialize)]
struct BoundJson<'a> {
    function: Cow<'a, str>,
    others: usize,
    share: f64,
}

#[derive(Debug, Serialize)]
struct EvidenceJson<'a> {
    text: &'a str,
    share: Option<f64>,
    function: Option<Cow<'a, str>>,
    file: Option<&'a str>,
    line: Option<u32>,
}

fn of_place(profile: &Profile, place: Option<Place>) -> (Option<Cow<'_, str>>, Option<&str>, Option<u32>) {
    let function = place.map(|place| CallTree::name(profile, place.label));
    let file = place.and_then(|place| place.file).map(|file| profile.text(file));
    (function, file, place.map(|place| place.line).filter(|line| *line > 0))
}

impl<'a> FindingJson<'a> {
    pub(crate) fn new(profile: &'a Profile, finding: &'a Finding) -> Self {
        let (function, file, line) = of_place(profile, finding.place);
        let evidence = |evidence: &'a Evidence| {
            let (function, file, line) = of_place(profile, evidence.place);
            EvidenceJson { text: &evidence.text, share: evidence.share, function, file, line }
        };
        Self {
            id: finding.rule.id.as_str(),
            title: &finding.title,
            of: finding.of.label(),
            share: finding.share,
            share_low: finding.interval[0],
            share_high: finding.interval[1],
            confidence: finding.confidence.label(),
            function,
            file,
            line,
            evidence: finding.evidence.iter().map(evidence).collect(),
            advice: &finding.advice,
            max_speedup: finding.max_speedup,
            speedup: finding.speedup,
            bound: finding.enclosing.map(|of| BoundJson {
                function: CallTree::name(profile, of.function),
                others: of.others,
                share: of.share,
            }),
            verify: &finding.verify,
        }
    }
}

/// The findings of two profiles, compared.
pub fn explained_change<'a>(
    profiles: [&'a Profile; 2],
    changes: &'a [Change<'a>],
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct ChangeJson<'a> {
        became: &'static str,
        id: &'static str,
        before: Option<FindingJson<'a>>,
        after: Option<FindingJson<'a>>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        schema: &'static str,
        view: &'static str,
        changes: Vec<ChangeJson<'a>>,
    }
    let change = |change: &'a Change<'a>| {
        let rule = change.after.or(change.before)?.rule;
        Some(ChangeJson {
            became: change.outcome.label(),
            id: rule.id.as_str(),
            before: change.before.map(|finding| FindingJson::new(profiles[0], finding)),
            after: change.after.map(|finding| FindingJson::new(profiles[1], finding)),
        })
    };
    Body {
        schema: super::SCHEMA,
        view: "explained-change",
        changes: changes.iter().filter_map(change).collect(),
    }
}

/// Findings in SARIF 2.1.0. `relative` turns a path into one relative to the repository.
pub fn sarif(
    profile: &Profile,
    explanation: &Explanation,
    rules: &[&Rule],
    relative: impl Fn(&str) -> String,
) -> Value {
    let rule = |rule: &&Rule| {
        json!({
            "id": rule.id.as_str(),
            "shortDescription": { "text": rule.title },
            "help": { "text": rule.rust },
        })
    };
    let result = |finding: &Finding| {
        let (function, file, line) = of_place(profile, finding.place);
        let mut result = json!({
            "ruleId": finding.rule.id.as_str(),
            "level": "warning",
            "message": { "text": format!("{} ({:.1} % of {}). {}", finding.title, finding.share * 100.0, finding.of.label(), finding.advice) },
            "rank": finding.share * 100.0,
            "properties": {
                "share": finding.share,
                "share_low": finding.interval[0],
                "share_high": finding.interval[1],
                "confidence": finding.confidence.label(),
                "max_speedup": finding.max_speedup,
                "speedup": finding.speedup,
                "verify": finding.verify,
            },
        });
        if let Some(file) = file {
            result["locations"] = json!([{
                "physicalLocation": {
                    "artifactLocation": { "uri": relative(file) },
                    "region": { "startLine": line.unwrap_or(1) },
                },
                "logicalLocations": [{ "fullyQualifiedName": function, "kind": "function" }],
            }]);
        }
        result
    };
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "whyslow",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(rule).collect::<Vec<_>>(),
            } },
            "results": explanation.findings.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}
