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
`asm` reads the library of the Rust compiler, and objdump the same symbol where the library tells it; and whyslow's own program as cargo builds it for development.\n\n";

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
    const FUNCTION: &str = "BorrowCheckRootCtxt>::do_mir_borrowck";
    let library = compiler_library()?;
    let asm = || command("whyslow", &["asm"], &library, FUNCTION);
    let size = megabytes(&library)?;
    row(
        out,
        &format!("`whyslow asm` of `{FUNCTION}` in a library of {size:.0} MB"),
        seconds(bench, rounds, &asm)?,
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
        row(out, "objdump of the same symbol", seconds(bench, rounds, &objdump)?);
    }
    with_debug_information(bench, rounds, out)
}

/// whyslow's own program, built without optimisation: no other one is at hand on every machine.
fn with_debug_information(bench: &Bench, rounds: usize, out: &mut String) -> Result<()> {
    const FUNCTION: &str = "whyslow_explain::explain";
    process::must(process::cargo().args(["build", "--quiet", "--package", "whyslow"]))?;
    let program = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let program = program.join("debug/whyslow");
    let size = megabytes(&program)?;
    let asm = || command("whyslow", &["asm"], &program, FUNCTION);
    let what = format!("`whyslow asm` of `{FUNCTION}` in a program of {size:.0} MB with debug information");
    row(out, &what, seconds(bench, rounds, &asm)?);
    let peer = || {
        let mut command = command("cargo-asm", &["asm", "--disasm", "--file"], &program, FUNCTION);
        command.arg("0");
        command
    };
    match seconds(bench, rounds, &peer) {
        Ok(time) => row(out, "cargo-show-asm of the same (`--disasm --file`, without source)", time),
        Err(_) => out.push_str(
            "| cargo-show-asm of the same | not measured: it is not installed with its feature `disasm` |\n",
        ),
    }
    Ok(())
}

fn command(tool: &str, words: &[&str], file: &Path, function: &str) -> Command {
    let mut command = Command::new(tool);
    command.args(words).arg(file).arg(function);
    command
}

fn row(out: &mut String, what: &str, seconds: f64) {
    let _ = writeln!(out, "| {what} | {seconds:.2} |");
}

fn megabytes(path: &Path) -> Result<f64> {
    Ok(std::fs::metadata(path)?.len() as f64 / 1e6)
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
