//! The number of busy threads over time, as JSON.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::{BusyFunction, CallTree, Parallelism};
use whyslow_explain::{Finding, RuleId};
use whyslow_profile::Profile;
use whyslow_words::About;

use super::explain::ViewFindingJson;
use super::{Context, Head};

#[derive(Serialize)]
struct FunctionJson<'a> {
    function: Cow<'a, str>,
    file: Option<&'a str>,
    line: Option<u32>,
    elapsed_ns: u64,
    share: f64,
}

impl<'a> FunctionJson<'a> {
    fn of(profile: &'a Profile, function: &BusyFunction) -> Self {
        Self {
            function: CallTree::name(profile, function.label),
            file: function.file.map(|file| profile.text(file)),
            line: (function.line > 0).then_some(function.line),
            elapsed_ns: function.elapsed_ns,
            share: function.share,
        }
    }
}

/// The levels with at most `limit` functions each, and the curve.
pub fn parallelism<'a>(
    context: &Context<'a>,
    parallelism: &Parallelism,
    found: &'a [Finding],
    limit: usize,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct SerialJson<'a> {
        share: f64,
        most: FunctionJson<'a>,
    }
    #[derive(Serialize)]
    struct LevelJson<'a> {
        threads: usize,
        ns: u64,
        share: f64,
        samples: u64,
        functions: Vec<FunctionJson<'a>>,
    }
    #[derive(Serialize)]
    struct SliceJson {
        start_ns: u64,
        length_ns: u64,
        running: f64,
        queued: Option<f64>,
        blocked: Option<f64>,
        idle: Option<f64>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        exact: bool,
        serial: Option<SerialJson<'a>>,
        findings: Vec<ViewFindingJson<'a>>,
        levels: Vec<LevelJson<'a>>,
        curve: Vec<SliceJson>,
    }
    let profile = context.profile;
    let levels = parallelism.levels.iter().enumerate().map(|(threads, level)| LevelJson {
        threads,
        ns: level.ns,
        share: parallelism.share(threads),
        samples: level.samples,
        functions: level.functions.iter().take(limit).map(|row| FunctionJson::of(profile, row)).collect(),
    });
    let known = |threads: f64| parallelism.exact.then_some(threads);
    let curve = parallelism.curve.iter().map(|slice| SliceJson {
        start_ns: slice.start_ns,
        length_ns: slice.length_ns,
        running: slice.running,
        queued: known(slice.queued),
        blocked: known(slice.blocked),
        idle: known(slice.idle),
    });
    let serial = found.iter().find(|finding| finding.rule.id == RuleId::PoorParallelism);
    let most = parallelism.levels.get(1).and_then(|level| level.functions.first());
    let serial = serial.zip(most);
    let serial = serial
        .map(|(finding, most)| SerialJson { share: finding.share, most: FunctionJson::of(profile, most) });
    let samples = parallelism.levels.iter().map(|level| level.samples).sum();
    Body {
        head: context.head("parallelism", samples, parallelism.duration_ns),
        exact: parallelism.exact,
        serial,
        findings: ViewFindingJson::all(profile, found, About::Waits),
        levels: levels.collect(),
        curve: curve.collect(),
    }
}
