//! coz on the C programs, beside whyslow: the functions whose locks and barriers it knows.
//!
//! The packaged coz is used, and a newer one if it was built in `target/peers/coz`, which then has `coz` and
//! `libcoz/libcoz.so`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::cases::Case;
use super::predicted::{BUDGET, Outcome, Prediction};
use super::truth::Saving;
use crate::bench::measure::Bench;
use crate::process::{self, target_folder};

/// Points within this many percent of a speed-up say what coz finds there: it tries twenty speed-ups.
const WINDOW: f64 = 10.0;
/// What the C compiler needs to be told for a line table that coz 0.2.2 reads: it gives up on all lines of a file if it
/// has newer DWARF, or positions within views.
const FLAGS: &[&str] =
    &["-O2", "-gdwarf-4", "-gno-variable-location-views", "-fomit-frame-pointer", "-pthread"];

const METHOD: &str = "\n### coz beside\n\n\
The C programs, where coz sees locks and barriers: each function once by `coz run --fixed-line` with the line of its loop, after the runs of whyslow \
above and for as long. Its file is read by `whyslow import`. coz tries twenty speed-ups, so its number is the median of those within 10 points \
of the one in the row, whatever their intervals. *whyslow* is the median of the runs above that decide. *Right* is as above.\n\n";

/// A coz that is here.
struct Tool {
    /// Its name in the table, with the version.
    name: String,
    command: PathBuf,
    right: usize,
    made: usize,
}

/// The comparison, row by row.
pub(super) struct Coz {
    tools: Vec<Tool>,
    rows: String,
    failures: String,
    whyslow: (usize, usize),
}

impl Coz {
    pub(super) fn find() -> Self {
        let tools = [packaged(), newer()].into_iter().flatten();
        let tools = tools.map(|(name, command)| Tool { name, command, right: 0, made: 0 }).collect();
        Self { tools, rows: String::new(), failures: String::new(), whyslow: (0, 0) }
    }

    /// Runs each coz on a function, and writes what all of them say.
    pub(super) fn compare(
        &mut self,
        bench: &Bench,
        case: &Case,
        function: &str,
        savings: &[Saving],
        whyslow: &[Prediction],
    ) {
        let Some(source) = case.c_source().filter(|_| !self.tools.is_empty()) else { return };
        let mut said = Vec::new();
        for tool in &self.tools {
            let points = run(bench, tool, case, &source, function);
            eprintln!("{} {function} by {}: {points:?}", case.name, tool.name);
            said.push(points.unwrap_or_else(|error| {
                let _ = writeln!(self.failures, "{} on {function} of {}: {error:#}\n", tool.name, case.name);
                Vec::new()
            }));
        }
        for saving in savings {
            let (percent, truth) = (saving.percent, saving.share.estimate);
            let answers: Vec<f64> =
                whyslow.iter().filter_map(|prediction| answer(prediction, percent)).collect();
            let ours = (!answers.is_empty()).then(|| whyslow_stats::median(&answers));
            let is_right = |estimate: f64| (estimate - truth).abs() <= case.tolerance;
            let cell =
                |estimate: Option<f64>| estimate.map_or("-".to_owned(), |it| format!("{:.1}", 100.0 * it));
            let _ = write!(
                self.rows,
                "| {} | {function} | {percent} % | {:.1} | {} |",
                case.name,
                100.0 * truth,
                cell(ours)
            );
            if let Some(estimate) = ours {
                self.whyslow = (self.whyslow.0 + usize::from(is_right(estimate)), self.whyslow.1 + 1);
            }
            for (tool, points) in self.tools.iter_mut().zip(&said) {
                let estimate = near(points, percent);
                let _ = write!(self.rows, " {} |", cell(estimate));
                if let Some(estimate) = estimate {
                    tool.made += 1;
                    tool.right += usize::from(is_right(estimate));
                }
            }
            self.rows.push('\n');
        }
    }

    /// The section, or why there is none.
    pub(super) fn write(&self, out: &mut String) {
        out.push_str(METHOD);
        if self.tools.is_empty() {
            out.push_str("coz is not installed here (Debian: `coz-profiler`).\n");
            return;
        }
        if self.rows.is_empty() {
            out.push_str("None of its programs was measured.\n");
            return;
        }
        let names = self.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>();
        let _ = writeln!(out, "| program | function | faster by | truth | whyslow | {} |", names.join(" | "));
        let _ = writeln!(out, "|---|---|---|---|---{}|", "|---".repeat(names.len()));
        out.push_str(&self.rows);
        let right = self.tools.iter().map(|tool| format!(" {} of {} |", tool.right, tool.made));
        let (ours, made) = self.whyslow;
        let _ = writeln!(out, "| right | | | | {ours} of {made} |{}", right.collect::<String>());
        if !self.failures.is_empty() {
            let _ = write!(out, "\n{}", self.failures);
        }
    }
}

/// The installed coz, with the version of its Debian package: it does not say its version itself.
fn packaged() -> Option<(String, PathBuf)> {
    let command = process::find("coz")?;
    let version =
        process::output(process::command("dpkg-query").args(["-W", "-f", "${Version}", "coz-profiler"]));
    let name = version.map_or("coz, installed".to_owned(), |version| format!("coz {}", version.trim()));
    Some((name, command))
}

/// One that was built from source, with its commit.
fn newer() -> Option<(String, PathBuf)> {
    let folder = target_folder().join("peers/coz");
    let command = Some(folder.join("coz")).filter(|command| command.is_file())?;
    let mut git = process::command("git");
    git.current_dir(&folder).args(["--git-dir", ".git", "rev-parse", "--short", "HEAD"]);
    let name = process::output(&mut git)
        .map_or("coz from source".to_owned(), |commit| format!("coz {}", commit.trim()));
    Some((name, command))
}

fn answer(prediction: &Prediction, percent: u32) -> Option<f64> {
    match prediction.at(percent) {
        Outcome::Answer(interval) => Some(interval.estimate),
        Outcome::None => None,
    }
}

/// The median effect of the speed-ups around one.
fn near(points: &[(f64, f64)], percent: u32) -> Option<f64> {
    let is_near = |at: f64| at > 0.0 && (at * 100.0 - f64::from(percent)).abs() < WINDOW + 0.5;
    let effects = points.iter().filter(|(at, _)| is_near(*at)).map(|(_, effect)| *effect).collect::<Vec<_>>();
    (!effects.is_empty()).then(|| whyslow_stats::median(&effects))
}

/// One run of coz with the line of a function: speed-ups with their effects.
fn run(bench: &Bench, tool: &Tool, case: &Case, source: &Path, function: &str) -> Result<Vec<(f64, f64)>> {
    let folder = bench.fresh_folder()?;
    let program = folder.join("program");
    process::must(process::command("cc").args(FLAGS).arg(source).arg("-o").arg(&program))?;
    let text = std::fs::read_to_string(source)?;
    let line = line_of(&text, function).with_context(|| format!("{function} is not in its source"))?;
    let file = source.file_name().unwrap_or_default().to_string_lossy();
    let (written, imported) = (folder.join("profile.coz"), folder.join("imported.whyslow"));
    let mut command = process::command(&tool.command);
    command.current_dir(&folder).args(["run", "--fixed-line", &format!("{file}:{line}"), "-o"]).arg(&written);
    command.arg("---").arg(&program).args(case.arguments).args(["--seconds", BUDGET.trim_end_matches('s')]);
    let output = command.output().context("cannot run coz")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && written.is_file(), "{}", said.lines().last().unwrap_or("it failed"));
    let whyslow = |arguments: &[&str]| {
        let mut command = process::command("whyslow");
        command.env("PATH", &bench.path).current_dir(&folder).args(arguments);
        process::output(&mut command)
    };
    whyslow(&["import", "-q", &written.to_string_lossy(), "-o", &imported.to_string_lossy()])?;
    let answer = whyslow(&["report", &imported.to_string_lossy(), "causal", "--format", "json"])?;
    points_of(&serde_json::from_str(&answer)?).context("no result in coz's file")
}

/// The line after the one where a function begins: its loop.
fn line_of(source: &str, function: &str) -> Option<usize> {
    let begins = format!(" {function}(uint64_t steps) {{");
    source.lines().position(|line| line.ends_with(&begins)).map(|row| row + 2)
}

fn points_of(answer: &Value) -> Option<Vec<(f64, f64)>> {
    let points = answer["results"].as_array()?.first()?["points"].as_array()?;
    Some(
        points
            .iter()
            .filter_map(|point| Some((point["speedup"].as_f64()?, point["effect"].as_f64()?)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_points_around_a_speed_up_are_taken_together() {
        let point = |speedup: f64, effect: f64| json!({ "speedup": speedup, "effect": effect });
        let points = [(0.05, 9.0), (0.15, 0.1), (0.2, 0.2), (0.35, 0.6), (0.4, 9.0), (0.9, 0.7), (1.0, 0.8)];
        let points = points.map(|(speedup, effect)| point(speedup, effect));
        let found = points_of(&json!({ "results": [{ "points": points }] })).unwrap();
        assert_eq!((near(&found, 25), near(&found, 75), near(&found, 100)), (Some(0.2), None, Some(0.75)));
        assert!(points_of(&json!({ "results": [] })).is_none());
    }

    #[test]
    fn the_loop_of_each_function_has_a_line() {
        let cases = super::super::cases::ALL.iter().filter(|case| case.c_source().is_some());
        let mut functions = 0;
        for case in cases {
            let text = std::fs::read_to_string(case.c_source().unwrap()).unwrap();
            for function in case.functions {
                let line = line_of(&text, function).unwrap();
                assert!(text.lines().nth(line - 1).unwrap().contains("COMPUTE(steps,"), "{function}");
                functions += 1;
            }
        }
        assert_eq!(functions, 5);
    }
}
