//! Files of other tools, and the viewer: how long whyslow takes compared with a peer that does the same.

use std::fmt::Write;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use whyslow_lab_harness::{Variant, build};

use super::measure::Bench;
use crate::process;

/// Lines of the generated folded file: about 40 MB.
const FOLDED_LINES: u64 = 140_000;

/// A markdown section. It says what could not be measured here.
pub(super) fn section(bench: &Bench, rounds: usize) -> String {
    let mut out = String::from("| what | whyslow | peer | ratio |\n|---|---|---|---|\n");
    for (what, ours, theirs, prepare) in [
        (
            "perf.data to a profile with symbols, against perf script and inferno-collapse-perf",
            "whyslow import -q perf.data -o imported.whyslow",
            "perf script -i perf.data 2> /dev/null | inferno-collapse-perf > collapsed.folded",
            perf_data as fn(&Bench, &Path) -> Result<()>,
        ),
        (
            "40 MB of folded stacks to an SVG, against inferno-flamegraph",
            "whyslow flame -q large.folded -o ours.svg",
            "inferno-flamegraph large.folded > theirs.svg",
            folded,
        ),
    ] {
        match compare(bench, rounds, ours, theirs, prepare) {
            Ok((ours, theirs)) => {
                let ratio = theirs / ours;
                let _ = writeln!(out, "| {what} | {ours:.3} s | {theirs:.3} s | {ratio:.1} times |");
            }
            Err(error) => {
                let _ = writeln!(out, "| {what} | not measured: {error:#} | | |");
            }
        }
    }
    out.push('\n');
    match viewer() {
        Ok(text) => out.push_str(&text),
        Err(error) => {
            let _ = writeln!(out, "The viewer was not measured: {error:#}");
        }
    }
    out
}

/// The median wall time of two shell commands in seconds, run alternately.
fn compare(
    bench: &Bench,
    rounds: usize,
    ours: &str,
    theirs: &str,
    prepare: fn(&Bench, &Path) -> Result<()>,
) -> Result<(f64, f64)> {
    let out = bench.folder.join("formats");
    std::fs::create_dir_all(&out)?;
    prepare(bench, &out)?;
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..rounds.max(3) {
        for (script, seconds) in [ours, theirs].into_iter().zip(&mut seconds) {
            let mut command = bench.command(Path::new("sh"), &out, &bench.folder.join("warm-cache"));
            let start = Instant::now();
            ensure!(command.args(["-c", script]).status()?.success(), "{script} failed");
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    let [ours, theirs] = seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    });
    Ok((ours, theirs))
}

fn perf_data(bench: &Bench, out: &Path) -> Result<()> {
    let ratio = build("ratio", Variant::Release)?;
    let script = format!(
        "perf record -q -e cpu-clock -F 997 --call-graph dwarf -o perf.data -- {} 2 8000 > /dev/null",
        ratio.display()
    );
    let mut command = bench.command(Path::new("sh"), out, &bench.folder.join("warm-cache"));
    ensure!(command.args(["-c", &script]).status()?.success(), "perf cannot record here");
    Ok(())
}

/// Stacks of up to 40 frames out of 500 functions, in random order.
fn folded(_: &Bench, out: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(out.join("large.folded"))?);
    let mut random = 1u64;
    let mut below = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    for _ in 0..FOLDED_LINES {
        write!(file, "main")?;
        // Outer frames are few, inner ones many, as in real programs.
        for depth in 0..5 + below(10) {
            write!(file, ";crate_{}::module::function_{}", below(3 + depth), below(2 + 4 * depth))?;
        }
        writeln!(file, " {}", 1 + below(100))?;
    }
    file.flush()?;
    Ok(())
}

fn viewer() -> Result<String> {
    let measured = process::output(process::command("node").arg("viewer/test/measure.mjs"))?;
    let measured: serde_json::Value = serde_json::from_str(&measured)?;
    let number = |path: &str| measured.pointer(path).and_then(serde_json::Value::as_f64).context("no number");
    let mut opened: Vec<f64> = (0..3).map(|run| number(&format!("/open_ms/{run}"))).collect::<Result<_>>()?;
    opened.sort_by(f64::total_cmp);
    let mut text = format!(
        "The viewer with 1,000,000 samples over 200,000 stack nodes, in headless Chromium without a GPU: {:.1} MB of HTML, \
         first picture after {:.2} s, brush to redraw {:.0} ms (worst of 40 steps {:.0} ms; {:.0} ms of CPU), a zoom step {:.0} ms.\n",
        number("/html_bytes")? / 1e6,
        opened[1] / 1e3,
        number("/brush/median_ms")?,
        number("/brush/worst_ms")?,
        number("/brush/cpu_ms_per_step")?,
        number("/zoom/median_ms")?,
    );
    let _ = match (number("/firefox/brush/median_ms"), number("/firefox/brush/worst_ms")) {
        (Ok(median), Ok(worst)) => writeln!(
            text,
            "In Firefox: brush to redraw {median:.0} ms (worst of 40 steps {worst:.0} ms), a zoom step {:.0} ms.",
            number("/firefox/zoom/median_ms")?,
        ),
        _ => writeln!(text, "Firefox was not measured: it is not installed."),
    };
    Ok(text)
}
