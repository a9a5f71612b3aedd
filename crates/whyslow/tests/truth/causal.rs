//! Experiments leave a program as it is, and are in the profile.

use std::path::Path;
use std::process::Command;

use whyslow_causal::{Verdict, estimate};
use whyslow_lab_harness::{Variant, build_or_skip, run};
use whyslow_profile::{CausalNote, CausalTarget, Note, PointKind, Profile, TargetKind, Visits, file};

use crate::recorded::{PATIENCE, has_perf_events, refused, twice_at_most, whyslow};

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

/// The number of the one line of a lab program that contains a text.
fn line_of(source: &str, text: &str) -> usize {
    let found: Vec<usize> =
        (1..).zip(source.lines()).filter(|(_, line)| line.contains(text)).map(|(n, _)| n).collect();
    let [line] = found[..] else { panic!("{text}: {found:?}") };
    line
}

/// Experiments with a program and these points.
fn causal_of(program: &Path, points: &[&str], arguments: &[&str]) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "-o", "run.whyslow", "--runs", "1", "--budget", "12s"]).args(points);
    command.arg("--").arg(program).args(arguments);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file::read(&folder.path().join("run.whyslow")).unwrap()
}

/// The visits of a point in all experiments.
fn visits_of(profile: &Profile, name: &str) -> u64 {
    let causal = &profile.causal;
    let rows = causal.visits.iter().filter(|row| profile.text(causal.points[row.point.index()].name) == name);
    rows.map(|row| row.count).sum()
}

/// Asserts that a point was visited so often per unit of the program, which counts units by itself.
#[track_caller]
fn assert_per_unit(profile: &Profile, name: &str, times: u64) {
    let (visits, units) = (visits_of(profile, name), visits_of(profile, "unit"));
    // In each experiment, a unit may be under way at the start and at the end.
    let inexact = 2 * times * profile.causal.experiments.len() as u64;
    assert!(
        units > 20 && visits.abs_diff(units * times) <= inexact,
        "{name}: {visits} visits, {units} units"
    );
    // Experiments are many, and a wrong factor must not be within that.
    assert!(visits * 4 > units * times * 3 && visits * 3 < units * times * 4, "{name}: {visits}, {units}");
}

#[test]
fn a_line_is_visited_once_each_time_it_runs() {
    let Some(program) = build_or_skip("causal_sequence", Variant::Release).filter(|_| has_perf_events())
    else {
        return;
    };
    let source = include_str!("../../../../lab/programs/causal_sequence.rs");
    let line = line_of(source, "render(to_render.steps(round));");
    let point = format!("causal_sequence.rs:{line}");
    let profile = causal_of(&program, &["--progress", &point], &["--seconds", "9"]);
    assert_per_unit(&profile, &point, 1);
    let causal = &profile.causal;
    let row = causal.points.iter().find(|row| profile.text(row.name) == point).unwrap();
    assert_eq!(row.line as usize, line);
    assert!(profile.text(row.file.unwrap()).ends_with("lab/programs/causal_sequence.rs"));
}

#[test]
fn a_return_is_visited_once_each_time_the_function_returns() {
    let Some(program) = build_or_skip("causal_points", Variant::Release).filter(|_| has_perf_events()) else {
        return;
    };
    let points = ["--progress", "several@return", "--progress", "work", "--progress", "work@return"];
    let profile = causal_of(&program, &points, &["--seconds", "9"]);
    assert_per_unit(&profile, "causal_points::several@return", 1);
    assert_per_unit(&profile, "causal_points::work", 1);
    assert_per_unit(&profile, "causal_points::work@return", 1);
}

#[test]
fn copies_of_a_line_and_instances_of_a_function_are_one_point() {
    let Some(program) = build_or_skip("causal_points", Variant::Release).filter(|_| has_perf_events()) else {
        return;
    };
    let source = include_str!("../../../../lab/programs/causal_points.rs");
    let line = format!("causal_points.rs:{}", line_of(source, "12345 // COPIED"));
    let profile = causal_of(&program, &["--progress", &line, "--progress", "generic"], &["--seconds", "9"]);
    assert_per_unit(&profile, &line, 2);
    let points = profile.causal.points.iter().map(|point| profile.text(point.name));
    let generic = points.into_iter().find(|name| name.contains("generic")).unwrap();
    assert_per_unit(&profile, generic, 2);
}

#[test]
fn system_calls_and_functions_of_libraries_are_counted() {
    let Some(program) = build_or_skip("causal_points", Variant::Release).filter(|_| has_perf_events()) else {
        return;
    };
    let points = ["--progress", "syscall:write", "--progress", "getppid"];
    let profile = causal_of(&program, &points, &["--seconds", "9"]);
    assert_per_unit(&profile, "syscall:write", 3);
    assert_per_unit(&profile, "getppid", 1);
}

#[test]
fn panics_go_through_functions_that_are_points() {
    let Some(program) = build_or_skip("causal_points", Variant::Release).filter(|_| has_perf_events()) else {
        return;
    };
    let points = ["--progress", "through", "--progress", "raises"];
    let profile = causal_of(&program, &points, &["--seconds", "9"]);
    assert_per_unit(&profile, "causal_points::through", 1);
    assert_per_unit(&profile, "causal_points::raises", 1);
}

#[test]
fn marks_are_progress_points() {
    let Some(program) = build_or_skip("spans", Variant::Release).filter(|_| has_perf_events()) else {
        return;
    };
    let profile = causal_of(&program, &[], &["16000"]);
    let causal = &profile.causal;
    let count = |name: &str, kind: PointKind| -> u64 {
        let is_it = |row: &&Visits| {
            let point = &causal.points[row.point.index()];
            profile.text(point.name) == name && point.kind == kind
        };
        causal.visits.iter().filter(is_it).map(|row| row.count).sum()
    };
    // There are ten moments in each span.
    let (ticks, spans) = (count("tick", PointKind::Throughput), count("beta", PointKind::Throughput));
    let inexact = 20 * causal.experiments.len() as u64;
    assert!(spans > 5 && ticks.abs_diff(10 * spans) <= inexact, "{ticks} {spans}");
    assert!(count("beta", PointKind::Latency).abs_diff(spans) <= inexact);
    assert!(count("outer", PointKind::Latency) > 5 && count("alpha", PointKind::Latency) > 5);
}

#[test]
fn the_latency_of_a_function_is_from_its_entry_to_its_return() {
    let Some(program) = build_or_skip("causal_sequence", Variant::Release).filter(|_| has_perf_events())
    else {
        return;
    };
    let profile = causal_of(&program, &["--latency", "front"], &["--seconds", "9", "--scale", "front=8"]);
    assert_per_unit(&profile, "causal_sequence::front", 1);
    let causal = &profile.causal;
    let rows = causal.visits.iter().filter(|row| causal.points[row.point.index()].kind == PointKind::Latency);
    let rows: Vec<_> = rows.collect();
    // One call is under way at most, and at nearly all times: the rest of a unit takes 5 % of its time.
    for row in &rows {
        let length = causal.experiments[row.experiment.index()].virtual_ns();
        assert!(
            row.in_flight_ns <= length * 11 / 10 && row.arrivals.abs_diff(row.count) <= 1,
            "{row:?} {length}"
        );
    }
    let (in_flight, length) = rows.iter().fold((0, 0), |(in_flight, length), row| {
        (in_flight + row.in_flight_ns, length + causal.experiments[row.experiment.index()].virtual_ns())
    });
    assert!(in_flight * 10 > length * 7, "{in_flight} of {length}");
}

#[test]
fn a_line_without_code_is_an_error_that_names_lines_which_have_some() {
    let Some(program) = build_or_skip("causal_sequence", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (point, expected) in
        [("causal_sequence.rs:1", "the nearest lines"), ("no_such_file.rs:1", "has code of such a file")]
    {
        let mut command = whyslow(folder.path());
        let output =
            run(command.args(["causal", "--progress", point, "--"]).arg(&program), PATIENCE).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(125), &b""[..]), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_name_that_is_wrong_is_an_error_that_says_what_to_take() {
    let Some(program) = build_or_skip("causal_points", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (option, name, expected) in [
        ("--progress", "same", "left::same, causal_points::right::same"),
        ("--progress", "severl", "--progress causal_points::several"),
        ("--latency", "severl", "--latency causal_points::several"),
        ("--progress", "copied", "inlined at every call, into causal_points::first, causal_points::second"),
        ("--progress", "syscall:wrte", "--progress syscall:write"),
        ("--progress", "syscall:futex", "no function of that name"),
    ] {
        let mut command = whyslow(folder.path());
        let output = run(command.args(["causal", option, name, "--"]).arg(&program), PATIENCE).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(125), &b""[..]), "{name}: {stderr}");
        assert!(stderr.contains(expected) && stderr.contains(name), "{name}: {stderr}");
    }
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
fn runs_that_end_before_the_first_look_are_looked_at_together() {
    let Some(program) = build_or_skip("causal_sequence", Variant::Release).filter(|_| has_perf_events())
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "-o", "run.whyslow", "--budget", "15s"]);
    command.args(["--progress", "progress_unit", "--function", "parse", "--"]);
    command.arg(program).args(["--units", "60"]);
    run(&mut command, PATIENCE).unwrap();
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    let runs = profile.causal.experiments.iter().map(|row| row.run).max();
    assert!(runs.is_some_and(|last| last > 0), "experiments of several runs: {:?}", profile.meta.notes);
    let is_parse = |target: &CausalTarget| profile.text(target.function).ends_with("parse");
    assert!(profile.causal.targets.iter().any(is_parse), "{:?}", profile.causal.targets);
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
    recorded.args(["causal", "-q", "-o", "run.whyslow", "--runs", "1", "--scope", "all"]);
    recorded.args(["--progress", "busy", "--"]).arg(program).args(arguments);
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

/// `parse` has half of the time of a run.
#[test]
fn without_a_progress_point_whole_runs_are_compared() {
    let program = build_or_skip("causal_sequence", Variant::Release).filter(|_| has_perf_events());
    let Some(program) = program else { return };
    twice_at_most(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = whyslow(folder.path());
        command.args([
            "causal",
            "-o",
            "run.whyslow",
            "--runs",
            "60",
            "--budget",
            "200s",
            "--function",
            "parse",
        ]);
        command.arg("--").arg(&program).args(["--units", "20", "--counters", "no"]);
        let output = run(&mut command, PATIENCE).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
        let profiles = std::fs::read_dir(folder.path()).unwrap().flatten();
        let profiles = profiles.filter(|file| file.path().extension().is_some_and(|end| end == "whyslow"));
        assert_eq!(profiles.count(), 1, "those of earlier runs are not kept");
        let causal = &profile.causal;
        let kinds: Vec<PointKind> = causal.points.iter().map(|point| point.kind).collect();
        assert_eq!(kinds, [PointKind::WholeRun]);
        // The first run finds the target, and each one prints.
        let printed = String::from_utf8_lossy(&output.stdout).matches("units 20\n").count();
        assert!(causal.experiments.len() >= 8 && printed > causal.experiments.len(), "{printed}");
        let found = estimate(causal, profile.meta.host.cpus);
        let Some(point) = found.points.first() else { return Ok(()) };
        let row = &point.rows[0];
        let at_most = row.curve.iter().find(|point| point.speedup == 1.0).map_or(0.5, |point| point.effect);
        match row.verdict {
            Verdict::None { .. } => Err(format!("no effect: {row:?}")),
            _ if (at_most - 0.5).abs() > 0.15 => Err(format!("{row:?}")),
            _ => Ok(()),
        }
    });
}

#[test]
fn a_run_that_fails_is_the_last() {
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    let script = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; [ $n -lt 2 ]";
    command.args(["causal", "--", "sh", "-c", script]);
    let output = run(&mut command, PATIENCE).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(folder.path().join("n")).unwrap().trim(), "3");
}

#[test]
fn a_run_that_is_longer_than_the_budget_is_an_error_that_names_progress_points() {
    let program = build_or_skip("causal_sequence", Variant::Release).filter(|_| has_perf_events());
    let Some(program) = program else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "--budget", "4s", "--"]).arg(program);
    command.args(["--seconds", "1000", "--counters", "no"]);
    let output = run(&mut command, PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("--progress FUNCTION") && said.contains("did not end within the budget"), "{said}");
}

#[test]
fn a_function_that_is_never_sampled_is_answered_with_near_names() {
    let program = build_or_skip("causal_sequence", Variant::Release).filter(|_| has_perf_events());
    let Some(program) = program else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "--function", "pasre", "--"]).arg(program).args(["--seconds", "1000"]);
    let output = run(&mut command, PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("--function pasre: none of") && said.contains("::parse"), "{said}");
}

#[test]
fn without_perf_events_the_reason_is_said_before_the_program_starts() {
    let arguments = ["causal", "--progress", "main", "--", "sh", "-c", "echo started"];
    let Some((output, _)) = refused(&[], &arguments) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(125), &b""[..]), "{said}");
    assert!(said.contains("perf events are not permitted here") && said.lines().count() == 1, "{said}");
}

/// Each unit enters each function once, and `front`, with what it calls, has 70 % of the time.
#[test]
fn functions_that_are_entered_at_a_steady_rate_are_proposed() {
    let Some(program) = build_or_skip("causal_sequence", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["causal", "--suggest", "--format", "json", "--"]).arg(&program);
    command.args(["--seconds", "1000"]);
    let output = run(&mut command, PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = answer["suggestions"].as_array().unwrap();
    let rate = |name: &str| {
        let row = rows.iter().find(|row| row["function"].as_str().unwrap().ends_with(name));
        row.map_or(0.0, |row| row["visits_per_second"].as_f64().unwrap())
    };
    let ratio = rate("::front") / rate("::render");
    assert!((0.9..1.1).contains(&ratio), "{answer}");
    // On a busy machine no rate is steady.
    let Some(next) = answer["next"].as_array() else { return };
    assert!(next[3].as_str().unwrap().ends_with("::front"), "{answer}");
    let mut typed = whyslow(folder.path());
    typed.args(next.iter().skip(1).take(3).map(|word| word.as_str().unwrap())).args(["--budget", "2s"]);
    typed.args(next.iter().skip(4).map(|word| word.as_str().unwrap()));
    let output = run(&mut typed, PATIENCE).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
