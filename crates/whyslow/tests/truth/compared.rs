//! `whyslow diff --runs` of programs with a known difference.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use whyslow_lab_harness::{Variant, build_or_skip, try_again};

/// The output of `whyslow diff` for five runs of two commands.
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

/// The program's own functions whose self time is more or less.
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

/// One comparison in twenty may be wrong by chance, but not two in a row.
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
        assert_eq!((&diff["runs"], &diff["before"]["file"]), (&serde_json::json!([5, 5]), &"5 runs".into()));
        match called(&diff) {
            names if names.is_empty() => Ok(()),
            names => Err(format!("said to have changed: {names:?}")),
        }
    });
}

#[test]
fn names_the_changed_function_with_its_factor() {
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

/// The lab program, with its callee separate or inlined. Without debug info nothing shows the inlining.
fn swallowing(folder: &Path, swallowed: bool, debug: &str) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/programs/swallowed.rs");
    let program = folder.join(if swallowed { "after/swallowed" } else { "before/swallowed" });
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let mut rustc = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()));
    rustc.args(["-O", "-C", debug, "--edition", "2024", "-A", "unexpected_cfgs", "-o"]).arg(&program);
    if swallowed {
        rustc.args(["--cfg", "swallowed"]);
    }
    let output = rustc.arg(source).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(format!("{} 150", program.display()))
}

#[test]
fn inlining_a_function_makes_nothing_more_or_less() {
    let folder = tempfile::tempdir().unwrap();
    let programs = [false, true].map(|swallowed| swallowing(folder.path(), swallowed, "debuginfo=0"));
    let [Some(apart), Some(swallowed)] = programs else { return };
    for (before, after, now) in
        [(&apart, &swallowed, "part of the caller"), (&swallowed, &apart, "on their own")]
    {
        twice_at_most(|| {
            let diff = compared(before, after, &[]);
            let moves = diff["moves"].as_array().unwrap();
            let is_it = |one: &Value| {
                let callee = one["callees"][0].as_str().unwrap();
                one["now"] == now
                    && callee.ends_with("callee")
                    && one["caller"].as_str().unwrap().ends_with("caller")
            };
            match called(&diff) {
                names if names.is_empty() && moves.iter().any(is_it) => Ok(()),
                names => Err(format!("{now}: said to have changed: {names:?}; moved: {moves:?}")),
            }
        });
    }
}

/// Debug info shows what was inlined: the callee has its row on both sides.
#[test]
fn an_inlined_function_with_debug_info_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let programs = [false, true].map(|swallowed| swallowing(folder.path(), swallowed, "debuginfo=1"));
    let [Some(apart), Some(swallowed)] = programs else { return };
    twice_at_most(|| {
        let diff = compared(&apart, &swallowed, &[]);
        assert_eq!(row(&diff, "callee")["seen"], "both");
        match called(&diff) {
            names if names.is_empty() => Ok(()),
            names => Err(format!("said to have changed: {names:?}")),
        }
    });
}
