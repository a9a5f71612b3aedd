//! The cost of a sample for the program: whyslow's samplers and others that sample at the same rate, in turn.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use whyslow_lab_harness::{Truth, Variant, build};
use whyslow_stats::pairs::Interval;

use super::super::measure::{Bench, expand};
use super::super::pairs;
use super::super::report::spread;
use super::super::usage::Usage;
use crate::process::{self, target_folder};
use crate::setup;

/// Min number of rounds: fewer give no useful interval.
const MIN_ROUNDS: usize = 10;

/// A way to sample 250 times per second of CPU time.
struct Tool {
    name: &'static str,
    /// `TIMED` is the wrapper that measures, `TARGET` the program, `LIBRARY` the preloaded library.
    command: &'static str,
    /// The preloaded library, if any.
    library: fn() -> Option<PathBuf>,
    /// The number of samples it took.
    samples: fn(&Path) -> Result<u64>,
}

const PLAIN: &str = "plain";

const TOOLS: [Tool; 5] = [
    Tool { name: PLAIN, command: "TIMED TARGET", library: none, samples: |_| Ok(0) },
    Tool {
        name: "whyslow, timer",
        command: "whyslow record -q --sampler timer -F 250 -o OUT/run.whyslow -- TIMED TARGET",
        library: none,
        samples: of_whyslow,
    },
    Tool {
        name: "whyslow, perf",
        command: "whyslow record -q --sampler perf -F 250 -o OUT/run.whyslow -- TIMED TARGET",
        library: none,
        samples: of_whyslow,
    },
    Tool {
        name: "gperftools",
        command: "TIMED env LD_PRELOAD=LIBRARY CPUPROFILE=OUT/run.prof CPUPROFILE_FREQUENCY=250 TARGET",
        library: gperftools,
        samples: of_gperftools,
    },
    Tool {
        name: "async-profiler, ctimer",
        command: "TIMED env LD_PRELOAD=LIBRARY ASPROF_COMMAND=start,event=ctimer,interval=4ms,cstack=dwarf,file=OUT/run.collapsed TARGET",
        library: async_profiler,
        samples: of_async_profiler,
    },
];

const METHOD: &str = "\
All at 250 samples per second of CPU time, in turn, starting with a different one in each round. Each number is the Hodges-Lehmann estimate of all rounds with its 95 % \
confidence interval. If intervals overlap or include 0, the machine was too busy for a result. *Added CPU* is the program's own CPU time compared with its plain run of the \
same round (`ratio 1`). *Per sample* is how long a sample interrupts the \
program: `xtask/src/bench/samplers/gaps.c` reads the clock all the time, below 40 frames and 40 KB of stack, and sums up pauses that are too short for a switch to \
another program. Their increase over the plain run of the same round is divided by the samples. gperftools comes with `google-perftools`; async-profiler is measured if its library is at `target/peers/lib/libasyncProfiler.so`.\n\n";

/// What a run cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// CPU time of a program that works, in seconds.
    cpu: f64,
    /// Share of the time that a program that reads the clock was paused.
    paused: f64,
    /// Samples per second of the same program.
    rate: f64,
}

pub(super) fn section(bench: &Bench, quick: bool, rounds: usize) -> Result<String> {
    let rounds = if quick { rounds } else { rounds.max(MIN_ROUNDS) };
    let gaps = bench.folder.join("gaps");
    let source = process::root().join("xtask/src/bench/samplers/gaps.c");
    process::must(process::command("cc").args(["-O2", "-g", "-o"]).arg(&gaps).arg(source))?;
    let ratio = build("ratio", Variant::Release)?;
    let (work, clock) = if quick { ("400", "400") } else { ("4000", "2000") };
    let work = [ratio.into_os_string(), "1".into(), work.into()];
    let clock = [gaps.into_os_string(), clock.into()];

    let mut out = format!("### Cost\n\n{METHOD}{rounds} rounds.\n\n");
    let (tools, missing): (Vec<_>, Vec<_>) =
        TOOLS.iter().map(|tool| (tool, prepared(tool))).partition(|(_, library)| library.is_some());
    for (tool, _) in missing {
        let _ = writeln!(out, "{} is not installed here.\n", tool.name);
    }
    let mut series = vec![Vec::new(); tools.len()];
    for round in 0..rounds {
        for step in 0..tools.len() {
            let number = (round + step) % tools.len();
            let (tool, library) = &tools[number];
            // Without all rounds, its pairs would not match those of the others.
            if series[number].len() < round {
                continue;
            }
            match run(bench, tool, library.as_deref().unwrap_or(Path::new("")), &work, &clock) {
                Ok(cost) => {
                    eprintln!("round {}/{rounds}  {:<24} {cost:.4?}", round + 1, tool.name);
                    series[number].push(cost);
                }
                Err(error) => {
                    eprintln!("{} is left out: {error:#}", tool.name);
                    series[number].clear();
                }
            }
        }
    }
    let names = tools.iter().map(|(tool, _)| tool.name);
    out.push_str(&table(&names.zip(series).collect::<Vec<_>>()));
    Ok(out)
}

fn table(series: &[(&str, Vec<Cost>)]) -> String {
    let mut out =
        String::from("| sampler | samples per second | added CPU | per sample |\n|---|---|---|---|\n");
    let Some((_, plain)) = series.iter().find(|(name, _)| *name == PLAIN) else { return out };
    for (name, costs) in series.iter().filter(|(name, costs)| *name != PLAIN && costs.len() == plain.len()) {
        let pairs = plain.iter().zip(costs).map(|(plain, cost)| (plain.cpu, cost.cpu)).collect::<Vec<_>>();
        let added = pairs::ratio(&pairs).map_or_else(
            || "-".to_owned(),
            |ratio| {
                let percent = |ratio: f64| (ratio - 1.0) * 100.0;
                let (low, high) = (percent(ratio.low), percent(ratio.high));
                format!("{:+.2} % ({low:+.2} to {high:+.2})", percent(ratio.estimate))
            },
        );
        let rate = spread(costs.iter().map(|cost| cost.rate)).map_or(0.0, |spread| spread.median);
        let longer =
            plain.iter().zip(costs).map(|(plain, cost)| (cost.paused - plain.paused) / cost.rate * 1e6);
        let per_sample = pairs::shift(&longer.collect::<Vec<_>>()).map_or_else(
            || "-".to_owned(),
            |Interval { estimate, low, high }| format!("{estimate:.0} µs ({low:.0} to {high:.0})"),
        );
        let _ = writeln!(out, "| {name} | {rate:.0} | {added} | {per_sample} |");
    }
    out.push('\n');
    out
}

fn run(bench: &Bench, tool: &Tool, library: &Path, work: &[OsString], clock: &[OsString]) -> Result<Cost> {
    let (cpu, _, _) = measure(bench, tool, library, work)?;
    let (_, stdout, out) = measure(bench, tool, library, clock)?;
    let counts = Truth::parse(&stdout).counts;
    let count = |name: &str| counts.get(name).map(|ns| *ns as f64).with_context(|| format!("no {name}"));
    let (worked, paused) = (count("worked_ns")?, count("paused_ns")?);
    let rate = (tool.samples)(&out)? as f64 / worked * 1e9;
    Ok(Cost { cpu, paused: paused / worked, rate })
}

/// Runs a program. Returns its CPU time in seconds, its output, and its folder.
fn measure(
    bench: &Bench,
    tool: &Tool,
    library: &Path,
    target: &[OsString],
) -> Result<(f64, String, PathBuf)> {
    let out = bench.fresh_folder()?;
    let inner = out.join("usage");
    let command = tool.command.replace("LIBRARY", &library.to_string_lossy());
    let words = expand(&command, &out, target).into_iter().flat_map(|word| {
        if word == "TIMED" {
            vec![bench.wrapper.clone().into_os_string(), inner.clone().into_os_string()]
        } else {
            vec![word]
        }
    });
    let (_, stdout) = bench.timed_output(&words.collect::<Vec<_>>(), &out)?;
    let usage = Usage::read(&inner)?;
    Ok((usage.cpu_ns as f64 / 1e9, stdout, out))
}

/// The library to preload, empty if none is needed. `None` if it is missing and cannot be installed.
fn prepared(tool: &Tool) -> Option<PathBuf> {
    (tool.library)()
}

#[expect(clippy::unnecessary_wraps, reason = "it has the type of functions that may find nothing")]
fn none() -> Option<PathBuf> {
    Some(PathBuf::new())
}

fn gperftools() -> Option<PathBuf> {
    let find = || process::find("/usr/lib/x86_64-linux-gnu/libprofiler.so.0");
    find().or_else(|| if setup::install("google-perftools") { find() } else { None })
}

fn async_profiler() -> Option<PathBuf> {
    Some(target_folder().join("peers/lib/libasyncProfiler.so")).filter(|library| library.exists())
}

fn of_whyslow(out: &Path) -> Result<u64> {
    let profile = whyslow_profile::file::read(&out.join("run.whyslow"))?;
    Ok(profile.samples.first().map_or(0, |samples| samples.len() as u64))
}

/// Words of 8 bytes: a header of 5, then for each stack its count, its depth and that many addresses. The
/// last has a count of 0.
fn of_gperftools(out: &Path) -> Result<u64> {
    let bytes = std::fs::read(out.join("run.prof"))?;
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let mut words = words.skip(5);
    let mut samples = 0;
    while let (Some(count @ 1..), Some(depth)) = (words.next(), words.next()) {
        samples += count;
        words.by_ref().take(depth as usize).for_each(drop);
    }
    Ok(samples)
}

/// Lines of a stack and its count.
fn of_async_profiler(out: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(out.join("run.collapsed"))?;
    Ok(text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_gperftools_are_counted_up_to_the_last_stack() {
        let folder = tempfile::tempdir().unwrap();
        let words: [u64; 15] = [0, 3, 0, 4000, 0, 7, 2, 0x10, 0x20, 3, 1, 0x30, 0, 1, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain(*b"maps").collect();
        std::fs::write(folder.path().join("run.prof"), bytes).unwrap();
        assert_eq!(of_gperftools(folder.path()).unwrap(), 10);
    }

    #[test]
    fn cost_per_sample_is_the_added_pause() {
        let costs = |cpu: f64, paused: f64, rate: f64| vec![Cost { cpu, paused, rate }; 8];
        let table = table(&[(PLAIN, costs(4.0, 0.001, 0.0)), ("timer", costs(4.04, 0.004, 250.0))]);
        assert!(table.contains("| timer | 250 | +1.00 % (+1.00 to +1.00) | 12 µs (12 to 12) |"), "{table}");
    }
}
