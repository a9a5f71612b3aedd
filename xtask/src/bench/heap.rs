//! What it costs to record the heap: whyslow, heaptrack and Valgrind's tools on the same load, in turn.

mod in_rust;
mod sampling;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use whyslow_lab_harness::{Truth, Variant, build};

use super::measure::{Bench, expand};
use super::report::{Spread, bytes, machine, spread};

/// A way to run the load.
struct Tool {
    name: &'static str,
    /// The command; `TARGET` is the load, `OUT` the folder of the run.
    command: &'static str,
    /// The load is divided by this, for tools that take very long.
    divided_by: u64,
}

const PLAIN: &str = "plain";
const WHYSLOW: &str = "whyslow heap";
const SAMPLED: &str = "whyslow heap --sample 512k";
const HEAPTRACK: &str = "heaptrack";

const TOOLS: [Tool; 7] = [
    Tool { name: PLAIN, command: "TARGET", divided_by: 1 },
    Tool { name: WHYSLOW, command: "whyslow heap -q -o OUT/run.whyslow -- TARGET", divided_by: 1 },
    Tool {
        name: SAMPLED,
        command: "whyslow heap -q --sample 512k -o OUT/run.whyslow -- TARGET",
        divided_by: 1,
    },
    Tool { name: HEAPTRACK, command: "heaptrack --raw -o OUT/heaptrack TARGET", divided_by: 1 },
    Tool {
        name: "massif",
        command: "valgrind -q --tool=massif --massif-out-file=OUT/massif.out TARGET",
        divided_by: 10,
    },
    Tool {
        name: "memcheck",
        command: "valgrind -q --leak-check=full --log-file=OUT/log TARGET",
        divided_by: 10,
    },
    Tool {
        name: "DHAT",
        command: "valgrind -q --tool=dhat --dhat-out-file=OUT/dhat.out TARGET",
        divided_by: 10,
    },
];

/// The loads: kind of stacks, threads, and the aim in nanoseconds per allocation.
const LOADS: [(&str, u64, f64); 4] =
    [("deep", 1, 300.0), ("deep", 2, 300.0), ("tree", 1, 150.0), ("tree", 2, 150.0)];

/// What one run cost, per allocation with its free.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// CPU time of the program, by its own account, in nanoseconds.
    program_ns: f64,
    /// CPU time of everything else that the tool started, in nanoseconds.
    beside_ns: f64,
    /// Of this, what whyslow's collector used while the program ran.
    collector_ns: Option<f64>,
    /// Peak resident memory of the largest process, in bytes.
    resident: f64,
}

/// All rounds of one tool on one load; a tool that failed once has none.
struct Series {
    tool: &'static Tool,
    costs: Vec<Cost>,
}

/// The section of BENCHMARKS.md. What cannot be measured here is said in its place.
pub(super) fn section(bench: &Bench, quick: bool, rounds: usize, command: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Made by `{command}`, {rounds} rounds; {}; {}.\n",
        machine(),
        versions(bench).join("; ")
    );
    out.push_str(METHOD);
    match loads(bench, quick, rounds) {
        Ok(text) => out.push_str(&text),
        Err(error) => {
            let _ = writeln!(out, "The load was not measured: {error:#}\n");
        }
    }
    let sampled =
        build("heap_load", Variant::Release).and_then(|load| sampling::section(bench, &load, quick));
    match sampled {
        Ok(text) => out.push_str(&text),
        Err(error) => {
            let _ = writeln!(out, "Sampling mode was not measured: {error:#}\n");
        }
    }
    out.push_str(&in_rust::section(bench, quick, rounds));
    match leak_check(bench, quick, rounds) {
        Ok(text) => out.push_str(&text),
        Err(error) => {
            let _ = writeln!(out, "The leak check was not measured: {error:#}\n");
        }
    }
    out
}

const METHOD: &str = "\
The load is `lab/programs/heap_load.c`: 64 allocating functions below stacks of about 33 frames, half of the blocks temporary, one
reallocation for eight allocations, 20,000 live blocks. `deep` goes down another way before each allocation, `tree` shares most of the stack
with its neighbour. *Added to the program* is the CPU time of the program itself, by its own account at its end, per
allocation with its free, less that of the plain run of the same round; medians with quartiles. *Beside the program* is the
CPU time of everything else that the tool starts, symbols included; in brackets that of whyslow's collector alone. The largest process may be
the program. Valgrind's tools, whose start-up is in the numbers, have a tenth of the load.

";

fn versions(bench: &Bench) -> Vec<String> {
    let said = |program: &str| {
        let mut command = bench.command(Path::new(program), &bench.folder, &bench.folder);
        let output = command.arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned())
    };
    ["whyslow", "heaptrack", "valgrind"].into_iter().filter_map(said).collect()
}

fn loads(bench: &Bench, quick: bool, rounds: usize) -> Result<String> {
    let program = build("heap_load", Variant::Release)?;
    let mallocs = if quick { 200_000 } else { 1_000_000 };
    let mut results: Vec<Vec<Series>> =
        LOADS.iter().map(|_| TOOLS.iter().map(|tool| Series { tool, costs: Vec::new() }).collect()).collect();
    for round in 0..rounds {
        for ((kind, threads, _), series) in LOADS.iter().zip(&mut results) {
            for step in 0..TOOLS.len() {
                let series = &mut series[(round + step) % TOOLS.len()];
                if series.costs.len() != round {
                    continue;
                }
                let arguments =
                    [(*kind).to_owned(), threads.to_string(), (mallocs / series.tool.divided_by).to_string()];
                match run(bench, series.tool, &program, &arguments) {
                    Ok(cost) => {
                        eprintln!(
                            "round {}/{rounds}  {kind} {threads}  {:<28} {:.0} ns per allocation",
                            round + 1,
                            series.tool.name,
                            cost.program_ns
                        );
                        series.costs.push(cost);
                    }
                    Err(error) => {
                        series.costs.clear();
                        eprintln!("{kind} {threads} / {} is left out: {error:#}", series.tool.name);
                    }
                }
            }
        }
    }
    let mut out = String::new();
    let mut aims = String::from("| load | aim | measured |\n|---|---|---|\n");
    let mut added = Vec::new();
    for ((kind, threads, aim), series) in LOADS.iter().zip(&results) {
        let name = cell(kind, *threads);
        table(&mut out, &name, series);
        added.push(judge(&mut aims, &name, *aim, series));
    }
    for (at, kind) in [(0, "deep"), (2, "tree")] {
        if let (Some(one), Some(two)) = (added[at], added[at + 1]) {
            let _ = writeln!(
                aims,
                "| {kind} | two threads cost no more than one | {one:.0} ns, then {two:.0} ns |"
            );
        }
    }
    let _ = writeln!(out, "{aims}");
    Ok(out)
}

/// A load's name.
fn cell(kind: &str, threads: u64) -> String {
    format!("{kind}, {threads} {}", if threads == 1 { "thread" } else { "threads" })
}

fn run(bench: &Bench, tool: &Tool, program: &Path, arguments: &[String]) -> Result<Cost> {
    let out = bench.fresh_folder()?;
    let mut target = vec![program.as_os_str().to_owned()];
    target.extend(arguments.iter().map(OsString::from));
    let (usage, stdout) = bench.timed_output(&expand(tool.command, &out, &target), &out)?;
    let truth = Truth::parse(&stdout);
    let count =
        |name: &str| truth.counts.get(name).copied().with_context(|| format!("{} said no {name}", tool.name));
    let (allocations, program_ns) = (count("allocations")? as f64, count("cpu_ns")? as f64);
    Ok(Cost {
        program_ns: program_ns / allocations,
        beside_ns: (usage.cpu_ns as f64 - program_ns).max(0.0) / allocations,
        collector_ns: collector(&out.join("run.whyslow")).map(|ns| ns / allocations),
        resident: usage.max_resident_kb as f64 * 1024.0,
    })
}

/// The CPU time of whyslow's collector, in nanoseconds, as its file has it.
fn collector(file: &Path) -> Option<f64> {
    let profile = whyslow_profile::file::read(file).ok()?;
    Some(profile.meta.heap?.collector_cpu_ns as f64)
}

/// What a tool adds to each allocation, against the plain run of the same round.
fn added(series: &Series, plain: &Series) -> Option<Spread> {
    spread(series.costs.iter().zip(&plain.costs).map(|(cost, plain)| cost.program_ns - plain.program_ns))
}

fn find<'a>(series: &'a [Series], name: &str) -> Option<&'a Series> {
    series.iter().find(|series| series.tool.name == name && !series.costs.is_empty())
}

fn median(series: &Series, value: impl Fn(&Cost) -> Option<f64>) -> Option<f64> {
    spread(series.costs.iter().filter_map(value)).map(|spread| spread.median)
}

fn table(out: &mut String, name: &str, series: &[Series]) {
    let Some(plain) = find(series, PLAIN) else { return };
    let cost = median(plain, |cost| Some(cost.program_ns)).unwrap_or_default();
    let _ = writeln!(out, "### {name}\n\nPlain: {cost:.0} ns per allocation.\n");
    out.push_str("| tool | added to the program | of heaptrack's | beside the program | largest process |\n");
    out.push_str("|---|---|---|---|---|\n");
    let heaptrack = find(series, HEAPTRACK).and_then(|heaptrack| added(heaptrack, plain));
    for series in series.iter().filter(|series| series.tool.name != PLAIN && !series.costs.is_empty()) {
        let Some(ours) = added(series, plain) else { continue };
        let share = heaptrack.map_or("-".into(), |theirs| format!("{:.2}", ours.median / theirs.median));
        let beside = median(series, |cost| Some(cost.beside_ns)).unwrap_or_default();
        let collector =
            median(series, |cost| cost.collector_ns).map_or(String::new(), |ns| format!(" ({ns:.0} ns)"));
        let _ = writeln!(
            out,
            "| {} | {:.0} ns ({:.0} to {:.0}) | {share} | {beside:.0} ns{collector} | {} |",
            series.tool.name,
            ours.median,
            ours.low,
            ours.high,
            bytes(median(series, |cost| Some(cost.resident)).unwrap_or_default())
        );
    }
    out.push('\n');
}

/// Writes down how far a load is from the aims; gives what whyslow adds to each allocation.
fn judge(aims: &mut String, name: &str, aim: f64, series: &[Series]) -> Option<f64> {
    let plain = find(series, PLAIN)?;
    let ours = find(series, WHYSLOW).and_then(|ours| added(ours, plain))?.median;
    let _ = writeln!(aims, "| {name} | at most {aim:.0} ns per allocation | {ours:.0} ns |");
    if let Some(theirs) = find(series, HEAPTRACK).and_then(|theirs| added(theirs, plain)) {
        let share = theirs.median / ours;
        let _ = writeln!(aims, "| {name} | at most a fifth of heaptrack's | 1/{share:.1} |");
    }
    Some(ours)
}

/// Wall-clock time with the leak check and without it, for a program with a million live blocks.
fn leak_check(bench: &Bench, quick: bool, rounds: usize) -> Result<String> {
    let program = build("heap_blocks", Variant::Release)?;
    let blocks = if quick { "100000" } else { "1000000" };
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..rounds.max(3) {
        for (option, seconds) in ["", "--no-leak-check"].into_iter().zip(&mut seconds) {
            let out = bench.fresh_folder()?;
            let target: [OsString; 2] = [program.clone().into(), blocks.into()];
            let command = format!("whyslow heap -q {option} -o OUT/run.whyslow -- TARGET");
            let words = expand(&command, &out, &target);
            let start = Instant::now();
            bench.timed_output(&words, &out)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    let [with, without] = seconds.map(|seconds| spread(seconds.into_iter()));
    let (with, without) = (with.context("no run")?, without.context("no run")?);
    Ok(format!(
        "Leak check of a program with {blocks} live blocks (`lab/programs/heap_blocks.c`): {:.2} s with it, {:.2} s without; it adds {:.2} s. \
         The aim is less than a second for a million.\n\n",
        with.median,
        without.median,
        with.median - without.median
    ))
}

/// The heading of the section in BENCHMARKS.md.
pub(super) const HEADING: &str = "## Heap";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_compared_with_the_plain_run_of_the_same_round() {
        let series = |tool: &'static Tool, costs: &[f64]| Series {
            tool,
            costs: costs
                .iter()
                .map(|ns| Cost { program_ns: *ns, beside_ns: 0.0, collector_ns: None, resident: 0.0 })
                .collect(),
        };
        let (plain, ours) =
            (series(&TOOLS[0], &[100.0, 200.0, 300.0]), series(&TOOLS[1], &[150.0, 260.0, 370.0]));
        assert_eq!(added(&ours, &plain).map(|spread| spread.median), Some(60.0));
    }
}
