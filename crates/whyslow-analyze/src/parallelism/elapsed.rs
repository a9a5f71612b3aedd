//! CPU time as a share of the time that passed: a metric for every view.

use whyslow_profile::{Metric, Profile, Samples, Subject};

use super::steps::{State, Steps};
use super::{cpu_time, moment};
use crate::selection::Selection;
use crate::waits::wait_metric;

/// What the metric is called.
pub const ELAPSED_TIME: &str = "elapsed-time";

/// The rows of CPU time, each divided by how many threads ran at its moment; `None` without CPU time.
pub fn elapsed_time(profile: &Profile) -> Option<(Metric<&'static str>, Samples)> {
    let cpu = cpu_time(profile)?;
    let wait = wait_metric(profile);
    let steps = Steps::of(profile, &Selection::default(), cpu, wait);
    let mut samples = profile.samples[cpu].clone();
    for (value, time) in samples.value.iter_mut().zip(&samples.time_ns) {
        let running = steps.at(moment(*time, *value, wait.is_some())).count(State::Runs);
        *value /= u64::from(running.max(1));
    }
    let metric = profile.metrics[cpu].renamed(ELAPSED_TIME);
    Some((Metric { of: Subject::Wall, ..metric }, samples))
}
