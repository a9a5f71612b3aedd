//! How often `whyslow causal` claims an effect where there is none.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;
use whyslow_lab_harness::{Variant, build};

use super::predicted::{PROGRESS, ask};
use crate::bench::goals::{self, Goal};
use crate::bench::measure::Bench;

pub(super) const NAME: &str = "causal_null";
/// What the busy thread does.
const BESIDE: [&str; 5] = ["sort", "hash", "format", "tree", "matrix"];
/// Runs of each, one for each of these scopes in turn: lines of the program, and those of std in it.
const SCOPES: [&str; 4] = ["own", "all", "own", "all"];
/// How long a run may take: it has several lines.
const BUDGET: &str = "25s";
/// At most so many of a hundred lines may be claimed to have an effect.
const MOST_CLAIMS: f64 = 0.05;

const METHOD: &str = "\n### Lines without an effect\n\n\
`causal_null` has a busy thread that nobody waits for. `whyslow causal` chooses lines by itself, of the program (`--scope own`) and of std \
(`--scope all`). *Claims* are lines of that thread that it says to have an effect; the placebo, code that never runs, is counted as well. No \
threshold was chosen on this program.\n\n\
| beside | lines | claims | undecided | placebos | claims |\n|---|---|---|---|---|---|\n";

/// What was said of lines that have no effect.
#[derive(Default, Clone, Copy)]
struct Said {
    lines: usize,
    claims: usize,
    undecided: usize,
    placebos: usize,
    placebo_claims: usize,
}

impl Said {
    /// Adds the results of a run.
    fn add(&mut self, answer: &Value) {
        let is_claim = |result: &Value| result["verdict"] == "effect";
        let rows = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
        let is_beside = |result: &&Value| {
            // Everything but the work itself, and the line that counts it.
            let function = result["function"].as_str().unwrap_or_default();
            !["work", PROGRESS, "main"].iter().any(|name| function.rsplit("::").next() == Some(name))
        };
        for result in rows("results").iter().filter(is_beside) {
            self.lines += 1;
            self.claims += usize::from(is_claim(result));
            self.undecided += usize::from(result["verdict"] == "undecided");
        }
        for point in &rows("progress_points") {
            self.placebos += 1;
            self.placebo_claims += usize::from(is_claim(&point["placebo"]));
        }
    }

    fn row(self, name: &str, out: &mut String) {
        let Self { lines, claims, undecided, placebos, placebo_claims } = self;
        let _ =
            writeln!(out, "| {name} | {lines} | {claims} | {undecided} | {placebos} | {placebo_claims} |");
    }
}

/// The section.
pub(super) fn section(bench: &Bench, quick: bool, out: &mut String) -> Result<()> {
    let program = build(NAME, Variant::Release)?;
    out.push_str(METHOD);
    let mut all = Said::default();
    for beside in BESIDE {
        let mut said = Said::default();
        for scope in SCOPES.iter().take(if quick { 1 } else { SCOPES.len() }) {
            let options = ["--progress", PROGRESS, "--scope", scope];
            if let Some(answer) = ask(bench, BUDGET, &options, &program, &[beside])? {
                said.add(&answer);
                all.add(&answer);
            }
            eprintln!("{NAME} {beside} {scope}: {} claims of {} lines", said.claims, said.lines);
        }
        said.row(beside, out);
    }
    all.row("all", out);
    out.push('\n');
    out.push_str(goals::HEAD);
    let share = all.claims as f64 / all.lines.max(1) as f64;
    let now = format!("{} of {}", all.claims, all.lines);
    let goal = "causal: at most 5 of 100 lines without an effect are claimed to have one";
    Goal { program: "-", goal, peer: "-", now, met: all.lines > 0 && share <= MOST_CLAIMS }.write(out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_lines_that_nobody_waits_for_are_counted() {
        let result = |function, verdict| json!({ "function": function, "verdict": verdict });
        let answer = json!({
            "results": [
                result("causal_null::work", "effect"),
                result("causal_null::beside::sort", "effect"),
                result("core::slice::sort::quicksort", "none"),
                result("causal_null::beside::next", "undecided"),
            ],
            "progress_points": [{ "placebo": result("placebo", "none") }],
        });
        let mut said = Said::default();
        said.add(&answer);
        assert_eq!((said.lines, said.claims, said.undecided), (3, 1, 1));
        assert_eq!((said.placebos, said.placebo_claims), (1, 0));
    }
}
