//! Elapsed time: CPU time divided by how many threads ran. A metric for every view.

use whyslow_profile::{Metric, MetricId, Profile, Samples, Subject};

use super::steps::{State, Steps};
use super::{cpu_time, time_of_sample};
use crate::selection::Selection;
use crate::waits::wait_metric;

/// The name of the metric.
pub const ELAPSED_TIME: &str = "elapsed-time";

/// How many threads were active at the time of a sample, including its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// Threads that ran.
    pub running: u32,
    /// Threads that ran or were queued for a CPU: the level of the sample.
    pub busy: u32,
}

/// The metric of CPU time, and the concurrency at each of its rows; `None` without CPU time.
pub fn concurrency(profile: &Profile) -> Option<(MetricId, Vec<Concurrency>)> {
    let cpu = cpu_time(profile)?;
    let wait = wait_metric(profile);
    let steps = Steps::of(profile, &Selection::default(), cpu, wait);
    let samples = &profile.samples[cpu.index()];
    let concurrency = samples.time_ns.iter().zip(&samples.value).map(|(time, value)| {
        let crowd = steps.at(time_of_sample(*time, *value, wait.is_some()));
        Concurrency { running: crowd.count(State::Runs).max(1), busy: crowd.busy().max(1) }
    });
    Some((cpu, concurrency.collect()))
}

/// The rows of CPU time, each divided by how many threads ran at its time; `None` without CPU time.
pub fn elapsed_time(profile: &Profile) -> Option<(Metric<&'static str>, Samples)> {
    let (cpu, concurrency) = concurrency(profile)?;
    let mut samples = profile.samples[cpu.index()].clone();
    for (value, concurrency) in samples.value.iter_mut().zip(concurrency) {
        *value /= u64::from(concurrency.running);
    }
    let metric = profile.metrics[cpu.index()].renamed(ELAPSED_TIME);
    Some((Metric { of: Subject::Wall, ..metric }, samples))
}
