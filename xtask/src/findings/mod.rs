//! `cargo xtask findings`: how often `whyslow explain` is right. Records the programs of `lab/corpus`, with one
//! planted inefficiency each or with none, and real programs, and writes docs/findings/accuracy.md.

mod corpus;
mod gain;
mod page;
mod real;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::{self, cargo, root, target_folder};

/// Samples per second and CPU.
const RATE: &str = "4999";
/// The CPU time after which a process is ended. Elapsed time is no bound: a busy machine stretches it.
const CPU_SECONDS: &str = "100";
/// Only a process that waits for ever takes longer than this.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A finding of `whyslow explain`.
#[derive(Debug, Clone)]
struct Found {
    id: String,
    share: f64,
    of: String,
    function: String,
    file: String,
    line: u64,
    max_speedup: Option<f64>,
}

/// How a finding is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    /// It is what was planted.
    Planted,
    /// It is also true of this program.
    Right,
    /// It is not true, or its advice does not help.
    Wrong,
}

/// A finding in a run of a program, judged.
#[derive(Debug, Clone)]
struct Judged {
    program: String,
    found: Found,
    judgement: Judgement,
}

/// Where recordings and built programs go, and the whyslow that makes them.
struct Lab {
    whyslow: PathBuf,
    folder: PathBuf,
}

impl Lab {
    fn new() -> Result<Self> {
        process::must(cargo().args(["build", "--quiet", "--workspace", "--bin", "whyslow"]))?;
        let folder = target_folder().join("lab/findings");
        std::fs::create_dir_all(&folder)?;
        // A copy, so that a build meanwhile does not change what is measured.
        let whyslow = folder.join("whyslow");
        let _ = std::fs::remove_file(&whyslow);
        std::fs::copy(target_folder().join("debug/whyslow"), &whyslow)?;
        Ok(Self { whyslow, folder })
    }

    /// Records a command and returns its findings.
    fn explain(&self, options: &[String], program: &Path, arguments: &[&str]) -> Result<Vec<Found>> {
        let file = self.folder.join("run.whyslow");
        let mut record = bounded(&self.whyslow);
        let is_command = options.first().is_some_and(|option| !option.starts_with('-'));
        let usual = if is_command { &["-q"][..] } else { &["-q", "record", "-F", RATE] };
        record.args(usual).args(options).arg("-o").arg(&file).arg("--").arg(program).args(arguments);
        record.current_dir(&self.folder).env("TMPDIR", &self.folder);
        let _ = std::fs::remove_file(&file);
        let recorded = whyslow_lab_harness::run(&mut record, PATIENCE)?;
        // whyslow exits as the program does.
        let said = String::from_utf8_lossy(&recorded.stderr);
        ensure!(file.exists(), "{}: {said}", process::text(&record));
        let mut explain = Command::new(&self.whyslow);
        explain.args(["explain", "--format", "json"]).arg(&file);
        let explained = whyslow_lab_harness::run(&mut explain, PATIENCE)?;
        let json: Value = serde_json::from_slice(&explained.stdout).context("explain wrote no JSON")?;
        Ok(json["findings"].as_array().into_iter().flatten().map(found).collect())
    }
}

/// A command whose processes have [`CPU_SECONDS`] each.
fn bounded(program: &Path) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("ulimit -t {CPU_SECONDS}; exec \"$0\" \"$@\"")]).arg(program);
    shell
}

fn found(json: &Value) -> Found {
    let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
    Found {
        id: text("id"),
        share: json["share"].as_f64().unwrap_or(0.0),
        of: text("of"),
        function: text("function"),
        file: text("file"),
        line: json["line"].as_u64().unwrap_or(0),
        max_speedup: json["max_speedup"].as_f64(),
    }
}

/// Prints why a program could not be judged, and returns its name.
fn failure(name: &str, error: &anyhow::Error) -> String {
    eprintln!("{name}: FAILED: {error:#}");
    name.to_owned()
}

/// How many threads ran or were queued for a CPU in the last minute, on average.
fn load() -> Result<String> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    Ok(load.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Runs the corpus and the real programs. With names, only these, and nothing is written.
pub(crate) fn run(names: &[&str]) -> Result<bool> {
    let lab = Lab::new()?;
    let load_before = load()?;
    // The tree may change while the programs run.
    let commit = process::output(process::command("git").args(["rev-parse", "--short", "HEAD"]))?;
    let is_asked = |name: &str| names.is_empty() || names.contains(&name);
    let mut rows = Vec::new();
    // One program that fails does not end the run.
    let mut failed = Vec::new();
    for program in corpus::build(&lab)?.iter().filter(|program| is_asked(&program.name)) {
        match corpus::run(&lab, program) {
            Ok(row) => {
                eprintln!("{}", page::in_words(&row));
                rows.push(row);
            }
            Err(error) => failed.push(failure(&program.name, &error)),
        }
    }
    let (mut judged, mut skipped) = (Vec::new(), Vec::new());
    for program in real::PROGRAMS.iter().filter(|program| is_asked(program.name)) {
        match real::run(&lab, program) {
            Ok(Some(findings)) => {
                eprintln!("{}: {}", program.name, page::list(&findings));
                judged.push((program.name, findings));
            }
            Ok(None) => {
                eprintln!("{}: skipped, it is not installed", program.name);
                skipped.push(program.name);
            }
            Err(error) => failed.push(failure(program.name, &error)),
        }
    }
    ensure!(failed.is_empty() || !names.is_empty(), "no page, because these failed: {}", failed.join(", "));
    if names.is_empty() {
        let loads = [load_before, load()?];
        let page = page::write(&rows, &judged, &skipped, &loads, commit.trim())?;
        std::fs::write(root().join("docs/findings/accuracy.md"), page)?;
    }
    Ok(failed.is_empty())
}
