//! The result as markdown: medians, quartiles and ratios.

use std::fmt::Write;

use super::measure::Run;
use super::programs::Program;
use super::quality::Quality;
use super::tools::{
    FLAMEGRAPH, PERF, PLAIN, SAMPLY, SAMPLY_SYMBOLS, TOOLS, Tool, WHYSLOW, WHYSLOW_COLD, WHYSLOW_REBUILT,
    WHYSLOW_RECORD,
};
use super::{answers, heap, samplers, verdicts, waits};
use crate::process;

/// All rounds of one tool on one program.
pub(super) struct Series {
    pub(super) tool: &'static Tool,
    pub(super) runs: Vec<Run>,
    pub(super) quality: Option<Quality>,
}

/// All tools on one program.
pub(super) struct Results {
    pub(super) program: Program,
    pub(super) series: Vec<Series>,
}

/// Sections that are not about one program.
pub(super) struct Extra<'a> {
    pub(super) memory: &'a str,
    pub(super) formats: &'a str,
    pub(super) heap: &'a str,
    pub(super) samplers: &'a str,
    pub(super) waits: &'a str,
    pub(super) verdicts: &'a str,
    pub(super) answers: &'a str,
}

/// One of the costs of a run.
type Value = fn(&Run) -> f64;

/// First quartile, median, third quartile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

pub(super) fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let mut values = values.collect::<Vec<_>>();
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = |share: f64| {
        let place = share * last as f64;
        let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    Some(Spread { low: at(0.25), median: at(0.5), high: at(0.75) })
}

impl Results {
    fn series(&self, tool: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.tool.name == tool && !series.runs.is_empty())
    }

    fn median(&self, tool: &str, value: impl Fn(&Run) -> f64) -> Option<f64> {
        spread(self.series(tool)?.runs.iter().map(value)).map(|spread| spread.median)
    }

    /// How many times more a peer needs than whyslow does.
    fn ratio(&self, peer: &str, tool: &str, value: impl Fn(&Run) -> f64 + Copy) -> Option<f64> {
        Some(self.median(peer, value)? / self.median(tool, value)?)
    }

    /// The program's CPU time against its plain run in the same round.
    fn overhead(&self, series: &Series) -> Option<Spread> {
        let plain = self.series(PLAIN)?;
        spread(
            series.runs.iter().zip(&plain.runs).map(|(run, plain)| run.target_cpu / plain.target_cpu - 1.0),
        )
    }
}

pub(super) fn markdown(
    results: &[Results],
    extra: &Extra<'_>,
    versions: &[String],
    command: &str,
    rounds: usize,
) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# Benchmarks\n");
    let _ =
        writeln!(out, "Made by `{command}`: {rounds} rounds, in each of which every tool runs once on every");
    let _ = writeln!(out, "program, in turn. Numbers are medians (quartiles in brackets).\n");
    let _ = writeln!(out, "- {}", machine());
    let _ = writeln!(out, "- {}\n", versions.join("; "));
    out.push_str(METHOD);
    for results in results {
        program(&mut out, results);
    }
    out.push_str("\n## Against the aims\n\n");
    out.push_str("| program | aim | measured |\n|---|---|---|\n");
    for results in results {
        aims(&mut out, results);
    }
    let _ = writeln!(out, "\n## Memory of the recorder\n\n{MEMORY}\n\n{}", extra.memory);
    let _ = writeln!(
        out,
        "## Formats and viewer\n\nMedians of wall-clock time, run in turn.\n\n{}",
        extra.formats
    );
    let sections = [
        (heap::HEADING, extra.heap),
        (samplers::HEADING, extra.samplers),
        (waits::HEADING, extra.waits),
        (verdicts::HEADING, extra.verdicts),
        (answers::HEADING, extra.answers),
    ];
    for (heading, text) in sections {
        let _ = writeln!(out, "{heading}\n\n{}\n", text.trim_end());
    }
    out.push_str("## Command lines\n\n");
    for tool in TOOLS.iter().filter(|tool| tool.name != PLAIN) {
        let then = if tool.then.is_empty() { String::new() } else { format!(", then `{}`", tool.then) };
        let _ = writeln!(out, "- {}: `{}`{then}", tool.name, tool.record);
    }
    out
}

const METHOD: &str = "\
How it is measured: a wrapper (`xtask/src/bench/timed.c`) is the program that each tool records. It starts the real program,
waits for it, and writes down the CPU time the kernel accounts for it, and when it ended. The same wrapper around the tool gives the
CPU time of everything the tool started; what remains without the program is the tool's own (*recorder CPU in all*; whyslow has
symbols in its file by then, perf and plain samply do not). *Added to the program* compares with
the plain run of the same round; on a shared machine differences of a few percent are noise. *Exit to result* is wall-clock
time from the program's end until the flame graph (for samply: the profile with its symbols) is on disk. *Largest process* is the peak
resident memory of the biggest process while recording; where the recorded program is bigger than the recorder it is the
program's. `perf` runs at its default dump of 8 KB, `cargo-flamegraph` at its own of 64 KB. `samply` gives up at
`perf_event_paranoid` 2 where there is no hardware counter, even as root, so it is shown a 1 there.
";

const MEMORY: &str = "\
What whyslow holds grows with distinct addresses and call paths (up to two million paths, then it starts anew), with open
threads and modules, and with what is not yet written; not with the number of samples. One run each:";

fn program(out: &mut String, results: &Results) {
    let _ = writeln!(out, "\n## {}\n\n{}\n", results.program.name, results.program.what);
    if let Some(plain) = results.median(PLAIN, |run| run.target_cpu) {
        let memory = results.median(PLAIN, |run| run.max_resident).unwrap_or_default();
        let _ = writeln!(out, "Plain: {plain:.2} s of CPU time, {} of memory.\n", bytes(memory));
    }
    out.push_str("| tool | added to the program | recorder CPU while the program runs | recorder CPU in all | CPU to result | exit to result | file | samples | bytes per sample | complete stacks | largest process |\n");
    out.push_str("|---|---|---|---|---|---|---|---|---|---|---|\n");
    for series in results.series.iter().filter(|series| series.tool.name != PLAIN && !series.runs.is_empty())
    {
        let median =
            |value: fn(&Run) -> f64| spread(series.runs.iter().map(value)).map_or(f64::NAN, |s| s.median);
        let overhead = results.overhead(series).map_or("-".into(), |spread| {
            let percent = |value: f64| format!("{:+.1}", value * 100.0);
            format!("{} % ({} to {})", percent(spread.median), percent(spread.low), percent(spread.high))
        });
        let file = median(|run| run.file_bytes);
        let quality = series.quality.unwrap_or_default();
        let known = results.program.known_stacks;
        let complete =
            quality.complete.filter(|_| known).map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
        let per_sample =
            if quality.samples == 0 { "-".into() } else { format!("{:.1}", file / quality.samples as f64) };
        let _ = writeln!(
            out,
            "| {} | {overhead} | {} | {} | {:.3} s | {} | {} | {} | {per_sample} | {complete} | {} |",
            series.tool.name,
            with_quartiles(spread(series.runs.iter().map(|run| run.running_cpu))),
            with_quartiles(spread(series.runs.iter().map(|run| run.recorder_cpu))),
            median(|run| run.total_cpu),
            with_quartiles(spread(series.runs.iter().map(|run| run.to_result))),
            bytes(file),
            quality.samples,
            bytes(median(|run| run.max_resident)),
        );
    }
    let second =
        |value: fn(&Run) -> Option<f64>| spread(results.series(WHYSLOW)?.runs.iter().filter_map(value));
    if let (Some(flame), Some(report)) = (second(|run| run.second_flame), second(|run| run.second_report)) {
        let _ = writeln!(
            out,
            "\nSecond look at the same file: `whyslow flame` {:.0} ms, `whyslow report` {:.0} ms.",
            flame.median * 1e3,
            report.median * 1e3
        );
    }
}

fn with_quartiles(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), |s| format!("{:.3} s ({:.3} to {:.3})", s.median, s.low, s.high))
}

/// The aims of the project, and how far this run is from them.
fn aims(out: &mut String, results: &Results) {
    let mut row = |aim: &str, measured: Option<String>| {
        if let Some(measured) = measured {
            let _ = writeln!(out, "| {} | {aim} | {measured} |", results.program.name);
        }
    };
    let times = |ratio: Option<f64>| ratio.map(|ratio| format!("{ratio:.1} times"));
    let to_result = |run: &Run| run.to_result;
    row(
        "exit to flame graph at least 10 times faster than cargo-flamegraph",
        times(results.ratio(FLAMEGRAPH, WHYSLOW, to_result)),
    );
    row("the same, with a new binary", times(results.ratio(FLAMEGRAPH, WHYSLOW_REBUILT, to_result)));
    row("the same, the first time on a machine", times(results.ratio(FLAMEGRAPH, WHYSLOW_COLD, to_result)));
    row(
        "at least 3 times faster than samply with symbols",
        times(results.ratio(SAMPLY_SYMBOLS, WHYSLOW, to_result)),
    );
    row("the same, with a new binary", times(results.ratio(SAMPLY_SYMBOLS, WHYSLOW_REBUILT, to_result)));
    row(
        "the same, the first time on a machine",
        times(results.ratio(SAMPLY_SYMBOLS, WHYSLOW_COLD, to_result)),
    );
    let less = |ratio: Option<f64>| ratio.map(|ratio| format!("1/{ratio:.1}"));
    let running: Value = |run| run.running_cpu;
    let in_all: Value = |run| run.recorder_cpu;
    for (peer, aim) in [(SAMPLY, "1/5 of samply's"), (PERF, "1/10 of perf's")] {
        let while_running = less(results.ratio(peer, WHYSLOW, running));
        row(&format!("recorder CPU time while the program runs at most {aim}"), while_running);
        let whole = less(results.ratio(peer, WHYSLOW_RECORD, in_all));
        row("in all, although whyslow finds symbols too", whole);
    }
    let file = |run: &Run| run.file_bytes;
    let share = results.ratio(WHYSLOW, PERF, file).map(|share| format!("{:.2} %", share * 100.0));
    row("file at most 1 % of perf.data", share);
    let second = results
        .series(WHYSLOW)
        .and_then(|series| spread(series.runs.iter().filter_map(|run| run.second_flame)));
    row("second look under 100 ms", second.map(|second| format!("{:.0} ms", second.median * 1e3)));
}

/// The largest unit that leaves at least one digit before the point.
pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} KB", b / 1e3),
        b => format!("{b:.0} B"),
    }
}

/// The date and the machine in one line.
pub(super) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let date = process::output(process::command("date").args(["-u", "+%Y-%m-%d"])).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory =
        memory.split(' ').next().and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1048576.0;
    format!(
        "{}: {}, {cpus} CPUs, {memory:.0} GiB, Linux {}",
        date.trim(),
        field(&read("/proc/cpuinfo"), "model name"),
        read("/proc/sys/kernel/osrelease").trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let expected = Spread { low: 1.75, median: 2.5, high: 3.25 };
        assert_eq!(spread([4.0, 1.0, 3.0, 2.0].into_iter()), Some(expected));
        assert_eq!(spread(std::iter::empty()), None);
    }
}
