use std::ops::Range;

use whyslow_profile::{Metric, Module, Samples, SpecialFrame, StackId, ThreadId, WaitFrame};

use super::*;
use crate::labels;
use crate::testing::{self, SAMPLE_NS};

/// A serial part of 400 ms on the thread main, then 600 ms in which two others run.
fn sampled() -> Profile {
    let mut profile = testing::profile(
        "main: app::main;app::parse@app.rs:12 400
         a: app::work@app.rs:20 600
         b: app::work@app.rs:20 600",
    );
    let times = (1..=400).chain(401..=1000).chain(401..=1000);
    profile.samples[0].time_ns = times.map(|ms| ms * SAMPLE_NS).collect();
    profile.meta.duration_ns = 1000 * SAMPLE_NS;
    profile
}

fn build(profile: &Profile, selection: &Selection) -> Parallelism {
    Parallelism::build(profile, selection, &Charges::new(profile, true)).unwrap()
}

fn milliseconds(parallelism: &Parallelism) -> Vec<u64> {
    parallelism.levels.iter().map(|level| level.ns / SAMPLE_NS).collect()
}

/// Adds waits of threads, each from one millisecond to another, at the place of a stack.
fn add_waits(profile: &mut Profile, waits: &[(u32, Range<u64>, StackId)]) {
    let mut samples = Samples::default();
    for (thread, time, stack) in waits {
        samples.push(time.end * SAMPLE_NS, ThreadId(*thread), *stack, (time.end - time.start) * SAMPLE_NS);
    }
    profile.set_metric(Metric::off_cpu_time(), samples);
}

#[test]
fn each_number_of_threads_has_its_time_and_its_functions() {
    let profile = sampled();
    let parallelism = build(&profile, &Selection::default());
    assert_eq!((milliseconds(&parallelism), parallelism.exact), (vec![0, 400, 600], false));
    assert!((parallelism.share(1) - 0.4).abs() < 1e-9, "{}", parallelism.share(1));
    let alone = &parallelism.levels[1].functions[0];
    assert_eq!((&*labels::name(&profile, alone.label), alone.line, alone.share), ("app::parse", 12, 1.0));
    let running: f64 = parallelism.curve.iter().map(|slice| slice.running * slice.length_ns as f64).sum();
    assert!((running / (1600 * SAMPLE_NS) as f64 - 1.0).abs() < 1e-9, "{running}");
    let only_main = Selection { threads: vec!["main".parse().unwrap()], ..Selection::default() };
    assert_eq!(milliseconds(&build(&profile, &only_main)), [600, 400]);
    let late = Selection { time_ns: Some(300 * SAMPLE_NS..1000 * SAMPLE_NS), ..Selection::default() };
    assert_eq!(milliseconds(&build(&profile, &late)), [0, 100, 600]);
}

#[test]
fn waits_make_it_exact_and_queued_threads_are_busy() {
    let mut profile = testing::profile(
        "main: app::parse 400
         a: app::work 300
         b: app::work 300
         a: rayon_core::sleep::sleep;sys_futex_wait 1
         b: app::work;std::lock_contended;sys_futex_wait 1
         main: app::main;std::JoinHandle::join;sys_futex_wait 1",
    );
    let stacks = profile.samples[0].stack.clone();
    let [idle, locked, joins] = [1000, 1001, 1002].map(|row: usize| stacks[row]);
    let samples = &mut profile.samples[0];
    for column in [&mut samples.time_ns, &mut samples.value] {
        column.truncate(1000);
    }
    samples.thread.truncate(1000);
    samples.stack.truncate(1000);
    samples.time_ns = (1..=400).chain(401..=700).chain(701..=1000).map(|ms| ms * SAMPLE_NS).collect();
    profile.meta.duration_ns = 1000 * SAMPLE_NS;
    // One CPU for a and b, half of the time each: each is off its CPU for 300 ms.
    let queue = SpecialFrame::Waiting(WaitFrame::Queued);
    let name = profile.strings.push(queue.text());
    profile.modules.push(Module::special(queue, name));
    let module = (profile.modules.len() - 1).into();
    let location = profile.locations.push(Some(module), whyslow_profile::RelativeAddress(0));
    let queued = profile.stacks.push(None, location);
    add_waits(
        &mut profile,
        &[
            (1, 0..400, idle),
            (2, 0..400, locked),
            (2, 400..700, queued),
            (1, 700..1000, queued),
            (0, 400..1000, joins),
        ],
    );
    let parallelism = build(&profile, &Selection::default());
    assert!(parallelism.exact);
    assert_eq!(milliseconds(&parallelism), [0, 400, 600]);
    let first = parallelism.curve[0];
    assert_eq!((first.running, first.queued, first.blocked, first.idle), (1.0, 0.0, 1.0, 1.0));
    let last = parallelism.curve[99];
    assert_eq!((last.running, last.queued, last.blocked, last.idle), (1.0, 1.0, 1.0, 0.0));
    assert_eq!(labels::name(&profile, parallelism.levels[2].functions[0].label), "app::work");
    // The recorder was killed at the end: the last second of the threads is unknown.
    profile.meta.duration_ns = 2000 * SAMPLE_NS;
    assert_eq!(milliseconds(&build(&profile, &Selection::default())), [0, 400, 600, 1000]);
    profile.sealed = false;
    assert_eq!(milliseconds(&build(&profile, &Selection::default())), [1000, 400, 600]);
}

#[test]
fn elapsed_time_is_cpu_time_divided_by_running_threads() {
    let profile = sampled();
    let (metric, samples) = elapsed_time(&profile).unwrap();
    assert_eq!((metric.name, metric.of), (ELAPSED_TIME, Subject::Wall));
    assert_eq!(samples.value.iter().sum::<u64>(), 1000 * SAMPLE_NS);
    assert_eq!((samples.value[0], samples.value[400]), (SAMPLE_NS, SAMPLE_NS / 2));
}

#[test]
fn an_empty_profile_has_no_parallelism() {
    assert_eq!(
        Parallelism::build(
            &Profile::default(),
            &Selection::default(),
            &Charges::new(&Profile::default(), true)
        ),
        None
    );
    let mut profile = testing::profile("main: a 1");
    profile.samples[0] = Samples::default();
    profile.meta.duration_ns = 0;
    let nothing = build(&profile, &Selection::default());
    assert_eq!((nothing.duration_ns, nothing.curve.len()), (0, 0));
}
