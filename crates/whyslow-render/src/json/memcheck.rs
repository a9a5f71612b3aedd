//! Memory errors as JSON, and as SARIF for tools that show analysis results.

use serde::Serialize;
use serde_json::{Value, json};
use whyslow_memcheck::{Address, Answer, Finding, Kind, Severity, Site, State};

use crate::text::memcheck::{leak_sums, long_message, sentence};

/// What is known of the run besides memcheck's answer.
#[derive(Debug, Clone, Copy)]
pub struct MemcheckHead<'a> {
    /// The program and its arguments.
    pub command: &'a [String],
    /// Valgrind's version.
    pub valgrind: &'a str,
    /// Whether it is known where uninitialised values are from; `None` for files of earlier runs.
    pub thorough: Option<bool>,
    /// How long it took.
    pub elapsed_ns: Option<u64>,
    /// Whether everything was checked.
    pub is_complete: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    schema: &'static str,
    command: &'a [String],
    valgrind: &'a str,
    thorough: Option<bool>,
    elapsed_ns: Option<u64>,
    complete: bool,
    findings: Vec<FindingJson<'a>>,
    leaks: Vec<LeakJson>,
    suppressed: Vec<SuppressedJson<'a>>,
    processes: Vec<ProcessJson<'a>>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    id: &'static str,
    severity: &'static str,
    title: String,
    file: Option<String>,
    line: Option<u32>,
    function: Option<&'a str>,
    times: u64,
    at_least: bool,
    crash: Option<&'a str>,
    size: Option<u64>,
    address: Option<AddressJson<'a>>,
    bytes: Option<u64>,
    blocks: Option<u64>,
    indirect_bytes: Option<u64>,
    stack: Vec<FrameJson<'a>>,
    sites: Vec<SiteJson<'a>>,
    occurrences: Vec<OccurrenceJson<'a>>,
    reports: usize,
    advice: &'static str,
    suppressions: &'a [String],
}

/// What an address is; `block` fields are null for anything but a block.
#[derive(Serialize)]
struct AddressJson<'a> {
    is: &'static str,
    address: Option<u64>,
    words: Option<&'a str>,
    block_size: Option<u64>,
    relation: Option<&'static str>,
    distance: Option<u64>,
    freed: Option<bool>,
}

#[derive(Serialize)]
struct SiteJson<'a> {
    role: &'a str,
    file: Option<String>,
    line: Option<u32>,
    function: Option<&'a str>,
    stack: Vec<FrameJson<'a>>,
}

#[derive(Serialize)]
struct FrameJson<'a> {
    function: &'a str,
    kind: &'static str,
    file: Option<String>,
    line: Option<u32>,
    object: &'a str,
    address: u64,
}

#[derive(Serialize)]
struct OccurrenceJson<'a> {
    pid: u32,
    thread: u32,
    thread_name: Option<&'a str>,
    times: u64,
}

#[derive(Serialize)]
struct LeakJson {
    id: &'static str,
    bytes: u64,
    blocks: u64,
}

#[derive(Serialize)]
struct SuppressedJson<'a> {
    name: &'a str,
    reports: u64,
    why: Option<&'a str>,
}

#[derive(Serialize)]
struct ProcessJson<'a> {
    pid: u32,
    command: &'a [String],
    forked: bool,
    checked: &'static str,
    crash: Option<&'a str>,
}

/// All findings, also those that text shows only on request.
pub fn memcheck<'a>(answer: &'a Answer, head: MemcheckHead<'a>) -> impl Serialize + use<'a> {
    let process = |process: &'a whyslow_memcheck::Completeness| ProcessJson {
        pid: process.pid,
        command: &process.command,
        forked: process.is_forked,
        checked: match process.state {
            State::Finished => "whole",
            State::Replaced => "until it executed another program",
            State::Cut => "in part",
        },
        crash: process.crash.as_deref(),
    };
    let suppressed = |suppressed: &'a whyslow_memcheck::Suppressed| SuppressedJson {
        name: &suppressed.name,
        reports: suppressed.count,
        why: suppressed.why.as_deref(),
    };
    let leaks = leak_sums(answer).into_iter();
    Body {
        schema: "whyslow-memcheck/1",
        command: head.command,
        valgrind: head.valgrind,
        thorough: head.thorough,
        elapsed_ns: head.elapsed_ns,
        complete: head.is_complete,
        findings: answer.findings.iter().map(FindingJson::new).collect(),
        leaks: leaks.map(|(kind, bytes, blocks)| LeakJson { id: kind.id(), bytes, blocks }).collect(),
        suppressed: answer.suppressed.iter().map(suppressed).collect(),
        processes: answer.processes.iter().map(process).collect(),
    }
}

/// The file, line and function of a site's own frame.
fn own(site: &Site) -> (Option<String>, Option<u32>, Option<&str>) {
    let Some(place) = site.own_place() else { return (None, None, None) };
    let line = Some(place.frame.line).filter(|line| *line > 0);
    (place.frame.path(), line, Some(place.name.as_str()).filter(|name| !name.is_empty()))
}

fn frames(site: &Site) -> Vec<FrameJson<'_>> {
    let frames = site.stack.iter().map(|place| FrameJson {
        function: &place.name,
        kind: place.kind.label(),
        file: place.frame.path(),
        line: Some(place.frame.line).filter(|line| *line > 0),
        object: &place.frame.object,
        address: place.frame.address,
    });
    frames.collect()
}

impl<'a> FindingJson<'a> {
    fn new(finding: &'a Finding) -> Self {
        let (file, line, function) = own(&finding.at);
        let site = |site: &'a Site| {
            let (file, line, function) = own(site);
            SiteJson { role: &site.role, file, line, function, stack: frames(site) }
        };
        let occurrence = |at: &'a whyslow_memcheck::Occurrence| OccurrenceJson {
            pid: at.pid,
            thread: at.thread,
            thread_name: Some(at.thread_name.as_str()).filter(|name| !name.is_empty()),
            times: at.times,
        };
        Self {
            id: finding.kind.id(),
            severity: finding.kind.severity().label(),
            title: sentence(finding),
            file,
            line,
            function,
            times: finding.times,
            at_least: finding.is_at_least,
            crash: finding.crash.as_deref(),
            size: finding.size,
            address: finding.address.as_ref().map(AddressJson::new),
            bytes: finding.leaked.map(|leaked| leaked.bytes),
            blocks: finding.leaked.map(|leaked| leaked.blocks),
            indirect_bytes: finding.leaked.map(|leaked| leaked.indirect),
            stack: frames(&finding.at),
            sites: finding.sites.iter().map(site).collect(),
            occurrences: finding.occurrences.iter().map(occurrence).collect(),
            reports: finding.reports,
            advice: finding.advice(),
            suppressions: &finding.suppressions,
        }
    }
}

impl<'a> AddressJson<'a> {
    fn new(of: &'a Address) -> Self {
        let none = Self {
            is: "",
            address: None,
            words: None,
            block_size: None,
            relation: None,
            distance: None,
            freed: None,
        };
        match of {
            Address::Block(block) => Self {
                is: "block",
                block_size: Some(block.size),
                relation: Some(block.relation.label()),
                distance: Some(block.distance),
                freed: Some(block.is_freed),
                ..none
            },
            Address::Null(address) => Self { is: "null", address: Some(*address), ..none },
            Address::Unknown(address) => Self { is: "not-allocated", address: Some(*address), ..none },
            Address::Other(words) => Self { is: "other", words: Some(words), ..none },
        }
    }
}

/// Findings in SARIF 2.1.0, without notes unless `all`. `relative` turns a path into one relative to the repository.
pub fn memcheck_sarif(answer: &Answer, all: bool, relative: impl Fn(&str) -> String) -> Value {
    let rule = |kind: Kind| {
        json!({
            "id": kind.id(),
            "shortDescription": { "text": kind.summary() },
            "help": { "text": kind.advice() },
        })
    };
    let location = |site: &Site, words: &str| {
        let (file, line, function) = own(site);
        let file = file?;
        let mut location = json!({
            "physicalLocation": {
                "artifactLocation": { "uri": relative(&file) },
                "region": { "startLine": line.unwrap_or(1) },
            },
            "logicalLocations": [{ "fullyQualifiedName": function, "kind": "function" }],
        });
        if !words.is_empty() {
            location["message"] = json!({ "text": words });
        }
        Some(location)
    };
    let result = |finding: &Finding| {
        let mut result = json!({
            "ruleId": finding.kind.id(),
            "level": finding.kind.severity().label(),
            "message": { "text": long_message(finding) },
            "occurrenceCount": finding.times.max(1),
        });
        if let Some(location) = location(&finding.at, "") {
            result["locations"] = json!([location]);
        }
        let related: Vec<Value> =
            finding.sites.iter().filter_map(|site| location(site, &site.role)).collect();
        if !related.is_empty() {
            result["relatedLocations"] = json!(related);
        }
        result
    };
    let shown = answer.findings.iter().filter(|finding| all || finding.kind.severity() != Severity::Note);
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "whyslow",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": Kind::ALL.map(rule),
            } },
            "results": shown.map(result).collect::<Vec<_>>(),
        }],
    })
}
