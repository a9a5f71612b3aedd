//! Where threads wait, for what, and how long, against what programs measure themselves.

use std::process::Command;

use whyslow_analyze::{Charges, Reason, Selection, WaitTable, wait_metric};
use whyslow_lab_harness::{Truth, Variant, build_or_skip, run, skip};
use whyslow_profile::{Profile, file};

use crate::recorded::{PATIENCE, whyslow};

/// Records a program with its waits.
fn record(program: &str, args: &[&str]) -> Option<(Profile, Truth)> {
    let program = build_or_skip(program, Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "--off-cpu", "-o", "run.whyslow", "--"]).arg(program).args(args);
    let output = run(&mut command, PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && said.contains("--off-cpu") {
        skip("stacks of waits are refused here");
        return None;
    }
    assert!(output.status.success(), "{said}");
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    Some((profile, Truth::parse(&String::from_utf8_lossy(&output.stdout))))
}

fn waits(profile: &Profile) -> WaitTable {
    let metric = wait_metric(profile).expect("waits were recorded");
    let selection = Selection { metric, threads: vec!["^waits".parse().unwrap()], ..Selection::default() };
    WaitTable::build(profile, &selection, &Charges::new(profile, true), 0)
}

#[test]
fn each_kind_of_wait_is_found_with_its_reason_and_its_length() {
    let Some((profile, truth)) = record("waits", &["150"]) else { return };
    let table = waits(&profile);
    let cases = [
        ("wait_sleep", Reason::Sleep),
        ("wait_lock", Reason::Lock),
        ("wait_rwlock", Reason::Lock),
        ("wait_once", Reason::Lock),
        ("wait_condition", Reason::Condition),
        ("wait_park", Reason::Park),
        ("wait_join", Reason::Join),
        ("wait_channel", Reason::Channel),
        ("wait_pipe", Reason::Pipe),
        ("wait_network", Reason::Network),
        ("wait_child", Reason::Child),
    ];
    for (function, reason) in cases {
        let truth_ns = truth.counts[&format!("{function}_us")] * 1000;
        // The longest of the lines in this function; what other threads sleep for it has the reason `sleep`.
        let of_function = |row: &&whyslow_analyze::WaitRow| {
            let name = whyslow_analyze::CallTree::name(&profile, row.label);
            row.reason == reason && (name.contains(function) || name.ends_with("timed"))
        };
        let fits =
            |row: &&whyslow_analyze::WaitRow| (row.total_ns as f64 / truth_ns as f64 - 1.0).abs() < 0.05;
        let rows: Vec<_> = table.rows.iter().filter(of_function).collect();
        assert!(rows.iter().any(fits), "{function}: {truth_ns} ns, {reason:?}: {rows:?}");
    }
}

#[test]
fn without_waits_there_is_a_word_on_how_to_record_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    run(command.args(["record", "-o", "run.whyslow", "--", "true"]), PATIENCE).unwrap();
    let mut report: Command = whyslow(folder.path());
    let output = run(report.args(["report", "run.whyslow", "waits"]), PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("whyslow record --off-cpu"), "{said}");
}
