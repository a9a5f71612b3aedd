//! As an ordinary user at `perf_event_paranoid` 2: user code is recorded, and what is missing is said.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use whyslow_lab_harness::{Variant, build_or_skip, run};
use whyslow_profile::{KernelView, file};

use crate::recorded::PATIENCE;

/// Only root can become another user; others are one already.
fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t0"))
}

fn paranoid() -> i32 {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    level.trim().parse().unwrap_or(3)
}

/// A command run as `nobody`, in a folder of its own that holds copies of whyslow and the program.
fn as_nobody(program: &str, arguments: &[&str]) -> Option<(tempfile::TempDir, std::process::Output)> {
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: becoming an ordinary user needs root and setpriv");
        return None;
    }
    let program = build_or_skip(program, Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    let everyone = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everyone.clone()).unwrap();
    for (from, name) in [(env!("CARGO_BIN_EXE_whyslow").as_ref(), "whyslow"), (program.as_path(), "program")]
    {
        std::fs::copy(from, folder.path().join(name)).unwrap();
        std::fs::set_permissions(folder.path().join(name), everyone.clone()).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(folder.path().join("whyslow"));
    command
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env_remove("XDG_CACHE_HOME")
        .args(arguments);
    let output = run(&mut command, PATIENCE).unwrap();
    Some((folder, output))
}

#[test]
fn user_code_is_recorded_and_missing_kernel_time_is_said() {
    if paranoid() > 2 {
        eprintln!("skipped: kernel.perf_event_paranoid is above 2");
        return;
    }
    let arguments = ["-o", "run.whyslow", "--", "./program", "500", "read"];
    let Some((folder, output)) = as_nobody("syscalls", &arguments) else { return };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    if paranoid() == 2 {
        assert_eq!(profile.meta.kernel, KernelView::Hidden);
        assert!(stderr.contains("kernel"), "{stderr}");
        assert!(stderr.contains("perf_event_paranoid"), "the fix is named: {stderr}");
        assert!(profile.meta.system_time_ns > profile.meta.user_time_ns);
    }
}

#[test]
fn truncated_stacks_are_completed_for_ordinary_users_too() {
    if paranoid() > 2 {
        eprintln!("skipped: kernel.perf_event_paranoid is above 2");
        return;
    }
    let arguments = ["record", "-o", "run.whyslow", "--", "./program", "500", "1000"];
    let Some((folder, output)) = as_nobody("deep", &arguments) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    let samples = &profile.samples[0];
    let truncated = samples.stack.iter().filter(|stack| profile.is_truncated(**stack)).count();
    assert!(samples.len() > 100, "{} samples", samples.len());
    assert!(truncated * 100 <= samples.len(), "{truncated} of {} truncated", samples.len());
}

/// The kernel removes its events when a file is executed that the user may not read.
#[test]
fn an_unreadable_program_is_not_passed_off_as_an_idle_one() {
    if paranoid() > 2 {
        eprintln!("skipped: kernel.perf_event_paranoid is above 2");
        return;
    }
    let Some((folder, _)) = as_nobody("ratio", &["--version"]) else { return };
    std::fs::set_permissions(folder.path().join("program"), std::fs::Permissions::from_mode(0o711)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(folder.path().join("whyslow"));
    command.current_dir(folder.path()).env("HOME", folder.path()).args(["-o", "run.whyslow", "--"]);
    let output = run(command.args(["./program", "1", "100"]), PATIENCE).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("may not read"), "{stderr}");
    assert!(!stderr.contains("next to no CPU time"), "{stderr}");
}
