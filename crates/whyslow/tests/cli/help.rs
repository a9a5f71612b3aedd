//! Snapshots of all help texts.

use crate::harness::{Folder, outcome};

fn help(args: &[&str]) -> String {
    let outcome = Folder::new().whyslow(args);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    outcome.stdout
}

#[test]
fn whyslow_help() {
    insta::assert_snapshot!(help(&["--help"]));
}

#[test]
fn commands_help() {
    for command in [
        "record", "heap", "cache", "memcheck", "locks", "causal", "stat", "list", "report", "explain", "asm",
        "bench", "scale", "gate", "diff", "verify", "merge", "flame", "view", "size", "export", "import",
        "doctor", "lab",
    ] {
        insta::assert_snapshot!(format!("{command}_help"), help(&[command, "--help"]));
    }
}

#[test]
fn cargo_whyslow_help() {
    let folder = Folder::new();
    let help = |args: &[&str]| {
        let mut command = folder.command_of(env!("CARGO_BIN_EXE_cargo-whyslow"));
        outcome(command.arg("whyslow").args(args)).succeeds().stdout.clone()
    };
    insta::assert_snapshot!(help(&["--help"]));
    insta::assert_snapshot!("cargo_whyslow_heap_help", help(&["heap", "--help"]));
    insta::assert_snapshot!("cargo_whyslow_stat_help", help(&["stat", "--help"]));
    insta::assert_snapshot!("cargo_whyslow_bench_help", help(&["bench", "--help"]));
    insta::assert_snapshot!("cargo_whyslow_asm_help", help(&["asm", "--help"]));
    insta::assert_snapshot!("cargo_whyslow_size_help", help(&["size", "--help"]));
}

#[test]
fn without_arguments_shows_the_help_as_an_error() {
    let outcome = Folder::new().whyslow([""; 0]);
    assert_eq!(outcome.code, Some(125));
    assert!(outcome.stdout.is_empty() && outcome.stderr.contains("Usage: whyslow"), "{outcome:?}");
}

#[test]
fn version_is_one_line() {
    assert_eq!(help(&["--version"]).lines().count(), 1);
}
