//! Snapshots report exactly what a running program holds, and do not change its recording.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use whyslow_lab_harness::{Truth, Variant, build_or_skip, run};
use whyslow_profile::{HeapCounts, LeakCheck, Profile, file};

use crate::heap_recorded::{HeapRecorded, as_nobody, text};
use crate::recorded::{PATIENCE, Recorded, whyslow};

/// A `heap_held` that runs under `whyslow heap` and waits.
struct Held {
    folder: tempfile::TempDir,
    recorder: Child,
    stdout: BufReader<ChildStdout>,
    /// Its claims before it started to wait.
    claimed: String,
    pid: u32,
}

impl Held {
    fn start(program: &Path, options: &[&str], mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = whyslow(folder.path());
        command.args(["heap", "-q", "-o", "run.whyslow"]).args(options).arg("--").arg(program).arg(mode);
        Self::wait(command, folder)
    }

    #[expect(
        clippy::zombie_processes,
        reason = "it is waited for at its end, which a test that fails does not reach"
    )]
    fn wait(mut command: Command, folder: tempfile::TempDir) -> Self {
        let mut recorder =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(recorder.stdout.take().unwrap());
        let mut claimed = String::new();
        loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended: {claimed}");
            if let Some(pid) = line.strip_prefix("ready ") {
                let pid = pid.trim().parse().unwrap();
                return Self { folder, recorder, stdout, claimed, pid };
            }
            claimed += &line;
        }
    }

    fn ask(&self, pid: u32, options: &[&str]) -> Output {
        let mut command = whyslow(self.folder.path());
        command.args(["heap", "--snapshot", &pid.to_string()]).args(options);
        run(&mut command, PATIENCE).unwrap()
    }

    /// Takes a snapshot, and checks the printed text.
    fn snapshot(&self, name: &str) -> Profile {
        let output = self.ask(self.pid, &["-o", name]);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&format!("snapshot of process {} at ", self.pid)), "{said}");
        assert!(said.contains("live now") && said.contains(&format!("whyslow view {name}")), "{said}");
        file::read(&self.folder.path().join(name)).unwrap()
    }

    /// Compares a profile with the program's claims.
    fn assert_equal(self, name: &str, claimed: &str, what: &str) -> Self {
        let mut report = whyslow(self.folder.path());
        report.args(["report", name, "heap", "--format", "json", "--limit", "100000"]);
        let output = run(&mut report, PATIENCE).unwrap();
        let json = serde_json::from_slice(&output.stdout).unwrap();
        let profile = file::read(&self.folder.path().join(name)).unwrap();
        let recorded = Recorded { profile, truth: Truth::parse(claimed), folder: self.folder };
        let heap = HeapRecorded { recorded, json, output };
        heap.assert_equal(what);
        Self { folder: heap.recorded.folder, ..self }
    }

    /// Lets the program run to its end. Returns its later claims and the whole recording.
    fn end(mut self) -> (Self, String, Profile) {
        self.recorder.stdin.take().unwrap().write_all(b"x").unwrap();
        let mut claimed = String::new();
        self.stdout.read_to_string(&mut claimed).unwrap();
        let mut said = String::new();
        self.recorder.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.recorder.wait().unwrap().success(), "{said}");
        let profile = file::read(&self.folder.path().join("run.whyslow")).unwrap();
        (self, claimed, profile)
    }
}

fn facts(profile: &Profile) -> &whyslow_profile::HeapFacts {
    profile.meta.heap.as_ref().unwrap()
}

/// The counts that do not depend on the program's speed.
fn lasting(profile: &Profile) -> HeapCounts {
    HeapCounts { lifetime_ns: 0, ..profile.heap.totals() }
}

#[test]
fn a_snapshot_has_the_live_blocks_and_leaves_the_recording_unchanged() {
    for variant in [Variant::Release, Variant::Static] {
        let Some(program) = build_or_skip("heap_held", variant) else { return };
        let (_, _, undisturbed) = Held::start(&program, &[], "calm").end();
        let held = Held::start(&program, &[], "calm");
        let (pid, claimed) = (held.pid, held.claimed.clone());
        for name in ["one.whyslow", "two.whyslow"] {
            let snapshot = held.snapshot(name);
            assert!(
                matches!(facts(&snapshot).leaks, LeakCheck::AtSnapshot(_)),
                "{:?}",
                facts(&snapshot).leaks
            );
            assert!(snapshot.sealed && snapshot.meta.command == undisturbed.meta.command);
            assert_eq!(facts(&snapshot).snapshot.map(|snapshot| snapshot.pid), Some(pid));
        }
        let held = held.assert_equal("one.whyslow", &claimed, "the first snapshot");
        let held = held.assert_equal("two.whyslow", &claimed, "the second snapshot");
        let (held, claimed, profile) = held.end();
        held.assert_equal("run.whyslow", &claimed, "the end");
        assert_eq!((&facts(&profile).leaks, facts(&profile).snapshot), (&LeakCheck::AtExit, None));
        assert_eq!(lasting(&profile), lasting(&undisturbed), "{variant:?}");
    }
}

/// The metrics of a snapshot equal its sites.
#[test]
fn samples_of_a_snapshot_add_up_to_its_sites() {
    let Some(program) = build_or_skip("heap_held", Variant::Release) else { return };
    let held = Held::start(&program, &[], "busy");
    let profile = held.snapshot("now.whyslow");
    let totals = profile.heap.totals();
    for (metric, expected) in [
        ("bytes-allocated", totals.bytes_allocated),
        ("allocations", totals.allocations),
        ("bytes-freed", totals.bytes_freed),
        ("live-at-peak", totals.peak_bytes),
        ("live-at-exit", totals.live_at_exit_bytes),
        ("temporary-allocations", totals.temporary),
    ] {
        let id = profile.metric_named(metric).unwrap();
        assert_eq!(profile.samples[id.index()].value.iter().sum::<u64>(), expected, "{metric}");
    }
    held.end();
}

/// Its threads replace blocks, and the table that holds them, millions of times a second.
#[test]
fn no_block_of_a_busy_program_is_reported_lost() {
    let Some(program) = build_or_skip("heap_held", Variant::Release) else { return };
    let mut held = Held::start(&program, &[], "busy");
    let claimed = held.claimed.clone();
    for round in 0..10 {
        let profile = held.snapshot("now.whyslow");
        let totals = profile.heap.totals();
        let classes = totals.definitely_lost_blocks
            + totals.indirectly_lost_blocks
            + totals.possibly_lost_blocks
            + totals.reachable_blocks;
        assert_eq!(classes, totals.live_at_exit_blocks, "round {round}");
        held = held.assert_equal("now.whyslow", &claimed, &format!("round {round}"));
    }
    let (held, claimed, _) = held.end();
    held.assert_equal("run.whyslow", &claimed, "the end");
}

#[test]
fn a_snapshot_of_one_process_has_its_own_blocks() {
    let Some(program) = build_or_skip("heap_held", Variant::Release) else { return };
    let held = Held::start(&program, &[], "forked");
    let claimed = held.claimed.clone();
    let snapshot = held.snapshot("now.whyslow");
    assert_eq!(facts(&snapshot).processes, 2);
    let said = text(&held.ask(held.pid, &["-o", "again.whyslow"]).stderr);
    assert!(said.contains("of 2 processes together"), "{said}");
    let held = held.assert_equal("now.whyslow", &claimed, "the child");
    let (_, _, profile) = held.end();
    // The parent holds its hundred blocks to the end, and the child has leaked its fifteen.
    assert_eq!(profile.heap.totals().live_at_exit_blocks, 115);
}

#[test]
fn samples_are_shown_without_a_leak_check() {
    let Some(program) = build_or_skip("heap_held", Variant::Release) else { return };
    for (options, why) in [
        (["--sample", "1"].as_slice(), "allocations were sampled (--sample)"),
        (&["--no-leak-check"], "started with --no-leak-check"),
    ] {
        let held = Held::start(&program, options, "calm");
        let output = held.ask(held.pid, &["-o", "now.whyslow"]);
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("leaks: not checked"), "{said}");
        assert!(said.contains(why), "{said}");
        let totals = file::read(&held.folder.path().join("now.whyslow")).unwrap().heap.totals();
        assert_eq!(totals.definitely_lost_blocks + totals.reachable_blocks, 0);
        assert!(totals.live_at_exit_bytes > 50_000, "{totals:?}");
        held.end();
    }
}

#[test]
fn several_snapshots_at_once_are_all_taken() {
    let Some(program) = build_or_skip("heap_held", Variant::Release) else { return };
    let held = Held::start(&program, &[], "busy");
    std::thread::scope(|scope| {
        for name in ["a.whyslow", "b.whyslow", "c.whyslow", "d.whyslow"] {
            let held = &held;
            scope.spawn(move || held.snapshot(name));
        }
    });
    held.end();
}

#[test]
fn a_refused_snapshot_names_the_next_step() {
    let Some(program) = build_or_skip("heap_held", Variant::Release) else { return };
    let held = Held::start(&program, &[], "calm");
    let recorder = held.recorder.id();
    let refused = |pid: u32, what: &str, next: &str| {
        let output = held.ask(pid, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(what) && said.contains(next), "{said}");
    };
    refused(i32::MAX as u32, "there is no process", "`ps -e` to list processes");
    let (us, theirs) = (std::process::id(), held.pid);
    refused(
        us,
        &format!("process {us} does not run under `whyslow heap`"),
        "whyslow heap -- PROGRAM, to start it under whyslow",
    );
    refused(recorder, "is whyslow itself", &format!("try: whyslow heap --snapshot {theirs}"));
    let (held, _, _) = held.end();
    let said = text(&held.ask(theirs, &[]).stderr);
    assert!(said.contains(&format!("there is no process {theirs}")), "{said}");
}

#[test]
fn names_the_recorder_of_another_user() {
    let Some(program) = build_or_skip("heap_held", Variant::Release) else { return };
    let Some((folder, command)) = as_nobody(&program) else { return };
    let held = Held::start(&program, &[], "calm");
    let mut ask = command;
    ask.args(["heap", "--snapshot", &held.pid.to_string()]);
    let said = text(&run(&mut ask, PATIENCE).unwrap().stderr);
    assert!(said.contains("belongs to user 0") && said.contains("try: sudo -u '#0'"), "{said}");
    drop(folder);
    held.end();
    // Root may take snapshots of all recordings, other users only of their own.
    let (folder, mut command) = as_nobody(&program).unwrap();
    command.args(["heap", "-q", "-o", "run.whyslow", "--", "./program", "calm"]);
    let held = Held::wait(command, folder);
    held.snapshot("by_root.whyslow");
    let mut theirs = Command::new("setpriv");
    theirs.args(["--reuid=65534", "--regid=65534", "--clear-groups", "./whyslow", "heap", "--snapshot"]);
    theirs.arg(held.pid.to_string()).current_dir(held.folder.path()).env_remove("XDG_RUNTIME_DIR");
    let output = run(&mut theirs, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    held.end();
}
