//! Live bytes at any time: what was allocated up to it, less what was freed up to it.

use rustc_hash::FxHashMap;
use whyslow_profile::heap::{counter, metric};
use whyslow_profile::{Counter, Metric, Profile, Samples, Unit};

use super::profile_facts::samples_of;

/// The name of the metric that [`add_live`] adds.
pub const LIVE: &str = "live";

/// Adds the metric [`LIVE`]: the bytes that were live at a time, per thread and stack that allocated them. Gives its
/// row, or nothing when the profile has no timeline of the heap.
///
/// Times are those of the timeline's buckets: a bucket that has begun counts as a whole.
pub fn add_live(profile: &mut Profile, at_ns: u64) -> Option<usize> {
    let allocated = samples_of(profile, metric::BYTES_ALLOCATED)?;
    let mut row_of = FxHashMap::default();
    let mut rows: Vec<(u64, u64)> = Vec::new();
    let mut keys = Vec::new();
    let mut add = |samples: &Samples, to: fn(&mut (u64, u64)) -> &mut u64| {
        for row in (0..samples.len()).filter(|&row| samples.time_ns[row] <= at_ns) {
            let key = (samples.thread[row], samples.stack[row]);
            let at = *row_of.entry(key).or_insert_with(|| {
                keys.push(key);
                rows.push((0, 0));
                rows.len() - 1
            });
            let sum = to(&mut rows[at]);
            *sum = sum.saturating_add(samples.value[row]);
        }
    };
    add(allocated, |(allocated, _)| allocated);
    if let Some(freed) = samples_of(profile, metric::BYTES_FREED) {
        add(freed, |(_, freed)| freed);
    }
    let mut live = Samples::default();
    for ((thread, stack), (allocated, freed)) in keys.into_iter().zip(rows) {
        // Blocks from before the recording are freed without having been allocated.
        let bytes = allocated.saturating_sub(freed);
        if bytes > 0 {
            live.push(at_ns, thread, stack, bytes);
        }
    }
    let row = profile.metric_named(LIVE).unwrap_or_else(|| {
        let name = profile.strings.push(LIVE);
        profile.metrics.push(Metric::of_name(LIVE, Unit::Bytes).renamed(name));
        profile.samples.push(Samples::default());
        profile.metrics.len() - 1
    });
    profile.samples[row] = live;
    Some(row)
}

/// The live bytes in each of so many equal stretches of a recording that has no timeline, by the counter of its process; empty
/// when there were several.
fn counted_over_time(profile: &Profile, stretches: usize) -> Vec<u64> {
    let of_live = |(_, row): &(usize, &Counter)| profile.text(row.name) == counter::LIVE;
    let mut counters = profile.counters.iter().enumerate().filter(of_live);
    let (Some((counter, _)), None) = (counters.next(), counters.next()) else { return Vec::new() };
    let values = &profile.counter_values;
    let rows = values.counter.iter().zip(values.time_ns.iter().zip(&values.value));
    let mut rows: Vec<(u64, u64)> = rows
        .filter(|(of, _)| of.index() == counter)
        .map(|(_, (time, value))| (*time, u64::try_from(*value).unwrap_or(0)))
        .collect();
    rows.sort_by_key(|(time, _)| *time);
    let end = u128::from(profile.meta.duration_ns.max(rows.last().map_or(0, |(time, _)| *time))) + 1;
    let mut rows = rows.into_iter().peekable();
    let mut live = 0;
    (0..stretches as u128)
        .map(|stretch| {
            let within = |time: u64| u128::from(time) * stretches as u128 / end <= stretch;
            let mut most = None;
            while let Some((_, value)) = rows.next_if(|(time, _)| within(*time)) {
                live = value;
                most = most.max(Some(value));
            }
            most.unwrap_or(live)
        })
        .collect()
}

/// The most live bytes in each of so many equal stretches of the recording; empty when there is no timeline.
pub fn live_over_time(profile: &Profile, stretches: usize) -> Vec<u64> {
    if profile.meta.heap.as_ref().is_some_and(|facts| facts.snapshot.is_some()) {
        return counted_over_time(profile, stretches);
    }
    let Some(allocated) = samples_of(profile, metric::BYTES_ALLOCATED) else { return Vec::new() };
    let mut changes: Vec<(u64, i128)> = Vec::new();
    let mut add = |samples: &Samples, sign: i128| {
        let rows = samples.time_ns.iter().zip(&samples.value);
        changes.extend(rows.map(|(time, value)| (*time, sign * i128::from(*value))));
    };
    add(allocated, 1);
    if let Some(freed) = samples_of(profile, metric::BYTES_FREED) {
        add(freed, -1);
    }
    changes.sort_unstable_by_key(|(time, _)| *time);
    let Some(&(last, _)) = changes.last() else { return Vec::new() };
    let end = u128::from(profile.meta.duration_ns.max(last)) + 1;
    let mut live = 0i128;
    let mut changes = changes.chunk_by(|a, b| a.0 == b.0).peekable();
    let stretch_of = |time: u64| (u128::from(time) * stretches as u128 / end) as usize;
    (0..stretches)
        .map(|stretch| {
            let mut most = live;
            while let Some(now) = changes.next_if(|now| stretch_of(now[0].0) <= stretch) {
                live += now.iter().map(|(_, change)| change).sum::<i128>();
                most = most.max(live);
            }
            u64::try_from(most.max(0)).unwrap_or(u64::MAX)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{CounterId, HeapSnapshot};

    use super::*;
    use crate::selection::Selection;
    use crate::testing;

    const MS: u64 = 1_000_000;

    fn program() -> Profile {
        testing::heap_profile(
            "main;load : bytes_allocated=100 bytes_freed=60 made_ms=10 freed_ms=50
             worker: main;load : bytes_allocated=40 made_ms=30
             main;keep : bytes_allocated=7 made_ms=20",
        )
    }

    fn live_at(ms: u64) -> u64 {
        let mut profile = program();
        let metric = add_live(&mut profile, ms * MS).unwrap();
        Selection { metric, ..Selection::default() }.weigh(&profile).total_value
    }

    #[test]
    fn live_bytes_are_allocated_less_freed_up_to_then() {
        assert_eq!([5, 10, 25, 30, 49, 50, 99].map(live_at), [0, 100, 107, 147, 147, 87, 87]);
    }

    #[test]
    fn live_bytes_stay_with_the_thread_that_allocated() {
        let mut profile = program();
        let metric = add_live(&mut profile, 60 * MS).unwrap();
        let selection =
            Selection { metric, threads: vec!["worker".parse().unwrap()], ..Selection::default() };
        assert_eq!(selection.weigh(&profile).total_value, 40);
    }

    #[test]
    fn more_freed_than_allocated_is_nothing_and_not_negative() {
        let mut profile = testing::heap_profile(
            "main;old : bytes_freed=500 freed_ms=1\nmain;new : bytes_allocated=30 made_ms=1",
        );
        let metric = add_live(&mut profile, MS).unwrap();
        assert_eq!(profile.samples[metric].value, [30]);
        assert_eq!(live_over_time(&profile, 3).last(), Some(&0));
    }

    #[test]
    fn another_time_replaces_the_metric() {
        let mut profile = program();
        let metrics = profile.metrics.len();
        assert_eq!(add_live(&mut profile, MS), Some(metrics));
        assert_eq!(add_live(&mut profile, 90 * MS), Some(metrics));
        assert_eq!(profile.metrics.len(), metrics + 1);
        assert_eq!(add_live(&mut testing::profile("main 1"), MS), None);
    }

    #[test]
    fn the_line_over_time_has_the_most_of_each_stretch() {
        let mut profile = program();
        profile.meta.duration_ns = 100 * MS - 1;
        assert_eq!(live_over_time(&profile, 10), [0, 100, 107, 147, 147, 147, 87, 87, 87, 87]);
        assert_eq!(live_over_time(&profile, 1), [147]);
        assert_eq!(live_over_time(&testing::profile("main 3"), 4), [0; 0]);
    }

    #[test]
    fn the_line_of_a_snapshot_is_that_of_its_counter() {
        let mut profile = program();
        profile.meta.duration_ns = 100 * MS - 1;
        profile.meta.heap.as_mut().unwrap().snapshot = Some(HeapSnapshot { pid: 1, time_ns: 100 * MS });
        assert_eq!(live_over_time(&profile, 4), [0; 0]);
        let name = profile.strings.push(counter::LIVE);
        profile.counters.push(Counter { name, unit: Unit::Bytes, process: None });
        for (ms, value) in [(5, 30), (10, 10), (60, 50), (99, 40)] {
            profile.counter_values.push(CounterId(0), ms * MS, value);
        }
        assert_eq!(live_over_time(&profile, 4), [30, 10, 50, 40]);
        profile.counters.push(Counter { name, unit: Unit::Bytes, process: None });
        assert_eq!(live_over_time(&profile, 4), [0; 0]);
    }
}
