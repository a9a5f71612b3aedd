//! Shares of CPU time against programs with known shares.

use whyslow_lab_harness::{Variant, binomial_ok, skip, standard_error, try_again};

use whyslow_profile::Sampling;

use crate::recorded::record;

/// Five runs of five: every share within three standard errors. Pure chance breaks that once in about forty series, so a
/// second series decides; a recorder that is wrong breaks both.
fn five_runs_agree(program: &str, args: &[&str]) {
    twice_at_most(|| series_of_five(program, args));
}

/// Noise exceeds three standard errors now and then; a wrong recorder fails both series.
fn twice_at_most(series: impl Fn() -> Result<(), String>) {
    if let Err(first) = series() {
        try_again(&first);
        if let Err(second) = series() {
            panic!("{first}; and again: {second}");
        }
    }
}

fn series_of_five(program: &str, args: &[&str]) -> Result<(), String> {
    for round in 1..=5 {
        let Some(recorded) = record(program, Variant::Release, args) else { return Ok(()) };
        assert!(!recorded.truth.shares.is_empty(), "{program} says nothing");
        for (function, truth) in &recorded.truth.shares {
            // Samples in interrupt work of the kernel belong to the interrupted function.
            let share = recorded.total_share(function);
            if !binomial_ok(share, *truth, recorded.samples()) {
                return Err(format!(
                    "round {round}: {function} has {:.2} %, the truth is {:.2} % ± {:.2} %, {} samples",
                    share * 100.0,
                    truth * 100.0,
                    standard_error(*truth, recorded.samples()) * 100.0,
                    recorded.samples()
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn finds_fixed_ratios_of_one_thread() {
    five_runs_agree("ratio", &["1", "700"]);
}

#[test]
fn finds_fixed_ratios_of_four_threads() {
    five_runs_agree("ratio", &["4", "1000"]);
}

/// For a program whose answer is exact, but whose shares do not consist of equal steps: one run is enough.
fn one_run_agrees(program: &str, args: &[&str]) {
    let Some(recorded) = record(program, Variant::Release, args) else { return };
    recorded.assert_complete(program);
    for (function, truth) in &recorded.truth.shares {
        let share = recorded.total_share(function);
        let allowed = 4.0 * standard_error(*truth, recorded.samples()).max(1.0 / recorded.samples() as f64);
        assert!(
            (share - truth).abs() <= allowed,
            "{program}: {function} has {:.2} %, the truth is {:.2} %, {} samples",
            share * 100.0,
            truth * 100.0,
            recorded.samples()
        );
    }
    for (function, least) in &recorded.truth.at_least {
        let share = recorded.total_share(function);
        assert!(share >= *least, "{program}: {function} has {share}, at least {least} is true");
    }
}

/// With CPU-wide sampling, shares do not depend on how long threads and processes live.
#[test]
fn threads_and_processes_shorter_than_a_period_have_their_share() {
    fn series() -> Result<(), String> {
        for round in 1..=2 {
            let Some(recorded) = record("short_lived", Variant::Release, &["1000"]) else { return Ok(()) };
            if recorded.profile.meta.sampling == Sampling::Timers {
                skip("perf events are not permitted here");
                return Ok(());
            }
            if recorded.profile.meta.sampling != Sampling::Cpus {
                skip("whole CPUs may not be sampled here");
                return Ok(());
            }
            let work: f64 = recorded.truth.shares.keys().map(|function| recorded.total_share(function)).sum();
            let samples = (work * recorded.samples() as f64).round() as u64;
            assert!(samples > 100, "{samples} samples");
            for (function, truth) in &recorded.truth.shares {
                let share = recorded.total_share(function) / work;
                if !binomial_ok(share, *truth, samples) {
                    return Err(format!(
                        "round {round}: {function} has {share}, the truth is {truth}, {samples} samples"
                    ));
                }
            }
        }
        Ok(())
    }
    twice_at_most(series);
}

#[test]
fn forked_and_executed_processes_are_followed() {
    let Some(recorded) = record("forktree", Variant::Release, &["1000"]) else { return };
    assert_eq!(recorded.profile.processes.len() as u64, recorded.truth.counts["processes"]);
    for (function, truth) in &recorded.truth.shares {
        let share = recorded.total_share(function);
        // Each process loses up to one period at its end.
        assert!((share - truth).abs() < 0.05, "{function}: {share} instead of {truth}");
    }
}

#[test]
fn hundreds_of_short_threads_are_recorded() {
    let Some(recorded) = record("threads", Variant::Release, &["400", "1500"]) else { return };
    assert_eq!(recorded.profile.threads.len() as u64, recorded.truth.counts["threads"] + 1);
    recorded.assert_complete("threads");
    let named = recorded.profile.threads.iter();
    let named = named.filter(|thread| recorded.profile.text(thread.name).starts_with("even-")).count();
    assert_eq!(named, 200);
}

#[test]
fn quadratic_search_is_found() {
    one_run_agrees("quadratic", &["50000"]);
}

#[test]
fn allocation_heavy_code_is_found() {
    one_run_agrees("allocations", &["12000000"]);
}

#[test]
fn strided_memory_is_found() {
    one_run_agrees("strides", &["5"]);
}

#[test]
fn closures_and_generics_are_found() {
    one_run_agrees("closures", &["700"]);
}

#[test]
fn c_programs_are_found() {
    let Some(recorded) = record("chain", Variant::Release, &["700"]) else { return };
    recorded.assert_complete("chain");
    for (function, truth) in &recorded.truth.shares {
        let share = recorded.self_share(function);
        let allowed = 4.0 * standard_error(*truth, recorded.samples());
        assert!((share - truth).abs() <= allowed, "{function}: {share} instead of {truth}");
    }
}

#[test]
fn tail_calls_are_attributed_to_the_function_that_runs() {
    let Some(recorded) = record("tailcall", Variant::Release, &["700"]) else { return };
    recorded.assert_complete("tailcall");
    let share = recorded.share(|names| names.starts_with(&["after", "entry", "main"]));
    assert!((share - 0.75).abs() < 0.06, "after < entry < main has {share}");
}

#[test]
fn a_mostly_sleeping_program_gets_a_note_about_few_samples() {
    let Some(recorded) = record("sleepy", Variant::Release, &["500"]) else { return };
    assert!(recorded.total_share("brief_work") > 0.5);
    let mut report = crate::recorded::whyslow(recorded.folder.path());
    let report = report.args(["report", "run.whyslow", "quality"]).output().unwrap();
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.contains("samples"), "{text}");
    assert!(text.contains("fix: ") && text.contains("--off-cpu"), "the waits are the answer: {text}");
}
