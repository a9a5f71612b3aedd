//! `whyslow diff --runs` of programs that differ in something known.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use whyslow_lab_harness::{Variant, build_or_skip, try_again};

/// What `whyslow diff` says of five runs of two commands.
fn compared(before: &str, after: &str, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path());
    command
        .args(["-q", "diff", "--runs", "5", "--warmup", "0", "--format", "json", before, after])
        .args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The functions that are called more or less, by themselves, of the program's own.
fn called(diff: &Value) -> Vec<String> {
    let rows = diff["rows"].as_array().unwrap().iter();
    let claims = rows.filter(|row| ["more", "less"].contains(&row["verdict"].as_str().unwrap()));
    claims.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

fn row<'a>(diff: &'a Value, name: &str) -> &'a Value {
    let of = |row: &&Value| {
        let whole = row["name"].as_str().unwrap();
        whole == name || whole.ends_with(&format!("::{name}"))
    };
    diff["rows"].as_array().unwrap().iter().find(of).unwrap()
}

/// One comparison in twenty may be wrong by chance; two in a row are not.
fn twice_at_most(claim: impl Fn() -> Result<(), String>) {
    if let Err(first) = claim() {
        try_again(&first);
        claim().unwrap_or_else(|second| panic!("{first}; and again: {second}"));
    }
}

fn program(name: &str) -> Option<PathBuf> {
    build_or_skip(name, Variant::Release)
}

#[test]
fn a_program_does_not_differ_from_itself() {
    let Some(changed) = program("changed") else { return };
    twice_at_most(|| {
        let command = format!("{} 150", changed.display());
        let diff = compared(&command, &command, &[]);
        assert_eq!(diff["runs"], serde_json::json!([5, 5]));
        match called(&diff) {
            names if names.is_empty() => Ok(()),
            names => Err(format!("said to have changed: {names:?}")),
        }
    });
}

#[test]
fn the_function_that_changed_is_named_with_its_factor() {
    let Some(changed) = program("changed") else { return };
    twice_at_most(|| {
        let command = |percent: u32| format!("{} 150 {percent}", changed.display());
        let diff = compared(&command(100), &command(200), &[]);
        let beta = row(&diff, "beta");
        let [low, high] = ["ratio_low", "ratio_high"].map(|name| beta[name].as_f64().unwrap());
        let names = called(&diff);
        match (&names[..], beta["verdict"].as_str()) {
            ([_], Some("more")) if low <= 2.0 && 2.0 <= high => Ok(()),
            _ => Err(format!("{names:?}; beta {low}..{high}")),
        }
    });
}
