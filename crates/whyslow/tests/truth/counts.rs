//! `whyslow stat` against a program that knows its resource usage.

use std::process::{Command, Output};

use serde_json::Value;
use whyslow_lab_harness::{Truth, Variant, build_or_skip, run};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events, whyslow};

/// The program's claims, and whyslow's numbers.
struct Stat {
    truth: Truth,
    json: Value,
}

fn answer(output: &Output, json: &[u8]) -> Stat {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    assert!(!truth.counts.is_empty(), "the program's own output is its own");
    Stat { truth, json: serde_json::from_slice(json).unwrap() }
}

/// Counts the program as the current user.
fn stat(options: &[&str]) -> Option<Stat> {
    let program = build_or_skip("usage", Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["stat", "--format", "json", "-o", "stat.json"]).args(options).arg("--").arg(program);
    let output = run(&mut command, PATIENCE).unwrap();
    Some(answer(&output, &std::fs::read(folder.path().join("stat.json")).unwrap()))
}

impl Stat {
    fn claim(&self, name: &str) -> f64 {
        self.truth.counts[name] as f64
    }

    fn entry(&self, name: &str) -> &Value {
        let numbers = self.json["numbers"].as_array().unwrap();
        numbers
            .iter()
            .find(|number| number["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {:#}", self.json))
    }

    fn number(&self, name: &str) -> f64 {
        self.entry(name)["value"].as_f64().unwrap()
    }

    fn remark_ids(&self) -> Vec<&str> {
        self.json["remarks"].as_array().unwrap().iter().filter_map(|remark| remark["id"].as_str()).collect()
    }

    /// Checks the program's claimed usage plus what start-up may add. It is the same for every user.
    fn assert_true(&self) {
        let within = |name: &str, truth: f64, more: f64| {
            let value = self.number(name);
            assert!(
                (truth..=truth + more).contains(&value),
                "{name}: {value}, the truth is {truth} and at most {more} more"
            );
        };
        within("minor-faults", self.claim("faults"), 600.0);
        within("voluntary-switches", self.claim("sleeps"), 60.0);
        within("bytes-read", self.claim("moved_bytes"), 65_536.0);
        within("bytes-written", self.claim("moved_bytes"), 4096.0);
        let cpu = self.claim("cpu_us") * 1000.0;
        let counted = self.number("cpu-time");
        assert!((counted - cpu).abs() < 0.02 * cpu + 5e6, "CPU time {counted}, the truth is {cpu}");
        let parts = self.number("user-time") + self.number("system-time");
        assert!((parts - counted).abs() < 1.0, "{parts} of {counted}");
        let used = counted / self.number("wall-time");
        assert!((self.number("cpus-used") - used).abs() < 1e-6);
        assert!(self.entry("wall-time")["suggests"].as_str().is_some_and(|words| !words.is_empty()));
    }
}

#[test]
fn counts_match_a_program_that_knows_its_usage() {
    let Some(stat) = stat(&[]) else { return };
    stat.assert_true();
    assert_eq!(stat.json["schema"], "whyslow-stat/1");
    assert_eq!((&stat.json["scope"], &stat.json["runs"]), (&Value::from("program"), &Value::from(1)));
    // The largest of its processes had 8,000 pages at once.
    let resident = stat.number("max-resident");
    assert!((32_768_000.0..60e6).contains(&resident), "{resident}");
}

#[test]
fn an_ordinary_user_gets_the_same_numbers() {
    let Some(program) = build_or_skip("usage", Variant::Release) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    command.args(["stat", "--format", "json", "-o", "stat.json", "--", "./program"]);
    let output = run(&mut command, PATIENCE).unwrap();
    answer(&output, &std::fs::read(folder.path().join("stat.json")).unwrap()).assert_true();
}

/// The kernel removes the counters when a file is executed that the user may not read. Their earlier counts
/// must not pass for the total.
#[test]
fn an_unobservable_program_keeps_its_cpu_time() {
    use std::os::unix::fs::PermissionsExt as _;
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("usage", Variant::Release) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    let unreadable = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(folder.path().join("program"), unreadable).unwrap();
    command.args(["stat", "--format", "json", "-o", "stat.json", "--", "./program"]);
    let output = run(&mut command, PATIENCE).unwrap();
    let stat = answer(&output, &std::fs::read(folder.path().join("stat.json")).unwrap());
    let (cpu, truth) = (stat.number("cpu-time"), stat.claim("cpu_us") * 1000.0);
    assert!((cpu - truth).abs() < 0.02 * truth + 5e6, "{cpu}, the truth is {truth}");
    assert!(stat.remark_ids().contains(&"programs-not-counted"), "{:?}", stat.remark_ids());
}

/// Without permission for perf events there are the kernel's accounts, and one remark about the rest.
#[test]
fn refused_perf_events_cost_little() {
    let Some(program) = build_or_skip("usage", Variant::Release) else { return };
    let Some(refuse) = build_or_skip("refuse", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(refuse);
    command.current_dir(folder.path()).arg(env!("CARGO_BIN_EXE_whyslow"));
    command.args(["stat", "--format", "json", "-o", "stat.json", "--"]).arg(program);
    let output = run(&mut command, PATIENCE).unwrap();
    let stat = answer(&output, &std::fs::read(folder.path().join("stat.json")).unwrap());
    stat.assert_true();
    assert_eq!(stat.remark_ids(), ["counters-refused"]);
    assert!(stat.json["remarks"][0]["fix"].as_str().unwrap().contains("PERFMON"));
    let events = stat.json["events"].as_array().unwrap();
    assert!(
        events.iter().all(|event| event["counted"] == false && event["why_not"] == "refused"),
        "{events:#?}"
    );
}

/// Threads report their counts when they exit: each has its own, and together they are the total.
#[test]
fn each_thread_has_its_own_counts() {
    if !has_perf_events() {
        return;
    }
    let Some(stat) = stat(&["--per-thread", "-e", "page-faults"]) else { return };
    stat.assert_true();
    let threads = stat.json["threads"][0].as_array().unwrap();
    assert_eq!(threads.len(), 3, "the first thread, the helper, the child: {threads:#?}");
    let of = |thread: &Value, name: &str| thread["numbers"][name].as_f64().unwrap();
    let helper = threads.iter().find(|thread| thread["name"] == "helper").unwrap();
    let faults = of(helper, "page-faults");
    let truth = stat.claim("helper_faults");
    assert!((truth..truth + 50.0).contains(&faults), "{faults}, the truth is {truth}");
    if let Some(switches) = helper["numbers"].get("context-switches") {
        assert!(switches.as_f64().unwrap() >= stat.claim("helper_sleeps"), "{switches}");
    }
    for (name, whole) in [("cpu-time", "cpu-time"), ("page-faults", "page-faults")] {
        let sum: f64 = threads.iter().map(|thread| of(thread, name)).sum();
        assert!((sum - stat.number(whole)).abs() <= 1.0, "{name}: {sum} of {}", stat.number(whole));
    }
    assert!(!stat.remark_ids().contains(&"threads-incomplete"));
}

/// Intervals have no gaps and add up to the total.
#[test]
fn a_time_series_adds_up() {
    let Some(stat) = stat(&["-I", "20ms"]) else { return };
    stat.assert_true();
    let series = stat.json["series"][0].as_array().unwrap();
    assert!(series.len() >= 5, "{} intervals", series.len());
    assert!(series.windows(2).all(|pair| pair[0]["end_ns"] == pair[1]["start_ns"]));
    assert_eq!(series[series.len() - 1]["end_ns"].as_f64(), Some(stat.number("wall-time")));
    let sum = |name: &str| series.iter().map(|row| row["numbers"][name].as_f64().unwrap()).sum::<f64>();
    assert_eq!(sum("minor-faults"), stat.number("minor-faults"));
}

#[test]
fn several_runs_have_a_value_each_and_an_interval() {
    let Some(stat) = stat(&["-r", "3"]) else { return };
    assert_eq!((stat.json["runs"].as_u64(), stat.json["exits"].as_array().unwrap().len()), (Some(3), 3));
    let faults = stat.entry("minor-faults");
    assert_eq!(faults["values"].as_array().unwrap().len(), 3);
    assert!(faults["margin"].is_number() && faults["median"].as_f64().unwrap() >= stat.claim("faults"));
}

/// A process that already runs is counted from then on.
#[test]
fn a_running_process_is_counted_from_then_on() {
    let mut child = Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["stat", "--format", "json", "--duration", "500ms", "-p", &child.id().to_string()]);
    let output = run(&mut command, PATIENCE).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stat = Stat { truth: Truth::default(), json };
    assert_eq!(stat.json["scope"], "processes");
    let wall = stat.number("wall-time");
    assert!((4.9e8..5e9).contains(&wall), "{wall}");
    assert!(stat.number("voluntary-switches") >= 2.0 && stat.number("cpu-time") < wall);
}
