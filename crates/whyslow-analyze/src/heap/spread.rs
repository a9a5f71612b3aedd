//! The distribution of blocks over sizes, lifetimes and threads.

use std::cmp::Reverse;

use whyslow_profile::heap::metric;
use whyslow_profile::{HistogramOf, Profile, ThreadId};

use super::profile_facts::samples_of;

/// Blocks per bar over all sites: bar `n` is for values from `2^(n-1)` up to, but not including, `2^n`, and
/// bar 0 for 0. Ends with the last non-empty bar.
pub fn histogram(profile: &Profile, of: HistogramOf) -> Vec<u64> {
    let mut bars: Vec<u64> = Vec::new();
    for row in profile.heap.histograms.iter().filter(|row| row.of == of && row.blocks > 0) {
        let bar = usize::from(row.bar);
        if bars.len() <= bar {
            bars.resize(bar + 1, 0);
        }
        bars[bar] = bars[bar].saturating_add(row.blocks);
    }
    bars
}

/// The allocations of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapThread {
    /// The thread.
    pub thread: ThreadId,
    /// Blocks that it allocated.
    pub allocations: u64,
    /// Their bytes.
    pub bytes_allocated: u64,
    /// Bytes of its blocks live at the peak.
    pub peak_bytes: u64,
    /// Its blocks that other threads freed.
    pub freed_elsewhere: u64,
    /// Blocks of other threads that it freed.
    pub freed_for_others: u64,
}

/// The threads that allocated or freed for others, most bytes first.
pub fn threads(profile: &Profile) -> Vec<HeapThread> {
    let mut rows = (0..profile.threads.len())
        .map(|thread| HeapThread {
            thread: thread.into(),
            allocations: 0,
            bytes_allocated: 0,
            peak_bytes: 0,
            freed_elsewhere: 0,
            freed_for_others: 0,
        })
        .collect::<Vec<_>>();
    let mut add = |name: &str, to: fn(&mut HeapThread) -> &mut u64| {
        let Some(samples) = samples_of(profile, name) else { return };
        for (thread, value) in samples.thread.iter().zip(&samples.value) {
            let sum = to(&mut rows[thread.index()]);
            *sum = sum.saturating_add(*value);
        }
    };
    add(metric::ALLOCATIONS, |row| &mut row.allocations);
    add(metric::BYTES_ALLOCATED, |row| &mut row.bytes_allocated);
    add(metric::LIVE_AT_PEAK, |row| &mut row.peak_bytes);
    for transfer in &profile.heap.transfers {
        let from = &mut rows[transfer.from.index()].freed_elsewhere;
        *from = from.saturating_add(transfer.blocks);
        let to = &mut rows[transfer.to.index()].freed_for_others;
        *to = to.saturating_add(transfer.blocks);
    }
    rows.retain(|row| row.allocations > 0 || row.freed_for_others > 0);
    rows.sort_by_key(|row| (Reverse(row.bytes_allocated), row.thread));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use whyslow_profile::{HeapTransfer, HistogramBar};

    #[test]
    fn bars_of_all_sites_add_up() {
        let mut profile = testing::heap_profile("main;a : allocations=4\nmain;b : allocations=2");
        let bar = |site, of, bar, blocks| HistogramBar { site, of, bar, blocks };
        profile.heap.histograms = vec![
            bar(0, HistogramOf::Size, 3, 4),
            bar(1, HistogramOf::Size, 3, 1),
            bar(1, HistogramOf::Size, 0, 1),
            bar(1, HistogramOf::Lifetime, 9, 2),
        ];
        assert_eq!(histogram(&profile, HistogramOf::Size), [1, 0, 0, 5]);
        assert_eq!(histogram(&profile, HistogramOf::Lifetime).len(), 10);
    }

    #[test]
    fn lists_a_thread_that_only_frees_for_others() {
        let mut profile = testing::heap_profile(
            "main;a : allocations=4 bytes_allocated=40 peak_bytes=30\nworker: w : bytes_freed=0",
        );
        profile.heap.transfers =
            vec![HeapTransfer { from: ThreadId(0), to: ThreadId(1), blocks: 3, bytes: 30 }];
        let [main, worker] = threads(&profile).try_into().unwrap();
        assert_eq!((main.allocations, main.bytes_allocated, main.peak_bytes), (4, 40, 30));
        assert_eq!((main.freed_elsewhere, worker.freed_for_others, worker.allocations), (3, 3, 0));
    }
}
