//! Experiments leave a program as it is, and are in the profile.

use std::path::Path;
use std::process::Command;

use whyslow_lab_harness::{Variant, build_or_skip, run};
use whyslow_profile::{CausalNote, Note, TargetKind, file};

use crate::recorded::{PATIENCE, has_perf_events, whyslow};

#[test]
fn a_program_under_experiments_prints_and_returns_what_it_would_without() {
    let Some(program) = build_or_skip("causal_barrier", Variant::Release).filter(|_| has_perf_events())
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "-o", "run.whyslow", "--runs", "1", "--budget", "20s"]);
    command.args(["--progress", "progress_unit", "--function", "work_a", "--"]);
    command.arg(program).args(["--units", "1500"]);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    // If the budget ends first, whyslow ends the program.
    assert!(stdout.starts_with("units 1500\n") || stdout.is_empty(), "{stdout}");
    let targets = profile.causal.targets.iter().map(|target| profile.text(target.function));
    let targets: Vec<&str> = targets.collect();
    assert!(targets.iter().any(|name| name.ends_with("work_a")), "{targets:?}");
    assert!(profile.causal.experiments.len() > 3 && !profile.causal.visits.is_empty());
    let sped_up = profile.causal.experiments.iter().filter(|row| row.speedup > 0.0);
    assert!(sped_up.clone().any(|row| row.hits > 0 && row.delay_ns > 0), "{:?}", profile.causal.experiments);
}

#[test]
fn a_function_is_sped_up_with_all_that_it_calls() {
    let Some(program) = build_or_skip("causal_sequence", Variant::Release).filter(|_| has_perf_events())
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "-o", "run.whyslow", "--runs", "1", "--budget", "12s"]);
    command.args(["--progress", "progress_unit", "--function", "front", "--with-callees", "front", "--"]);
    command.arg(program).args(["--units", "2500"]);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    // `front` itself only calls, so it may have no sample: then it is no target.
    let mut whole = profile.causal.targets.iter().filter(|target| target.kind == TargetKind::WithCallees);
    let target = whole.next().expect("a target with callees");
    assert!(profile.text(target.function).ends_with("front") && whole.next().is_none());
    assert!(
        target.file.is_some_and(|file| profile.text(file).ends_with("causal_sequence.rs")) && target.line > 0
    );
    let own = profile.causal.targets.iter().filter(|target| target.kind == TargetKind::Function);
    assert!(own.clone().all(|target| target.share < 0.1), "{:?}", profile.causal.targets);
    // By its work `front` has 70 % of the CPU time.
    assert!((target.share - 0.7).abs() < 0.15, "{:?}", profile.causal.targets);
}

#[test]
fn a_function_that_does_not_exist_is_an_error_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "--with-callees", "no_such_function_anywhere", "--", "sh", "-c", "echo started"]);
    let output = run(&mut command, PATIENCE).unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(125), &b""[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no_such_function_anywhere"));
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command: Command = whyslow(folder.path());
    command.args(["causal", "--budget", "5s", "--", "sh", "-c", "exit 7"]);
    let output = run(&mut command, PATIENCE).unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_progress_point_that_does_not_exist_is_an_error_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "--progress", "no_such_function_anywhere", "--", "sh", "-c", "echo started"]);
    let output = run(&mut command, PATIENCE).unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(125), &b""[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no_such_function_anywhere"));
}

/// The output and the exit code of a program, by itself and under experiments.
fn with_and_without(program: &Path, arguments: &[&str]) -> [(Option<i32>, String); 2] {
    let folder = tempfile::tempdir().unwrap();
    let mut recorded = whyslow(folder.path());
    recorded.args(["causal", "-q", "-o", "run.whyslow", "--runs", "1", "--scope", "all", "--"]);
    recorded.arg(program).args(arguments);
    let mut plain = Command::new(program);
    plain.args(arguments);
    [plain, recorded].map(|mut command| {
        let output = run(&mut command, PATIENCE).unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    })
}

#[test]
fn programs_with_their_own_signals_behave_as_without_experiments() {
    let Some(program) = build_or_skip("timer_hostile", Variant::Release).filter(|_| has_perf_events()) else {
        return;
    };
    for what in ["masked", "handlers", "prof", "waiting", "altstack", "cancel", "storm", "confined"] {
        let [plain, recorded] = with_and_without(&program, &[what, "2500"]);
        assert_eq!((what, recorded), (what, plain));
    }
}

#[test]
fn static_programs_are_experimented_on() {
    if !has_perf_events() {
        return;
    }
    for variant in [Variant::Static, Variant::StaticPie, Variant::Musl] {
        let Some(program) = build_or_skip("causal_pthread", variant) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let mut command = whyslow(folder.path());
        command.args(["causal", "-o", "run.whyslow", "--runs", "1", "--budget", "8s"]);
        command.args(["--progress", "progress_unit", "--with-callees", "work_a", "--"]);
        command.arg(program).args(["barrier", "--units", "1000"]);
        let output = run(&mut command, PATIENCE).unwrap();
        assert!(output.status.success(), "{variant:?}: {}", String::from_utf8_lossy(&output.stderr));
        let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
        let sped_up = profile.causal.experiments.iter().filter(|row| row.speedup > 0.0);
        let hits = sped_up.clone().any(|row| row.hits > 0 && row.delay_ns > 0);
        assert!(hits && !profile.causal.visits.is_empty(), "{variant:?}: {:?}", profile.causal);
        let is_cut = |note: &Note| matches!(note, Note::Causal(CausalNote::CausalStacksCut { .. }));
        assert!(!profile.meta.notes.iter().any(is_cut), "{variant:?}: {:?}", profile.meta.notes);
    }
}
