//! `cargo xtask fuzz`: fuzzes every parser of external data for a given time.
//!
//! Corpora start from the golden files, the formats' samples and the lab's programs. They are kept in the
//! target folder, so that each run continues where the last one ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::process;

/// A fuzz target, where the seeds of its corpus are, and what is put before each of them.
struct Target {
    name: &'static str,
    seeds: &'static [&'static str],
    /// Settings that the target reads from the first byte.
    prefix: &'static [u8],
}

const TARGETS: [Target; 10] = [
    Target { name: "profile", seeds: &["crates/whyslow-profile/tests/golden"], prefix: &[] },
    // The format is detected.
    Target { name: "import", seeds: &["crates/whyslow-formats/tests/samples"], prefix: &[0xff] },
    Target {
        name: "elf",
        seeds: &["target/lab", "crates/whyslow-formats/tests/samples/aarch64"],
        prefix: &[],
    },
    Target { name: "size", seeds: &["target/lab"], prefix: &[] },
    Target { name: "symbols", seeds: &["target/lab"], prefix: &[] },
    Target { name: "agent_wire", seeds: &[], prefix: &[] },
    Target { name: "asm", seeds: &[], prefix: &[] },
    Target { name: "marks", seeds: &[], prefix: &[] },
    Target { name: "memcheck", seeds: &["crates/whyslow-memcheck/tests/samples"], prefix: &[] },
    Target { name: "suppressions", seeds: &["crates/whyslow-heap/src/leaks/suppressions"], prefix: &[] },
];

/// Larger files slow the fuzzer down more than they help it.
const LARGEST_SEED: u64 = 64 << 10;
/// Time limit per input: a hang is a bug.
const SECONDS_PER_INPUT: u32 = 10;
const MEMORY_MB: u32 = 2048;

/// Runs all targets, or the named ones. True if none found a bug.
pub(crate) fn run(options: &[&str]) -> Result<bool> {
    let (mut minutes, mut named) = (6.0, Vec::new());
    let mut rest = options.iter();
    while let Some(&option) = rest.next() {
        match (option, rest.next()) {
            ("--minutes", Some(value)) => minutes = value.parse().context("--minutes takes a number")?,
            ("--target", Some(value)) => named.push(*value),
            _ => bail!("usage: cargo xtask fuzz [--minutes N] [--target NAME]"),
        }
    }
    if let Some(unknown) = named.iter().find(|name| !TARGETS.iter().any(|target| target.name == **name)) {
        bail!("unknown target {unknown}; the targets are {}", TARGETS.map(|target| target.name).join(", "));
    }
    if process::find("cargo-fuzz").is_none() {
        bail!(
            "cargo-fuzz is not installed; try: cargo install cargo-fuzz && rustup toolchain install nightly"
        );
    }
    let targets: Vec<_> =
        TARGETS.iter().filter(|target| named.is_empty() || named.contains(&target.name)).collect();
    let each = Duration::from_secs_f64(minutes * 60.0 / targets.len() as f64);
    let (mut all, mut executions) = (true, 0);
    for target in targets {
        let outcome = fuzz(target, each)?;
        let verdict = if outcome.well { "ok" } else { "FAULT" };
        println!("{verdict:8} {:14} {} executions", target.name, outcome.executions);
        all &= outcome.well;
        executions += outcome.executions;
    }
    println!("{executions} executions in total");
    Ok(all)
}

struct Outcome {
    well: bool,
    executions: u64,
}

fn fuzz(target: &Target, time: Duration) -> Result<Outcome> {
    let corpus = process::target_folder().join("fuzz-corpus").join(target.name);
    fs::create_dir_all(&corpus)?;
    for folder in target.seeds {
        seed(&process::root().join(folder), &corpus, target.prefix)?;
    }
    let mut command = Command::new("cargo");
    command.current_dir(process::root()).args([
        "+nightly",
        "fuzz",
        "run",
        "--fuzz-dir",
        "fuzz",
        "--target-dir",
    ]);
    command.arg(process::target_folder().join("fuzz")).arg(target.name).arg(&corpus).arg("--");
    command.arg(format!("-max_total_time={}", time.as_secs().max(1)));
    command.arg(format!("-timeout={SECONDS_PER_INPUT}")).arg(format!("-rss_limit_mb={MEMORY_MB}"));
    command.args(["-print_final_stats=1", "-detect_leaks=0", "-verbosity=0"]);
    // Otherwise the toolchain that started this program would be used instead of the nightly one.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").stdin(Stdio::null());
    eprintln!("$ {}", process::text(&command));
    let output = command.output().context("cannot run cargo fuzz")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let executions = said
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0);
    if !output.status.success() {
        eprintln!("{said}");
    }
    Ok(Outcome { well: output.status.success() && executions > 0, executions })
}

/// Copies the small files of a folder and its subfolders.
fn seed(from: &Path, corpus: &Path, prefix: &[u8]) -> Result<()> {
    let mut folders = vec![from.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && entry.metadata()?.len() <= LARGEST_SEED {
                copy(&entry.path(), corpus, prefix)?;
            }
        }
    }
    Ok(())
}

fn copy(file: &Path, corpus: &Path, prefix: &[u8]) -> Result<()> {
    let name: PathBuf = file.file_name().unwrap_or_default().into();
    let bytes = [prefix, &fs::read(file)?].concat();
    Ok(fs::write(corpus.join(name), bytes)?)
}
