//! Accounts of a synthetic recording.

use whyslow_profile::MetricId;

use crate::testing::{Recorded, at};
use crate::{AccountSetup, Input, Sample, Task, UserStack};

const MS: u64 = 1_000_000;
const PID: u32 = 100;
const MAIN: (u32, u32) = (PID, PID);

/// A recording that accounts for its threads' time.
fn recorded() -> Recorded {
    let mut recorded = Recorded::with(|_, setup| {
        setup.accounts = Some(AccountSetup { metric: MetricId(0), frequency_hz: 1000, by_clock: true });
    });
    recorded.converter.add_process(PID, "app");
    recorded
}

fn switch(recorded: &mut Recorded, tid: u32, runs: bool, time_ns: u64) {
    recorded.converter.take(&Input::Switched {
        tid,
        runs,
        preempted: false,
        cpu: None,
        time_ns: at(time_ns),
    });
}

/// A sample that stands for a millisecond.
fn sample(recorded: &mut Recorded, time_ns: u64) {
    let (metric, task) = (recorded.metric, Task { pid: PID, tid: PID });
    let user = UserStack::Frames(&[0x1000]);
    recorded.converter.take(&Input::Sample(Sample {
        metric,
        time_ns: at(time_ns),
        task,
        value: MS,
        user,
        kernel: &[],
    }));
}

/// The values of the rows, in milliseconds, and whether each is a sample; then the number of threads
/// without one.
fn rows(mut recorded: Recorded, end: u64) -> (Vec<(u64, u32, bool)>, u64) {
    recorded.converter.end(at(end));
    let unsampled = recorded.converter.tables.counters.unsampled_threads;
    let profile = recorded.profile();
    let samples = &profile.samples[0];
    let row = |row: usize| {
        let thread = &profile.threads[samples.thread[row].index()];
        (samples.value[row] / MS, thread.tid, !profile.is_not_sampled(samples.stack[row]))
    };
    ((0..samples.len()).map(row).collect(), unsampled)
}

#[test]
fn a_thread_that_exits_before_its_first_sample_keeps_its_time() {
    let mut recorded = recorded();
    recorded.exec(MAIN, "app", 0);
    recorded.fork(PID, (PID, 101), 2 * MS);
    switch(&mut recorded, PID, false, 3 * MS);
    switch(&mut recorded, 101, true, 3 * MS);
    recorded.exit((PID, 101), 7 * MS);
    switch(&mut recorded, PID, true, 7 * MS);
    recorded.exit(MAIN, 8 * MS);
    assert_eq!(rows(recorded, 9 * MS), (vec![(4, 101, false), (4, PID, false)], 2));
}

#[test]
fn samples_stand_for_their_period_and_only_the_remainder_is_added() {
    let mut recorded = recorded();
    recorded.exec(MAIN, "app", 0);
    sample(&mut recorded, MS);
    switch(&mut recorded, PID, false, 2 * MS);
    // Waiting is not CPU time.
    switch(&mut recorded, PID, true, 50 * MS);
    sample(&mut recorded, 51 * MS);
    recorded.exit(MAIN, 53 * MS);
    let (rows, unsampled) = rows(recorded, 60 * MS);
    let not_sampled = rows.iter().filter(|(_, _, sampled)| !sampled).collect::<Vec<_>>();
    assert_eq!(not_sampled, [&(3, PID, false)]);
    assert_eq!(unsampled, 0);
}

/// A period that started in one thread ends in another that has just started.
#[test]
fn a_sample_weighs_no_more_than_its_thread_ran() {
    let mut recorded = recorded();
    recorded.exec(MAIN, "app", 0);
    sample(&mut recorded, 3 * MS / 10);
    sample(&mut recorded, 13 * MS / 10);
    recorded.exit(MAIN, 17 * MS / 10);
    let profile = recorded.profile();
    let values: Vec<u64> = profile.samples[0].value.iter().map(|value| value / (MS / 10)).collect();
    assert_eq!(values, [3, 10, 4], "the remainder has no sample");
}

/// A second event samples the same thread. It says nothing about the time between samples of the first.
#[test]
fn samples_of_another_event_cover_no_cpu_time() {
    let mut recorded = recorded();
    let misses = whyslow_profile::Metric::unknown("cache-misses", whyslow_profile::Unit::Count);
    let misses = recorded.converter.tables.builder.metric(misses);
    recorded.exec(MAIN, "app", 0);
    let cpu_time = std::mem::replace(&mut recorded.metric, misses);
    sample(&mut recorded, MS);
    recorded.metric = cpu_time;
    recorded.exit(MAIN, 4 * MS);
    assert_eq!(rows(recorded, 5 * MS), (vec![(4, PID, false)], 1));
}

/// At the end of a recording, the time of a thread that still runs is complete.
#[test]
fn a_running_thread_is_accounted_for_up_to_the_end() {
    let mut recorded = recorded();
    recorded.exec(MAIN, "app", 0);
    assert_eq!(rows(recorded, 5 * MS).0, [(5, PID, false)]);
}

#[test]
fn a_pause_leaves_out_the_time_of_running_threads() {
    let mut recorded = recorded();
    recorded.exec(MAIN, "app", 0);
    sample(&mut recorded, MS);
    recorded.converter.pause(at(3 * MS));
    sample(&mut recorded, 5 * MS);
    recorded.fork(PID, (PID, 101), 6 * MS);
    switch(&mut recorded, 101, true, 7 * MS);
    recorded.converter.resume(at(10 * MS));
    // Its record arrives late.
    sample(&mut recorded, 9 * MS);
    recorded.converter.take(&Input::Runs { tid: PID, time_ns: at(10 * MS) });
    sample(&mut recorded, 11 * MS);
    let before = [(1, PID, true), (2, PID, false)];
    let after = [(1, PID, true), (1, PID, false)];
    assert_eq!(rows(recorded, 12 * MS).0, [before, after].concat());
}

/// Unobservable time appears near where it was spent, not as one block at the end.
#[test]
fn long_stretches_without_samples_get_their_own_rows() {
    let mut recorded = recorded();
    for at in 0..10 {
        switch(&mut recorded, PID, true, at * 20 * MS);
        switch(&mut recorded, PID, false, (at * 20 + 10) * MS);
    }
    assert_eq!(rows(recorded, 300 * MS).0, [(10, PID, false); 10]);
}

/// A thread that executes a program takes another number. Its old number must not count as running
/// forever.
#[test]
fn an_exec_ends_all_other_threads() {
    let mut recorded = recorded();
    recorded.exec(MAIN, "app", 0);
    recorded.fork(PID, (PID, 101), MS);
    switch(&mut recorded, 101, true, MS);
    recorded.exit(MAIN, 2 * MS);
    recorded.exec(MAIN, "app", 3 * MS);
    recorded.exit(MAIN, 4 * MS);
    let rows = rows(recorded, 1000 * MS).0;
    assert_eq!(rows.iter().map(|(value, ..)| value).sum::<u64>(), 2 + 2 + 1, "{rows:?}");
}
