//! How the cost of functions grows with the size of the input, from recordings of several sizes.
//!
//! Cost is charged to your functions, with everything they call that is not your code: a search in a list
//! belongs to the function that searches. A helper with many callers grows as a mixture of them, so functions
//! are also judged by their total. Functions are matched by name.

use rustc_hash::FxHashMap;
use whyslow_profile::{Metric, Profile, StackId};
use whyslow_stats::growth::{Cost, Exponent, Shapes, exponent, projected, shapes};
use whyslow_stats::mean;
use whyslow_stats::pairs::Interval;

use crate::functions::{FunctionTable, SortBy};
use crate::labels::{self, Label};
use crate::own::{Charges, Nearness, OwnTable, frames_of};
use crate::selection::{Selection, Weights};

/// With fewer samples at the largest size a function is not judged.
const MIN_SAMPLES: f64 = 5.0;
/// The factor by which the predicted input is larger.
pub const FURTHER: f64 = 10.0;

/// The data kept from one recording.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The size of its input.
    pub size: f64,
    /// Its total, in samples or in what is counted.
    pub whole: f64,
    /// The own value of each function.
    functions: FxHashMap<String, Part>,
    /// The total value of each of your functions.
    totals: FxHashMap<String, Part>,
    /// Your functions on each stack, from the outside in, and the cost of the stack.
    paths: Vec<(Vec<String>, f64)>,
    /// Totals of the run, by name.
    pub numbers: Vec<(String, f64)>,
}

#[derive(Debug, Clone)]
struct Part {
    value: f64,
    place: Option<(String, u32)>,
}

impl Observed {
    /// From a recording, by one of its metrics, with other totals of the run.
    pub fn of(profile: &Profile, selection: &Selection, size: f64, numbers: Vec<(String, f64)>) -> Self {
        let weights = selection.weigh(profile);
        let metric = profile.metrics.get(selection.metric.index());
        // What one sample stands for; counted values stand for themselves.
        let grain = match metric {
            Some(metric) if is_sampled(metric) => {
                weights.total_value as f64 / weights.total_count.max(1) as f64
            }
            _ => 1.0,
        };
        let grain = if grain > 0.0 { grain } else { 1.0 };
        let charges = Charges::of_metric(profile, true, selection.metric);
        let table = OwnTable::build(profile, &weights, &charges);
        let mut functions: FxHashMap<String, Part> = FxHashMap::default();
        for row in table.rows.iter().filter(|row| row.own_value > 0) {
            let name = labels::name(profile, row.label).into_owned();
            let place = row.line.map(|line| (profile.text(line.file).to_owned(), line.line));
            let part = functions.entry(name).or_insert(Part { value: 0.0, place });
            part.value += row.own_value as f64 / grain;
        }
        let table = FunctionTable::from_weights(profile, &weights, true, SortBy::SelfValue);
        let mut totals: FxHashMap<String, Part> = FxHashMap::default();
        let is_own = |row: &&crate::functions::FunctionRow| Nearness::of(profile, row.label) == Nearness::Own;
        for row in table.rows.iter().filter(is_own).filter(|row| row.total_value > 0) {
            let name = labels::name(profile, row.label).into_owned();
            let place = functions.get(&name).and_then(|part| part.place.clone());
            let place = place.or_else(|| definition(profile, row.label));
            let part = totals.entry(name).or_insert(Part { value: 0.0, place });
            // Of two functions that look the same to a reader, one may call the other.
            part.value = part.value.max(row.total_value as f64 / grain);
        }
        let paths = paths(profile, &weights, grain);
        Self { size, whole: weights.total_value as f64 / grain, functions, totals, paths, numbers }
    }
}

/// Your functions on each stack with a cost, each once.
fn paths(profile: &Profile, weights: &Weights, grain: f64) -> Vec<(Vec<String>, f64)> {
    let mut sums: FxHashMap<Vec<Label>, f64> = FxHashMap::default();
    for stack in (0..weights.value.len()).filter(|stack| weights.value[*stack] > 0) {
        let mut path: Vec<Label> = Vec::new();
        for frame in frames_of(profile, StackId::from(stack)) {
            if Nearness::of(profile, frame.label) == Nearness::Own && !path.contains(&frame.label) {
                path.push(frame.label);
            }
        }
        // Stacks are walked from the inside out.
        path.reverse();
        *sums.entry(path).or_default() += weights.value[stack] as f64 / grain;
    }
    let named = |(path, value): (Vec<Label>, f64)| {
        (path.into_iter().map(|label| labels::name(profile, label).into_owned()).collect(), value)
    };
    sums.into_iter().map(named).collect()
}

/// Where a function is defined.
fn definition(profile: &Profile, label: Label) -> Option<(String, u32)> {
    let Label::Function(id) = label else { return None };
    let function = profile.functions.get(id.index())?;
    Some((profile.text(function.file?).to_owned(), function.line))
}

fn is_sampled(metric: &Metric) -> bool {
    !matches!(metric.origin, whyslow_profile::Origin::Counted | whyslow_profile::Origin::Simulated)
}

/// The growth of a function or a total.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    /// Its name.
    pub name: String,
    /// Its hottest line at the largest size: file and line.
    pub place: Option<(String, u32)>,
    /// Every run: size and cost.
    pub costs: Vec<Cost>,
    /// The mean cost at the largest size.
    pub at_top: f64,
    /// Its share there.
    pub share: f64,
    /// The exponent; `None` with too few samples.
    pub exponent: Option<Exponent>,
    /// The shapes that fit; `None` with too few samples.
    pub shapes: Option<Shapes>,
    /// Its predicted share at ten times the largest size; `None` if it or the rest of the program follows no shape.
    pub projected_share: Option<Interval>,
}

impl Grown {
    fn of(name: String, place: Option<(String, u32)>, costs: Vec<Cost>) -> Self {
        let top = costs.iter().map(|cost| cost.size).fold(0.0, f64::max);
        let there = costs.iter().filter(|cost| cost.size == top).map(|cost| cost.value).collect::<Vec<_>>();
        let (exponent, shapes) = (exponent(&costs), shapes(&costs));
        Self { name, place, at_top: mean(&there), share: 0.0, exponent, shapes, projected_share: None, costs }
    }

    /// Its predicted cost at ten times the largest size.
    fn projected(&self) -> Option<Interval> {
        let top = self.costs.iter().map(|cost| cost.size).fold(0.0, f64::max);
        projected(&self.costs, self.exponent.as_ref()?, self.shapes.as_ref()?, top * FURTHER)
    }

    /// What rows are ordered by: the predicted share, or the one of today.
    fn importance(&self) -> f64 {
        self.projected_share.map_or(self.share, |share| share.estimate)
    }

    /// Whether it certainly grows faster than n log n. A jump is no growth.
    pub fn is_steep(&self) -> bool {
        let jumps = matches!(self.shapes, Some(Shapes::Cliff(_)));
        !jumps && self.exponent.is_some_and(|exponent| exponent.is_steep())
    }
}

/// The predicted share of the stacks that `is_in` selects. Steep functions are predicted on their own: the sum of a
/// linear and a small cubic part looks linear.
fn projected_share(
    observed: &[Observed],
    whole: f64,
    steep: &[String],
    is_in: impl Fn(&[String]) -> bool,
) -> Option<Interval> {
    /// A smaller part is taken for linear.
    const SMALL: f64 = 0.02;
    let part = |inside: bool, of: Option<&String>| {
        let is_part =
            |path: &[String]| is_in(path) == inside && steep.iter().find(|name| path.contains(name)) == of;
        let cost = |one: &Observed| {
            let values = one.paths.iter().filter(|(path, _)| is_part(path)).map(|(_, value)| value);
            Cost { size: one.size, value: values.sum() }
        };
        let part = Grown::of(String::new(), None, observed.iter().map(cost).collect());
        let linear = part.at_top * FURTHER;
        let linear = Interval { estimate: linear, low: linear, high: linear };
        match part.at_top < SMALL * whole {
            true if of.is_none() || part.at_top < MIN_SAMPLES => Some(linear),
            true => part.projected().or(Some(linear)),
            false => part.projected(),
        }
    };
    let sum = |inside: bool| {
        let parts = std::iter::once(None).chain(steep.iter().map(Some)).map(|of| part(inside, of));
        parts.collect::<Option<Vec<_>>>().map(|parts| sum_of(&parts))
    };
    sum(true).zip(sum(false)).map(|(own, rest)| share_of(own, rest))
}

/// The sum of independent predictions.
fn sum_of(parts: &[Interval]) -> Interval {
    let estimate = parts.iter().map(|part| part.estimate).sum::<f64>();
    let width = |of: fn(&Interval) -> f64| parts.iter().map(|part| of(part).powi(2)).sum::<f64>().sqrt();
    let low = (estimate - width(|part| part.estimate - part.low)).max(0.0);
    Interval { estimate, low, high: estimate + width(|part| part.high - part.estimate) }
}

/// The share of one cost in the sum of two: the intervals of both are combined on the scale of ln(own / rest).
fn share_of(own: Interval, rest: Interval) -> Interval {
    let ln = |value: f64| value.max(1e-9).ln();
    let share = |odds: f64| 1.0 / (1.0 + (-odds).exp());
    let odds = ln(own.estimate) - ln(rest.estimate);
    let up = (ln(own.high) - ln(own.estimate)).hypot(ln(rest.estimate) - ln(rest.low));
    let down = (ln(own.estimate) - ln(own.low)).hypot(ln(rest.high) - ln(rest.estimate));
    Interval { estimate: share(odds), low: share(odds - down), high: share(odds + up) }
}

/// The growth of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The name of the metric.
    pub metric: String,
    /// Whether its values are samples.
    pub sampled: bool,
    /// The sizes, in order.
    pub sizes: Vec<f64>,
    /// The number of runs of each size.
    pub runs: usize,
    /// The whole.
    pub whole: Grown,
    /// Functions, by their share at ten times the largest size.
    pub functions: Vec<Grown>,
    /// Your functions that call others, by total value.
    pub with_callees: Vec<Grown>,
    /// The number of functions with too few samples, and their share at the largest size.
    pub too_few: (usize, f64),
    /// Other totals of the run.
    pub numbers: Vec<Grown>,
    /// Functions that certainly grow faster than n log n, except those that only call such a function.
    steep: Vec<String>,
}

impl Growth {
    /// From recordings of several sizes, in any order.
    pub fn of(metric: String, sampled: bool, observed: &[Observed]) -> Self {
        let mut sizes = observed.iter().map(|one| one.size).collect::<Vec<_>>();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let cost = |one: &Observed, value: f64| Cost { size: one.size, value };
        let whole = observed.iter().map(|one| cost(one, one.whole)).collect();
        let mut whole = Grown::of("the whole program".to_owned(), None, whole);
        whole.share = 1.0;
        whole.projected_share = whole.projected().map(|_| Interval { estimate: 1.0, low: 1.0, high: 1.0 });
        let (mut functions, few) = rows(observed, &sizes, |one| &one.functions);
        let too_few = (few.0, few.1 / whole.at_top.max(f64::MIN_POSITIVE));
        let (mut with_callees, _) = rows(observed, &sizes, |one| &one.totals);
        // A function that calls no other of your functions is already among `functions`.
        let is_leaf = |row: &Grown| {
            functions.iter().any(|own| own.name == row.name && own.at_top >= 0.999 * row.at_top)
        };
        with_callees.retain(|row| !is_leaf(row));
        for row in functions.iter_mut().chain(&mut with_callees) {
            row.share = row.at_top / whole.at_top.max(f64::MIN_POSITIVE);
        }
        // A number that one of the runs lacks has no growth.
        let number = |one: &Observed, name: &str| {
            one.numbers.iter().find(|(other, _)| other == name).map(|(_, value)| cost(one, *value))
        };
        let names = observed.first().map_or(&[][..], |one| &one.numbers).iter().map(|(name, _)| name);
        let numbers = names.filter_map(|name| {
            let costs = observed.iter().map(|one| number(one, name)).collect::<Option<Vec<_>>>()?;
            Some(Grown::of(name.clone(), None, costs))
        });
        let runs = observed.len() / sizes.len().max(1);
        let mut growth = Self {
            metric,
            sampled,
            runs,
            whole,
            functions,
            with_callees,
            too_few,
            numbers: numbers.collect(),
            sizes,
            steep: Vec::new(),
        };
        let top = growth.sizes.last().copied().unwrap_or(0.0);
        let largest = observed.iter().find(|one| one.size == top);
        growth.steep = largest.map_or(Vec::new(), |largest| growth.reasons(&largest.paths));
        growth.predict(observed);
        growth
    }

    /// Predicts the share of each function, and orders the tables by it.
    fn predict(&mut self, observed: &[Observed]) {
        let (whole, steep) = (self.whole.at_top, self.steep.clone());
        for row in &mut self.functions {
            let is_in = |path: &[String]| path.last() == Some(&row.name);
            row.projected_share =
                row.projected().and_then(|_| projected_share(observed, whole, &steep, is_in));
        }
        for row in &mut self.with_callees {
            let is_in = |path: &[String]| path.contains(&row.name);
            row.projected_share =
                row.projected().and_then(|_| projected_share(observed, whole, &steep, is_in));
        }
        for table in [&mut self.functions, &mut self.with_callees] {
            table.sort_by(|one, other| {
                other.importance().total_cmp(&one.importance()).then_with(|| one.name.cmp(&other.name))
            });
        }
        let importance = |name: &String| {
            let rows = self.functions.iter().chain(&self.with_callees).filter(|row| row.name == *name);
            rows.map(Grown::importance).fold(0.0, f64::max)
        };
        let mut steep = steep;
        steep.sort_by(|one, other| importance(other).total_cmp(&importance(one)));
        self.steep = steep;
    }

    /// The function with the largest predicted share at ten times the largest size.
    pub fn dominating(&self) -> Option<&Grown> {
        self.functions.iter().find(|function| function.projected_share.is_some())
    }

    /// Functions whose cost jumps at one size and that have at least this share of the whole.
    pub fn cliffs(&self, share: f64) -> Vec<&Grown> {
        let jumps = |row: &&Grown| matches!(row.shapes, Some(Shapes::Cliff(_))) && row.share >= share;
        self.functions.iter().filter(jumps).collect()
    }

    /// Functions that certainly grow faster than n log n, except those that only call such a function.
    pub fn steep(&self) -> Vec<&Grown> {
        let row = |name: &String| self.all().filter(|row| row.name == *name).find(|row| row.is_steep());
        self.steep.iter().filter_map(row).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Grown> {
        self.functions.iter().chain(&self.with_callees)
    }

    /// The steep functions that are not steep only because of a callee.
    fn reasons(&self, paths: &[(Vec<String>, f64)]) -> Vec<String> {
        /// The share of a caller's cost from which its callee is the reason.
        const EXPLAINS: f64 = 0.7;
        let mut steep = self.all().filter(|row| row.is_steep()).collect::<Vec<_>>();
        steep.sort_by(|one, other| one.at_top.total_cmp(&other.at_top));
        // Of two with the same cost the inner one is the reason.
        let beneath = |outer: &Grown, inner: &Grown| {
            let has_both = |path: &[String]| {
                let at = |name: &String| path.iter().position(|known| known == name);
                at(&outer.name).zip(at(&inner.name)).is_some_and(|(outer, inner)| outer < inner)
            };
            paths.iter().filter(|(path, _)| has_both(path)).map(|(_, value)| value).sum::<f64>()
        };
        let is_reason = |row: &&Grown| {
            let explains =
                |inner: &&Grown| inner.name != row.name && beneath(row, inner) >= EXPLAINS * row.at_top;
            !steep.iter().any(explains)
        };
        let found = steep.iter().copied().filter(is_reason).collect::<Vec<_>>();
        found.iter().map(|row| row.name.clone()).collect()
    }
}

/// A row per function with enough samples at the largest size; also the number and the sum of the others.
fn rows(
    observed: &[Observed],
    sizes: &[f64],
    of: fn(&Observed) -> &FxHashMap<String, Part>,
) -> (Vec<Grown>, (usize, f64)) {
    let top = sizes.last().copied().unwrap_or(0.0);
    // Largest first: its hottest line is the one to show.
    let mut largest = observed.iter().collect::<Vec<_>>();
    largest.sort_by(|one, other| other.size.total_cmp(&one.size));
    let mut names: FxHashMap<&String, &Part> = FxHashMap::default();
    for (name, part) in largest.iter().flat_map(|one| of(one)) {
        names.entry(name).or_insert(part);
    }
    let (mut rows, mut too_few) = (Vec::new(), (0, 0.0));
    for (name, part) in names {
        let value = |one: &Observed| of(one).get(name).map_or(0.0, |part| part.value);
        let costs = observed.iter().map(|one| Cost { size: one.size, value: value(one) }).collect::<Vec<_>>();
        let row = Grown::of(name.clone(), part.place.clone(), costs);
        if top > 0.0 && row.at_top < MIN_SAMPLES {
            too_few = (too_few.0 + 1, too_few.1 + row.at_top);
        } else {
            rows.push(row);
        }
    }
    (rows, too_few)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Programs in which `linear` has 40 samples per thousand, and `square` one per thousand squared.
    fn observed(size: f64) -> Observed {
        let thousands = size / 1000.0;
        let folded = format!(
            "main;linear {}\nmain;square {}\nmain;constant 40",
            (40.0 * thousands) as u64,
            (thousands * thousands) as u64
        );
        let profile = testing::profile(&folded);
        Observed::of(&profile, &Selection::default(), size, vec![("peak".to_owned(), size * 100.0)])
    }

    fn three_runs_of_five_sizes(observed: impl Fn(f64) -> Observed) -> Growth {
        let sizes = [1000.0, 2000.0, 4000.0, 8000.0, 16000.0];
        let all = sizes.iter().flat_map(|size| [observed(*size), observed(*size), observed(*size)]);
        Growth::of("cpu-time".to_owned(), true, &all.collect::<Vec<_>>())
    }

    #[test]
    fn predicts_that_a_small_quadratic_function_will_dominate() {
        let growth = three_runs_of_five_sizes(observed);
        assert_eq!((growth.runs, growth.sizes.len()), (3, 5));
        let steep = growth.steep();
        assert_eq!(steep.iter().map(|function| function.name.as_str()).collect::<Vec<_>>(), ["square"]);
        let square = growth.functions.iter().find(|function| function.name == "square").unwrap();
        assert!((square.share - 0.27).abs() < 0.02, "{}", square.share);
        let projected = square.projected_share.unwrap();
        assert!(
            (projected.estimate - 0.8).abs() < 0.05 && projected.low < 0.8 && 0.8 < projected.high,
            "{projected:?}"
        );
        assert_eq!(growth.dominating().unwrap().name, "square");
        let constant = growth.functions.iter().find(|function| function.name == "constant").unwrap();
        assert!(constant.exponent.unwrap().interval.estimate.abs() < 0.1);
        assert!((growth.numbers[0].exponent.unwrap().interval.estimate - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_number_that_a_run_lacks_is_left_out() {
        let observed = |size: f64| {
            let peak = (size > 1000.0).then(|| ("max-resident".to_owned(), size * 100.0));
            let numbers = [("wall-time".to_owned(), size)].into_iter().chain(peak).collect();
            Observed { numbers, ..observed(size) }
        };
        let growth = three_runs_of_five_sizes(observed);
        let names = growth.numbers.iter().map(|number| number.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["wall-time"]);
    }

    #[test]
    fn shared_helper_does_not_hide_the_caller_that_calls_it_too_often() {
        let observed = |size: f64| {
            let thousands = size / 1000.0;
            let folded = format!(
                "main;linear;helper {}\nmain;outer;square;helper {}",
                (60.0 * thousands) as u64,
                (thousands * thousands / 2.0) as u64
            );
            Observed::of(&testing::profile(&folded), &Selection::default(), size, Vec::new())
        };
        let growth = three_runs_of_five_sizes(observed);
        assert_eq!(growth.functions.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["helper"]);
        let steep = growth.steep();
        // Its caller is not reported too.
        assert_eq!(steep.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["square"]);
        assert!(steep[0].projected_share.unwrap().estimate > 0.4, "{:?}", steep[0].projected_share);
    }

    /// A program that starts for 300 samples and then has one quadratic function.
    #[test]
    fn the_whole_and_its_function_agree_beside_a_constant() {
        let observed = |size: f64| {
            let thousands = size / 1000.0;
            let folded = format!("main;start 300\nmain;square {}", (4.0 * thousands * thousands) as u64);
            Observed::of(&testing::profile(&folded), &Selection::default(), size, Vec::new())
        };
        let growth = three_runs_of_five_sizes(observed);
        let square = growth.functions.iter().find(|row| row.name == "square").unwrap();
        for row in [&growth.whole, square] {
            let exponent = row.exponent.unwrap();
            assert!((exponent.interval.estimate - 2.0).abs() < 0.05, "{}: {exponent:?}", row.name);
            assert!((exponent.at_the_top - 2.0).abs() < 0.05, "{}: {exponent:?}", row.name);
        }
        assert!((growth.whole.exponent.unwrap().base - 300.0).abs() < 15.0);
        assert!(growth.whole.is_steep() && square.is_steep());
        assert_eq!(growth.steep().iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["square"]);
    }

    /// A loop that leaves the cache, beside a real cubic at a few percent.
    #[test]
    fn a_cliff_is_not_projected_and_does_not_hide_a_cubic() {
        let with = |cliff: fn(f64) -> f64| {
            three_runs_of_five_sizes(move |size: f64| {
                let thousands = size / 1000.0;
                let folded = format!(
                    "main;scan {}\nmain;cube {}",
                    cliff(thousands) as u64,
                    (thousands.powi(3) / 100.0) as u64
                );
                Observed::of(&testing::profile(&folded), &Selection::default(), size, Vec::new())
            })
        };
        let growth = with(|thousands| thousands * if thousands > 5.0 { 180.0 } else { 60.0 });
        let row = |name: &str| growth.functions.iter().find(|row| row.name == name).unwrap();
        assert_eq!(growth.cliffs(0.05).iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["scan"]);
        assert!(row("scan").projected_share.is_none() && row("cube").projected_share.is_none());
        assert!(row("cube").is_steep() && !row("scan").is_steep());
        // Without the cliff, 41 of 2,921 samples become 40,960 of 69,760.
        let growth = with(|thousands| thousands * 180.0);
        let cube = growth.functions.iter().find(|row| row.name == "cube").unwrap().projected_share.unwrap();
        assert!(cube.low < 0.587 && 0.587 < cube.high && (cube.estimate - 0.587).abs() < 0.2, "{cube:?}");
        // The rest loses what the cubic wins.
        let scan = growth.functions.iter().find(|row| row.name == "scan").unwrap().projected_share.unwrap();
        assert!((scan.estimate + cube.estimate - 1.0).abs() < 0.02, "{scan:?} {cube:?}");
    }

    #[test]
    fn functions_with_few_samples_are_only_counted() {
        let profile = testing::profile("main;much 1000\nmain;little 2");
        let one = |size| Observed::of(&profile, &Selection::default(), size, Vec::new());
        let all = [one(1.0), one(2.0), one(4.0)];
        let growth = Growth::of("cpu-time".to_owned(), true, &all);
        assert_eq!((growth.functions.len(), growth.too_few.0), (1, 1));
        assert!(Growth::of(String::new(), true, &[]).functions.is_empty());
    }
}
