//! Symbols of programs without a usable file: deleted, replaced, in memory, elsewhere, stripped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use whyslow_lab_harness::{Variant, build_or_skip, run};
use whyslow_profile::{Profile, SymbolState, file};

use crate::recorded::{PATIENCE, Recorded, whyslow};

/// Records a command without the cache: its contents must not matter.
fn record(folder: tempfile::TempDir, command: &[&str]) -> Recorded {
    let mut recorder = whyslow(folder.path());
    recorder.args(["record", "--no-symbol-cache", "-o", "run.whyslow", "--"]).args(command);
    let output = run(&mut recorder, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    Recorded { profile, truth: whyslow_lab_harness::Truth::parse(""), folder }
}

/// A copy of the lab's `ratio` in a separate folder.
fn copy_of_ratio(name: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let program = build_or_skip("ratio", Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join(name);
    fs::copy(program, &copy).unwrap();
    Some((folder, copy))
}

/// A script that starts a program of this folder and does something once it runs.
fn while_it_runs(program: &str, action: &str) -> String {
    let runs = format!("[ \"$(readlink /proc/$!/exe)\" = \"$(pwd -P)/{program}\" ]");
    format!("./{program} 1 700 & until {runs}; do sleep 0.01; done; {action}; wait")
}

fn assert_named(recorded: &Recorded, what: &str) {
    let shares = ["alpha", "beta", "gamma"].map(|function| recorded.self_share(function));
    assert!(shares.iter().sum::<f64>() > 0.8, "{what}: {shares:?} of {} samples", recorded.samples());
}

#[test]
fn a_program_deleted_while_it_runs_keeps_its_symbols() {
    let Some((folder, copy)) = copy_of_ratio("gone") else { return };
    let recorded = record(folder, &["sh", "-c", &while_it_runs("gone", "rm gone")]);
    assert!(!copy.exists());
    assert_named(&recorded, "deleted");
}

#[test]
fn a_program_replaced_while_it_runs_is_not_confused_with_the_new_one() {
    let Some((folder, _)) = copy_of_ratio("app") else { return };
    let Some(other) = build_or_skip("exits", Variant::Release) else { return };
    fs::copy(other, folder.path().join("new")).unwrap();
    let script = while_it_runs("app", "mv new app");
    assert_named(&record(folder, &["sh", "-c", &script]), "replaced");
}

#[test]
fn a_program_in_another_root_is_read_there() {
    let Some((folder, _)) = copy_of_ratio("app") else { return };
    let place = folder.path().to_str().unwrap().to_owned();
    if !whyslow_lab_harness::is_installed("bwrap") {
        return;
    }
    let mut try_bwrap = Command::new("bwrap");
    if !try_bwrap.args(["--ro-bind", "/", "/", "true"]).status().is_ok_and(|status| status.success()) {
        whyslow_lab_harness::skip("bwrap cannot create namespaces here");
        return;
    }
    let inside = [
        "--ro-bind",
        "/",
        "/",
        "--tmpfs",
        "/mnt",
        "--bind",
        &place,
        "/mnt",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ];
    let command = [&["bwrap"], &inside[..], &["/mnt/app", "1", "500"]].concat();
    assert_named(&record(folder, &command), "another root");
}

#[test]
fn a_file_deleted_before_it_was_read_is_not_reported_as_missing() {
    let Some((folder, copy)) = copy_of_ratio("app") else { return };
    let recorded = record(folder, &[copy.to_str().unwrap(), "1", "100"]);
    let mut profile = recorded.profile;
    let row = module(&profile, "app");
    fs::remove_file(&copy).unwrap();
    fs::copy("/bin/sh", &copy).unwrap();
    profile.frames = Default::default();
    let options = whyslow_symbols::Options { cache: None, ..Default::default() };
    whyslow_symbols::symbolize(&mut profile, &options);
    assert_eq!(profile.modules[row].symbols, SymbolState::Replaced);
}

fn module(profile: &Profile, name: &str) -> usize {
    let is = |path: &str| Path::new(path).file_name().is_some_and(|file| file == name);
    profile.modules.iter().position(|module| is(profile.text(module.path))).unwrap()
}

#[test]
fn the_functions_of_a_stripped_program_are_separate_rows() {
    for variant in [Variant::Stripped, Variant::Static] {
        let Some(program) = build_or_skip("ratio", variant) else { return };
        let folder = tempfile::tempdir().unwrap();
        let stripped = folder.path().join("app");
        fs::copy(program, &stripped).unwrap();
        if !Command::new("strip").arg(&stripped).status().is_ok_and(|status| status.success()) {
            whyslow_lab_harness::skip("strip is not installed");
            return;
        }
        let recorded = record(folder, &[stripped.to_str().unwrap(), "1", "500"]);
        let mut shares: Vec<f64> = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        for stack in recorded.stacks() {
            let leaf = recorded.names(stack).first().map_or("", |name| *name).to_owned();
            if leaf.starts_with("app+0x") && !seen.contains(&leaf) {
                shares.push(recorded.share(|names| names.first() == Some(&&*leaf)));
                seen.push(leaf);
            }
        }
        shares.sort_by(|a, b| b.total_cmp(a));
        // alpha, beta and gamma.
        let three: f64 = shares.iter().take(3).sum();
        assert!(shares.len() >= 3 && three > 0.9 && shares[2] > 0.1, "{variant:?}: {seen:?} {shares:?}");
        let row = module(&recorded.profile, "app");
        assert_eq!(recorded.profile.modules[row].symbols, SymbolState::Stripped);
    }
}

#[test]
fn a_profile_without_source_has_neither_lines_of_text_nor_machine_code() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    for (option, has_source) in [(&[][..], true), (&["--no-source"], false)] {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = whyslow(folder.path());
        recorder
            .args(["record", "-q", "-o", "run.whyslow"])
            .args(option)
            .arg("--")
            .arg(&program)
            .args(["1", "300"]);
        assert!(run(&mut recorder, PATIENCE).unwrap().status.success());
        let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
        assert_eq!(!profile.sources.rows.is_empty(), has_source, "{option:?}");
        assert_eq!(!profile.code.rows.is_empty(), has_source, "{option:?}");
        assert!(!profile.frames.is_empty(), "names and lines stay");
    }
}
