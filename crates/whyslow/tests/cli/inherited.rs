//! Every program that whyslow starts inherits the signal mask and dispositions that whyslow was started with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use whyslow_lab_harness::{Variant, build_or_skip};

use crate::harness::{Folder, can_record, outcome};

/// A way of starting a program: whyslow's arguments, and the program that it starts. `inherits` plays that program,
/// so that whyslow may fail afterwards.
struct Way {
    arguments: &'static [&'static str],
    starts: &'static str,
    /// Whether it is also needed for what comes before: `inherits` goes on as the real program.
    goes_on: bool,
}

const fn way(arguments: &'static [&'static str], starts: &'static str) -> Way {
    Way { arguments, starts, goes_on: false }
}

/// A way that needs the real program too.
const fn real(arguments: &'static [&'static str], starts: &'static str) -> Way {
    Way { goes_on: true, ..way(arguments, starts) }
}

const APP: &str = "./app";
const WAYS: [Way; 23] = [
    way(&["-o", "app.whyslow", "--", APP], "app"),
    way(&["record", "-o", "app.whyslow", "--", APP], "app"),
    way(&["record", "--sampler", "timer", "-o", "app.whyslow", "--", APP], "app"),
    way(&["heap", "-o", "app.whyslow", "--", APP], "app"),
    way(&["stat", "--", APP], "app"),
    way(&["stat", "-r", "3", "--", APP], "app"),
    way(&["diff", "--runs", "3", APP, "./app again"], "app"),
    way(&["verify", "--runs", "3", APP, "./app again"], "app"),
    way(&["scale", "--sizes", "1,2,3", "-r", "1", "--", APP, "{size}"], "app"),
    way(&["bench", "-r", "2", APP], "app"),
    way(&["bench", "-r", "1", "--heap", APP], "app"),
    way(&["bench", "-r", "1", "--shell=./app", APP], "app"),
    way(&["bench", "-r", "1", "--setup", "s", "true"], "sh"),
    way(&["bench", "-r", "1", "--prepare", "p", "true"], "sh"),
    way(&["bench", "-r", "1", "--git", "HEAD", "true"], "git"),
    way(&["bench", "-r", "1", "--instructions", APP], "valgrind"),
    way(&["gate", "--base", ".", "--head", "."], "app"),
    way(&["gate", "--base", "main"], "git"),
    way(&["asm", APP, "main", "--mca"], "llvm-mca"),
    way(&["whyslow"], "cargo"),
    way(&["whyslow", "bench"], "cargo"),
    real(&["whyslow", "-q", "-o", "pack.whyslow"], "rustc"),
    real(&["whyslow", "asm", "-q"], "cc"),
];

/// A package for cargo, and rules for the gate.
fn package(folder: &Folder) {
    folder.file(
        "Cargo.toml",
        "[package]\nname = \"pack\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    folder.file("src/lib.rs", "#[no_mangle]\npub fn one() -> u32 { 1 }\n");
    folder.file("src/main.rs", "fn main() {}\n");
    folder.file("whyslow.toml", "[gate]\nruns = 2\n[gate.bench.app]\ncommand = \"./app\"\n");
}

/// The program that the user's shell would start.
fn in_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()).unwrap()
}

/// whyslow with these signals blocked and ignored from its start.
fn signals(folder: &Folder, program: &Path) -> Command {
    let mut command = folder.command_of("env");
    command.args(["--block-signal=USR2,TERM", "--ignore-signal=PIPE,HUP"]).arg(program);
    command
}

#[test]
fn programs_inherit_the_signals_that_whyslow_was_started_with() {
    if !can_record() {
        return;
    }
    let Some(inherits) = build_or_skip("inherits", Variant::Release) else { return };
    let plain = Folder::new();
    let plain = outcome(&mut signals(&plain, &inherits)).stdout;
    let (_, expected) = plain.trim().split_once(": ").unwrap();
    assert_eq!(expected, "blocked 4800, ignored 1001");
    for Way { arguments, starts, goes_on } in WAYS {
        let folder = Folder::new();
        package(&folder);
        if starts == "cc" {
            // Only the code of a package without programs is linked by whyslow.
            std::fs::remove_file(folder.path().join("src/main.rs")).unwrap();
        }
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::copy(&inherits, folder.path().join("app")).unwrap();
        std::fs::copy(&inherits, bin.join(starts)).unwrap();
        let path = std::env::join_paths(
            std::iter::once(bin.clone()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let lines = folder.path().join("lines");
        let program = match arguments[0] {
            "whyslow" => env!("CARGO_BIN_EXE_cargo-whyslow"),
            _ => env!("CARGO_BIN_EXE_whyslow"),
        };
        let mut command = signals(&folder, Path::new(program));
        command.args(arguments).env("PATH", path.unwrap()).env("INHERITS", &lines);
        match starts {
            "cargo" => command.env("CARGO", bin.join("cargo")),
            "rustc" => command.env("RUSTC", bin.join("rustc")),
            _ => &mut command,
        };
        if goes_on {
            command.env("INHERITS_THEN", in_path(starts));
        }
        let outcome = outcome(&mut command);
        // The machine counts instructions itself: valgrind, which cannot succeed here, was not needed.
        if starts == "valgrind" && outcome.code == Some(0) {
            continue;
        }
        let lines = std::fs::read_to_string(&lines).unwrap_or_default();
        let lines = lines.lines().filter(|line| line.starts_with(starts)).collect::<BTreeSet<_>>();
        let expected = format!("{starts}: {expected}");
        // Cargo starts the real programs too, and gives them no signals of its own.
        let is_right = lines.contains(expected.as_str()) && (goes_on || lines.len() == 1);
        assert!(is_right, "whyslow {}: {lines:?}: {outcome:#?}", arguments.join(" "));
    }
}

#[test]
fn a_command_that_a_signal_ends_ends() {
    let folder = Folder::new();
    folder.whyslow(["bench", "-r", "2", "-i", "--timeout", "60s", "timeout 0.05 sleep 1000"]).succeeds();
}

#[test]
fn programs_run_although_whyslow_inherits_ignored_children() {
    if !can_record() {
        return;
    }
    for arguments in
        [&["bench", "-r", "1", "true"][..], &["stat", "--", "true"], &["-o", "true.whyslow", "--", "true"]]
    {
        let folder = Folder::new();
        let mut command = folder.command_of("env");
        command.arg("--ignore-signal=CHLD").arg(env!("CARGO_BIN_EXE_whyslow")).args(arguments);
        outcome(&mut command).succeeds();
    }
}

/// Only one function creates commands, and it restores the signals.
#[test]
fn no_other_code_creates_a_command() {
    fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, all),
                false => all.push(path),
            }
        }
    }
    let mut all = Vec::new();
    for folder in ["src", "../whyslow-capture/src", "../whyslow-symbols/src", "../whyslow-bench/src"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut all);
    }
    let creating = all.iter().filter(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        code.lines().any(|line| line.contains("Command::new(") && !line.contains("clap::Command::new("))
    });
    let names = creating.map(|path| path.file_name().unwrap().to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, ["inherited.rs"]);
}
