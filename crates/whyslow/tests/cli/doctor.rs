//! `whyslow doctor`: the machine and a binary, as text and JSON.

use std::process::Command;

use crate::harness::{Folder, Outcome};

fn json(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// The state and result of one check of a binary.
fn binary_check(outcome: &Outcome, check: &str) -> (String, String) {
    let json = json(outcome);
    let checks = json["binary"]["checks"].as_array().unwrap();
    let item = checks.iter().find(|item| item["check"] == check).unwrap();
    (item["state"].as_str().unwrap().to_owned(), item["found"].as_str().unwrap().to_owned())
}

#[test]
fn the_exit_code_shows_whether_recording_works() {
    let outcome = Folder::new().whyslow(["doctor", "--format", "json"]);
    let can_record = json(&outcome)["can_record"].as_bool().unwrap();
    assert_eq!(outcome.code, Some(i32::from(!can_record)));
    assert!(json(&outcome)["machine"].as_array().unwrap().iter().any(|item| item["check"] == "perf events"));
    let text = Folder::new().whyslow(["doctor"]);
    assert_eq!(text.code, outcome.code);
    assert!(text.stdout.starts_with("Machine\n") && !text.stdout.contains('\x1b'), "{text:?}");
}

/// Builds a Rust program with these flags and runs doctor on it.
fn built_with(flags: &[&str]) -> Outcome {
    let folder = Folder::new();
    folder.file("app.rs", "fn main() { for n in 0..std::env::args().count() { println!(\"{n}\"); } }");
    let status =
        Command::new("rustc").args(["app.rs"]).args(flags).current_dir(folder.path()).status().unwrap();
    assert!(status.success());
    folder.whyslow(["doctor", "./app", "--format", "json"])
}

#[test]
fn recognises_a_debug_build() {
    let outcome = built_with(&["-g"]);
    assert_eq!(binary_check(&outcome, "optimisation").0, "note");
    assert_eq!(binary_check(&outcome, "debug info").0, "ok");
    assert_eq!(binary_check(&outcome, "symbols").0, "ok");
    assert!(binary_check(&outcome, "file").1.contains("program, dynamic, Rust"));
}

#[test]
fn recognises_an_optimised_build_without_debug_info() {
    let outcome = built_with(&["-O"]);
    assert_eq!(binary_check(&outcome, "optimisation"), ("ok".into(), "yes".into()));
    assert_eq!(binary_check(&outcome, "debug info").0, "note");
    assert_eq!(binary_check(&outcome, "symbols").0, "ok");
    assert_eq!(binary_check(&outcome, "unwind tables").0, "ok");
}

#[test]
fn recognises_a_stripped_build() {
    let outcome = built_with(&["-O", "-C", "strip=symbols"]);
    assert_eq!(binary_check(&outcome, "symbols").0, "note");
    assert_eq!(binary_check(&outcome, "debug info"), ("note".into(), "none".into()));
    assert!(binary_check(&outcome, "file").1.contains("Rust"));
}

/// A C program whose debug info is in `app.debug`, with a debuglink to it.
fn separated() -> Option<Folder> {
    let folder = Folder::new();
    folder.file("app.c", "int main(int n, char **words) { return words[n] != 0; }");
    let run = |program: &str, args: &[&str]| {
        Command::new(program)
            .args(args)
            .current_dir(folder.path())
            .status()
            .is_ok_and(|status| status.success())
    };
    let built = run("gcc", &["-g", "-O2", "-o", "app", "app.c"])
        && run("objcopy", &["--only-keep-debug", "app", "app.debug"])
        && run("objcopy", &["--strip-all", "--add-gnu-debuglink=app.debug", "app"]);
    if !built {
        whyslow_lab_harness::skip("gcc or objcopy is not installed");
    }
    built.then_some(folder)
}

#[test]
fn finds_a_separate_debug_file() {
    let Some(folder) = separated() else { return };
    let doctor = || folder.whyslow(["doctor", "./app", "--format", "json"]);
    let found = doctor();
    let file = folder.path().canonicalize().unwrap().join("app.debug");
    let lines = format!("lines and inlined functions, in {}", file.display());
    assert_eq!(binary_check(&found, "debug info"), ("ok".into(), lines));
    assert_eq!(binary_check(&found, "symbols").0, "ok", "they are in the debug file");

    // The debug file of another build does not count, nor does a missing one.
    let other = std::fs::read(&file).unwrap();
    std::fs::write(&file, [&other[..], b"!"].concat()).unwrap();
    let lost = ("note".to_owned(), "in another file, app.debug, which is missing".to_owned());
    assert_eq!(binary_check(&doctor(), "debug info"), lost);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(binary_check(&doctor(), "debug info"), lost);
    assert_eq!(binary_check(&doctor(), "symbols").0, "note");
}

#[test]
fn reads_compressed_debug_info() {
    let folder = Folder::new();
    folder.file("app.c", "int main(void) { return 0; }");
    let gcc = |flags: &[&str]| {
        let status =
            Command::new("gcc").args(flags).args(["-o", "app", "app.c"]).current_dir(folder.path()).status();
        status.is_ok_and(|status| status.success())
    };
    if !gcc(&["-g", "-O2", "-gz=zlib"]) {
        whyslow_lab_harness::skip("gcc is not installed");
        return;
    }
    let outcome = folder.whyslow(["doctor", "./app", "--format", "json"]);
    assert_eq!(binary_check(&outcome, "debug info"), ("ok".into(), "lines and inlined functions".into()));
    assert_eq!(
        binary_check(&outcome, "optimisation"),
        ("ok".into(), "yes".into()),
        "it contains gcc's flags"
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn counts_frame_pointers() {
    let share = |flags: &[&str]| {
        let found = binary_check(&built_with(flags), "frame pointers").1;
        found.split(' ').nth(1).unwrap().parse::<f64>().unwrap()
    };
    let (with, without) =
        (share(&["-C", "force-frame-pointers=yes"]), share(&["-C", "force-frame-pointers=no"]));
    assert!(with > without, "{with} {without}");
}

#[test]
fn explains_files_that_are_not_binaries() {
    let folder = Folder::new();
    folder.whyslow(["doctor", "nothing"]).fails(125, &["nothing: no such file"]);
    folder.whyslow(["doctor", "."]).fails(125, &[".: this is a folder"]);
    folder.file("text", "hello");
    folder.whyslow(["doctor", "text"]).fails(125, &["text: not an ELF program"]);
    folder.script("script", "exit");
    let outcome = folder.whyslow(["doctor", "script", "--format", "json"]);
    assert_eq!(binary_check(&outcome, "file"), ("note".into(), "a script for /bin/sh".into()));
}
