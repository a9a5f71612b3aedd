//! Tokio tasks: which compute, which block a worker and for how long, against the program's own measurements.

use std::path::Path;

use whyslow_analyze::{
    BlockedWorker, CallTree, Charges, Reason, Selection, TaskTable, WaitTable, wait_metric,
};
use whyslow_explain::{Allowed, Question, RuleId, Topic, findings_about};
use whyslow_lab_harness::{Truth, build_runtime_or_skip, run};
use whyslow_profile::{Profile, file};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events, whyslow};

const MS: &str = "250";

fn read(folder: &Path) -> Profile {
    file::read(&folder.join("run.whyslow")).unwrap()
}

/// The run-queue delay of all threads.
fn queued(profile: &Profile) -> f64 {
    reasons(profile).iter().filter(|(reason, _)| *reason == Reason::Cpu).map(|(_, ns)| *ns as f64).sum()
}

fn reasons(profile: &Profile) -> Vec<(Reason, u64)> {
    let selection = Selection { metric: wait_metric(profile).unwrap(), ..Selection::default() };
    WaitTable::build(profile, &selection, &Charges::new(profile, true), 0).reasons
}

#[track_caller]
fn assert_tasks_are_found(profile: &Profile, truth: &Truth) {
    let charges = Charges::new(profile, true);
    let blocked = BlockedWorker::find(profile, &Selection::default(), &charges);
    let cases = [
        ("sleep_on_worker", "sleep", &[Reason::Sleep][..]),
        // Opening it needs a writer; an ordinary user only sees that a file is opened.
        ("read_on_worker", "read", &[Reason::Pipe, Reason::File]),
    ];
    assert_eq!(blocked.len(), cases.len(), "{blocked:?}");
    for (function, call, reasons) in cases {
        let name = format!("async fn tokio_tasks::{function}");
        let row = blocked.iter().find(|row| CallTree::name(profile, row.task) == name);
        let row = row.unwrap_or_else(|| panic!("{name}: {blocked:?}"));
        let truth_ns = truth.counts[&format!("{function}_us")] as f64 * 1000.0;
        // The program's clock also runs while the worker is queued for a CPU.
        let (total, queued) = (row.total_ns as f64, queued(profile));
        let said = format!("{function}: {total} of {truth_ns} ns, {queued} ns in the queue");
        assert!(total < 1.05 * truth_ns && total + queued > 0.95 * truth_ns, "{said}");
        assert!(reasons.contains(&row.reason) && row.executor == "tokio", "{row:?}");
        let called = CallTree::name(profile, row.call);
        assert!(called.ends_with(call), "{function} called {called}");
    }
    let (selection, allowed) = (Selection::default(), Allowed::default());
    let question =
        Question { profile, selection: &selection, only_metric: false, allowed: &allowed, file: "" };
    let found = findings_about(Topic::Tasks, &question);
    let [finding] = &found[..] else { panic!("{found:?}") };
    let place = finding.place.unwrap();
    assert_eq!(finding.rule.id, RuleId::BlockingInAsync);
    assert!(profile.text(place.file.unwrap()).ends_with("tokio_tasks.rs") && place.line > 0, "{place:?}");
    assert!(
        finding.evidence.len() == cases.len() && finding.advice.contains("spawn_blocking"),
        "{finding:?}"
    );
}

/// Only the blocking threads, and those that wait for them, wait for anything other than work.
#[track_caller]
fn assert_the_rest_is_idle(profile: &Profile) {
    let reasons = reasons(profile);
    let of = |wanted: Reason| reasons.iter().find(|(reason, _)| *reason == wanted).map_or(0, |(_, ns)| *ns);
    // Two sleeps of the tasks, one on a thread for blocking calls and one on the thread that writes.
    let ms = MS.parse::<u64>().unwrap();
    let slept = of(Reason::Sleep) / 1_000_000;
    assert!(slept >= 3 * ms && slept < 3 * ms + ms / 2, "{slept} ms");
    assert!(of(Reason::Idle) > 2 * of(Reason::Sleep), "{reasons:?}");
    for reason in [Reason::Condition, Reason::Park, Reason::Events, Reason::Network, Reason::Channel] {
        assert!(of(reason) < 20_000_000, "{reasons:?}");
    }
}

#[test]
fn finds_blocked_workers_and_awaited_operations() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_runtime_or_skip("tokio_tasks") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "--off-cpu", "-o", "run.whyslow", "--"]).arg(program).arg(MS);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = read(folder.path());
    assert_tasks_are_found(&profile, &Truth::parse(&String::from_utf8_lossy(&output.stdout)));
    assert_the_rest_is_idle(&profile);

    let table = TaskTable::build(&profile, &Selection::default());
    let first = table.rows.iter().max_by_key(|row| row.cost.cpu_ns).unwrap();
    assert_eq!(CallTree::name(&profile, first.task), "async fn tokio_tasks::request");
    let chain: Vec<_> =
        first.chains[0].functions.iter().map(|label| CallTree::name(&profile, *label)).collect();
    assert_eq!(chain, ["request", "middle", "inner"].map(|name| format!("async fn tokio_tasks::{name}")));
    assert!(
        first.cost.cpu_ns as f64 > 0.7 * table.total_ns as f64,
        "{} of {}",
        first.cost.cpu_ns,
        table.total_ns
    );

    let report = run(whyslow(folder.path()).args(["report", "run.whyslow", "waits"]), PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(said.contains("[blocking-in-async]") && said.contains("read_on_worker"), "{said}");
}

#[test]
fn an_ordinary_user_finds_them_too() {
    let Some(program) = build_runtime_or_skip("tokio_tasks") else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    if !has_perf_events() {
        return;
    }
    let arguments = ["record", "--off-cpu", "-o", "run.whyslow", "--", "./program", MS];
    let output = run(command.args(arguments), PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = read(folder.path());
    assert_tasks_are_found(&profile, &Truth::parse(&String::from_utf8_lossy(&output.stdout)));
}
