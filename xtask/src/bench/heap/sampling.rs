//! The cost of a sampled recording. It is smaller than the noise of single runs, so it is measured in many
//! pairs of runs.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use whyslow_stats::pairs::Interval;
use whyslow_stats::random::Orders;

use super::{LOADS, PLAIN, SAMPLED, TOOLS, Tool, cell, run};
use crate::bench::measure::Bench;
use crate::bench::pairs::ratio;
use crate::bench::usage::now_unix_ns;

/// The goal: at most this times as long.
const AIM: f64 = 1.03;
/// Min and max number of pairs.
const FEWEST: usize = 12;
const MOST: usize = 120;

/// The table.
pub(super) fn section(bench: &Bench, program: &Path, quick: bool) -> Result<String> {
    let mut out = String::from(
        "Sampling mode compared with the plain program, in consecutive pairs of runs, in random but balanced order. CPU time \
         of the program, including the agent's start; the Hodges-Lehmann estimate of the ratio with its signed-rank 95 % confidence interval.\n\n\
         | load | pairs | sampled / plain | 95 % interval | under 3 % |\n|---|---|---|---|---|\n",
    );
    let time = Duration::from_secs(if quick { 5 } else { 30 });
    let mallocs = if quick { 200_000 } else { 1_000_000 };
    for (kind, threads, _) in LOADS {
        let arguments = [kind.to_owned(), threads.to_string(), mallocs.to_string()];
        let pairs = pairs(bench, program, &arguments, time)?;
        let name = cell(kind, threads);
        match ratio(&pairs) {
            Some(ratio) => {
                eprintln!(
                    "{name}: sampled / plain {:.4} [{:.4}, {:.4}]",
                    ratio.estimate, ratio.low, ratio.high
                );
                let _ = writeln!(
                    out,
                    "| {name} | {} | {:.3} | {:.3} to {:.3} | {} |",
                    pairs.len(),
                    ratio.estimate,
                    ratio.low,
                    ratio.high,
                    verdict(ratio)
                );
            }
            None => {
                let _ = writeln!(out, "| {name} | {} | - | - | too few pairs |", pairs.len());
            }
        }
    }
    out.push('\n');
    Ok(out)
}

/// CPU time per allocation, plain and sampled.
fn pairs(bench: &Bench, program: &Path, arguments: &[String], time: Duration) -> Result<Vec<(f64, f64)>> {
    let tool = |name: &str| TOOLS.iter().find(|tool| tool.name == name);
    let (Some(plain), Some(sampled)) = (tool(PLAIN), tool(SAMPLED)) else { return Ok(Vec::new()) };
    let tools: [&Tool; 2] = [plain, sampled];
    let start = Instant::now();
    let mut pairs = Vec::new();
    for order in Orders::new(2, now_unix_ns()).take(MOST) {
        let mut costs = [0.0; 2];
        for which in order {
            costs[which] = run(bench, tools[which], program, arguments)?.program_ns;
        }
        pairs.push((costs[0], costs[1]));
        if pairs.len() >= FEWEST && start.elapsed() > time {
            break;
        }
    }
    Ok(pairs)
}

fn verdict(ratio: Interval) -> &'static str {
    if ratio.high < AIM {
        "yes"
    } else if ratio.low > AIM {
        "no"
    } else {
        "undecided"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_is_reached_only_if_the_whole_interval_is_below_it() {
        let ratio = |low: f64, high: f64| Interval { estimate: 1.0, low, high };
        assert_eq!(verdict(ratio(0.99, 1.02)), "yes");
        assert_eq!(verdict(ratio(0.99, 1.04)), "undecided");
        assert_eq!(verdict(ratio(1.04, 1.06)), "no");
    }
}
