//! Which heap data a profile has.

use whyslow_profile::{MetricId, Profile, Samples, Subject};

/// Whether the heap was recorded to its end: there are totals and sites.
pub fn has_heap(profile: &Profile) -> bool {
    profile.meta.heap.is_some()
}

/// Whether the heap was recorded but CPU time was not. A recorder that was killed leaves only the heap's
/// metrics.
pub fn is_heap_only(profile: &Profile) -> bool {
    let measures = |subject| profile.metric_of(subject).is_some();
    (has_heap(profile) || measures(Subject::Heap)) && !measures(Subject::Cpu)
}

/// Whether a metric is one of the heap.
pub fn is_heap_metric(profile: &Profile, metric: MetricId) -> bool {
    profile.metrics.get(metric.index()).is_some_and(|metric| metric.of == Subject::Heap)
}

/// The samples of the metric with this name.
pub(super) fn samples_of<'p>(profile: &'p Profile, name: &str) -> Option<&'p Samples> {
    profile.metric_named(name).and_then(|metric| profile.samples.get(metric.index()))
}
