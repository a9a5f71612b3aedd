//! Files of version 1: the description of a metric was part of the whole recording's facts, or followed from
//! its name.

use serde::Deserialize;

use crate::meta::known_or_default;
use crate::metric::{Metric, Origin, Sampler, Subject, Trigger};
use crate::tables::Unit;
use crate::{Meta, Profile};

/// The facts that moved from the recording to its metrics.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Facts {
    frequency_hz: u32,
    #[serde(deserialize_with = "known_or_default")]
    source: Source,
    ns_per_cycle: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    #[default]
    Unknown,
    Cycles,
    CpuClock,
    Imported(String),
}

/// Tools that counted in a simulated machine, and tools that counted allocations.
const SIMULATORS: [&str; 2] = ["callgrind", "cachegrind"];
const COUNTERS: [&str; 3] = ["DHAT", "massif", "heaptrack"];

/// Describes each metric, and sets the length of a cycle for the first one.
pub(super) fn settle(profile: &mut Profile, facts: Facts, scales: &mut Vec<Option<f64>>) {
    let Facts { frequency_hz: rate_hz, source, ns_per_cycle } = facts;
    let sampled_heap = profile.meta.heap.as_ref().is_some_and(|heap| heap.sample_bytes.is_some());
    for row in 0..profile.metrics.len() {
        let old = profile.metrics[row];
        let mut metric = Metric::of_name(profile.text(old.name), old.unit).renamed(old.name);
        match (&source, metric.of) {
            (_, Subject::Heap) if sampled_heap => metric.origin = Origin::Estimated,
            (_, Subject::Heap) => {}
            (Source::Imported(tool), _) => {
                metric.origin = imported(tool, metric.origin, rate_hz);
            }
            _ if row == 0 && old.unit == Unit::Nanoseconds => {
                metric.of = Subject::Cpu;
                metric.origin = Origin::Sampled(Sampler { trigger: trigger(&source), rate_hz });
            }
            _ => {}
        }
        profile.metrics[row] = metric;
    }
    if matches!(source, Source::Cycles) {
        scales.resize(profile.metrics.len(), None);
        scales.iter_mut().take(1).for_each(|scale| *scale = ns_per_cycle);
    }
    let Meta { imported_from, .. } = &mut profile.meta;
    if let Source::Imported(tool) = source {
        *imported_from = Some(tool);
    }
}

fn trigger(source: &Source) -> Trigger {
    match source {
        Source::Cycles => Trigger::Cycles,
        Source::CpuClock => Trigger::CpuClock,
        Source::Unknown | Source::Imported(_) => Trigger::Unknown,
    }
}

fn imported(tool: &str, from_name: Origin, rate_hz: u32) -> Origin {
    let is_one_of = |tools: &[&str]| tools.iter().any(|known| tool.starts_with(known));
    match from_name {
        _ if is_one_of(&SIMULATORS) => Origin::Simulated,
        _ if is_one_of(&COUNTERS) => Origin::Counted,
        Origin::Sampled(sampler) => Origin::Sampled(Sampler { rate_hz, ..sampler }),
        other => other,
    }
}
