//! Where threads wait, for what, and how long, against programs' own measurements: as root, where the kernel
//! provides the stack of every wait, and as an ordinary user, with snapshots of waiting threads.

use std::path::Path;

use whyslow_analyze::{
    CallTree, Charges, CriticalPath, Did, LockTable, Reason, Selection, WaitRow, WaitTable, wait_metric,
};
use whyslow_lab_harness::{Truth, Variant, build_or_skip, run, standard_error};
use whyslow_profile::{MetricId, Note, Profile, RecordingNote, Subject, ThreadId, file};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events, refused, whyslow};

/// Records a program with its waits. Also returns the program's measurements.
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

/// The waits of the program's own threads.
fn waits(profile: &Profile) -> WaitTable {
    let metric = wait_metric(profile).expect("waits were recorded");
    let selection = Selection { metric, ..Selection::default() };
    WaitTable::build(profile, &selection, &Charges::new(profile, true), 0)
}

/// Fails unless each function of the program `waits` has waited for what its name says, as long as it
/// measured, up to a relative error.
#[track_caller]
fn assert_each_kind_is_found(profile: &Profile, truth: &Truth, error: f64) {
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
            // `park` is passed on unchanged, so the line is that of its call.
            row.reason == reason && (name.contains(function) || name.ends_with("timed"))
        };
        // The program's measurement ends when it has a CPU again.
        let fits = |row: &&WaitRow| {
            let queued = |other: &&WaitRow| other.reason == Reason::Cpu && other.label == row.label;
            let queued_ns: u64 = table.rows.iter().filter(queued).map(|row| row.total_ns).sum();
            let share = |ns: u64| ns as f64 / truth_ns as f64;
            share(row.total_ns) < 1.0 + error && share(row.total_ns + queued_ns) > 1.0 - error
        };
        let rows: Vec<_> = table.rows.iter().filter(of_function).collect();
        assert!(rows.iter().any(fits), "{function}: {truth_ns} ns for {reason:?}: {rows:?}");
    }
}

#[test]
fn finds_each_kind_of_wait_with_its_reason_and_length() {
    if !has_perf_events() {
        return;
    }
    let Some((profile, truth)) = record("waits", &["150"]) else { return };
    assert_each_kind_is_found(&profile, &truth, 0.05);
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
    assert_each_kind_is_found(&profile, &Truth::parse(&String::from_utf8_lossy(&output.stdout)), 0.05);
    let metric = wait_metric(&profile).unwrap();
    let truncated =
        profile.samples[metric.index()].stack.iter().filter(|stack| profile.is_truncated(**stack));
    assert_eq!(truncated.count(), 0);
}

/// Sleeps that are shorter than the time between two snapshots: all are counted and timed, and charged to
/// their lines in proportion to the snapshots.
#[test]
fn short_waits_of_an_ordinary_user_have_a_place() {
    let Some(program) = build_or_skip("naps", Variant::Release) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    if !has_perf_events() {
        return;
    }
    let arguments = ["record", "--off-cpu", "-o", "run.whyslow", "--", "./program"];
    let output = run(command.args(arguments), PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (profile, truth) = (read(folder.path()), Truth::parse(&String::from_utf8_lossy(&output.stdout)));
    assert_naps_are_located(&profile, &truth);
}

/// Fails unless at least 90 % of the waiting time of `naps` has a place, the number and the total of its waits
/// are right, and each function has its share.
#[track_caller]
fn assert_naps_are_located(profile: &Profile, truth: &Truth) {
    let table = waits(profile);
    let total = |fits: &dyn Fn(&WaitRow) -> bool| -> f64 {
        table.rows.iter().filter(|row| fits(row)).map(|row| row.total_ns as f64).sum()
    };
    let has_place = |row: &WaitRow| !matches!(row.reason, Reason::Short | Reason::NotSampled | Reason::Cpu);
    let (located, blocked) = (total(&has_place), total(&|row| row.reason != Reason::Cpu));
    assert!(located >= 0.9 * blocked, "{located} of {blocked} ns: {:?}", table.rows);
    let slept = table.rows.iter().filter(|row| row.reason == Reason::Sleep);
    let waits = slept.map(|row| row.count).sum::<u64>();
    let sleeps = truth.counts["sleeps"];
    assert!(waits.abs_diff(sleeps) * 20 < sleeps, "{waits} waits of {sleeps}");
    // On a busy machine, timers are late, too.
    let ratio = blocked / (1000.0 * truth.counts["slept_us"] as f64);
    assert!((0.9..1.5).contains(&ratio), "slept {ratio} times as long as it should");
    let stacks = profile.meta.notes.iter().find_map(|note| match note {
        Note::Recording(RecordingNote::WaitsEstimated { stacks, .. }) => Some(*stacks),
        _ => None,
    });
    for (function, known) in [("often", 0.358), ("seldom", 0.119), ("longer", 0.523)] {
        let of_function = |row: &WaitRow| {
            row.reason == Reason::Sleep && CallTree::name(profile, row.label).ends_with(function)
        };
        let found = total(&of_function) / blocked;
        let error = 4.0 * standard_error(known, stacks.unwrap_or(waits)) + 0.07;
        assert!((found - known).abs() < error, "{function} has {found}, the truth is {known} ± {error}");
    }
}

/// Running, queued and blocked time add up to a thread's life, without any option. With recorded waits, the
/// blocked time is the same.
#[test]
fn every_recording_has_running_queued_and_blocked_time() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("waits", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "-o", "run.whyslow", "--"]).arg(program).arg("60");
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = read(folder.path());
    assert!(profile.threads.len() > 5);
    for thread in &profile.threads {
        let life_ns = thread.end_ns.unwrap() - thread.start_ns;
        let times = thread.times.unwrap();
        let sum_ns = times.ran_ns + times.queued_ns + times.blocked_ns;
        let missing = (sum_ns as f64 / life_ns as f64 - 1.0).abs();
        assert!(missing < 0.01, "{missing} of {life_ns} ns of thread {}: {times:?}", thread.tid);
        assert!(times.blocked_ns > 40_000_000, "every thread sleeps or waits: {times:?}");
    }
    let ran_ns: u64 =
        profile.threads.iter().filter_map(|thread| thread.times).map(|times| times.ran_ns).sum();
    let sampled_ns: u64 = profile.samples[profile.main_metric().index()].value.iter().sum();
    // One sample per millisecond: four standard deviations, plus the kernel's rounding.
    let chance = 4.0 * (ran_ns as f64 * 1e6).sqrt() + 5e6;
    assert!((ran_ns as f64 - sampled_ns as f64).abs() < chance, "{ran_ns} ns ran, {sampled_ns} sampled");
}

/// Each lock separately, with the lines that waited for it and that released it.
#[test]
fn distinguishes_locks_and_their_holders() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("waits", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["locks", "-o", "run.whyslow", "--"]).arg(program).arg("60");
    let output = run(&mut command, PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("std RwLock at 0x"), "{said}");
    assert!(said.contains("std Mutex waits::LOCK at 0x"), "{said}");
    assert!(said.contains(" waits, ") && said.contains(" with complete stacks ("), "{said}");
    let json = ["report", "run.whyslow", "locks", "--min-wait", "20ms", "--format", "json"];
    let output = run(whyslow(folder.path()).args(json), PATIENCE).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["metric"]["name"], "off-cpu-time");
    assert!(json["quality"]["waits"]["waits"].as_u64() > Some(10), "{}", json["quality"]);
    let mutex = json["locks"].as_array().unwrap().iter().find(|lock| lock["kind"] == "std Mutex").unwrap();
    assert_eq!((&mutex["name"], &mutex["name_offset"]), (&"waits::LOCK".into(), &0.into()));
    let profile = read(folder.path());
    let metric = wait_metric(&profile).unwrap();
    let selection = Selection { metric, ..Selection::default() };
    let table = LockTable::build(&profile, &selection, &Charges::new(&profile, true), 20_000_000);
    let mut found = Vec::new();
    for row in &table.rows {
        let [waiter] = &row.waiters[..] else { panic!("{row:?}") };
        let function = CallTree::name(&profile, waiter.site.label).replace("::{{closure}}", "");
        found.push((row.kind, function, row.name.map(|name| name.words(&profile))));
        assert!(row.address.is_some() && row.count == 1, "{row:?}");
        if sees_tracepoints() {
            let [holder] = &row.holders[..] else { panic!("{row:?}") };
            let name = CallTree::name(&profile, holder.site.label);
            assert!(found.last().is_some_and(|(_, waiter, _)| name.starts_with(waiter.as_str())), "{name}");
            assert_ne!(holder.thread, Some(ThreadId(0)), "the first thread waits");
        }
    }
    found.sort();
    let of = |kind, function: &str, variable: Option<&str>| {
        (kind, format!("waits::{function}"), variable.map(|name| format!("waits::{name}")))
    };
    let expected = [
        of("std Mutex", "wait_lock", Some("LOCK")),
        of("std Once", "wait_once", Some("wait_once::ONCE")),
        of("std RwLock", "wait_rwlock", None),
    ];
    assert_eq!(found, expected);
    assert_eq!(table.graph.len(), if sees_tracepoints() { 3 } else { 0 });
}

/// The first thread waits for others that sleep: their sleep delays its end.
#[test]
fn the_critical_path_leads_to_the_threads_that_delay_others() {
    if !has_perf_events() || !sees_tracepoints() {
        return;
    }
    let Some((profile, _)) = record("waits", &["60"]) else { return };
    let metric = wait_metric(&profile).unwrap();
    let selection = Selection { metric, ..Selection::default() };
    let path = CriticalPath::build(&profile, &selection, &Charges::new(&profile, true)).unwrap();
    let life_ns = profile.threads[0].end_ns.unwrap() - profile.threads[0].start_ns;
    assert!((path.total_ns as f64 / life_ns as f64 - 1.0).abs() < 0.01, "{} of {life_ns}", path.total_ns);
    let of = |did: Did| path.rows.iter().filter(|row| row.did == did).map(|row| row.total_ns).sum::<u64>();
    // Eleven functions wait for 60 ms each, all but one through another thread's sleep.
    assert!(of(Did::Waited(Reason::Sleep)) > 600_000_000, "{:?}", path.rows);
    assert_eq!(of(Did::Waited(Reason::Lock)) + of(Did::Waited(Reason::Join)), 0, "{:?}", path.rows);
    let others = path.steps.iter().filter(|step| step.thread != ThreadId(0));
    assert!(others.map(|step| step.end_ns - step.start_ns).sum::<u64>() > 500_000_000);
}

/// Whether the kernel exposes its tracepoints.
fn sees_tracepoints() -> bool {
    Path::new("/sys/kernel/tracing/events/sched/sched_waking/id").exists()
}

/// A thread's running and waiting add up to its life.
#[test]
fn running_and_waiting_add_up_to_the_life_of_a_thread() {
    if !has_perf_events() {
        return;
    }
    let Some((profile, _)) = record("waits", &["60"]) else { return };
    let main = &profile.threads[0];
    let life_ns = main.end_ns.unwrap() - main.start_ns;
    let of_main = |metric: MetricId| -> u64 {
        let samples = &profile.samples[metric.index()];
        let rows = samples.thread.iter().zip(&samples.value).filter(|(thread, _)| thread.index() == 0);
        rows.map(|(_, value)| value).sum()
    };
    let waited_ns = of_main(wait_metric(&profile).unwrap());
    let cpu = profile.metric_of(Subject::Cpu).unwrap();
    // CPU time is sampled; there is little of it here.
    let sum = (waited_ns + of_main(cpu)) as f64 / life_ns as f64;
    assert!((sum - 1.0).abs() < 0.05, "{sum} of {life_ns} ns");
}

/// In a program that hangs, the thread that started to wait before the recording and never stops is the
/// answer.
#[test]
fn a_wait_that_started_before_the_recording_is_recorded() {
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut sleeping = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeping.id().to_string();
    // Until it sleeps, it is still starting. Not every kernel reports this; then enough time has passed.
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

/// A process that never runs during its recording was stopped all the time.
#[test]
fn a_stopped_process_waits_to_be_continued() {
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut stopped = std::process::Command::new("sh").args(["-c", "kill -STOP $$"]).spawn().unwrap();
    let pid = stopped.id().to_string();
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") T ")
    };
    while !is_stopped() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let arguments = ["record", "--off-cpu", "-o", "run.whyslow", "--duration", "200ms", "-p", &pid];
    let output = run(whyslow(folder.path()).args(arguments), PATIENCE).unwrap();
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = read(folder.path());
    let [row] = &waits(&profile).rows[..] else { panic!("{:?}", waits(&profile).rows) };
    assert_eq!((row.reason, row.count), (Reason::Stopped, 1));
    let times = profile.threads[0].times.unwrap();
    assert_eq!((times.ran_ns, times.queued_ns, times.blocked_ns), (0, 0, row.total_ns));
}

/// The kernel's accounts of threads stand in for records of context switches.
#[test]
fn waits_are_recorded_without_permission_for_perf_events() {
    let Some(program) = build_or_skip("naps", Variant::Release) else { return };
    let arguments = ["record", "--off-cpu", "-o", "run.whyslow", "--", program.to_str().unwrap()];
    let Some((output, folder)) = refused(&[], &arguments) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (profile, truth) = (read(folder.path()), Truth::parse(&String::from_utf8_lossy(&output.stdout)));
    let notes = &profile.meta.notes;
    assert!(notes.contains(&Note::Recording(RecordingNote::WaitsFromAccounts)), "{notes:?}");
    assert_naps_are_located(&profile, &truth);
}

/// Long waits have their reasons and lengths there, too.
#[test]
fn each_kind_of_wait_is_found_without_permission_for_perf_events() {
    let Some(program) = build_or_skip("waits", Variant::Release) else { return };
    let arguments = ["record", "--off-cpu", "-o", "run.whyslow", "--", program.to_str().unwrap(), "300"];
    let Some((output, folder)) = refused(&[], &arguments) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    // Beginning and end of a wait are known to an interval.
    assert_each_kind_is_found(&read(folder.path()), &truth, 0.15);
}

/// What was asked for and could not be recorded has its reason, and not the command that was just run.
#[test]
fn a_view_says_why_this_recording_lacks_its_data() {
    let Some((_, folder)) = refused(&[], &["record", "--syscalls", "-o", "run.whyslow", "--", "true"]) else {
        return;
    };
    let output = run(whyslow(folder.path()).args(["report", "run.whyslow", "syscalls"]), PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("perf events, which are not permitted here"), "{said}");
    assert!(said.contains("whyslow doctor") && !said.contains("record --syscalls"), "{said}");
}

#[test]
fn without_waits_a_note_says_how_to_record_them() {
    let folder = tempfile::tempdir().unwrap();
    run(whyslow(folder.path()).args(["record", "-o", "run.whyslow", "--", "true"]), PATIENCE).unwrap();
    let output = run(whyslow(folder.path()).args(["report", "run.whyslow", "waits"]), PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("whyslow record --off-cpu"), "{said}");
}
