//! The cost of starting a program that samples itself.

use std::ffi::OsString;

use anyhow::{Context, Result};
use whyslow_lab_harness::Truth;

use super::super::goals::{self, Goal};
use super::super::measure::{Bench, expand};
use super::super::report::spread;
use crate::process;

/// Starts per run.
const STARTS: usize = 300;

const COMMANDS: [&str; 2] = ["TARGET", "whyslow record -q --sampler timer -o OUT/run.whyslow -- TARGET"];

pub(super) fn section(bench: &Bench, quick: bool, rounds: usize) -> Result<String> {
    let starts = bench.folder.join("starts");
    let source = process::root().join("xtask/src/bench/samplers/starts.c");
    process::must(process::command("cc").args(["-O2", "-o"]).arg(&starts).arg(source))?;
    let count = if quick { 30 } else { STARTS };
    let target: [OsString; 3] = [starts.into(), count.to_string().into(), "/bin/true".into()];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (command, times) in COMMANDS.into_iter().zip(&mut times) {
            let out = bench.fresh_folder()?;
            let (_, stdout) = bench.timed_output(&expand(command, &out, &target), &out)?;
            let decile = Truth::parse(&stdout)
                .counts
                .get("decile_ns")
                .copied()
                .context("it did not print decile_ns")?;
            eprintln!("starts  round {}/{rounds}  {command}: {:.3} ms", round + 1, decile as f64 / 1e6);
            times.push(decile as f64 / 1e6);
        }
    }
    let added = spread(times[1].iter().zip(&times[0]).map(|(sampled, plain)| sampled - plain));
    let [plain, sampled] = times.map(|times| spread(times.into_iter()));
    let (plain, sampled, added) =
        (plain.context("no run")?, sampled.context("no run")?, added.context("no run")?);
    let mut goal = String::from(goals::HEAD);
    let now = format!("{:.2} ms", added.median);
    let what = "timer sampling delays the start of a program by less than 1 ms";
    Goal { program: "-", goal: what, peer: "-", now, met: added.median < 1.0 }.write(&mut goal);
    Ok(format!(
        "### Starts\n\nFrom the fork to the exit of `/bin/true`, {rounds} rounds of {count} starts. Each round counts with its first decile, since other programs only add time. Medians: {:.2} ms plain, {:.2} ms when it samples itself, \
         {:.2} ms more (quartiles {:.2} to {:.2}).\n\n{goal}\n",
        plain.median, sampled.median, added.median, added.low, added.high
    ))
}
