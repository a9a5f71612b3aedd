//! Live bytes at any time: what was allocated until then, minus what was freed.

use rustc_hash::FxHashMap;
use whyslow_profile::heap::{counter, metric};
use whyslow_profile::{Counter, Metric, ProcessId, Profile, Samples, ThreadId, Unit};

use super::profile_facts::samples_of;

/// The name of the metric that [`live_at`] computes.
pub const LIVE: &str = "live";

/// The metric [`LIVE`]: live bytes at a time, per thread and stack that allocated them; `None` if the profile
/// has no heap timeline. A process that exited or executed another program has none.
///
/// Times are those of the timeline's buckets: a bucket that has started counts in full.
pub fn live_at(profile: &Profile, at_ns: u64) -> Option<(Metric<&'static str>, Samples)> {
    let allocated = samples_of(profile, metric::BYTES_ALLOCATED)?;
    let mut gave_back = ends_of_memory(profile);
    gave_back.values_mut().for_each(|times| times.retain(|time| *time <= at_ns));
    let is_of_ended = |thread: ThreadId, time: u64| {
        let last = gave_back.get(&profile.threads[thread.index()].process).and_then(|times| times.last());
        last.is_some_and(|end| time <= *end)
    };
    let mut row_of = FxHashMap::default();
    let mut rows: Vec<(u64, u64)> = Vec::new();
    let mut keys = Vec::new();
    let mut add = |samples: &Samples, to: fn(&mut (u64, u64)) -> &mut u64| {
        for row in (0..samples.len()).filter(|&row| samples.time_ns[row] <= at_ns) {
            if is_of_ended(samples.thread[row], samples.time_ns[row]) {
                continue;
            }
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
        // Blocks from before the recording are freed but were never allocated.
        let bytes = allocated.saturating_sub(freed);
        if bytes > 0 {
            live.push(at_ns, thread, stack, bytes);
        }
    }
    Some((Metric::of_name(LIVE, Unit::Bytes), live))
}

/// The live bytes in each of this many equal intervals of a recording without a timeline, from the counter of
/// its process; empty if there were several processes.
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

/// When processes released all their memory because they exited or executed another program: by process, in
/// time order. The counter of their live bytes is 0 then, and has no later value.
fn ends_of_memory(profile: &Profile) -> FxHashMap<ProcessId, Vec<u64>> {
    let mut last: FxHashMap<usize, (u64, i64)> = FxHashMap::default();
    let values = &profile.counter_values;
    for ((counter, &time), &value) in values.counter.iter().zip(&values.time_ns).zip(&values.value) {
        let latest = last.entry(counter.index()).or_insert((time, value));
        if time >= latest.0 {
            *latest = (time, value);
        }
    }
    let mut ends: FxHashMap<ProcessId, Vec<u64>> = FxHashMap::default();
    for (index, row) in profile.counters.iter().enumerate() {
        if profile.text(row.name) == counter::LIVE
            && let (Some(process), Some(&(time, 0))) = (row.process, last.get(&index))
        {
            ends.entry(process).or_default().push(time);
        }
    }
    ends.values_mut().for_each(|times| times.sort_unstable());
    ends
}

/// A change to the live bytes of a process, ordered as they apply at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// They rise or fall.
    By(i128),
    /// The process releases all of them.
    ToNothing,
}

/// The maximum of live bytes in each of this many equal intervals of the recording; empty without a timeline.
pub fn live_over_time(profile: &Profile, stretches: usize) -> Vec<u64> {
    if profile.meta.heap.as_ref().is_some_and(|facts| facts.snapshot.is_some()) {
        return counted_over_time(profile, stretches);
    }
    let Some(allocated) = samples_of(profile, metric::BYTES_ALLOCATED) else { return Vec::new() };
    let mut changes: Vec<(u64, bool, ProcessId, Change)> = Vec::new();
    let mut add = |samples: &Samples, sign: i128| {
        for ((&time, &value), thread) in samples.time_ns.iter().zip(&samples.value).zip(&samples.thread) {
            let process = profile.threads[thread.index()].process;
            changes.push((time, false, process, Change::By(sign * i128::from(value))));
        }
    };
    add(allocated, 1);
    if let Some(freed) = samples_of(profile, metric::BYTES_FREED) {
        add(freed, -1);
    }
    for (process, times) in ends_of_memory(profile) {
        changes.extend(times.into_iter().map(|time| (time, true, process, Change::ToNothing)));
    }
    changes.sort_unstable();
    let Some(&(last, ..)) = changes.last() else { return Vec::new() };
    let end = u128::from(profile.meta.duration_ns.max(last)) + 1;
    let (mut live, mut of_process) = (0i128, FxHashMap::<ProcessId, i128>::default());
    let mut changes = changes.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).peekable();
    let stretch_of = |time: u64| (u128::from(time) * stretches as u128 / end) as usize;
    (0..stretches)
        .map(|stretch| {
            let mut most = live;
            while let Some(now) = changes.next_if(|now| stretch_of(now[0].0) <= stretch) {
                for &(_, _, process, change) in now {
                    let its = of_process.entry(process).or_default();
                    let change = match change {
                        Change::By(change) => change,
                        Change::ToNothing => -*its,
                    };
                    *its += change;
                    live += change;
                }
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

    fn live_after(ms: u64) -> u64 {
        total(&live_at(&program(), ms * MS))
    }

    fn total(live: &Option<(Metric<&str>, Samples)>) -> u64 {
        live.as_ref().unwrap().1.value.iter().sum()
    }

    #[test]
    fn live_bytes_are_allocated_minus_freed() {
        assert_eq!([5, 10, 25, 30, 49, 50, 99].map(live_after), [0, 100, 107, 147, 147, 87, 87]);
    }

    #[test]
    fn live_bytes_belong_to_the_allocating_thread() {
        let mut profile = program();
        let (metric, samples) = live_at(&profile, 60 * MS).unwrap();
        let metric = profile.set_metric(metric, samples);
        let selection =
            Selection { metric, threads: vec!["worker".parse().unwrap()], ..Selection::default() };
        assert_eq!(selection.weigh(&profile).total_value, 40);
    }

    #[test]
    fn more_freed_than_allocated_is_zero() {
        let profile = testing::heap_profile(
            "main;old : bytes_freed=500 freed_ms=1\nmain;new : bytes_allocated=30 made_ms=1",
        );
        assert_eq!(live_at(&profile, MS).unwrap().1.value, [30]);
        assert_eq!(live_over_time(&profile, 3).last(), Some(&0));
    }

    #[test]
    fn a_profile_without_a_heap_has_no_live_bytes() {
        assert_eq!(live_at(&testing::profile("main 1"), MS), None);
    }

    #[test]
    fn live_over_time_has_the_maximum_of_each_interval() {
        let mut profile = program();
        profile.meta.duration_ns = 100 * MS - 1;
        assert_eq!(live_over_time(&profile, 10), [0, 100, 107, 147, 147, 147, 87, 87, 87, 87]);
        assert_eq!(live_over_time(&profile, 1), [147]);
        assert_eq!(live_over_time(&testing::profile("main 3"), 4), [0; 0]);
    }

    /// The first thread's process ends at 40 ms with 100 bytes, and the program that it executes has 7.
    #[test]
    fn exited_or_replaced_process_has_no_live_bytes() {
        let mut profile = testing::heap_profile(
            "main;load : bytes_allocated=100 made_ms=10
             main;next : bytes_allocated=7 made_ms=60",
        );
        profile.meta.duration_ns = 100 * MS - 1;
        let name = profile.strings.push(counter::LIVE);
        let process = Some(profile.threads[0].process);
        for (counter, values) in [(0, [(10, 100), (40, 100), (40, 0)]), (1, [(60, 7), (70, 7), (99, 7)])] {
            profile.counters.push(Counter { name, unit: Unit::Bytes, process });
            for (ms, value) in values {
                profile.counter_values.push(CounterId(counter), ms * MS, value);
            }
        }
        assert_eq!(live_over_time(&profile, 10), [0, 100, 100, 100, 100, 0, 7, 7, 7, 7]);
        let live = [39, 40, 60].map(|ms| total(&live_at(&profile, ms * MS)));
        assert_eq!(live, [100, 0, 7]);
    }

    #[test]
    fn snapshot_uses_the_counter_over_time() {
        let mut profile = program();
        profile.meta.duration_ns = 100 * MS - 1;
        profile.meta.heap.as_mut().unwrap().snapshot =
            Some(HeapSnapshot { pid: 1, time_ns: whyslow_profile::ProfileNs(100 * MS) });
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
