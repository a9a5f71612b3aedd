//! How long answers from large profiles and programs take.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use whyslow_stats::median;

use super::measure::Bench;
use super::report::machine;
use crate::process;

/// The heading of the section in BENCHMARKS.md.
pub(super) const HEADING: &str = "## Answers";

const METHOD: &str = "\
From start to end of the command, median over the rounds. The profile is made up (`crates/whyslow-render/examples/view_sample.rs`): 1,000,000 samples over 200,000 stacks, 8,000 functions, 16 threads. \
`asm` reads the library of the Rust compiler, and objdump one symbol of it.\n\n";

/// The section. What cannot be measured here is said in its place.
pub(super) fn section(bench: &Bench, _: bool, rounds: usize, command: &str) -> String {
    let mut out = format!("Made by `{command}`; {}.\n\n{METHOD}| what | seconds |\n|---|---|\n", machine());
    if let Err(error) = profiles(bench, rounds, &mut out) {
        let _ = writeln!(out, "| answers from profiles | not measured: {error:#} |");
    }
    if let Err(error) = code(bench, rounds, &mut out) {
        let _ = writeln!(out, "| code | not measured: {error:#} |");
    }
    out
}

fn profiles(bench: &Bench, rounds: usize, out: &mut String) -> Result<()> {
    let file = bench.folder.join("sample.whyslow");
    let mut make = process::cargo();
    make.args(["run", "--quiet", "--release", "-p", "whyslow-render", "--example", "view_sample", "--"]);
    process::must(make.arg(bench.folder.join("sample.html")).arg(&file))?;
    let copies = (0..12).map(|copy| {
        let path = bench.folder.join(format!("copy-{copy}.whyslow"));
        std::fs::copy(&file, &path).map(|_| path)
    });
    let copies = copies.collect::<std::io::Result<Vec<PathBuf>>>()?;
    let of = |words: &[&str], files: &[PathBuf]| {
        let mut command = Command::new("whyslow");
        command.args(words).args(files);
        command
    };
    let several = || {
        let mut command = of(&["diff", "--before"], &copies[..6]);
        command.arg("--after").args(&copies[6..]);
        command
    };
    type Make<'a> = &'a dyn Fn() -> Command;
    let answers: [(&str, Make<'_>); 4] = [
        ("`whyslow explain`", &|| of(&["explain"], &copies[..1])),
        ("`whyslow report`", &|| of(&["report"], &copies[..1])),
        ("`whyslow diff`, one profile a side", &|| of(&["diff"], &copies[..2])),
        ("`whyslow diff`, six profiles a side", &several),
    ];
    for (what, command) in answers {
        let _ = writeln!(out, "| {what} | {:.2} |", seconds(bench, rounds, command)?);
    }
    Ok(())
}

fn code(bench: &Bench, rounds: usize, out: &mut String) -> Result<()> {
    const FUNCTION: &str = "rustc_borrowck::do_mir_borrowck";
    let library = compiler_library()?;
    let size = std::fs::metadata(&library)?.len() as f64 / 1e6;
    let asm = || {
        let mut command = Command::new("whyslow");
        command.arg("asm").arg(&library).arg(FUNCTION);
        command
    };
    let _ = writeln!(
        out,
        "| `whyslow asm` of `{FUNCTION}` in a library of {size:.0} MB | {:.2} |",
        seconds(bench, rounds, &asm)?
    );
    let symbols = process::output(process::command("nm").arg("-D").arg(&library)).unwrap_or_default();
    let symbol = symbols
        .lines()
        .find(|line| line.contains("do_mir_borrowck"))
        .and_then(|line| line.split(' ').next_back());
    if let Some(symbol) = symbol {
        let objdump = || {
            let mut command = Command::new("objdump");
            command.arg("-d").arg(format!("--disassemble={symbol}")).arg(&library);
            command
        };
        let _ = writeln!(out, "| objdump of the same symbol | {:.2} |", seconds(bench, rounds, &objdump)?);
    }
    Ok(())
}

/// A large library with names, which every machine that builds whyslow has.
fn compiler_library() -> Result<PathBuf> {
    let root = process::output(process::command("rustc").args(["--print", "sysroot"]))?;
    let folder = Path::new(root.trim()).join("lib");
    let is_compiler = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librustc_driver"))
    };
    let files = std::fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    files.into_iter().find(is_compiler).context("the compiler has no library of its own")
}

fn seconds(bench: &Bench, rounds: usize, make: &dyn Fn() -> Command) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let mut command = make();
        let start = Instant::now();
        let status = command
            .env("PATH", &bench.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let status =
            status.with_context(|| format!("{} is not installed", command.get_program().display()))?;
        times.push(start.elapsed().as_secs_f64());
        ensure!(status.success(), "{} failed", process::text(&command));
    }
    Ok(median(&times))
}
