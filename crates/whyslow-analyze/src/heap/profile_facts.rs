//! What of the heap is in a profile.

use whyslow_profile::heap::metric;
use whyslow_profile::{Metric, Profile, Samples};

use super::live::LIVE;

/// True when the heap was recorded to its end: there are totals and sites.
pub fn has_heap(profile: &Profile) -> bool {
    profile.meta.heap.is_some()
}

/// True when the heap was recorded and CPU time was not. A recorder that was killed leaves only the heap's metrics.
pub fn is_heap_only(profile: &Profile) -> bool {
    (has_heap(profile) || metric_row(profile, metric::BYTES_ALLOCATED).is_some())
        && metric_row(profile, Metric::CPU_TIME).is_none()
}

/// True for a metric that the heap's recorder counted; no chance is in its values.
pub fn is_heap_metric(profile: &Profile, metric: usize) -> bool {
    let name = profile.metrics.get(metric).map(|metric| profile.text(metric.name));
    name.is_some_and(|name| name == LIVE || metric::ALL.contains(&name))
}

/// The row of the metric with this name.
pub(crate) fn metric_row(profile: &Profile, name: &str) -> Option<usize> {
    profile.metrics.iter().position(|metric| profile.text(metric.name) == name)
}

/// The samples of the metric with this name.
pub(super) fn samples_of<'p>(profile: &'p Profile, name: &str) -> Option<&'p Samples> {
    metric_row(profile, name).and_then(|row| profile.samples.get(row))
}
