//! The program does not notice the recorder: streams, exit code, signals, environment, folder.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use whyslow_lab_harness::{Variant, build_or_skip, run};
use whyslow_profile::{ExitStatus, file};

use crate::recorded::{PATIENCE, has_perf_events, whyslow};

fn exits(action: &[&str], expected: i32) {
    let Some(program) = build_or_skip("exits", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["-o", "run.whyslow", "--"]).arg(program).args(action);
    let output = run(&mut command, PATIENCE).unwrap();
    assert_eq!(output.status.code(), Some(expected), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(file::read(&folder.path().join("run.whyslow")).unwrap().sealed);
}

#[test]
fn exit_codes_are_passed_on() {
    exits(&["--spin", "30", "code", "0"], 0);
    exits(&["code", "7"], 7);
    exits(&["code", "255"], 255);
    exits(&["signal", "15"], 128 + 15);
    exits(&["signal", "9"], 128 + 9);
    exits(&["abort"], 128 + 6);
    exits(&["panic"], 101);
}

#[test]
fn standard_streams_are_the_programs_own() {
    let Some(program) = build_or_skip("exits", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["-q", "-o", "run.whyslow", "--"]).arg(&program).arg("print");
    let output = run(&mut command, PATIENCE).unwrap();
    let plain = run(Command::new(&program).arg("print"), PATIENCE).unwrap();
    assert_eq!(output.stdout, plain.stdout);
    assert_eq!(output.stderr, plain.stderr, "with -q nothing of whyslow's own is mixed in");

    let mut command = whyslow(folder.path());
    command.args(["-q", "-o", "echo.whyslow", "--"]).arg(&program).arg("echo");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes: Vec<u8> = (0..100_000u32).map(|at| (at * 7) as u8).collect();
    let mut stdin = child.stdin.take().unwrap();
    let input = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let mut echoed = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut echoed).unwrap();
    writer.join().unwrap().unwrap();
    child.wait().unwrap();
    assert!(echoed == bytes, "stdin reaches the program and comes back unchanged");
}

/// `report` prints arguments, folder, environment, signal masks and dispositions, open files and limits.
#[test]
fn environment_signals_files_and_limits_are_unchanged() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("exits", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut plain = Command::new(&program);
    plain.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path().join("cache"));
    let plain = run(plain.args(["report", "a b", "--flag", ""]), PATIENCE).unwrap();
    let mut recorded = whyslow(folder.path());
    recorded.args(["-q", "-o", "run.whyslow", "--"]).arg(&program).args(["report", "a b", "--flag", ""]);
    let recorded = run(&mut recorded, PATIENCE).unwrap();
    // The kernel counts queued signals per user: other tests change the number.
    let printed = |stdout: &[u8]| {
        let text = String::from_utf8_lossy(stdout).into_owned();
        text.lines().filter(|line| !line.starts_with("status SigQ:")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(printed(&recorded.stdout), printed(&plain.stdout));
}

/// A signal sent to whyslow alone is passed on; the program handles it, and the profile is saved.
#[test]
fn signals_reach_the_program_and_the_profile_is_saved() {
    let Some(program) = build_or_skip("exits", Variant::Release) else { return };
    for signal in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = whyslow(folder.path());
        command.args(["-q", "-o", "run.whyslow", "--"]).arg(&program).args(["--spin", "50", "wait"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        let status = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(status.unwrap().success());
        let number = if signal == "INT" { 2 } else { 15 };
        let code = child.wait().unwrap().code();
        assert_eq!(code, Some(40 + number));
        let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
        assert!(profile.sealed);
        assert_eq!(profile.meta.exit, Some(ExitStatus::Code(40 + number)));
    }
}

#[test]
fn programs_that_cannot_be_started_have_their_own_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    let output = run(command.args(["record", "-o", "x.whyslow", "--", "./is-not-there"]), PATIENCE).unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);

    std::fs::write(folder.path().join("plain.txt"), "not a program").unwrap();
    let mut command = whyslow(folder.path());
    let output = run(command.args(["record", "-o", "x.whyslow", "--", "./plain.txt"]), PATIENCE).unwrap();
    assert_eq!(output.status.code(), Some(126));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("chmod +x"), "{error}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        left.iter().all(|name| name == "plain.txt" || name == "cache"),
        "nothing is left behind: {left:?}"
    );
}
