//! The recorder's memory in cases where it could grow: many threads, many processes, a long run.

use std::ffi::OsString;
use std::fmt::Write;

use anyhow::{Context, Result};
use whyslow_lab_harness::{Variant, build};

use super::measure::Bench;
use super::programs::Program;
use super::quality;
use super::tools::{TOOLS, WHYSLOW_RECORD};

/// A markdown table with one row per load.
pub(super) fn table(bench: &Bench, milliseconds: u64) -> Result<String> {
    let tool =
        TOOLS.iter().find(|tool| tool.name == WHYSLOW_RECORD).context("the tool is missing from the list")?;
    let ratio = build("ratio", Variant::Release)?.into_os_string();
    let threads = build("threads", Variant::Release)?.into_os_string();
    let crowd = format!("for i in $(seq 200); do {} 1 20 & done; wait", ratio.to_string_lossy());
    let long = (10 * milliseconds).to_string();
    let loads: [(&str, Vec<OsString>); 4] = [
        ("two threads", vec![ratio.clone(), "2".into(), milliseconds.to_string().into()]),
        ("two threads, ten times as long", vec![ratio, "2".into(), long.into()]),
        ("1,000 threads", vec![threads, "1000".into(), milliseconds.to_string().into()]),
        ("200 processes at once", vec!["sh".into(), "-c".into(), crowd.into()]),
    ];
    let mut out = String::from("| load | samples | largest process | file |\n|---|---|---|---|\n");
    for (what, command) in loads {
        eprintln!("memory: {what}");
        let program = Program { name: "load", what: what.into(), command, known_stacks: false };
        let (run, folder) = bench.run(tool, &program)?;
        let samples = quality::of(bench, tool, &folder)?.samples;
        let (memory, file) = (run.max_resident / 1e6, run.file_bytes / 1e3);
        let _ = writeln!(out, "| {what} | {samples} | {memory:.1} MB | {file:.1} KB |");
    }
    Ok(out)
}
