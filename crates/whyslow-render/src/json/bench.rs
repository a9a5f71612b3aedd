//! Results of `whyslow bench` as JSON; `docs/bench-json.md` describes it.

use std::collections::BTreeMap;

use serde::Serialize;
use whyslow_bench::document::Measured;
use whyslow_bench::{Comparison, Metric, Summary};
use whyslow_profile::ExitStatus;
use whyslow_stats::verdict::Needed;
use whyslow_stats::witness::Reason;

use super::RemarkJson;
use crate::bench::BenchView;

#[derive(Serialize)]
struct Bench<'a> {
    #[serde(flatten)]
    measured: &'a Measured,
    witness: Option<WitnessJson>,
    margin: f64,
    summaries: Vec<SummariesJson<'a>>,
    comparisons: Vec<ComparisonJson<'a>>,
    fastest: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    detectable: Vec<DetectableJson>,
    remarks: Vec<RemarkJson>,
    /// hyperfine's own fields, so that its scripts read the file.
    results: Vec<ResultsJson<'a>>,
}

/// A command as hyperfine writes it, times in seconds.
#[derive(Serialize)]
struct ResultsJson<'a> {
    command: &'a str,
    mean: Option<f64>,
    stddev: Option<f64>,
    median: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    times: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    memory_usage_byte: Vec<u64>,
    exit_codes: Vec<Option<i32>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<&'a str, &'a str>,
}

fn results<'a>(view: &BenchView<'a>, command: usize) -> ResultsJson<'a> {
    let measured = &view.measured.commands[command];
    let seconds = |metric: Metric, of: fn(&Summary) -> f64| {
        view.summary(command, &metric).map(|summary| of(summary) / 1e9)
    };
    let memory = measured.runs.iter().map(|run| run.max_resident_bytes).collect::<Option<Vec<_>>>();
    ResultsJson {
        command: &measured.contender.name,
        mean: seconds(Metric::Wall, |wall| wall.mean),
        stddev: seconds(Metric::Wall, |wall| wall.deviation).filter(|_| measured.runs.len() > 1),
        median: seconds(Metric::Wall, |wall| wall.median),
        user: seconds(Metric::User, |user| user.mean),
        system: seconds(Metric::System, |system| system.mean),
        min: seconds(Metric::Wall, |wall| wall.min),
        max: seconds(Metric::Wall, |wall| wall.max),
        times: measured.runs.iter().map(|run| run.wall_ns as f64 / 1e9).collect(),
        memory_usage_byte: memory.unwrap_or_default(),
        exit_codes: measured
            .runs
            .iter()
            .map(|run| match run.exit {
                ExitStatus::Code(code) => Some(code),
                ExitStatus::Signal(_) => None,
            })
            .collect(),
        parameters: measured
            .contender
            .parameters
            .iter()
            .map(|parameter| (parameter.name.as_str(), parameter.value.as_str()))
            .collect(),
    }
}

#[derive(Serialize)]
struct WitnessJson {
    metric: String,
    reason: &'static str,
}

#[derive(Serialize)]
struct SummariesJson<'a> {
    name: &'a str,
    metrics: Vec<SummaryJson<'a>>,
}

#[derive(Serialize)]
struct SummaryJson<'a> {
    metric: &'a str,
    unit: &'static str,
    median: f64,
    mean: f64,
    deviation: f64,
    least: f64,
    most: f64,
}

#[derive(Serialize)]
struct ComparisonJson<'a> {
    baseline: &'a str,
    candidate: &'a str,
    metric: &'a str,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    confidence: f64,
    pairs: usize,
    verdict: &'static str,
    decides: bool,
    pairs_needed: Option<[usize; 2]>,
}

#[derive(Serialize)]
struct DetectableJson {
    pairs: usize,
    share: f64,
}

/// Everything: the runs, the comparisons, the remarks.
pub fn bench(view: &BenchView<'_>) -> impl Serialize {
    let comparison = |comparison: &Comparison| {
        let ratio = comparison.ratio;
        ComparisonJson {
            baseline: view.name(comparison.baseline),
            candidate: view.name(comparison.candidate),
            metric: "",
            ratio: ratio.map(|ratio| ratio.estimate),
            ratio_low: ratio.filter(|ratio| ratio.high.is_finite()).map(|ratio| ratio.low),
            ratio_high: ratio.map(|ratio| ratio.high).filter(|high| high.is_finite()),
            confidence: comparison.confidence,
            pairs: comparison.pairs,
            verdict: comparison.word(),
            decides: comparison.decides,
            pairs_needed: comparison.needed.map(|Needed { if_as_seen, for_margin }| [if_as_seen, for_margin]),
        }
    };
    let comparisons = view.answer.comparisons.iter();
    let comparisons = comparisons.map(|one| ComparisonJson { metric: one.metric.label(), ..comparison(one) });
    let summaries = view.answer.summaries.iter().enumerate();
    Bench {
        measured: view.measured,
        witness: view.answer.witness.map(|(_, reason)| WitnessJson {
            metric: view.witness().label().to_owned(),
            reason: reason_label(reason),
        }),
        margin: view.margin,
        summaries: summaries
            .map(|(command, rows)| SummariesJson {
                name: view.name(command),
                metrics: rows.iter().map(summary).collect(),
            })
            .collect(),
        comparisons: comparisons.collect(),
        fastest: view.answer.fastest.map(|command| view.name(command)),
        detectable: view
            .answer
            .detectable
            .iter()
            .map(|(pairs, share)| DetectableJson { pairs: *pairs, share: *share })
            .collect(),
        remarks: view.remarks.iter().cloned().map(RemarkJson::from).collect(),
        results: view.order().into_iter().map(|command| results(view, command)).collect(),
    }
}

fn summary(summary: &Summary) -> SummaryJson<'_> {
    use whyslow_bench::run::MetricUnit;
    let Summary { metric, median, mean, deviation, min, max } = summary;
    let unit = match metric.unit() {
        MetricUnit::Nanoseconds => "ns",
        MetricUnit::Bytes => "bytes",
        MetricUnit::Count => "count",
    };
    SummaryJson {
        metric: metric.label(),
        unit,
        median: *median,
        mean: *mean,
        deviation: *deviation,
        least: *min,
        most: *max,
    }
}

/// The label of the reason why a metric decides.
fn reason_label(reason: Reason) -> &'static str {
    match reason {
        Reason::Asked => "asked",
        Reason::Parallel => "parallel",
        Reason::Undisturbed => "undisturbed",
        Reason::Crowded => "crowded",
        Reason::Short => "short",
        Reason::Waits => "waits",
        Reason::NoCpuTime => "no-cpu-time",
    }
}

#[cfg(test)]
mod tests {
    use whyslow_bench::document::read;

    use super::*;
    use crate::bench::testing::with_view;

    #[test]
    fn written_results_can_be_read_back_as_a_baseline() {
        with_view(&[1e8, 0.9e8], 12, |view| {
            let text = super::super::to_string(&bench(view)).unwrap();
            let again = read(&text).unwrap();
            assert_eq!(again.commands[1].runs, view.measured.commands[1].runs);
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let first = &json["comparisons"][0];
            assert_eq!(
                (&first["verdict"], &first["metric"], &first["pairs"]),
                (&"faster".into(), &"wall-time".into(), &12.into())
            );
            assert!(
                first["ratio_low"].as_f64().unwrap() < 0.9 && first["ratio_high"].as_f64().unwrap() > 0.9,
                "{first}"
            );
            assert_eq!(json["witness"]["reason"], "undisturbed");
        });
        // With too few pairs there is an estimate but no interval.
        with_view(&[1e8, 0.9e8], 3, |view| {
            let json = serde_json::to_value(bench(view)).unwrap();
            assert!(
                json["comparisons"][0]["ratio"].is_number() && json["comparisons"][0]["ratio_high"].is_null()
            );
        });
    }
}
