//! What `whyslow causal` says of a function.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use whyslow_lab_harness::last_segment;
use whyslow_stats::pairs::Interval;

use super::cases::{Case, Measure};
use crate::bench::measure::Bench;
use crate::process;

/// How long a run of `whyslow causal` may take.
pub(super) const BUDGET: &str = "20s";
/// The function that each program calls for a unit of progress.
pub(super) const PROGRESS: &str = "progress_unit";

/// The answer of one run.
#[derive(Debug, Default)]
pub(super) struct Prediction {
    /// The virtual speed-up in percent, and what it saves. Empty if the run says that there is not enough data.
    points: Vec<(u32, Interval)>,
    /// The wall time per unit during all experiments, with delays.
    pub(super) ns_per_unit: Option<f64>,
}

/// What a prediction says at one speed-up.
pub(super) enum Outcome {
    Answer(Interval),
    None,
}

impl Prediction {
    pub(super) fn at(&self, percent: u32) -> Outcome {
        let found = self.points.iter().find(|(at, _)| *at == percent);
        found.map_or(Outcome::None, |(_, interval)| Outcome::Answer(*interval))
    }

    /// Reads the JSON of `whyslow causal`. `None` where the function has no result that decides.
    fn parse(answer: &Value, function: &str, point: &str) -> Option<Self> {
        let results = answer["results"].as_array()?;
        let is_wanted = |result: &&Value| {
            let name = result["function"].as_str().unwrap_or_default();
            let progress = result["progress"].as_str().unwrap_or(point);
            last_segment(name) == function && last_segment(progress) == point
        };
        let result = results.iter().find(is_wanted)?;
        let interval = |point: &Value| {
            let percent = (point["speedup"].as_f64()? * 100.0).round() as u32;
            let (estimate, low) = (point["effect"].as_f64()?, point["low"].as_f64()?);
            Some((percent, Interval { estimate, low, high: point["high"].as_f64()? }))
        };
        let decided = result["verdict"].as_str() != Some("undecided");
        let points = result["points"].as_array()?.iter().filter(|_| decided).filter_map(interval);
        Some(Self { points: points.collect(), ns_per_unit: ns_per_visit(answer, point) })
    }
}

/// The wall time of all experiments per visit of a progress point.
fn ns_per_visit(answer: &Value, point: &str) -> Option<f64> {
    let is_it = |row: &&Value| row["name"].as_str().is_some_and(|name| last_segment(name) == point);
    let visits = answer["progress_points"].as_array()?.iter().find(is_it)?["visits"].as_f64()?;
    (visits > 0.0).then_some(answer["value"].as_f64()? / visits)
}

/// Runs `whyslow causal` once for a target, an option and the function. A refusal, for example of a busy machine, is an
/// answer without points.
pub(super) fn run(bench: &Bench, case: &Case, program: &Path, target: [&str; 2]) -> Result<Prediction> {
    let point = match case.measure {
        Measure::Unit => PROGRESS,
        Measure::Latency => "request",
    };
    let mut options = target.to_vec();
    if point == PROGRESS {
        options.extend(["--progress", PROGRESS]);
    }
    let answer = ask(bench, BUDGET, &options, program, case.arguments)?;
    Ok(answer.and_then(|answer| Prediction::parse(&answer, target[1], point)).unwrap_or_default())
}

/// The JSON of a run of `whyslow causal` with this budget and these options. `None` if it has none.
pub(super) fn ask(
    bench: &Bench,
    budget: &str,
    options: &[&str],
    program: &Path,
    arguments: &[&str],
) -> Result<Option<Value>> {
    let mut command = process::command("whyslow");
    command.env("PATH", &bench.path).current_dir(&bench.folder);
    command.args(["causal", "-q", "--format", "json", "--budget", budget]).args(options);
    command.arg("--").arg(program).args(arguments).args(["--seconds", "1000"]);
    let output = command.output().context("cannot run whyslow")?;
    let answer = serde_json::from_slice(&output.stdout);
    Ok(answer.inspect_err(|_| eprintln!("{}", String::from_utf8_lossy(&output.stderr))).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_result_of_a_function_is_found_and_an_undecided_one_has_no_points() {
        let point = json!({ "speedup": 0.25, "effect": 0.1, "low": 0.05, "high": 0.15 });
        let result =
            |function, verdict| json!({ "function": function, "verdict": verdict, "points": [point] });
        let answer = json!({
            "results": [result("app::parse", "effect"), result("check", "undecided")],
            "progress_points": [{ "name": "app::progress_unit", "visits": 50 }],
            "value": 1000,
        });
        let parsed = |function| Prediction::parse(&answer, function, "progress_unit");
        assert!(matches!(parsed("parse").unwrap().at(25), Outcome::Answer(found) if found.high == 0.15));
        assert!(matches!(parsed("parse").unwrap().at(50), Outcome::None));
        assert!(matches!(parsed("check").unwrap().at(25), Outcome::None));
        assert_eq!(parsed("parse").unwrap().ns_per_unit, Some(20.0));
        assert!(parsed("other").is_none());
    }
}
