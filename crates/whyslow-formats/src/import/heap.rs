//! Builds heap data from another tool's numbers: one row per allocating stack, and the metrics that all views
//! use.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rustc_hash::FxHashMap;
use whyslow_profile::heap::metric;
use whyslow_profile::{AccessRun, Growth, HeapCounts, HeapFacts, HeapSite, Metric, StackId, ThreadId, Unit};

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

/// Accesses per byte of the blocks of each site.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    /// None for sites whose blocks have several sizes.
    sites: BTreeMap<usize, Option<Vec<u64>>>,
}

impl Accesses {
    /// The largest blocks of which DHAT counts each byte.
    const LARGEST: usize = 1024;

    /// Adds the counts of a site: a number per byte, or a negative length and the number of that many bytes. Without
    /// numbers, nothing is known of its blocks.
    pub(super) fn add(&mut self, site: usize, packed: &[i64]) {
        let bytes = Self::unpacked(packed);
        let known = self.sites.entry(site);
        match (known, bytes) {
            (Entry::Vacant(vacant), bytes) => {
                vacant.insert(bytes);
            }
            (Entry::Occupied(mut sum), Some(bytes)) => match sum.get_mut() {
                Some(sum) if sum.len() == bytes.len() => {
                    sum.iter_mut().zip(bytes).for_each(|(sum, more)| *sum = sum.saturating_add(more));
                }
                other => *other = None,
            },
            (Entry::Occupied(mut sum), None) => *sum.get_mut() = None,
        }
    }

    fn unpacked(packed: &[i64]) -> Option<Vec<u64>> {
        let mut bytes = Vec::new();
        let mut numbers = packed.iter();
        while let Some(&number) = numbers.next() {
            let (times, count) = match u64::try_from(number) {
                Ok(count) => (1, count),
                Err(_) => {
                    (usize::try_from(number.unsigned_abs()).ok()?, u64::try_from(*numbers.next()?).ok()?)
                }
            };
            if times > Self::LARGEST - bytes.len() {
                return None;
            }
            bytes.extend(std::iter::repeat_n(count, times));
        }
        (!bytes.is_empty()).then_some(bytes)
    }

    /// The rows of all sites, each with whole blocks.
    pub(super) fn runs(self) -> Vec<AccessRun> {
        let mut runs: Vec<AccessRun> = Vec::new();
        for (site, bytes) in self.sites {
            for (start, count) in (0u64..).zip(bytes.into_iter().flatten()) {
                match runs.last_mut() {
                    Some(run) if start > 0 && run.count == count => run.length += 1,
                    _ => runs.push(AccessRun { site: site as u64, start, length: 1, count }),
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(points: &[(usize, &[i64])]) -> Vec<[u64; 4]> {
        let mut accesses = Accesses::default();
        points.iter().for_each(|(site, packed)| accesses.add(*site, packed));
        accesses.runs().iter().map(AccessRun::numbers).collect()
    }

    #[test]
    fn accesses_are_unpacked_and_become_runs() {
        assert_eq!(runs(&[(3, &[-8, 40, 1, 1, -6, 0])]), [[3, 0, 8, 40], [3, 8, 2, 1], [3, 10, 6, 0]]);
        assert_eq!(runs(&[(1, &[-2, 5]), (1, &[-2, 7])]), [[1, 0, 2, 12]]);
        assert_eq!(runs(&[(1, &[-2, 5]), (2, &[-2, 5])]), [[1, 0, 2, 5], [2, 0, 2, 5]]);
    }

    #[test]
    fn blocks_of_several_sizes_and_damaged_counts_are_unknown() {
        assert_eq!(runs(&[(1, &[-2, 5]), (1, &[-3, 7])]), Vec::<[u64; 4]>::new());
        assert_eq!(runs(&[(1, &[-2, 5]), (1, &[])]), Vec::<[u64; 4]>::new());
        for wrong in [&[-5][..], &[-1025, 1], &[i64::MIN, 1], &[-2, -3], &[]] {
            assert_eq!(runs(&[(1, wrong)]), Vec::<[u64; 4]>::new(), "{wrong:?}");
        }
    }
}
