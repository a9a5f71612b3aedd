//! Events as metrics of a recording, against a program that knows how often each happens.

use std::process::Command;

use whyslow_analyze::{CallTree, FunctionTable, Selection, SortBy};
use whyslow_lab_harness::{Truth, Variant, build_or_skip, run, skip};
use whyslow_profile::{MetricId, Note, Origin, Profile, RecordingNote, Subject, file};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events, notes, refused, whyslow};

/// Records the program with these events.
fn record(events: &[&str]) -> Option<(Profile, Truth)> {
    let built = build_or_skip("events", Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    // Other tests that run the same file at the same time would call the same functions.
    let program = folder.path().join("events");
    std::fs::copy(built, &program).unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "-o", "run.whyslow"]).args(events).arg("--").arg(program);
    Some(finished(&mut command, folder.path()))
}

fn finished(command: &mut Command, folder: &std::path::Path) -> (Profile, Truth) {
    let output = run(command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.join("run.whyslow")).unwrap();
    (profile, Truth::parse(&String::from_utf8_lossy(&output.stdout)))
}

fn metric(profile: &Profile, name: &str) -> MetricId {
    profile.metric_named(name).unwrap_or_else(|| panic!("{name}: {:?}", notes(profile)))
}

/// The sum of a metric with a function on the stack; all of it for `None`.
fn sum(profile: &Profile, name: &str, function: Option<&str>) -> u64 {
    let selection = Selection { metric: metric(profile, name), ..Selection::default() };
    let table = FunctionTable::build(profile, &selection, true, SortBy::Total);
    let Some(function) = function else { return table.total_value };
    let named = |name: String| name == function || name.ends_with(&format!("::{function}"));
    table
        .rows
        .iter()
        .filter(|row| named(CallTree::name(profile, row.label).into_owned()))
        .map(|row| row.total_value)
        .sum()
}

/// Fails unless all occurrences are recorded, or the missing ones are reported.
#[track_caller]
fn assert_all(profile: &Profile, event: &str, function: &str, truth: u64) {
    let missed = profile.meta.notes.iter().find_map(|note| match note {
        Note::Recording(RecordingNote::EventsMissed { event: of, happened, recorded, .. }) if of == event => {
            Some(happened - recorded)
        }
        _ => None,
    });
    let seen = sum(profile, event, Some(function));
    let least = truth - missed.unwrap_or(0).min(truth);
    // The function's own code and that of its callees are pages, too.
    let most = if event.contains("probe") { truth } else { truth + 10 };
    assert!((least..=most).contains(&seen), "{event} in {function}: {seen} of {truth}, {missed:?} missed");
}

#[test]
fn page_faults_are_where_fresh_memory_is_touched() {
    if !has_perf_events() {
        return;
    }
    let Some((profile, truth)) = record(&["--faults"]) else { return };
    for function in ["touch_pages", "touch_a_few"] {
        assert_all(&profile, "page-faults", function, truth.counts[function]);
    }
    assert_eq!(sum(&profile, "major-faults", Some("touch_pages")), 0, "nothing is read from disk for it");
    let row = &profile.metrics[metric(&profile, "page-faults").index()];
    assert_eq!((row.of, row.origin), (Subject::Event, Origin::Counted));
    assert_eq!(
        profile.metrics[profile.main_metric().index()].of,
        Subject::Cpu,
        "CPU time is recorded as before"
    );
}

/// More events than any recorder keeps up with: the missing ones are known and reported.
#[test]
fn reports_every_missing_event_of_a_flood() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("usage", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "-o", "run.whyslow", "--faults", "--"]).arg(program).args(["60000", "1", "10"]);
    let (profile, truth) = finished(&mut command, folder.path());
    let missed = profile.meta.notes.iter().find_map(|note| match note {
        Note::Recording(RecordingNote::EventsMissed { event, happened, recorded, .. }) => {
            Some((event.as_str(), *happened, *recorded))
        }
        _ => None,
    });
    let recorded = sum(&profile, "page-faults", None);
    let faults = truth.counts["faults"];
    match missed {
        None => assert!(recorded >= faults, "{recorded} of {faults}, and no note"),
        Some(note) => {
            assert_eq!((note.0, note.2), ("page-faults", recorded));
            assert!(note.1 >= faults, "{note:?} of {faults}");
        }
    }
}

#[test]
fn an_ordinary_user_sees_them_too() {
    let Some(program) = build_or_skip("events", Variant::Release) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    if !has_perf_events() {
        return;
    }
    command.args(["record", "--faults", "-e", "sched:sched_switch,uprobe:probed", "-o", "run.whyslow", "--"]);
    command.arg("./program");
    let (profile, truth) = finished(&mut command, folder.path());
    assert_all(&profile, "page-faults", "touch_pages", truth.counts["touch_pages"]);
    let notes = notes(&profile);
    for (event, why) in [("sched:sched_switch", "only root"), ("uprobe:probed", "only root")] {
        let said = notes.iter().find(|note| note.starts_with(&format!("{event} is not recorded")));
        assert!(said.is_some_and(|said| said.contains(why)), "{event}: {notes:?}");
    }
}

/// Whether functions can be probed and tracepoints read, which needs root.
fn is_root() -> bool {
    let root = std::fs::read_dir("/sys/kernel/tracing/events/sched").is_ok()
        && std::fs::exists("/sys/bus/event_source/devices/uprobe").unwrap_or(false);
    if !root {
        skip("the kernel's tracepoints are not readable here");
    }
    root && has_perf_events()
}

#[test]
fn calls_of_a_function_are_counted_with_their_callers() {
    if !is_root() {
        return;
    }
    let Some((profile, truth)) = record(&["-e", "uprobe:events::probed,uretprobe:probed"]) else { return };
    for event in ["uprobe:events::probed", "uretprobe:probed"] {
        assert_all(&profile, event, "call_often", truth.counts["probed"]);
        assert_all(&profile, event, "events::main", truth.counts["probed"]);
    }
}

#[test]
fn a_period_samples_one_in_many_with_that_weight() {
    if !is_root() {
        return;
    }
    let Some((profile, truth)) = record(&["-c", "10", "-e", "uprobe:probed"]) else { return };
    let (seen, calls) = (sum(&profile, "uprobe:probed", None), truth.counts["probed"]);
    let rows = profile.samples[metric(&profile, "uprobe:probed").index()].len() as u64;
    assert_eq!(seen, rows * 10);
    // Each of the two instances and each CPU ends with an incomplete period of ten.
    let parts = 2 * 10 * cpus();
    assert!(seen <= calls && seen + parts >= calls, "{seen} of {calls}");
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)
}

#[test]
fn a_tracepoint_is_a_metric() {
    if !is_root() {
        return;
    }
    let Some((profile, truth)) = record(&["-e", "sched:sched_process_exec"]) else { return };
    // The program itself is executed, too.
    assert_eq!(sum(&profile, "sched:sched_process_exec", None), truth.counts["execs"] + 1);
}

#[test]
fn without_permission_for_events_nothing_is_started() {
    let Some((output, folder)) = refused(&[], &["record", "-e", "page-faults,cs", "--", "touch", "started"])
    else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    for words in
        ["page-faults, context-switches are not recorded", "container or sandbox", "try: ", "PERFMON"]
    {
        assert!(said.contains(words), "{said}");
    }
    assert!(!folder.path().join("started").exists());
}
