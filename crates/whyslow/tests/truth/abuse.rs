//! Kill the recorder, fill the disk, flood it with threads: no recorded data is lost, and nothing hangs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use whyslow_lab_harness::{Variant, build_or_skip, run};
use whyslow_profile::{Profile, Sampling, file};

use crate::recorded::{PATIENCE, has_perf_events, record, whyslow};

/// Waits until samples are on disk, which happens about once a second, and reads them.
fn first_samples(path: &Path) -> Profile {
    let patience = Instant::now() + PATIENCE;
    loop {
        std::thread::sleep(Duration::from_millis(100));
        assert!(Instant::now() < patience, "nothing was written");
        if let Ok(profile) = file::read(path)
            && profile.samples.first().is_some_and(|samples| !samples.is_empty())
        {
            return profile;
        }
    }
}

#[test]
fn a_killed_recorder_leaves_a_readable_profile_marked_incomplete() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.whyslow");
    let mut command = whyslow(folder.path());
    command.args(["record", "-o", "run.whyslow", "--"]).arg(program).args(["1", "20000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let recorded = first_samples(&path);
    child.kill().unwrap();
    child.wait().unwrap();
    let profile = file::read(&path).unwrap();
    assert!(!profile.sealed);
    assert!(profile.samples[0].len() >= recorded.samples[0].len());
    let report = run(whyslow(folder.path()).args(["report", "run.whyslow"]), PATIENCE).unwrap();
    assert!(report.status.success());
    let text =
        format!("{}{}", String::from_utf8_lossy(&report.stdout), String::from_utf8_lossy(&report.stderr));
    assert!(text.contains("alpha"), "it is symbolised when it is read: {text}");
    assert!(text.contains("incomplete"), "{text}");
    // The program still runs; kill it.
    let pid = profile.processes[0].pid;
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
}

/// A file size limit stands in for a full disk: writes fail in the middle of the recording.
#[test]
fn a_full_disk_is_one_clear_error_and_the_program_keeps_running() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("churn", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    // 8 blocks of 1 KB; SIGXFSZ ignored, so that write fails as on a full disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec '{}' record -o run.whyslow -- '{}' 2 2500",
        env!("CARGO_BIN_EXE_whyslow"),
        program.display()
    );
    let mut command = Command::new("bash");
    command.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path()).args(["-c", &script]);
    let output = run(&mut command, PATIENCE).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("rounds"), "the program ran to its end");
    assert!(stderr.contains("run.whyslow"), "{stderr}");
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    assert!(!profile.sealed, "what was written before is still there");
}

#[test]
fn a_thousand_threads_at_once_are_recorded_in_bounded_memory() {
    let Some(recorded) = record("many", Variant::Release, &["threads", "1000", "1000"]) else { return };
    let profile = &recorded.profile;
    assert_eq!(profile.threads.len(), 1001);
    assert_eq!(profile.meta.counters.lost_samples, 0);
    let resident = profile.meta.counters.recorder_max_resident_bytes;
    assert!(resident < 64 << 20, "the recorder used {resident} bytes");
}

#[test]
fn two_hundred_processes_are_recorded_in_bounded_memory() {
    let Some(recorded) = record("many", Variant::Release, &["processes", "200", "1000"]) else { return };
    let profile = &recorded.profile;
    assert_eq!(profile.processes.len(), 201);
    let resident = profile.meta.counters.recorder_max_resident_bytes;
    // With timer sampling, programs are inspected when they start, dozens at a time, and each has a buffer
    // for its samples.
    let most = if profile.meta.sampling == Sampling::Timers { 128 << 20 } else { 64 << 20 };
    assert!(resident < most, "the recorder used {resident} bytes");
}

/// Waits until a process has this many threads.
fn until_threads_run(pid: &str, threads: usize) {
    let patience = Instant::now() + PATIENCE;
    while std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count() < threads {
        assert!(Instant::now() < patience, "its threads do not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn attaches_to_a_running_process() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut target = Command::new(program).args(["2", "60000"]).stdout(Stdio::null()).spawn().unwrap();
    let pid = target.id().to_string();
    until_threads_run(&pid, 3);
    let mut command = whyslow(folder.path());
    let output =
        run(command.args(["record", "-p", &pid, "--duration", "2s", "-o", "run.whyslow"]), PATIENCE).unwrap();
    let ended = target.try_wait().unwrap();
    target.kill().unwrap();
    target.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ended, None, "the process goes on");
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    assert!(profile.sealed && profile.samples[0].len() > 100, "{} samples", profile.samples[0].len());
    let functions: Vec<_> = profile.functions.iter().map(|function| profile.text(function.name)).collect();
    assert!(functions.contains(&"ratio::alpha"), "{functions:?}");
    let truncated = profile.samples[0].stack.iter().filter(|stack| profile.is_truncated(**stack)).count();
    assert!(truncated * 100 <= profile.samples[0].len(), "{truncated} truncated");
}

/// Ctrl-C ends an attached recording. Pressed twice, or also passed on by a wrapper, it still only does that.
#[test]
fn ctrl_c_ends_and_saves_an_attached_recording() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut target = Command::new(program).args(["1", "60000"]).stdout(Stdio::null()).spawn().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "-o", "run.whyslow", "-p", &target.id().to_string()]);
    let mut recorder = command.stderr(Stdio::null()).spawn().unwrap();
    let path = folder.path().join("run.whyslow");
    first_samples(&path);
    // Send both at once: later, when the recording is saved and only symbols are looked up, Ctrl-C ends that.
    let pid = recorder.id().to_string();
    let _ = Command::new("kill").args(["-INT", &pid, &pid]).status();
    let status = recorder.wait().unwrap();
    target.kill().unwrap();
    target.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(file::read(&path).unwrap().sealed);
}

/// A container's filter refuses perf events, and only perf sampling was allowed: one clear line, and the
/// program is not started.
#[test]
fn refused_perf_events_are_one_clear_error() {
    let Some(refuse) = build_or_skip("refuse", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(refuse);
    command.current_dir(folder.path()).arg(env!("CARGO_BIN_EXE_whyslow"));
    command.args(["record", "--sampler", "perf", "-o", "run.whyslow", "--", "touch", "it-ran"]);
    let output = run(&mut command, PATIENCE).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("perf events are not permitted here"), "{stderr}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing ran, nothing was written");
}
