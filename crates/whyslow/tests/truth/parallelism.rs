//! How many threads run at a time, against a program's own measurements of its serial and its parallel part.

use std::path::Path;

use whyslow_analyze::{CallTree, Charges, ELAPSED_TIME, Level, Parallelism, Selection, elapsed_time};
use whyslow_explain::{Allowed, Question, RuleId, Topic, findings_about};
use whyslow_lab_harness::{Truth, Variant, build_or_skip, run};
use whyslow_profile::{MetricId, Profile, file};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events, whyslow};

const MS: &str = "900";

fn record(arguments: &[&str]) -> Option<(Profile, Truth)> {
    let program = build_or_skip("serial", Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.arg("record").args(arguments).args(["-o", "run.whyslow", "--"]).arg(program).arg(MS);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((read(folder.path()), Truth::parse(&String::from_utf8_lossy(&output.stdout))))
}

fn read(folder: &Path) -> Profile {
    file::read(&folder.join("run.whyslow")).unwrap()
}

fn built(profile: &Profile) -> Parallelism {
    Parallelism::build(profile, &Selection::default(), &Charges::new(profile, true)).unwrap()
}

/// The share of a function in what ran at a level of parallelism.
fn share(profile: &Profile, level: &Level, function: &str) -> f64 {
    let of = |row: &&whyslow_analyze::BusyFunction| CallTree::name(profile, row.label).ends_with(function);
    level.functions.iter().filter(of).map(|row| row.share).sum()
}

#[track_caller]
fn assert_both_parts_are_found(profile: &Profile, truth: &Truth) {
    let parallelism = built(profile);
    assert!(parallelism.exact);
    let queued: f64 = parallelism.curve.iter().map(|slice| slice.queued * slice.length_ns as f64).sum();
    for (level, name) in [(1, "parse"), (2, "render")] {
        let truth_ns = truth.counts[&format!("{name}_us")] as f64 * 1000.0;
        let found = &parallelism.levels[level];
        // On a busy machine threads start and end when they get a CPU.
        let (least, most) = (0.95 * truth_ns - queued, 1.05 * truth_ns + queued);
        let said = format!(
            "{level} threads for {} ns, {name} took {truth_ns} ns, {queued} ns in the queue",
            found.ns
        );
        assert!((least..most).contains(&(found.ns as f64)), "{said}");
        let share = share(profile, found, name);
        assert!(share > 0.8, "{share} of {name} at level {level}: {:?}", found.functions);
    }
    let (selection, allowed) = (Selection::default(), Allowed::default());
    let question =
        Question { profile, selection: &selection, only_metric: false, allowed: &allowed, file: "" };
    let found = findings_about(Topic::Parallelism, &question);
    let serial = found.iter().find(|finding| finding.rule.id == RuleId::PoorParallelism);
    let place = serial.and_then(|finding| finding.place).expect("it is worth a finding");
    assert!(CallTree::name(profile, place.label).ends_with("parse"), "{place:?}");
}

#[test]
fn the_serial_part_is_as_long_as_the_program_measures_it() {
    if !has_perf_events() {
        return;
    }
    let Some((profile, truth)) = record(&["--off-cpu"]) else { return };
    assert_both_parts_are_found(&profile, &truth);
}

#[test]
fn an_ordinary_user_sees_it_too() {
    let Some(program) = build_or_skip("serial", Variant::Release) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    if !has_perf_events() {
        return;
    }
    let arguments = ["record", "--off-cpu", "-o", "run.whyslow", "--", "./program", MS];
    let output = run(command.args(arguments), PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    assert_both_parts_are_found(&read(folder.path()), &truth);
}

/// Without waits, runnable threads are unknown, so a busy machine makes the serial part longer, but makes no
/// other function serial.
#[test]
fn samples_alone_show_the_serial_part() {
    if !has_perf_events() {
        return;
    }
    let Some((mut profile, _)) = record(&[]) else { return };
    let parallelism = built(&profile);
    assert!(!parallelism.exact);
    assert!(share(&profile, &parallelism.levels[1], "parse") > 0.1, "{:?}", parallelism.levels);
    for level in &parallelism.levels[2..] {
        let alone = share(&profile, level, "parse");
        assert!(alone < 0.02, "{alone} of parse while others ran");
    }
    let (metric, samples) = elapsed_time(&profile).unwrap();
    assert_eq!(metric.name, ELAPSED_TIME);
    let elapsed = profile.set_metric(metric, samples);
    let value = |metric: MetricId, name: &str| {
        let function = Some(whyslow_analyze::FunctionFilter::new(&format!("{name}$")));
        Selection { metric, function, ..Selection::default() }.weigh(&profile).total_value as f64
    };
    let cpu = profile.main_metric();
    let of_parse = value(elapsed, "parse") / value(cpu, "parse");
    assert!(of_parse > 0.98, "{of_parse}");
    assert!(value(elapsed, "render") <= value(cpu, "render"));
}
