//! Spans that programs mark: all of them, with the samples inside.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use whyslow_lab_harness::{Truth, Variant, binomial_ok, build_or_skip, run};
use whyslow_profile::{Profile, Span, ThreadId, file};

use crate::recorded::{PATIENCE, has_perf_events, whyslow};

/// A folder with its own run-time folder.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.runtime()).unwrap();
        place
    }

    fn runtime(&self) -> std::path::PathBuf {
        self.0.path().join("runtime")
    }

    fn whyslow(&self) -> Command {
        let mut command = whyslow(self.0.path());
        command.env("XDG_RUNTIME_DIR", self.runtime());
        command
    }

    fn record(&self, program: &Path, args: &[&str]) -> (Output, Profile) {
        let mut command = self.whyslow();
        command.args(["record", "-o", "run.whyslow", "--"]).arg(program).args(args);
        let output = run(&mut command, PATIENCE).unwrap();
        let profile = file::read(&self.0.path().join("run.whyslow")).unwrap();
        assert_eq!(std::fs::read_dir(self.runtime()).unwrap().count(), 0, "nothing is left behind");
        (output, profile)
    }

    fn report(&self, args: &[&str]) -> serde_json::Value {
        let mut command = self.whyslow();
        let output =
            run(command.args(["report", "run.whyslow", "--format", "json"]).args(args), PATIENCE).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn spans_of<'a>(profile: &'a Profile, name: &'a str) -> impl Iterator<Item = &'a Span> {
    profile.spans.iter().filter(move |span| profile.text(span.name) == name)
}

/// The thread names of all spans with a name.
fn threads_of<'a>(profile: &'a Profile, name: &str) -> Vec<&'a str> {
    let thread = |span: &Span| span.thread.map_or("", |id| profile.text(profile.threads[id.index()].name));
    spans_of(profile, name).map(thread).collect()
}

#[test]
fn all_marked_spans_are_recorded_with_their_samples() {
    let Some(program) = build_or_skip("spans", Variant::Release) else { return };
    let place = Place::new();
    let (output, profile) = place.record(&program, &["1500"]);
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    let plain = run(Command::new(&program).arg("1500"), PATIENCE).unwrap();
    assert_eq!(
        (output.status.code(), &output.stdout),
        (Some(0), &plain.stdout),
        "the same without a recorder"
    );

    for (name, count) in &truth.counts {
        let threads = threads_of(&profile, name);
        assert_eq!(threads.len() as u64, *count, "{name}");
        let expected = if matches!(name.as_str(), "outer" | "alpha") { "left" } else { "right" };
        assert!(threads.iter().all(|thread| *thread == expected), "{name}: {threads:?}");
    }
    assert_eq!(profile.spans.len() as u64, truth.counts.values().sum::<u64>());
    let within = |name| spans_of(&profile, name);
    assert!(within("tick").all(|span| span.start_ns == span.end_ns && span.detail.is_none()));
    for (outer, (round, alpha)) in within("outer").zip(within("alpha").enumerate()) {
        assert!(outer.start_ns <= alpha.start_ns && alpha.end_ns <= outer.end_ns);
        assert_eq!(outer.detail.map(|detail| profile.text(detail)), Some(&*format!("round={round}")));
    }
    assert_eq!(profile.counters.len(), 1);
    assert_eq!(profile.text(profile.counters[0].name), "round");
    assert_eq!(profile.counter_values.value, (0..100).collect::<Vec<i64>>());

    let report = place.report(&["spans"]);
    let samples = report["samples"].as_u64().unwrap();
    assert!(samples > 100, "{samples}");
    for (name, share) in &truth.shares {
        let rows = report["spans"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == **name).unwrap();
        let measured = row["share"].as_f64().unwrap();
        assert!(
            binomial_ok(measured, *share, samples),
            "{name}: {measured} instead of {share}, {samples} samples"
        );
        // The same samples, as a filter of another view.
        let inside = place.report(&["functions", "--span", name]);
        assert_eq!(inside["samples"], row["samples"], "{name}");
        assert!(inside["functions"][0]["name"].as_str().unwrap().ends_with("spin"));
    }
    let longest = report["spans"][0]["longest"]["row"].as_u64().unwrap();
    let one = place.report(&["functions", "--span", &format!("#{longest}")]);
    assert!(one["samples"].as_u64().unwrap() < samples / 10);
}

#[test]
fn marks_of_children_and_of_crashed_programs_are_kept() {
    let Some(program) = build_or_skip("spans", Variant::Release) else { return };
    let place = Place::new();
    let (_, profile) = place.record(&program, &["0", "fork"]);
    assert_eq!(threads_of(&profile, "parent").len(), 10);
    assert_eq!(threads_of(&profile, "forked").len(), 10);
    let tids = |name| {
        let tid = |span: &Span| profile.threads[span.thread.unwrap().index()].tid;
        spans_of(&profile, name).map(tid).next()
    };
    assert_ne!(tids("parent"), tids("forked"));

    let (output, profile) = place.record(&program, &["0", "abort"]);
    assert_eq!(output.status.code(), Some(128 + 6));
    assert_eq!(threads_of(&profile, "before").len(), 10);

    // A program started by a recorded one finds its own pipe after a short time.
    let (_, profile) = place.record(&program, &["1000", "exec"]);
    let started = threads_of(&profile, "started").len();
    assert!(started > 0);
    assert_eq!(profile.processes.len(), 2);
}

#[test]
fn marks_of_a_running_program_start_with_the_recording() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("spans", Variant::Release) else { return };
    let place = Place::new();
    let mut running = Command::new(program)
        .args(["60000", "wait"])
        .env("XDG_RUNTIME_DIR", place.runtime())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..2 {
        let mut command = place.whyslow();
        let pid = running.id().to_string();
        let output =
            run(command.args(["record", "-o", "run.whyslow", "--duration", "2.5s", "-p", &pid]), PATIENCE);
        let profile = file::read(&place.0.path().join("run.whyslow")).unwrap();
        let waiting = threads_of(&profile, "waiting").len();
        assert!(waiting > 0, "{output:?}");
        assert_eq!(std::fs::read_dir(place.runtime()).unwrap().count(), 0, "nothing is left behind");
    }
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn without_a_runtime_folder_marks_go_through_tmp() {
    let Some(program) = build_or_skip("spans", Variant::Release) else { return };
    let place = Place::new();
    let mut command = place.whyslow();
    command
        .env_remove("XDG_RUNTIME_DIR")
        .args(["record", "-o", "run.whyslow", "--"])
        .arg(program)
        .args(["0", "abort"]);
    run(&mut command, PATIENCE).unwrap();
    let profile = file::read(&place.0.path().join("run.whyslow")).unwrap();
    assert_eq!(threads_of(&profile, "before").len(), 10, "{:?}", profile.meta.notes);
}

#[test]
fn marker_files_are_read_however_they_are_mapped() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("markers", Variant::Release) else { return };
    for mapped in ["exec", "read"] {
        let place = Place::new();
        let (output, profile) = place.record(&program, &["1000", mapped]);
        let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(profile.spans.len() as u64, truth.counts["load"], "{mapped}");
        let main = profile.threads.iter().position(|thread| u64::from(thread.tid) == truth.counts["pid"]);
        let main = main.map(ThreadId::from);
        assert!(profile.spans.iter().all(|span| span.thread == main));
        let report = place.report(&["spans"]);
        let row = &report["spans"][0];
        assert_eq!(row["name"], "load a file");
        let (share, samples) = (row["share"].as_f64().unwrap(), report["samples"].as_u64().unwrap());
        assert!(binomial_ok(share, truth.shares["load"], samples), "{share}, {samples} samples");
        let marker = place.0.path().join(format!("marker-{}.txt", truth.counts["pid"]));
        assert!(marker.exists(), "the program's own file is kept");
    }
}
