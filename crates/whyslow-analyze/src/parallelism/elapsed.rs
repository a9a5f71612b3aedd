//! CPU time as a share of the time that passed: a metric for every view.

use whyslow_profile::{Metric, Profile, Samples, Subject};

use super::steps::{State, Steps};
use super::{cpu_time, moment};
use crate::selection::Selection;
use crate::waits::wait_metric;

/// What the metric is called.
pub const ELAPSED_TIME: &str = "elapsed-time";

/// How many threads there were at the moment of a sample, itself included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// Those that ran.
    pub running: u32,
    /// Those that ran or could have run: the level that the sample is of.
    pub busy: u32,
}

/// The metric of CPU time, and what was beside each of its rows; `None` without CPU time.
pub fn threads_beside(profile: &Profile) -> Option<(usize, Vec<Beside>)> {
    let cpu = cpu_time(profile)?;
    let wait = wait_metric(profile);
    let steps = Steps::of(profile, &Selection::default(), cpu, wait);
    let samples = &profile.samples[cpu];
    let beside = samples.time_ns.iter().zip(&samples.value).map(|(time, value)| {
        let crowd = steps.at(moment(*time, *value, wait.is_some()));
        Beside { running: crowd.count(State::Runs).max(1), busy: crowd.busy().max(1) }
    });
    Some((cpu, beside.collect()))
}

/// The rows of CPU time, each divided by how many threads ran at its moment; `None` without CPU time.
pub fn elapsed_time(profile: &Profile) -> Option<(Metric<&'static str>, Samples)> {
    let (cpu, beside) = threads_beside(profile)?;
    let mut samples = profile.samples[cpu].clone();
    for (value, beside) in samples.value.iter_mut().zip(beside) {
        *value /= u64::from(beside.running);
    }
    let metric = profile.metrics[cpu].renamed(ELAPSED_TIME);
    Some((Metric { of: Subject::Wall, ..metric }, samples))
}
