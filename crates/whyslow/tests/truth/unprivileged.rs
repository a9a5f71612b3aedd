//! As an ordinary user at `perf_event_paranoid` 2: user code is recorded, and missing data is reported.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use whyslow_lab_harness::{Truth, Variant, build_or_skip, run, skip};
use whyslow_profile::{KernelView, Sampling, Thread, file};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events};

fn paranoid() -> i32 {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    level.trim().parse().unwrap_or(3)
}

/// Whether an ordinary user may record here at all.
fn may_record() -> bool {
    let may = paranoid() <= 2;
    if !may {
        skip("kernel.perf_event_paranoid is above 2");
    }
    may
}

/// whyslow, run as `nobody` in a separate folder with copies of whyslow and the program.
fn run_as_nobody(program: &str, arguments: &[&str]) -> Option<(tempfile::TempDir, Output)> {
    let (folder, mut command) = as_nobody(&build_or_skip(program, Variant::Release)?)?;
    let output = run(command.args(arguments), PATIENCE).unwrap();
    Some((folder, output))
}

#[test]
fn user_code_is_recorded_and_missing_kernel_time_is_reported() {
    if !has_perf_events() {
        return;
    }
    if !may_record() {
        return;
    }
    let arguments = ["-o", "run.whyslow", "--", "./program", "500", "read"];
    let Some((folder, output)) = run_as_nobody("syscalls", &arguments) else { return };
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
    if !may_record() {
        return;
    }
    let arguments = ["record", "-o", "run.whyslow", "--", "./program", "500", "1000"];
    let Some((folder, output)) = run_as_nobody("deep", &arguments) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    let samples = &profile.samples[0];
    let truncated = samples.stack.iter().filter(|stack| profile.is_truncated(**stack)).count();
    assert!(samples.len() > 100, "{} samples", samples.len());
    assert!(truncated * 100 <= samples.len(), "{truncated} of {} truncated", samples.len());
}

/// The kernel removes its events when a file is executed that the user may not read.
#[test]
fn an_unreadable_program_is_not_reported_as_idle() {
    if !has_perf_events() {
        return;
    }
    if !may_record() {
        return;
    }
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    std::fs::set_permissions(folder.path().join("program"), std::fs::Permissions::from_mode(0o711)).unwrap();
    let output = run(command.args(["-o", "run.whyslow", "--", "./program", "1", "100"]), PATIENCE).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("may not read"), "{stderr}");
    assert!(!stderr.contains("used almost no CPU time"), "{stderr}");
}

/// With per-thread sampling, a thread of 0.6 ms gets no sample; its time is still in the profile, under its
/// name.
#[test]
fn short_threads_and_processes_have_the_time_that_the_kernel_accounts() {
    if !has_perf_events() {
        return;
    }
    if !(1..=2).contains(&paranoid()) {
        skip("kernel.perf_event_paranoid is not 1 or 2");
        return;
    }
    let arguments = ["record", "-o", "run.whyslow", "--", "./program", "1000"];
    let Some((folder, output)) = run_as_nobody("short_lived", &arguments) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    assert_eq!(profile.meta.sampling, Sampling::Threads);

    let samples = &profile.samples[0];
    let value_of = |fits: &dyn Fn(&Thread) -> bool| {
        let rows = samples.thread.iter().zip(&samples.value);
        rows.filter(|(thread, _)| fits(&profile.threads[thread.index()]))
            .map(|(_, value)| *value)
            .sum::<u64>()
    };
    let all = value_of(&|_| true) as f64;
    let thread = value_of(&|thread| profile.text(thread.name) == "short") as f64;
    let process =
        value_of(&|thread| profile.text(profile.processes[thread.process.index()].name) == "short-child")
            as f64;
    let truth_of = |name: &str| truth.counts[name] as f64 / truth.counts["all_us"] as f64;
    for (what, share, truth) in [
        ("threads", thread / all, truth_of("thread_us")),
        ("processes", process / all, truth_of("process_us")),
    ] {
        assert!((share - truth).abs() < 0.05, "short {what} have {share}, {truth} is true");
    }

    let not_sampled = |row: &usize| profile.is_not_sampled(samples.stack[*row]);
    let of_short = (0..samples.len())
        .filter(not_sampled)
        .filter(|row| profile.text(profile.threads[samples.thread[*row].index()].name) == "short");
    assert!(of_short.count() > 100, "most of the short threads have no sample");
    assert!(profile.meta.counters.unsampled_threads > 100);

    let mut report = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    report.current_dir(folder.path()).args(["report", "run.whyslow", "functions"]);
    let functions = run(&mut report, PATIENCE).unwrap();
    let functions = String::from_utf8_lossy(&functions.stdout).into_owned();
    assert!(functions.contains("[not sampled]"), "{functions}");
}
