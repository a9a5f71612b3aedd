//! Ratios of CPU counters per function.
//!
//! ```text
//! IPC  = instructions / cycles              of the same samples' functions
//! MPKI = misses / instructions · 1000       of each event whose name contains "miss"
//! ```

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, Unit};

use crate::counting::is_counted;
use crate::functions::{FunctionTable, SortBy};
use crate::labels::Label;
use crate::own::{Charges, OwnTable};
use crate::selection::Selection;

/// The ratio of two events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Its value.
    pub value: f64,
    /// Its standard error, from the number of samples of both events.
    pub error: f64,
}

impl Ratio {
    /// Whether there are enough samples for a number.
    pub fn is_known(self) -> bool {
        1.96 * self.error < self.value
    }
}

/// A column of ratios.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RatioKind {
    /// Instructions per cycle.
    Ipc,
    /// An event per thousand instructions, by the name of its metric.
    PerThousandInstructions(String),
}

/// The ratios of a table's functions; without columns if the profile lacks the counters.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Ratios {
    /// The columns.
    pub columns: Vec<RatioKind>,
    /// The ratios of everything selected, in column order.
    pub whole: Vec<Option<Ratio>>,
    rows: FxHashMap<Label, Vec<Option<Ratio>>>,
}

/// A value and its number of samples.
type Part = (u64, u64);

impl Ratios {
    /// By own value: functions of your code with everything they call that is not your code.
    pub fn own(profile: &Profile, selection: &Selection, inline: bool) -> Self {
        Self::build(profile, selection, |selection| {
            let charges = Charges::of_metric(profile, inline, selection.metric);
            let weights = selection.weigh(profile);
            let table = OwnTable::build(profile, &weights, &charges);
            let rows = table.rows.iter().map(|row| (row.label, (row.own_value, row.own_samples)));
            (rows.collect(), (weights.total_value, weights.total_count))
        })
    }

    /// By self or total value of functions.
    pub fn functions(profile: &Profile, selection: &Selection, inline: bool, by: SortBy) -> Self {
        Self::build(profile, selection, |selection| {
            let table = FunctionTable::build(profile, selection, inline, by);
            let rows = table.rows.iter().map(|row| match by {
                SortBy::SelfValue => (row.label, (row.self_value, row.self_samples)),
                SortBy::Total => (row.label, (row.total_value, row.total_samples)),
            });
            (rows.collect(), (table.total_value, table.total_samples))
        })
    }

    fn build(
        profile: &Profile,
        selection: &Selection,
        parts: impl Fn(&Selection) -> (FxHashMap<Label, Part>, Part),
    ) -> Self {
        let named = |is: &dyn Fn(&str) -> bool| {
            let rows = profile.metric_ids().zip(&profile.metrics);
            let rows = rows.filter(|(_, row)| row.unit == Unit::Count && is(plain(profile.text(row.name))));
            rows.map(|(metric, _)| metric).collect::<Vec<_>>()
        };
        let [instructions, ..] = named(&|name| name == "instructions")[..] else { return Self::default() };
        let cycles = named(&|name| matches!(name, "cycles" | "cpu-cycles")).first().copied();
        let misses = named(&|name| name.contains("miss"));
        if cycles.is_none() && misses.is_empty() {
            return Self::default();
        }
        let of = |metric| {
            let parts = parts(&Selection { metric, ..selection.clone() });
            if is_counted(profile, metric) { exact(parts) } else { parts }
        };
        let below = of(instructions);
        let mut ratios = Self::default();
        if let Some(cycles) = cycles {
            ratios.add(RatioKind::Ipc, &below, &of(cycles), 1.0);
        }
        for metric in misses {
            let name = profile.text(profile.metrics[metric.index()].name).to_owned();
            ratios.add(RatioKind::PerThousandInstructions(name), &of(metric), &below, 1000.0);
        }
        ratios
    }

    fn add(
        &mut self,
        kind: RatioKind,
        above: &(FxHashMap<Label, Part>, Part),
        below: &(FxHashMap<Label, Part>, Part),
        scale: f64,
    ) {
        let column = self.columns.len();
        self.columns.push(kind);
        self.whole.push(ratio(above.1, below.1, scale));
        for (label, below) in &below.0 {
            let above = above.0.get(label).copied().unwrap_or((0, 0));
            let row = self.rows.entry(*label).or_default();
            row.resize(column, None);
            row.push(ratio(above, *below, scale));
        }
    }

    /// The ratios of a function, in column order.
    pub fn of(&self, label: Label) -> impl Iterator<Item = Option<Ratio>> + '_ {
        let row = self.rows.get(&label);
        (0..self.columns.len()).map(move |column| row?.get(column).copied().flatten())
    }
}

/// Counts have no error: as if there were very many samples.
fn exact((mut rows, mut whole): (FxHashMap<Label, Part>, Part)) -> (FxHashMap<Label, Part>, Part) {
    for part in rows.values_mut().chain([&mut whole]).filter(|part| part.1 > 0) {
        part.1 = u64::MAX;
    }
    (rows, whole)
}

fn ratio(above: Part, below: Part, scale: f64) -> Option<Ratio> {
    let ((above, above_samples), (below, below_samples)) = (above, below);
    if below == 0 || below_samples == 0 {
        return None;
    }
    let value = above as f64 / below as f64 * scale;
    let relative = (1.0 / above_samples.max(1) as f64 + 1.0 / below_samples as f64).sqrt();
    Some(Ratio { value, error: value * relative })
}

/// `cycles` for `cycles:u`, `cpu/cycles/` and `cpu_core/cycles/u`.
fn plain(name: &str) -> &str {
    let inner = name.split(':').next().unwrap_or(name);
    inner.split('/').nth(1).unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Origin, Sampler};

    use super::*;
    use crate::testing;

    /// Two functions; `fast` has 3 instructions per cycle and no misses, `slow` 0.5 and 40 per thousand
    /// instructions.
    fn counted() -> Profile {
        let mut profile = testing::profile("main;fast 100\nmain;slow 100");
        let sampled = Origin::Sampled(Sampler::default());
        let by = |fast, slow| move |name: &str| if name == "fast" { fast } else { slow };
        testing::add_event(&mut profile, "cycles:u", sampled, by(100, 200));
        testing::add_event(&mut profile, "cpu/instructions/u", sampled, by(300, 100));
        testing::add_event(&mut profile, "LLC-load-misses", sampled, by(0, 4));
        profile
    }

    fn named(profile: &Profile, ratios: &Ratios, name: &str) -> Vec<Option<f64>> {
        let table = FunctionTable::build(profile, &Selection::default(), true, SortBy::SelfValue);
        let row = table.rows.iter().find(|row| crate::labels::name(profile, row.label) == name).unwrap();
        ratios.of(row.label).map(|ratio| ratio.map(|ratio| (ratio.value * 1000.0).round() / 1000.0)).collect()
    }

    #[test]
    fn functions_have_ipc_and_misses() {
        let profile = counted();
        let by_self = Ratios::functions(&profile, &Selection::default(), true, SortBy::SelfValue);
        let misses = RatioKind::PerThousandInstructions("LLC-load-misses".to_owned());
        assert_eq!(by_self.columns, [RatioKind::Ipc, misses]);
        assert_eq!(named(&profile, &by_self, "fast"), [Some(3.0), Some(0.0)]);
        assert_eq!(named(&profile, &by_self, "slow"), [Some(0.5), Some(40.0)]);
        assert_eq!(named(&profile, &by_self, "main"), [None, None], "nothing ran in itself");
        let total = Ratios::functions(&profile, &Selection::default(), true, SortBy::Total);
        assert_eq!(named(&profile, &total, "main"), [Some(1.333), Some(10.0)]);
        let own = Ratios::own(&profile, &Selection::default(), true);
        assert_eq!(own.whole[0].map(|ratio| ratio.value), Some(40.0 / 30.0));
        assert_eq!(named(&profile, &own, "slow"), [Some(0.5), Some(40.0)]);
    }

    #[test]
    fn too_few_samples_give_no_ratio() {
        let ratio = |samples| ratio((1000, samples), (1000, samples), 1.0).unwrap();
        assert!(!ratio(1).is_known() && !ratio(7).is_known() && ratio(8).is_known());
        assert_eq!(super::ratio((5, 5), (0, 0), 1.0), None);
        assert!(!super::ratio((0, 0), (5000, 50), 1000.0).unwrap().is_known());
    }

    #[test]
    fn ratios_of_counts_are_known_with_few_rows() {
        let mut profile = testing::profile("main;fast 1");
        testing::add_event(&mut profile, "instructions", Origin::Simulated, |_| 1000);
        testing::add_event(&mut profile, "D1-misses", Origin::Simulated, |_| 5);
        let ratio = Ratios::own(&profile, &Selection::default(), true).whole[0].unwrap();
        assert!(ratio.is_known() && (ratio.value - 5.0).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn without_counters_there_are_no_ratios() {
        let profile = testing::profile("main;a 1");
        assert_eq!(Ratios::own(&profile, &Selection::default(), true), Ratios::default());
    }
}
