//! How often verdicts are wrong, and what they find: long series of `whyslow bench`, cut into windows.

use std::fmt::Write;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use whyslow_stats::median;
use whyslow_stats::pairs::{ALPHA, Walsh, log_ratios};
use whyslow_stats::random::Random;
use whyslow_stats::verdict::Verdict;

use super::measure::Bench;
use super::report::machine;
use crate::process;

/// The heading of the section in BENCHMARKS.md.
pub(super) const HEADING: &str = "## Verdicts";

const METHOD: &str = "\
`whyslow bench` of a loop (`xtask/src/bench/verdicts/work.c`, some 10 ms) against itself, and against one with 2, 5 and 10 % less to do, alone and beside two programs that take all CPUs. The rounds of one long series are cut into \
windows of n pairs that do not overlap, and each is judged by itself at a margin of 1 %. *Wrong* are the windows of the same command that are called faster or slower; 5 of 100 are allowed. *Found* are those that are called faster. \
*Held* are the windows whose interval holds the estimate of the whole series. A real series has few windows, and its machine \
changes while it lasts. So the recorded noise of the same command is drawn from again: windows that begin anywhere, each pair in an order that is drawn anew, and a difference that is known. There *held* means that the interval has the truth.\n\n";

/// Pairs in a window.
const WINDOWS: [usize; 3] = [10, 20, 40];
const STEPS: u64 = 10_000;

/// The section. What cannot be measured here is said in its place.
pub(super) fn section(bench: &Bench, quick: bool, _: usize, command: &str) -> String {
    let mut out = format!("Made by `{command}`; {}.\n\n{METHOD}", machine());
    match tables(bench, quick) {
        Ok(text) => out.push_str(&text),
        Err(error) => {
            let _ = writeln!(out, "Not measured: {error:#}\n");
        }
    }
    match overhead(bench, quick) {
        Ok(text) => out.push_str(&text),
        Err(error) => {
            let _ = writeln!(out, "The cost of a run is not measured: {error:#}\n");
        }
    }
    out
}

/// Both times of all runs of both commands.
struct Series {
    wall: [Vec<f64>; 2],
    cpu: [Vec<f64>; 2],
}

fn tables(bench: &Bench, quick: bool) -> Result<String> {
    let program = bench.folder.join("work");
    let source = process::root().join("xtask/src/bench/verdicts/work.c");
    process::must(process::command("cc").args(["-O2", "-o"]).arg(&program).arg(source))?;
    let rounds = if quick { 40 } else { 600 };
    let mut same = String::from("| machine | time | n | windows | wrong |\n|---|---|---|---|---|\n");
    let mut simulated = String::from(
        "| machine | time | n | wrong | held | found -2 % | found -5 % | found -10 % |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut other = String::from(
        "| machine | time | difference | n | windows | found | held |\n|---|---|---|---|---|---|---|\n",
    );
    for (around, hogs) in [("alone", 0), ("beside two others", 2)] {
        let _hogs = (0..hogs).map(|_| Hog::new()).collect::<Result<Vec<_>>>()?;
        for less in [0, 2, 5, 10] {
            eprintln!("{around}, {less} % less");
            let rounds = if less == 0 { rounds } else { rounds / 2 };
            let first = format!("{} {STEPS}", program.display());
            let second = format!("{} {}", program.display(), STEPS * (100 - less) / 100);
            let series = series(bench, &first, &second, rounds)?;
            for (time, values) in [("wall", &series.wall), ("CPU", &series.cpu)] {
                let differences = log_ratios(&values[0], &values[1]).context("a run took no time")?;
                let whole = Walsh::new(&differences).estimate();
                if less == 0 {
                    for pairs in WINDOWS {
                        let _ = writeln!(
                            simulated,
                            "| {around} | {time} | {pairs} | {} |",
                            Simulated::row(&differences, pairs)
                        );
                    }
                }
                for pairs in WINDOWS {
                    let intervals = differences
                        .chunks_exact(pairs)
                        .filter_map(|window| Walsh::new(window).interval(ALPHA));
                    let intervals = intervals.collect::<Vec<_>>();
                    let count = |is: &dyn Fn(Verdict) -> bool| {
                        intervals.iter().filter(|interval| is(Verdict::of(**interval, 0.01))).count()
                    };
                    let held = intervals
                        .iter()
                        .filter(|interval| interval.low <= whole && whole <= interval.high)
                        .count();
                    let all = intervals.len();
                    let share =
                        |some: usize| format!("{some} ({:.0} %)", 100.0 * some as f64 / all.max(1) as f64);
                    let _ = match less {
                        0 => writeln!(
                            same,
                            "| {around} | {time} | {pairs} | {all} | {} |",
                            share(count(&Verdict::is_claim))
                        ),
                        _ => writeln!(
                            other,
                            "| {around} | {time} | -{less} % | {pairs} | {all} | {} | {} |",
                            share(count(&|verdict| verdict == Verdict::Less)),
                            share(held)
                        ),
                    };
                }
            }
        }
    }
    Ok(format!(
        "### The same command\n\n{same}\n### Less to do\n\n{other}\n### Drawn again from the noise, {DRAWN} windows each\n\n{simulated}\n"
    ))
}

/// Windows that are drawn from recorded noise.
const DRAWN: usize = 10_000;

/// What windows with a known difference say.
struct Simulated {
    claimed: usize,
    held: usize,
    found: usize,
}

impl Simulated {
    /// Draws windows of so many pairs, whose second command takes `ratio` of the time of the first.
    fn draw(noise: &[f64], pairs: usize, ratio: f64) -> Self {
        let mut random = Random::new(7);
        let mut seen = Self { claimed: 0, held: 0, found: 0 };
        let truth = ratio.ln();
        for _ in 0..DRAWN {
            let start = random.below(noise.len() + 1 - pairs.min(noise.len()));
            let window = noise[start..].iter().take(pairs);
            // The same command on both sides: either could have been the first.
            let window = window.map(|value| truth + if random.below(2) == 0 { *value } else { -value });
            let Some(interval) = Walsh::new(&window.collect::<Vec<_>>()).interval(ALPHA) else { continue };
            let verdict = Verdict::of(interval, 0.01);
            seen.claimed += usize::from(verdict.is_claim());
            seen.found += usize::from(verdict == Verdict::Less);
            seen.held += usize::from(interval.low <= truth && truth <= interval.high);
        }
        seen
    }

    fn row(noise: &[f64], pairs: usize) -> String {
        let percent = |some: usize| format!("{:.1} %", 100.0 * some as f64 / DRAWN as f64);
        let same = Self::draw(noise, pairs, 1.0);
        let found = [0.98, 0.95, 0.90].map(|ratio| percent(Self::draw(noise, pairs, ratio).found));
        format!("{} | {} | {}", percent(same.claimed), percent(same.held), found.join(" | "))
    }
}

fn series(bench: &Bench, first: &str, second: &str, rounds: usize) -> Result<Series> {
    let file = bench.folder.join("bench.json");
    let runs = rounds.to_string();
    let status = Command::new("whyslow")
        .env("PATH", &bench.path)
        .args(["-q", "bench", "--runs", &runs, "--export-json"])
        .arg(&file)
        .args([first, second])
        .status()?;
    ensure!(status.success(), "whyslow bench failed");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    let of = |command: usize, fields: &[&str]| {
        let runs = json["commands"][command]["runs"].as_array().cloned().unwrap_or_default();
        runs.iter()
            .map(|run| fields.iter().filter_map(|field| run[*field].as_f64()).sum())
            .collect::<Vec<f64>>()
    };
    let both = |fields: &[&str]| [of(0, fields), of(1, fields)];
    Ok(Series { wall: both(&["wall_ns"]), cpu: both(&["user_ns", "system_ns"]) })
}

/// A program that takes a CPU as long as it lives.
struct Hog(Child);

impl Hog {
    fn new() -> Result<Self> {
        let hog = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn()?;
        Ok(Self(hog))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a run of a command that does nothing takes of the tool's time.
fn overhead(bench: &Bench, quick: bool) -> Result<String> {
    let runs = if quick { "100" } else { "1000" };
    let tools: [(&str, &[&str]); 2] = [
        ("whyslow bench", &["whyslow", "-q", "bench", "--warmup", "1", "--runs", runs, "true"]),
        ("hyperfine -N", &["hyperfine", "-N", "--style", "none", "--warmup", "1", "--runs", runs, "true"]),
    ];
    let rounds = if quick { 3 } else { 9 };
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for step in 0..tools.len() {
            let which = (round + step) % tools.len();
            let words = tools[which].1;
            let start = Instant::now();
            let output = Command::new(words[0])
                .env("PATH", &bench.path)
                .args(&words[1..])
                .stdin(Stdio::null())
                .output();
            let output = output.with_context(|| format!("{} is not installed", words[0]))?;
            ensure!(output.status.success(), "{} failed", words[0]);
            times[which].push(start.elapsed().as_secs_f64() * 1e6 / runs.parse::<f64>()?);
        }
    }
    let ratio =
        log_ratios(&times[1], &times[0]).and_then(|differences| Walsh::new(&differences).interval(ALPHA));
    let mut out = format!(
        "### What a run costs\n\n`true`, {runs} runs, {rounds} rounds in turn; from start to end of the tool, by run.\n\n| tool | µs per run, median |\n|---|---|\n"
    );
    for ((name, _), times) in tools.iter().zip(&times) {
        let _ = writeln!(out, "| {name} | {:.0} |", median(times));
    }
    let ratio = ratio.map_or("too few rounds for a ratio".to_owned(), |ratio| {
        let ratio = ratio.exp();
        format!(
            "whyslow takes × {:.3} ({:.3} to {:.3}) of hyperfine's time",
            ratio.estimate, ratio.low, ratio.high
        )
    });
    let _ = writeln!(out, "\n{ratio}.\n");
    Ok(out)
}
