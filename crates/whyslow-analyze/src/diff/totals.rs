//! Totals, before and after.

use whyslow_profile::{HeapCounts, LeakCheck, Profile, Unit};

use super::chance::Chance;
use super::runs::{Runs, merged_runs};
use super::statistics::{Change, Claim, Verdict, decide};
use super::{Side, several};
use crate::heap::is_heap_only;

/// A total of the whole recording, or of the selected samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// The name of a metric, or words with dashes such as `wall-time`.
    pub what: String,
    /// Its unit.
    pub unit: Unit,
    /// The number on both sides.
    pub change: Change,
}

/// A heap total, and the metric that has it per stack.
struct OfHeap {
    what: &'static str,
    unit: Unit,
    of: fn(&HeapCounts) -> u64,
    /// Whether it is known without a leak check.
    always: bool,
}

const fn always(what: &'static str, unit: Unit, of: fn(&HeapCounts) -> u64) -> OfHeap {
    OfHeap { what, unit, of, always: true }
}

const fn leaked(what: &'static str, of: fn(&HeapCounts) -> u64) -> OfHeap {
    OfHeap { what, unit: Unit::Bytes, of, always: false }
}

const HEAP: [OfHeap; 12] = [
    always("allocations", Unit::Count, |counts| counts.allocations),
    always("frees", Unit::Count, |counts| counts.frees),
    always("temporary-allocations", Unit::Count, |counts| counts.temporary),
    always("bytes-allocated", Unit::Bytes, |counts| counts.bytes_allocated),
    always("bytes-copied", Unit::Bytes, |counts| counts.bytes_copied),
    always("live-at-peak", Unit::Bytes, |counts| counts.peak_bytes),
    always("live-at-exit", Unit::Bytes, |counts| counts.live_at_exit_bytes),
    leaked("definitely-lost", |counts| counts.definitely_lost_bytes),
    leaked("indirectly-lost", |counts| counts.indirectly_lost_bytes),
    leaked("possibly-lost", |counts| counts.possibly_lost_bytes),
    leaked("still-reachable", |counts| counts.reachable_bytes),
    leaked("suppressed", |counts| counts.suppressed_bytes),
];

/// The totals of several runs of each side, over all pairs.
pub(super) fn of_runs(before: &Runs<'_>, after: &Runs<'_>, unit: Unit) -> Vec<Total> {
    let selected = |run: usize| {
        let [before, after] = [before, after].map(|runs| runs.chances[run].whole(&runs.weights[run], unit));
        Change::of(before, after)
    };
    let pairs = before.sides.iter().zip(&after.sides).enumerate();
    let mut pairs =
        pairs.map(|(run, (before, after))| of(*before, *after, selected(run))).collect::<Vec<_>>();
    let mut totals = pairs.remove(0);
    if pairs.is_empty() {
        return totals;
    }
    let metric = after.metric().map_or("", |metric| after.first().profile.text(metric.name));
    let sampled = !after.chances.iter().all(Chance::is_none);
    // A total that one of the runs lacks cannot be compared.
    totals.retain(|total| pairs.iter().all(|pair| pair.iter().any(|other| other.what == total.what)));
    for total in &mut totals {
        let others = pairs.iter().flatten().filter(|other| other.what == total.what);
        let changes = std::iter::once(total.change).chain(others.map(|other| other.change));
        let (before, after): (Vec<u64>, Vec<u64>) =
            changes.map(|change| (change.before, change.after)).unzip();
        total.change = several::whole(&before, &after);
        if total.unit == Unit::Nanoseconds {
            total.change = several::unless_tiny(total.change);
        }
        // Equal sample counts are noise too.
        if total.change.verdict == Verdict::Same && total.what == metric && sampled {
            total.change.verdict = Verdict::Undecided;
        }
    }
    totals
}

/// The selected metric, whose change is known. If everything is selected, also the other totals of both
/// recordings.
fn of(before: Side<'_>, after: Side<'_>, selected: Change) -> Vec<Total> {
    let metric = before.metric().map_or("", |metric| before.profile.text(metric.name));
    let unit = before.metric().map_or(Unit::Nanoseconds, |metric| metric.unit);
    let mut totals = Vec::new();
    if before.selection.is_everything() && after.selection.is_everything() {
        totals = heap(before.profile, after.profile);
        totals.extend(accounted(before.profile, after.profile));
    }
    if totals.iter().all(|total| total.what != metric) {
        totals.insert(0, Total { what: metric.to_owned(), unit, change: selected });
    }
    totals
}

/// Times from the kernel's accounting. A program runs slower while its heap is recorded: those times are left
/// out.
fn accounted(before: &Profile, after: &Profile) -> Vec<Total> {
    let (first, second) = (&before.meta, &after.meta);
    let per_run = |profile: &Profile, ns: u64| ns / merged_runs(profile);
    let timed = ![before, after].into_iter().any(is_heap_only);
    [
        (
            "wall-time",
            Unit::Nanoseconds,
            per_run(before, first.duration_ns),
            per_run(after, second.duration_ns),
        ),
        (
            "user-time",
            Unit::Nanoseconds,
            per_run(before, first.user_time_ns),
            per_run(after, second.user_time_ns),
        ),
        (
            "system-time",
            Unit::Nanoseconds,
            per_run(before, first.system_time_ns),
            per_run(after, second.system_time_ns),
        ),
        ("resident-at-most", Unit::Bytes, first.max_resident_bytes, second.max_resident_bytes),
    ]
    .into_iter()
    .filter(|(_, unit, ..)| timed || *unit != Unit::Nanoseconds)
    // 0 means unknown.
    .filter(|(.., before, after)| *before > 0 && *after > 0)
    .map(|(what, unit, before, after)| Total {
        what: what.to_owned(),
        unit,
        change: Change::of_one_run(before, after),
    })
    .collect()
}

fn heap(before: &Profile, after: &Profile) -> Vec<Total> {
    let (Some(first), Some(second)) = (&before.meta.heap, &after.meta.heap) else { return Vec::new() };
    let checked = [first, second]
        .iter()
        .all(|facts| matches!(facts.leaks, LeakCheck::AtExit | LeakCheck::AtSnapshot(_)));
    let sides = [before, after].map(|profile| (profile, Chance::of_heap(profile)));
    let numbers = HEAP.iter().filter(|number| number.always || checked).collect::<Vec<_>>();
    let claims = numbers.iter().map(|number| {
        let [before, after] = [0, 1].map(|side: usize| {
            let (profile, chance) = &sides[side];
            let stacks = profile.heap.sites.iter().map(|site| (site.stack, (number.of)(&site.counts)));
            chance.sum(stacks, number.unit)
        });
        Claim::of(before, after)
    });
    let changes = decide(&claims.collect::<Vec<_>>());
    let total = |(number, change): (&OfHeap, Change)| Total {
        what: number.what.to_owned(),
        unit: number.unit,
        change,
    };
    numbers.into_iter().zip(changes).map(total).collect()
}
