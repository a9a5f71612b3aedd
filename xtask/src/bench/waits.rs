//! What recording waits costs a program that does little else: whyslow and perf, in turn.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use whyslow_lab_harness::Truth;
use whyslow_stats::pairs::Interval;

use super::measure::{Bench, expand};
use super::pairs;
use super::report::machine;
use super::usage::Usage;
use crate::process;

/// The heading of the section in BENCHMARKS.md.
pub(super) const HEADING: &str = "## Waits";

const LEAST_ROUNDS: usize = 8;
const PLAIN: &str = "plain";

/// A name, and a command. `TIMED` is the wrapper that measures the program alone, `TARGET` the program.
const TOOLS: [(&str, &str); 7] = [
    (PLAIN, "TIMED TARGET"),
    ("whyslow record", "whyslow record -q -o OUT/run.whyslow -- TIMED TARGET"),
    ("whyslow record --off-cpu", "whyslow record -q --off-cpu -o OUT/run.whyslow -- TIMED TARGET"),
    ("whyslow record --wakers", "whyslow record -q --wakers -o OUT/run.whyslow -- TIMED TARGET"),
    ("perf record", "perf record -q -F 997 --call-graph dwarf,32768 -o OUT/perf.data -- TIMED TARGET"),
    (
        "perf record -e sched:sched_switch --call-graph dwarf",
        "perf record -q -e sched:sched_switch --call-graph dwarf -o OUT/perf.data -- TIMED TARGET",
    ),
    (
        "perf record --switch-events -e context-switches -c 1 --call-graph dwarf",
        "perf record -q --switch-events -e context-switches -c 1 --call-graph dwarf -o OUT/perf.data -- TIMED TARGET",
    ),
];

const METHOD: &str = "\
Two threads on one CPU that wake each other through pipes (`xtask/src/bench/waits/switches.c`), as root, all in turn, in each round another one first. *CPU* is the CPU time of the program \
alone against its plain run of the same round, *wall* how long it took: Hodges-Lehmann estimates of all rounds with intervals of 95 %. *Written* is the recording. What a tool could not keep it says \
itself; here it is not counted.\n\n";

/// What a run cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu: f64,
    wall: f64,
    bytes: f64,
}

/// The section. What cannot be measured here is said in its place.
pub(super) fn section(bench: &Bench, quick: bool, rounds: usize, command: &str) -> String {
    let mut out = format!("Made by `{command}`; {}.\n\n{METHOD}", machine());
    match tables(bench, quick, rounds) {
        Ok(text) => out.push_str(&text),
        Err(error) => {
            let _ = writeln!(out, "Not measured: {error:#}\n");
        }
    }
    out
}

fn tables(bench: &Bench, quick: bool, rounds: usize) -> Result<String> {
    let rounds = if quick { rounds } else { rounds.max(LEAST_ROUNDS) };
    let program = bench.folder.join("switches");
    let source = process::root().join("xtask/src/bench/waits/switches.c");
    process::must(process::command("cc").args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(source))?;
    let mut out = String::new();
    let some = if quick { 20 } else { 1 };
    for (title, switches, pause_us) in [
        ("As fast as it can", 200_000 / some, "0"),
        ("With 200 µs of work between two rounds", 10_000 / some, "200"),
    ] {
        let target = [program.clone().into_os_string(), switches.to_string().into(), pause_us.into()];
        let mut series = vec![Vec::new(); TOOLS.len()];
        for round in 0..rounds {
            for step in 0..TOOLS.len() {
                let number = (round + step) % TOOLS.len();
                let (name, command) = TOOLS[number];
                // Without all rounds its pairs would not be those of the others.
                if series[number].len() < round {
                    continue;
                }
                match measure(bench, command, &target) {
                    Ok(cost) => {
                        eprintln!("round {}/{rounds}  {name:<40} {cost:.4?}", round + 1);
                        series[number].push(cost);
                    }
                    Err(error) => eprintln!("{name} is left out: {error:#}"),
                }
            }
        }
        let _ = writeln!(out, "### {title}\n\n{} switches, {rounds} rounds.\n", 2 * switches);
        out.push_str(&table(&series, 2 * switches));
    }
    Ok(out)
}

fn table(series: &[Vec<Cost>], switches: u64) -> String {
    let mut out = String::from(
        "| recorded by | CPU | µs of CPU per switch | wall | written |\n|---|---|---|---|---|\n",
    );
    let plain = &series[0];
    for ((name, _), costs) in TOOLS.iter().zip(series).skip(1) {
        if costs.len() < plain.len() {
            let _ = writeln!(out, "| {name} | not measured | | | |");
            continue;
        }
        let ratio = |of: fn(&Cost) -> f64| {
            let pairs: Vec<_> = plain.iter().zip(costs).map(|(plain, cost)| (of(plain), of(cost))).collect();
            pairs::ratio(&pairs).map_or_else(
                || "-".to_owned(),
                |ratio| format!("× {:.2} ({:.2} to {:.2})", ratio.estimate, ratio.low, ratio.high),
            )
        };
        let added =
            plain.iter().zip(costs).map(|(plain, cost)| (cost.cpu - plain.cpu) / switches as f64 * 1e6);
        let added = pairs::shift(&added.collect::<Vec<_>>()).map_or_else(
            || "-".to_owned(),
            |Interval { estimate, low, high }| format!("{estimate:+.2} ({low:+.2} to {high:+.2})"),
        );
        let mut bytes: Vec<f64> = costs.iter().map(|cost| cost.bytes).collect();
        bytes.sort_by(f64::total_cmp);
        let written = bytes.get(bytes.len() / 2).map_or(0.0, |bytes| bytes / 1e6);
        let _ = writeln!(
            out,
            "| {name} | {} | {added} | {} | {written:.1} MB |",
            ratio(|cost| cost.cpu),
            ratio(|cost| cost.wall)
        );
    }
    out.push('\n');
    out
}

fn measure(bench: &Bench, command: &str, target: &[std::ffi::OsString]) -> Result<Cost> {
    let out = bench.fresh_folder()?;
    let inner = out.join("usage");
    let words = expand(command, &out, target).into_iter().flat_map(|word| {
        if word == "TIMED" {
            vec![bench.wrapper.clone().into_os_string(), inner.clone().into_os_string()]
        } else {
            vec![word]
        }
    });
    let (_, stdout) = bench.timed_output(&words.collect::<Vec<_>>(), &out)?;
    let took = Truth::parse(&stdout).counts.get("took_ns").copied().context("no took_ns")?;
    let size = |name: &str| std::fs::metadata(Path::new(&out).join(name)).map_or(0, |file| file.len());
    Ok(Cost {
        cpu: Usage::read(&inner)?.cpu_ns as f64 / 1e9,
        wall: took as f64 / 1e9,
        bytes: (size("run.whyslow") + size("perf.data")) as f64,
    })
}
