//! What changed between two profiles, or between several runs of each side.
//!
//! A difference is a claim. Counted numbers are compared exactly. Sampled numbers have an interval and a
//! verdict for each change, and rows within noise are undecided.

mod caveats;
mod chance;
mod focus;
mod matching;
mod moves;
mod paths;
mod renames;
mod rows;
mod runs;
mod several;
mod statistics;
mod totals;
mod verification;

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::{Metric, Origin, Profile, Unit};

pub use self::caveats::{Caveat, Which};
use self::chance::Chance;
pub use self::focus::Focus;
use self::matching::Item;
pub use self::moves::Move;
pub use self::paths::Paths;
pub use self::rows::Place;
use self::rows::{Row, functions, sites};
pub use self::runs::Runs;
pub use self::several::Ratio;
use self::several::Series;
pub use self::statistics::{Change, Claim, Estimate, Verdict, decide};
pub use self::totals::Total;
pub use self::verification::{Hot, Verification, Yours};
use crate::heap::is_heap_metric;
use crate::labels;
use crate::selection::Selection;

/// One of two profiles, and its samples to compare.
#[derive(Debug, Clone, Copy)]
pub struct Side<'p> {
    /// The profile.
    pub profile: &'p Profile,
    /// The selected samples. The metric must be the same on both sides.
    pub selection: &'p Selection,
}

impl<'p> Side<'p> {
    fn metric(&self) -> Option<&'p Metric> {
        self.profile.metrics.get(self.selection.metric.index())
    }
}

/// A function, or a line that allocates, on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiffRow {
    /// Its place in the profile before; `None` if it is not there.
    pub before: Option<Place>,
    /// Its place in the profile after.
    pub after: Option<Place>,
    /// The change of a function's self value, or of everything at a line.
    pub own: Change,
    /// The change of a function's total value; `None` for lines.
    pub total: Option<Change>,
    /// The change of a function's value with the library code that works for it; `None` for lines.
    pub charged: Option<Change>,
}

impl DiffRow {
    /// The change to report for your code: with the library code that works for it.
    pub fn yours(&self) -> &Change {
        self.charged.as_ref().unwrap_or(&self.own)
    }
}

/// A function that only one side has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Only {
    /// The function, or the first of its lines.
    pub place: Place,
    /// Its value: total of the function, or the sum of all its lines.
    pub value: u64,
    /// Whether that is more than noise.
    pub decided: bool,
}

/// The comparison of two sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// How many runs each side has.
    pub runs: usize,
    /// Whether both sides were counted, so no number has noise.
    pub counted: bool,
    /// Whether a side is of a simulated machine.
    pub simulated: bool,
    /// Whether rows are allocating lines, not functions.
    pub sites: bool,
    /// Metrics that both profiles have, in the order of the first.
    pub shared_metrics: Vec<String>,
    /// Totals of the whole recordings.
    pub totals: Vec<Total>,
    /// The rows: decided ones first, the largest difference first.
    pub rows: Vec<DiffRow>,
    /// Functions that the compiler now inlines into their callers, or no longer does.
    pub moves: Vec<Move>,
    /// Why the two may not be comparable.
    pub caveats: Vec<Caveat>,
}

impl Diff {
    /// Compares the selected samples of two profiles. Without `inline`, inlined functions are part of the
    /// function they were inlined into.
    pub fn build(before: Side<'_>, after: Side<'_>, inline: bool) -> Self {
        Self::of_runs(&Runs::new(vec![before]), &Runs::new(vec![after]), inline)
    }

    /// Compares an equal number of runs of each side, pair by pair. At least three pairs are needed to
    /// measure run-to-run noise.
    pub fn of_runs(before: &Runs<'_>, after: &Runs<'_>, inline: bool) -> Self {
        let unit = after.metric().or(before.metric()).map_or(Unit::Nanoseconds, |metric| metric.unit);
        let is_heap = is_heap_metric(before.first().profile, before.first().selection.metric);
        let [first, second] = [before, after].map(|runs| match is_heap {
            true => sites(runs, unit),
            false => functions(runs, inline),
        });
        let mut rows = joined(&first, &second, [before, after], inline);
        let moves = if is_heap { Vec::new() } else { moves::find(&mut rows, [before, after], inline) };
        let name = |row: &DiffRow| match (row.after, row.before) {
            (Some(place), _) => labels::name(&after.profile, place.label),
            (None, Some(place)) => labels::name(&before.profile, place.label),
            (None, None) => "".into(),
        };
        rows.sort_by(|a, b| {
            by_difference(&a.own, &b.own)
                .then_with(|| name(a).cmp(&name(b)))
                .then_with(|| line(a).cmp(&line(b)))
        });
        let name = before.metric().map_or("", |metric| before.first().profile.text(metric.name));
        Self {
            metric: name.to_owned(),
            unit,
            runs: before.count(),
            counted: before.chances.iter().chain(&after.chances).all(Chance::is_none),
            simulated: [before, after]
                .iter()
                .any(|runs| runs.metric().is_some_and(|metric| metric.origin == Origin::Simulated)),
            sites: is_heap,
            shared_metrics: shared_metrics(before.first().profile, after.first().profile),
            totals: totals::of_runs(before, after, unit),
            rows,
            moves,
            caveats: caveats::of_runs(before, after, is_heap),
        }
    }

    /// The functions that only one side has, with their values there, largest first. A sampled function may
    /// also have run on the other side without a sample.
    pub fn only(&self, which: Which) -> Vec<Only> {
        let here = |row: &DiffRow| match which {
            Which::Before => (row.before, row.own.before, row.total.map(|total| total.before)),
            Which::After => (row.after, row.own.after, row.total.map(|total| total.after)),
        };
        let in_both = self.rows.iter().filter(|row| row.before.is_some() && row.after.is_some());
        let in_both = in_both.filter_map(|row| Some(here(row).0?.label)).collect::<FxHashSet<_>>();
        let mut functions: Vec<Only> = Vec::new();
        let mut row_of = FxHashMap::default();
        for row in &self.rows {
            let (Some(place), own, total) = here(row) else { continue };
            if in_both.contains(&place.label) {
                continue;
            }
            let at = *row_of.entry(place.label).or_insert(functions.len());
            if at == functions.len() {
                functions.push(Only { place, value: 0, decided: false });
            }
            let function = &mut functions[at];
            function.value = function.value.saturating_add(total.unwrap_or(own));
            function.decided |= row.total.unwrap_or(row.own).verdict.is_claim();
        }
        functions.sort_by_key(|only| std::cmp::Reverse((only.decided, only.value)));
        functions
    }

    /// The rows of functions, ordered by the change of their total value.
    pub fn by_total(&self) -> Vec<&DiffRow> {
        let mut rows = self.rows.iter().filter(|row| row.total.is_some()).collect::<Vec<_>>();
        rows.sort_by(|a, b| match (&a.total, &b.total) {
            (Some(a), Some(b)) => by_difference(a, b),
            _ => std::cmp::Ordering::Equal,
        });
        rows
    }
}

/// The names of the metrics that both profiles have, in the order of the first.
pub fn shared_metrics(before: &Profile, after: &Profile) -> Vec<String> {
    let names = before.metrics.iter().map(|metric| (before.text(metric.name), metric.unit));
    let in_both = |(name, unit): &(&str, Unit)| {
        after.metrics.iter().any(|metric| after.text(metric.name) == *name && metric.unit == *unit)
    };
    names.filter(in_both).map(|(name, _)| name.to_owned()).collect()
}

/// Decided ones first, then the largest.
fn by_difference(a: &Change, b: &Change) -> std::cmp::Ordering {
    let key = |change: &Change| (change.verdict.is_claim(), change.difference().unsigned_abs());
    key(b).cmp(&key(a))
}

fn line(row: &DiffRow) -> [u32; 2] {
    [row.after, row.before].map(|place| place.map_or(0, |place| place.line))
}

/// Pairs the rows of both sides and judges all changes together.
fn joined(before: &[Row<'_>], after: &[Row<'_>], sides: [&Runs<'_>; 2], inline: bool) -> Vec<DiffRow> {
    let pairs = paired([before, after], sides, inline);
    let judge = |value: for<'r> fn(&'r Row<'_>) -> Option<&'r Vec<Estimate>>| {
        let series = |&(old, new): &matching::Pair| {
            let old = old.and_then(|row| value(&before[row]));
            let new = new.and_then(|row| value(&after[row]));
            filled(old, new, sides)
        };
        decided(&pairs.iter().map(series).collect::<Vec<_>>(), sides[0].mean_whole())
    };
    let own = judge(|row| Some(&row.own));
    let total = judge(|row| row.total.as_ref());
    let charged = judge(|row| row.charged.as_ref());
    let has_totals = before.iter().chain(after).any(|row| row.total.is_some());
    let changes = own.into_iter().zip(total).zip(charged);
    let rows = pairs.iter().zip(changes).map(|(&(old, new), ((own, total), charged))| DiffRow {
        before: old.map(|row| before[row].place),
        after: new.map(|row| after[row].place),
        own,
        total: has_totals.then_some(total),
        charged: has_totals.then_some(charged),
    });
    rows.collect()
}

/// The rows of both sides that belong together.
fn paired(rows: [&[Row<'_>]; 2], sides: [&Runs<'_>; 2], inline: bool) -> Vec<matching::Pair> {
    let [before, after] = rows.map(|rows| rows.iter().map(|row| row.item.clone()).collect::<Vec<Item<'_>>>());
    let mut pairs = matching::pair(&before, &after);
    if rows.iter().copied().flatten().any(|row| row.total.is_some()) {
        renames::join(&mut pairs, rows, sides, inline);
    }
    pairs
}

/// The estimates of both sides; a side without the row has 0 in every run.
fn filled(before: Option<&Vec<Estimate>>, after: Option<&Vec<Estimate>>, sides: [&Runs<'_>; 2]) -> Series {
    let nothing = |own: usize, there: Option<&Vec<Estimate>>| {
        let [own, other] = [sides[own], sides[1 - own]];
        let runs = own.chances.iter().zip(&other.chances).enumerate();
        let estimate = |(run, (own, other)): (usize, (&Chance, &Chance))| {
            let grain = own.grain_of_nothing(other, there.map_or(0.0, |there| there[run].grain));
            Estimate { value: 0, grain }
        };
        runs.map(estimate).collect::<Vec<_>>()
    };
    Series {
        before: before.cloned().unwrap_or_else(|| nothing(0, after)),
        after: after.cloned().unwrap_or_else(|| nothing(1, before)),
    }
}

/// Judges rows together, by one run of each side or by several.
fn decided(rows: &[Series], whole: f64) -> Vec<Change> {
    let single = |row: &Series| match (&row.before[..], &row.after[..]) {
        (&[before], &[after]) => Some(Claim::of(before, after)),
        _ => None,
    };
    match rows.iter().map(single).collect::<Option<Vec<_>>>() {
        Some(claims) => decide(&claims),
        None => several::decide(rows, whole),
    }
}

#[cfg(test)]
mod tests;
