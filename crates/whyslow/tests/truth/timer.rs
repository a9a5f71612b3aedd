//! Timer sampling, for machines without permission for perf events: the same programs as everywhere, and the
//! same known answers.

use std::path::Path;

use whyslow_lab_harness::{Truth, Variant, binomial_ok, build_or_skip, run, standard_error};
use whyslow_profile::{KernelView, Note, Profile, RecordingNote, Sampling, StackId, Trigger, file};

use crate::recorded::{PATIENCE, Recorded, last_segment, refused, twice_at_most, whyslow};

/// Records a program that samples itself.
fn record_program(program: &Path, args: &[&str]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "--sampler", "timer", "-o", "run.whyslow", "--"]).arg(program).args(args);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    Recorded { profile, truth, folder }
}

fn record(program: &str, variant: Variant, args: &[&str]) -> Option<Recorded> {
    Some(record_program(&build_or_skip(program, variant)?, args))
}

/// The share of the sampled time with matching stacks. Samples have different weights: a late one stands for
/// more than one period.
fn time_share(recorded: &Recorded, fits: impl Fn(&[&str]) -> bool) -> f64 {
    let samples = &recorded.profile.samples[0];
    let rows = samples.stack.iter().zip(&samples.value);
    let fitting: u64 = rows.filter(|(stack, _)| fits(&recorded.names(**stack))).map(|(_, value)| value).sum();
    fitting as f64 / samples.value.iter().sum::<u64>() as f64
}

fn total_share(recorded: &Recorded, function: &str) -> f64 {
    time_share(recorded, |names| names.iter().any(|name| last_segment(name) == function))
}

/// The share of the CPU time, by the kernel's accounting, that samples stand for.
fn covered(profile: &Profile) -> f64 {
    let cpu_time = profile.meta.user_time_ns + profile.meta.system_time_ns;
    profile.samples[0].value.iter().sum::<u64>() as f64 / cpu_time as f64
}

fn shares_agree(program: &str, variant: Variant, args: &[&str]) {
    twice_at_most(|| {
        let Some(recorded) = record(program, variant, args) else { return Ok(()) };
        recorded.assert_complete(program);
        let Truth { shares, at_least, .. } = &recorded.truth;
        assert!(!shares.is_empty() || !at_least.is_empty(), "{program} says nothing");
        let samples = recorded.samples();
        for (function, truth) in shares {
            let share = total_share(&recorded, function);
            if !binomial_ok(share, *truth, samples) {
                let error = standard_error(*truth, samples);
                return Err(format!(
                    "{function} has {share}, the truth is {truth} ± {error}, {samples} samples"
                ));
            }
        }
        for (function, least) in at_least {
            let share = total_share(&recorded, function);
            assert!(share >= *least, "{program}: {function} has {share}, at least {least} is true");
        }
        Ok(())
    });
}

#[test]
fn finds_fixed_ratios() {
    shares_agree("ratio", Variant::Release, &["1", "2000"]);
    shares_agree("ratio", Variant::Release, &["4", "2000"]);
}

#[test]
fn finds_code_that_is_slow_for_other_reasons() {
    shares_agree("quadratic", Variant::Release, &["50000"]);
    shares_agree("allocations", Variant::Release, &["12000000"]);
    shares_agree("syscalls", Variant::Release, &[]);
}

/// Handlers of 2 ms, 2 ms apart, and samples 4 ms apart: shares may be off because they run in step. The
/// recorded stacks are right.
#[test]
fn separates_the_programs_own_handler_from_the_interrupted_code() {
    let Some(recorded) = record("signals", Variant::Release, &[]) else { return };
    recorded.assert_complete("signals");
    let has = |names: &[&str], function: &str| names.iter().any(|name| last_segment(name) == function);
    let handler = recorded.share(|names| has(names, "handler_work"));
    let through = recorded.share(|names| has(names, "handler_work") && has(names, "interrupted"));
    assert!(handler > 0.1 && handler - through < 0.05, "{through} of {handler} are walked through");
}

#[test]
fn static_programs_are_sampled() {
    for variant in [Variant::Static, Variant::StaticPie] {
        let Some(recorded) = record("chain", variant, &[]) else { continue };
        recorded.assert_complete("chain");
        for (function, truth) in &recorded.truth.shares {
            let is_innermost = |names: &[&str]| names.first().is_some_and(|name| name == function);
            let share = time_share(&recorded, is_innermost);
            let allowed = 4.0 * standard_error(*truth, recorded.samples());
            assert!(
                (share - truth).abs() < allowed,
                "{variant:?}: {function} has {share}, the truth is {truth}"
            );
        }
    }
}

/// Stacks longer than the copy are completed as with perf sampling.
#[test]
fn deep_stacks_are_complete() {
    let Some(recorded) = record("deep", Variant::Release, &[]) else { return };
    recorded.assert_complete("deep");
    assert!(total_share(&recorded, "leaf") > 0.9);
    assert!(recorded.profile.meta.counters.completed_by_join > 0, "{:?}", recorded.profile.meta.counters);
}

/// A thread that lives for a quarter of a tick gets a sample in a quarter of the cases.
#[test]
fn threads_and_processes_shorter_than_a_tick_have_their_share() {
    twice_at_most(|| {
        let Some(recorded) = record("short_lived", Variant::Release, &["2500"]) else { return Ok(()) };
        let shares = &recorded.truth.shares;
        let work: f64 = shares.keys().map(|function| total_share(&recorded, function)).sum();
        let samples = (work * recorded.samples() as f64) as u64;
        for (function, truth) in shares {
            let share = total_share(&recorded, function) / work;
            // Longer threads get theirs at regular ticks, the others by chance: twice the error of
            // independent samples.
            if (share - truth).abs() > 6.0 * standard_error(*truth, samples) {
                return Err(format!("{function} has {share}, the truth is {truth}, {samples} samples"));
            }
        }
        Ok(())
    });
}

#[test]
fn forked_and_executed_processes_are_followed() {
    let Some(recorded) = record("forktree", Variant::Release, &["1000"]) else { return };
    assert_eq!(recorded.profile.processes.len() as u64, recorded.truth.counts["processes"]);
    for (function, truth) in &recorded.truth.shares {
        let share = total_share(&recorded, function);
        assert!((share - truth).abs() < 0.06, "{function}: {share} instead of {truth}");
    }
}

#[test]
fn code_of_libraries_loaded_later_is_known() {
    let Some(recorded) = record("dlopen_host", Variant::Release, &["800"]) else { return };
    recorded.assert_complete("dlopen_host");
    let share = total_share(&recorded, "plugin_work");
    assert!((share - 0.8).abs() < 0.1, "plugin_work has {share}");
}

#[test]
fn run_time_code_has_names() {
    for mode in ["perfmap", "jitdump"] {
        let Some(recorded) = record("jit", Variant::Release, &["800", mode]) else { return };
        recorded.assert_complete(mode);
        let share = total_share(&recorded, "jit_hot");
        assert!((share - 0.75).abs() < 0.1, "{mode}: jit_hot has {share}");
        if let Some(pid) = recorded.truth.counts.get("pid") {
            let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
        }
    }
}

#[test]
fn a_profile_says_how_it_was_recorded() {
    let Some(recorded) = record("ratio", Variant::Release, &["2", "500"]) else { return };
    let Profile { meta, .. } = &recorded.profile;
    assert_eq!((meta.sampling, meta.kernel), (Sampling::Timers, KernelView::Callers));
    let sampler = recorded.profile.main_sampler();
    assert_eq!(sampler.trigger, Trigger::Timer);
    assert!((1..=1000).contains(&sampler.rate_hz), "{sampler:?}");
    let period = 1_000_000_000 / u64::from(sampler.rate_hz);
    assert!(recorded.profile.samples[0].value.iter().all(|value| value % period == 0));
    let covered = covered(&recorded.profile);
    assert!((0.8..1.2).contains(&covered), "samples stand for {covered} of the CPU time");
    // Its threads have the names that they had when sampled.
    let names = recorded.profile.threads.iter().map(|thread| recorded.profile.text(thread.name));
    assert!(
        names.clone().all(|name| name != "unknown" && !name.is_empty()),
        "{:?}",
        names.collect::<Vec<_>>()
    );
}

/// What timers cannot record is reported.
#[test]
fn options_that_need_perf_events_are_refused() {
    for option in [&["-C", "0"][..], &["--user-only"]] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = whyslow(folder.path());
        command.args(["record", "--sampler", "timer", "-o", "run.whyslow"]).args(option).args(["--", "true"]);
        let output = run(&mut command, PATIENCE).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains("need perf events (--sampler perf)"), "{stderr}");
        assert!(!folder.path().join("run.whyslow").exists());
    }
}

fn hostile(what: &str) -> Option<Recorded> {
    hostile_for(what, "400")
}

fn hostile_for(what: &str, ms: &str) -> Option<Recorded> {
    let recorded = record("timer_hostile", Variant::Release, &[what, ms])?;
    recorded.assert_complete(what);
    let busy = total_share(&recorded, "busy");
    let least = recorded.truth.at_least.get("busy").copied().unwrap_or(0.8);
    assert!(busy >= least, "{what}: busy has {busy}");
    Some(recorded)
}

#[test]
fn programs_with_their_own_signals_behave_as_without_a_recorder() {
    for what in ["masked", "handlers", "prof", "waiting", "altstack", "cancel"] {
        let Some(recorded) = hostile(what) else { return };
        assert!(covered(&recorded.profile) > 0.7, "{what}: {}", covered(&recorded.profile));
    }
}

/// None of the program's own signals is lost, and all of its processes are recorded. `cargo xtask suites`
/// does it for a minute.
#[test]
fn survives_constant_threads_forks_and_signals() {
    if let Some(recorded) = hostile_for("storm", "2000") {
        let count = |what: &str| recorded.truth.counts[what];
        assert!(count("sent") > 100, "{:?}", recorded.truth);
        assert_eq!(count("received"), count("sent"));
        assert_eq!(recorded.profile.processes.len() as u64, count("processes") + 1);
    }
    hostile("everything");
}

/// A system call could kill it: it is left alone from then on, which is reported.
#[test]
fn a_program_that_restricts_its_system_calls_is_left_alone() {
    let Some(recorded) = hostile("confined") else { return };
    let note = Note::from(RecordingNote::SamplerConfined { processes: 1 });
    assert!(recorded.profile.meta.notes.contains(&note), "{:?}", recorded.profile.meta.notes);
}

/// Threads that take turns in step with clock ticks can exit before the next tick: the missing time and its
/// process are reported.
#[test]
fn threads_that_no_tick_hits_are_accounted_for() {
    let Some(recorded) = record("threads", Variant::Release, &["400", "1500"]) else { return };
    let profile = &recorded.profile;
    assert_eq!(
        profile.threads.len() as u64,
        recorded.truth.counts["threads"] + 1,
        "all of them are reported"
    );
    let samples = &profile.samples[0];
    let mut times = [0u64; 2];
    for (thread, value) in samples.thread.iter().zip(&samples.value) {
        let row = &profile.threads[thread.index()];
        let is_first = row.tid == profile.processes[row.process.index()].pid;
        if !is_first {
            times[usize::from(!profile.text(row.name).starts_with("even-"))] += *value;
        }
    }
    let share = times[0] as f64 / (times[0] + times[1]) as f64;
    assert!((share - 0.75).abs() < 0.06, "the even threads have {share}, the truth is 0.75");
}

#[test]
fn a_thousand_threads_are_sampled() {
    let Some(recorded) = record("threads", Variant::Release, &["1000", "2000"]) else { return };
    assert_eq!(recorded.profile.meta.counters.lost_samples, 0);
    assert_eq!(recorded.profile.threads.len() as u64, recorded.truth.counts["threads"] + 1);
    let is_sampled = |stack: &&StackId| !recorded.profile.is_not_sampled(**stack);
    let sampled = recorded.profile.samples[0].stack.iter().filter(is_sampled).count();
    assert!(sampled > 100, "{sampled} samples");
    let work = recorded.self_share("even_work") + recorded.self_share("odd_work");
    assert!(work > 0.9, "{work} of the samples are in the threads' work");
}

#[test]
fn the_heap_and_cpu_time_are_recorded_together() {
    let Some(program) = build_or_skip("allocations", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "--sampler", "timer", "--heap", "-o", "run.whyslow", "--"]);
    let output = run(command.arg(program).arg("1000000"), PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    assert_eq!(profile.meta.sampling, Sampling::Timers);
    assert!(profile.samples[0].len() > 5, "{} samples", profile.samples[0].len());
    let sites: u64 = profile.heap.sites.iter().map(|site| site.counts.allocations).sum();
    assert!(sites > 1_000_000, "{sites} allocations");
}

/// Without permission for perf events, the first command of the README still works, and one line says what
/// differs.
#[test]
fn records_without_permission_for_perf_events() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let Some((output, folder)) =
        refused(&[], &["-o", "run.whyslow", "--", program.to_str().unwrap(), "2", "600"])
    else {
        return;
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("perf events are not permitted here") && stderr.contains("ratio::alpha"),
        "{stderr}"
    );
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    assert!(profile.sealed && profile.meta.sampling == Sampling::Timers);
    let is_refused =
        |note: &Note| matches!(note, Note::Recording(RecordingNote::EventsRefused { error: 1, .. }));
    assert!(profile.meta.notes.iter().any(is_refused), "{:?}", profile.meta.notes);
}

/// At the limit of processes, or in a sandbox, whyslow does without threads of its own.
#[test]
fn recording_and_reading_need_no_threads() {
    let Some(program) = build_or_skip("deep", Variant::Release) else { return };
    let Some((output, folder)) =
        refused(&["--threads"], &["-o", "run.whyslow", "--", program.to_str().unwrap(), "10", "500"])
    else {
        return;
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("leaf") && !stderr.contains("panicked"), "{stderr}");
    let file = folder.path().join("run.whyslow");
    let file = file.to_str().unwrap();
    for command in [vec!["explain", file], vec!["diff", file, file], vec!["export", file, "--to", "folded"]] {
        let Some((output, _)) = refused(&["--threads"], &command) else { return };
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{command:?}: {stderr}");
    }
}

#[test]
fn the_lab_works_without_permission_for_perf_events() {
    let Some((output, _folder)) = refused(&[], &["lab"]) else { return };
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
}
