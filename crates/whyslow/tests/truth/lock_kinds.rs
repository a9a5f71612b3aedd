//! Waits for locks of pthreads and parking_lot, for a CPU, and of an idle pool, against the programs' own
//! measurements, as root and as an ordinary user.

use std::path::Path;

use whyslow_analyze::{Charges, LockTable, Reason, Selection, WaitTable, wait_metric};
use whyslow_lab_harness::{Truth, Variant, build_or_skip, build_runtime_or_skip, run, try_again};
use whyslow_profile::{Profile, file};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events, whyslow};

/// Records a program with its waits. Also returns the program's measurements.
pub(crate) fn record(program: &Path, args: &[&str]) -> (Profile, Truth) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "--off-cpu", "-o", "run.whyslow", "--"]).arg(program).args(args);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (read(folder.path()), Truth::parse(&String::from_utf8_lossy(&output.stdout)))
}

fn read(folder: &Path) -> Profile {
    file::read(&folder.join("run.whyslow")).unwrap()
}

/// The same as an ordinary user.
pub(crate) fn record_as_nobody(program: &Path, args: &[&str]) -> Option<(Profile, Truth)> {
    let (folder, mut command) = as_nobody(program)?;
    command.args(["record", "--off-cpu", "-o", "run.whyslow", "--", "./program"]).args(args);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((read(folder.path()), Truth::parse(&String::from_utf8_lossy(&output.stdout))))
}

/// Fails unless the first thread has waited in these functions, for these reasons, as long as the program
/// measured. The program's clock also runs while the thread is queued for a CPU, and during waits too short
/// for a snapshot: that much may be missing.
#[track_caller]
pub(crate) fn assert_waits(profile: &Profile, truth: &Truth, cases: &[(&str, &[Reason])]) {
    let metric = wait_metric(profile).expect("waits were recorded");
    let threads = vec![whyslow_analyze::Pattern::Number(profile.threads[0].tid)];
    let sum = |selection: &Selection, reasons: &[Reason]| -> f64 {
        let table = WaitTable::build(profile, selection, &Charges::new(profile, true), 0);
        table.reasons.iter().filter(|(reason, _)| reasons.contains(reason)).map(|(_, ns)| *ns as f64).sum()
    };
    let everywhere = Selection { metric, threads, ..Selection::default() };
    let unseen = sum(&everywhere, &[Reason::Cpu, Reason::Short, Reason::NotSampled]);
    for (function, reasons) in cases {
        let truth_ns = truth.counts[&format!("{function}_us")] as f64 * 1000.0;
        let name = Some(whyslow_analyze::FunctionFilter::new(&format!("(^|::){function}$")));
        let found = sum(&Selection { function: name, ..everywhere.clone() }, reasons);
        let least = if reasons.contains(&Reason::Cpu) { unseen } else { found + unseen };
        let said = format!("{function}: {found} of {truth_ns} ns for {reasons:?}, {unseen} ns not recorded");
        assert!(found < 1.05 * truth_ns && least > 0.95 * truth_ns, "{said}");
    }
}

/// Fails unless the locks of `pthreads`, which are variables, have the variables' names.
#[track_caller]
fn assert_names(profile: &Profile) {
    let selection = Selection { metric: wait_metric(profile).unwrap(), ..Selection::default() };
    let table = LockTable::build(profile, &selection, &Charges::new(profile, true), 20_000_000);
    let mut names: Vec<_> =
        table.rows.iter().map(|row| (row.kind, row.name.map(|name| name.words(profile)))).collect();
    names.sort();
    // Threads hold this one only for moments, unless a busy machine takes the holder's CPU away.
    names.retain(|(_, name)| name.as_deref() != Some("held"));
    let expected = [("pthread mutex", "mutex"), ("pthread rwlock", "rwlock")];
    assert_eq!(names, expected.map(|(kind, name)| (kind, Some(name.to_owned()))));
}

const PTHREADS: &[(&str, &[Reason])] = &[
    ("wait_mutex", &[Reason::Lock]),
    ("wait_rwlock", &[Reason::Lock]),
    ("wait_condition", &[Reason::Condition]),
    ("wait_pingpong", &[Reason::Condition, Reason::Lock]),
    ("wait_cpu", &[Reason::Cpu]),
];

#[test]
fn finds_waits_of_posix_threads_and_for_a_cpu() {
    if !has_perf_events() {
        return;
    }
    let Some((profile, truth)) =
        build_or_skip("pthreads", Variant::Release).map(|program| record(&program, &["150"]))
    else {
        return;
    };
    assert_waits(&profile, &truth, PTHREADS);
    assert_names(&profile);
}

#[test]
fn an_ordinary_user_finds_waits_of_posix_threads() {
    let Some(program) = build_or_skip("pthreads", Variant::Release) else { return };
    if !has_perf_events() {
        return;
    }
    let Some((profile, truth)) = record_as_nobody(&program, &["150"]) else { return };
    assert_waits(&profile, &truth, PTHREADS);
    assert_names(&profile);
}

/// The run-queue delay after a sleep is separate from the sleep, though no record shows the wakeup.
#[test]
fn an_ordinary_user_gets_the_run_queue_delay_of_woken_threads() {
    let Some(program) = build_or_skip("turns", Variant::Release) else { return };
    if !has_perf_events() {
        return;
    }
    let Some((profile, truth)) = record_as_nobody(&program, &["600"]) else { return };
    let times = profile.threads[0].times.unwrap();
    for (what, found_ns) in [("queued_us", times.queued_ns), ("slept_us", times.blocked_ns)] {
        let share = found_ns as f64 / 1000.0 / truth.counts[what] as f64;
        assert!((share - 1.0).abs() < 0.1, "{what}: {share} of {truth:?} in {times:?}");
    }
    // On a busy machine it is preempted for most of it.
    assert!(times.queued_estimated_ns > 0 && times.queued_estimated_ns <= times.queued_ns, "{times:?}");
}

/// The locks that a thread waited long for.
fn locks(profile: &Profile) -> LockTable {
    let selection = Selection { metric: wait_metric(profile).unwrap(), ..Selection::default() };
    LockTable::build(profile, &selection, &Charges::new(profile, true), 50_000_000)
}

/// Locks of parking_lot are recognised as locks, and the threads of a rayon pool are idle nearly all the
/// time.
#[track_caller]
fn assert_crate_locks(profile: &Profile, truth: &Truth) {
    assert_waits(
        profile,
        truth,
        &[
            ("wait_mutex", &[Reason::Lock]),
            ("wait_rwlock", &[Reason::Lock]),
            ("wait_condition", &[Reason::Condition]),
        ],
    );
    let metric = wait_metric(profile).unwrap();
    let locks = locks(profile);
    let name = |kind: &str| {
        let row =
            locks.rows.iter().find(|row| row.kind == kind).unwrap_or_else(|| panic!("{kind}: {locks:?}"));
        (row.name.map(|name| name.words(profile)), row.address.is_some())
    };
    assert_eq!(name("parking_lot Mutex"), (Some("crate_locks::LOCK".to_owned()), true));
    assert_eq!(name("parking_lot RwLock"), (None, true), "it is on the heap");
    // The first thread waits for the pool at the start.
    let others = profile.threads[1..].iter().map(|thread| whyslow_analyze::Pattern::Number(thread.tid));
    let pool = Some(whyslow_analyze::FunctionFilter::new("rayon_core"));
    let of_pool = Selection { metric, threads: others.collect(), function: pool, ..Selection::default() };
    let table = WaitTable::build(profile, &of_pool, &Charges::new(profile, true), 0);
    let of =
        |wanted: Reason| table.reasons.iter().find(|(reason, _)| *reason == wanted).map_or(0, |(_, ns)| *ns);
    let blocked = table.total_ns - of(Reason::Cpu);
    assert!(of(Reason::Idle) as f64 > 0.98 * blocked as f64, "{:?}", table.reasons);
    assert!(
        blocked > profile.meta.duration_ns,
        "two threads are idle nearly all the time: {:?}",
        table.reasons
    );
}

#[test]
fn locks_of_crates_are_locks_and_an_idle_pool_is_idle() {
    let Some(program) = build_runtime_or_skip("crate_locks") else { return };
    if !has_perf_events() {
        return;
    }
    let (profile, truth) = record(&program, &["150"]);
    assert_crate_locks(&profile, &truth);
    // An ordinary user only sees waits that the recorder looked at. On a busy machine it looks seldom.
    let mut ms = 150;
    loop {
        let Some((profile, truth)) = record_as_nobody(&program, &[&ms.to_string()]) else { return };
        if !locks(&profile).rows.is_empty() || ms > 2000 {
            return assert_crate_locks(&profile, &truth);
        }
        try_again(&format!("no wait of {ms} ms was looked at"));
        ms *= 4;
    }
}
