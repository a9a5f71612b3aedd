//! Builds heap data from another tool's numbers: one row per allocating stack, and the metrics that all views
//! use.

use rustc_hash::FxHashMap;
use whyslow_profile::heap::metric;
use whyslow_profile::{Growth, HeapCounts, HeapFacts, HeapSite, Metric, StackId, ThreadId, Unit};

use super::assemble::Assembly;

/// The rows of a heap while it is built.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: FxHashMap<StackId, usize>,
    pub(super) sites: Vec<HeapSite>,
}

/// A metric, the time of its samples, and their value.
type Total = (&'static str, u64, fn(&HeapCounts) -> u64);

impl Rows {
    /// The row of an allocating stack.
    pub(super) fn row(&mut self, stack: StackId) -> usize {
        let sites = &mut self.sites;
        *self.rows.entry(stack).or_insert_with(|| {
            sites.push(HeapSite { stack, counts: HeapCounts::default(), growth: Growth::Unknown });
            sites.len() - 1
        })
    }

    /// Adds the blocks live at the peak and at the end as metrics, then all rows to the profile.
    pub(super) fn finish(self, assembly: &mut Assembly, facts: HeapFacts, thread: ThreadId) {
        let totals: [Total; 2] = [
            (metric::LIVE_AT_PEAK, facts.peak_ns.0, |counts| counts.peak_bytes),
            (metric::LIVE_AT_EXIT, assembly.profile.meta.duration_ns, |counts| counts.live_at_exit_bytes),
        ];
        for (name, time, value) in totals {
            let metric = assembly.metric(Metric::of_name(name, Unit::Bytes));
            for site in &self.sites {
                let value = value(&site.counts);
                if value > 0 {
                    assembly.sample(metric, time, thread, site.stack, value);
                }
            }
        }
        assembly.profile.heap.sites = self.sites;
        assembly.profile.meta.heap = Some(facts);
    }
}
