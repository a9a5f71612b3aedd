//! How many times as fast a program is without its planted inefficiency.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Lab, PATIENCE, bounded};

/// Runs of each half, in turn.
const RUNS: &str = "3";

/// The ratio of the medians of CPU time, or of elapsed time.
pub(super) fn measure(lab: &Lab, program: &Path, elapsed: bool) -> Result<f64> {
    let mut bench = bounded(&lab.whyslow);
    bench.args(["bench", "--runs", RUNS, "--format", "json"]);
    for half in ["slow", "fast"] {
        bench.arg(format!("{} {half}", program.display()));
    }
    let output = whyslow_lab_harness::run(bench.env("TMPDIR", &lab.folder), PATIENCE)?;
    let json: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("whyslow bench: {}", String::from_utf8_lossy(&output.stderr)))?;
    let [slow, fast] = [0, 1].map(|at| median(&json["commands"][at]["runs"], elapsed));
    ensure!(slow > 0.0 && fast > 0.0, "whyslow bench measured nothing");
    Ok(slow / fast)
}

fn median(runs: &Value, elapsed: bool) -> f64 {
    let number = |run: &Value, key: &str| run[key].as_f64().unwrap_or(0.0);
    let time = |run: &Value| match elapsed {
        true => number(run, "wall_ns"),
        false => number(run, "user_ns") + number(run, "system_ns"),
    };
    let mut times: Vec<f64> = runs.as_array().into_iter().flatten().map(time).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
