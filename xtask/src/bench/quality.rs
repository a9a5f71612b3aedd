//! How many samples a recording holds, and how many of their stacks are complete.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};

use super::measure::Bench;
use super::tools::{FLAMEGRAPH, PERF, SAMPLY, SAMPLY_SYMBOLS, Tool};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quality {
    pub(super) samples: u64,
    /// The share of stacks that reach the start of their process or thread.
    pub(super) complete: Option<f64>,
}

/// Functions at the outer end of a complete stack.
const OUTERMOST: &[&str] =
    &["_start", "clone3", "__clone3", "clone", "__clone", "start_thread", "__libc_start_main"];

fn is_outermost(function: &str) -> bool {
    OUTERMOST.iter().any(|name| function == *name || function.starts_with("__libc_start"))
}

pub(super) fn of(bench: &Bench, tool: &Tool, out: &Path) -> Result<Quality> {
    match tool.name {
        PERF | FLAMEGRAPH => {
            of_perf(&bench.output("perf script -i OUT/perf.data --no-inline -F comm,ip,sym", out)?)
        }
        SAMPLY | SAMPLY_SYMBOLS => of_samply(&out.join("run.json.gz")),
        _ => {
            let report = bench.output("whyslow report OUT/run.whyslow --format json", out)?;
            let report: serde_json::Value = serde_json::from_str(&report)?;
            let samples = report["samples"].as_u64().context("the report has no number of samples")?;
            let folded = bench.output("whyslow export OUT/run.whyslow --to folded", out)?;
            Ok(Quality { samples, complete: complete_share_of_folded(&folded) })
        }
    }
}

/// Blocks of lines, one per sample: the command's name, then a line per frame. Those of the wrapper are left
/// out.
fn of_perf(script: &str) -> Result<Quality> {
    let stacks = script.split("\n\n").map(str::trim_start).filter(|block| !block.is_empty());
    let stacks = stacks.filter(|block| !block.starts_with("timed")).collect::<Vec<_>>();
    let complete = stacks.iter().filter(|block| {
        block.lines().skip(1).any(|line| line.split_whitespace().nth(1).is_some_and(is_outermost))
    });
    let samples = stacks.len() as u64;
    Ok(Quality { samples, complete: Some(complete.count() as f64 / samples.max(1) as f64) })
}

/// Lines of `outermost;…;innermost value`. The first names can be a process or a thread. Weighted by value.
fn complete_share_of_folded(folded: &str) -> Option<f64> {
    let (mut all, mut complete) = (0.0, 0.0);
    for line in folded.lines() {
        let (stack, value) = line.rsplit_once(' ')?;
        let value: f64 = value.parse().ok()?;
        all += value;
        if stack.split(';').any(is_outermost) {
            complete += value;
        }
    }
    (all > 0.0).then(|| complete / all)
}

fn of_samply(path: &Path) -> Result<Quality> {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    let profile: serde_json::Value = serde_json::from_str(&text)?;
    let threads = profile["threads"].as_array().context("the profile has no threads")?;
    let samples = threads.iter().filter_map(|thread| thread["samples"]["length"].as_u64()).sum();
    Ok(Quality { samples, complete: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_stacks_of_perf_script_are_counted() {
        let script = "timed\n\t 1 main\n\t 2 _start\n\nratio\n\t 401 alpha\n\t 402 __libc_start_main_impl\n\n\
                      ratio\n\t 401 alpha\n\t 402 rounds\n\nworker-0\n\t 401 beta\n\t 402 clone3\n";
        let quality = of_perf(script).unwrap();
        assert_eq!((quality.samples, quality.complete), (3, Some(2.0 / 3.0)));
    }

    #[test]
    fn complete_stacks_of_folded_lines_are_weighed() {
        assert_eq!(complete_share_of_folded("_start;main;a 3\n[truncated];a 1\n"), Some(0.75));
        assert_eq!(complete_share_of_folded(""), None);
    }
}
