//! Where threads wait, for what, and how long, against what programs measure themselves: as root, where the kernel gives the stack of every
//! wait, and as an ordinary user, whose waiting threads are looked at.

use std::path::Path;

use whyslow_analyze::{CallTree, Charges, Reason, Selection, WaitRow, WaitTable, wait_metric};
use whyslow_lab_harness::{Truth, Variant, build_or_skip, run};
use whyslow_profile::{Note, Profile, RecordingNote, Subject, file};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events, refused, whyslow};

/// Records a program with its waits, and what it says of them.
fn record(program: &str, args: &[&str]) -> Option<(Profile, Truth)> {
    let program = build_or_skip(program, Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "--off-cpu", "-o", "run.whyslow", "--"]).arg(program).args(args);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((read(folder.path()), Truth::parse(&String::from_utf8_lossy(&output.stdout))))
}

fn read(folder: &Path) -> Profile {
    file::read(&folder.join("run.whyslow")).unwrap()
}

/// The waits of the threads that run the program itself.
fn waits(profile: &Profile) -> WaitTable {
    let metric = wait_metric(profile).expect("waits were recorded");
    let selection = Selection { metric, ..Selection::default() };
    WaitTable::build(profile, &selection, &Charges::new(profile, true), 0)
}

/// Fails unless each function of the program `waits` has waited for what its name says, as long as it says.
#[track_caller]
fn assert_each_kind_is_found(profile: &Profile, truth: &Truth) {
    let table = waits(profile);
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
        let of_function = |row: &&WaitRow| {
            let name = CallTree::name(profile, row.label);
            // `park` is handed on as it is, so the line is where it is called.
            row.reason == reason && (name.contains(function) || name.ends_with("timed"))
        };
        let fits = |row: &&WaitRow| (row.total_ns as f64 / truth_ns as f64 - 1.0).abs() < 0.05;
        let rows: Vec<_> = table.rows.iter().filter(of_function).collect();
        assert!(rows.iter().any(fits), "{function}: {truth_ns} ns for {reason:?}: {rows:?}");
    }
}

#[test]
fn each_kind_of_wait_is_found_with_its_reason_and_its_length() {
    if !has_perf_events() {
        return;
    }
    let Some((profile, truth)) = record("waits", &["150"]) else { return };
    assert_each_kind_is_found(&profile, &truth);
}

#[test]
fn an_ordinary_user_gets_them_too() {
    let Some(program) = build_or_skip("waits", Variant::Release) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    if !has_perf_events() {
        return;
    }
    let arguments = ["record", "--off-cpu", "-o", "run.whyslow", "--", "./program", "150"];
    let output = run(command.args(arguments), PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = read(folder.path());
    assert_each_kind_is_found(&profile, &Truth::parse(&String::from_utf8_lossy(&output.stdout)));
    let metric = wait_metric(&profile).unwrap();
    let truncated = profile.samples[metric].stack.iter().filter(|stack| profile.is_truncated(**stack));
    assert_eq!(truncated.count(), 0);
}

/// What a thread ran and what it waited is all of its life.
#[test]
fn running_and_waiting_add_up_to_the_life_of_a_thread() {
    if !has_perf_events() {
        return;
    }
    let Some((profile, _)) = record("waits", &["60"]) else { return };
    let main = &profile.threads[0];
    let life_ns = main.end_ns.unwrap() - main.start_ns;
    let of_main = |metric: usize| -> u64 {
        let samples = &profile.samples[metric];
        let rows = samples.thread.iter().zip(&samples.value).filter(|(thread, _)| thread.index() == 0);
        rows.map(|(_, value)| value).sum()
    };
    let waited_ns = of_main(wait_metric(&profile).unwrap());
    let cpu = profile.metrics.iter().position(|metric| metric.of == Subject::Cpu).unwrap();
    // CPU time is sampled; there is little of it here.
    let sum = (waited_ns + of_main(cpu)) as f64 / life_ns as f64;
    assert!((sum - 1.0).abs() < 0.05, "{sum} of {life_ns} ns");
}

/// Who waited before anybody looked, and never stops, is the answer that is wanted of a program that hangs.
#[test]
fn a_wait_that_was_there_before_is_recorded_from_then_on() {
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut sleeping = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeping.id().to_string();
    // Until it sleeps it is still being started. Not every kernel tells; then there has been time enough.
    let sleeps =
        || std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|at| at.contains("nanosleep"));
    for _ in 0..200 {
        if sleeps() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let arguments = ["record", "--off-cpu", "-o", "run.whyslow", "--duration", "400ms", "-p", &pid];
    let output = run(whyslow(folder.path()).args(arguments), PATIENCE).unwrap();
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = read(folder.path());
    let table = waits(&profile);
    let [row] = &table.rows[..] else { panic!("{:?}", table.rows) };
    assert_eq!((row.reason, row.count), (Reason::Sleep, 1));
    let share = row.total_ns as f64 / profile.meta.duration_ns as f64;
    assert!(share > 0.9 && share <= 1.0, "{share} of {} ns", profile.meta.duration_ns);
}

#[test]
fn where_perf_events_are_refused_it_is_said_that_waits_are_missing() {
    let Some((output, folder)) = refused(&["record", "--off-cpu", "-o", "run.whyslow", "--", "true"]) else {
        return;
    };
    assert!(output.status.success());
    let notes = read(folder.path()).meta.notes;
    assert!(notes.contains(&Note::Recording(RecordingNote::WaitsNotRecorded)), "{notes:?}");
}

#[test]
fn without_waits_there_is_a_word_on_how_to_record_them() {
    let folder = tempfile::tempdir().unwrap();
    run(whyslow(folder.path()).args(["record", "-o", "run.whyslow", "--", "true"]), PATIENCE).unwrap();
    let output = run(whyslow(folder.path()).args(["report", "run.whyslow", "waits"]), PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("whyslow record --off-cpu"), "{said}");
}
