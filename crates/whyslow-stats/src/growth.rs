//! How a cost grows with the size of the input.
//!
//! ```text
//! power law  mu = b·n^k, counts with variance mu + phi·mu² (negative binomial), phi so that Pearson's X² is as expected
//! exponent   k of mu = a + b·n^k, a, b >= 0; its interval has every k whose misfit is no worse than the best one's by chance
//! shape      mu = a + b·f(n), a, b >= 0, for f = 1, log n, √n, n, …: plausible where the misfit is no more than run-to-run noise
//! cliff      mu = b·f(n) up to some size, c·f(n) above it, where nothing else fits
//! ```
//! Counts of functions are often small. Least squares on logarithms would mistake noise for growth there. A power law
//! alone would take the start of the program for slow growth.

mod shapes;

pub use self::shapes::{Cliff, Plausible, Shape, Shapes, projected, shapes};

use self::shapes::{Curve, GROWN, Noise};
use crate::chance::student_quantile;
use crate::line::Sums;
use crate::mean;
use crate::pairs::Interval;

/// The cost of a run of one size, in samples or any other count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// The size of the input.
    pub size: f64,
    /// The cost.
    pub value: f64,
}

/// The exponent of a cost: 1 is linear, 2 quadratic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exponent {
    /// The exponent with its 95 % confidence interval.
    pub interval: Interval,
    /// Its standard error.
    pub error: f64,
    /// The exponent is larger than this with a probability of 99.9 %.
    pub surely_above: f64,
    /// The exponent between the two largest sizes alone, without the constant part. It is larger for a cost with a linear and a
    /// quadratic part.
    pub at_the_top: f64,
    /// The part of the cost that does not grow; 0 where the data need none.
    pub base: f64,
    /// The logarithm of the growing part at size 1.
    intercept: f64,
}

impl Exponent {
    /// The fitted cost at any size.
    pub fn cost_at(&self, size: f64) -> f64 {
        self.base + (self.intercept + self.interval.estimate * size.ln()).exp()
    }

    /// Whether it certainly grows faster than n log n.
    pub fn is_steep(&self) -> bool {
        self.surely_above > 1.3
    }
}

/// The exponent of some costs; `None` for fewer than three sizes, or if all costs are 0. With four sizes and several
/// runs of each, a constant part is told from the growth.
pub fn exponent(costs: &[Cost]) -> Option<Exponent> {
    let law = power_law(costs)?;
    Some(beside_constant(&by_size(costs), law).unwrap_or(law))
}

/// The exponent of costs with a constant part; `None` if that part cannot be told, or if hardly anything grows.
fn beside_constant(sizes: &[(f64, Vec<f64>)], law: Exponent) -> Option<Exponent> {
    /// Exponents that are tried, in steps of 0.05.
    const STEPS: std::ops::RangeInclusive<u32> = 2..=90;
    const STEP: f64 = 0.05;
    let noise = Noise::of(sizes)?;
    let fit = |power: f64| Curve::of(sizes, |size| size.powf(power), noise.spread, true);
    let misfit = |power: f64| fit(power).misfit;
    let tried = STEPS.map(|step| f64::from(step) * STEP);
    let start = tried.min_by(|one, other| misfit(*one).total_cmp(&misfit(*other)))?;
    let best = lowest(misfit, [start - STEP, start + STEP]);
    let curve = fit(best);
    if curve.grown() <= GROWN {
        return None;
    }
    // Where even the best does not fit, its interval is wider.
    let freedom = (sizes.len() - 3) as f64;
    let worse = (curve.misfit / freedom).max(1.0);
    let allowed =
        |probability: f64| curve.misfit + worse * student_quantile(probability, noise.repeated).powi(2);
    let end = |probability: f64, direction: f64| {
        let limit = allowed(probability);
        let mut inside = best;
        let mut outside = best;
        while misfit(outside) <= limit {
            inside = outside;
            outside += direction * STEP;
            if !(0.0..=8.0).contains(&outside) {
                return outside.clamp(0.0, 8.0);
            }
        }
        for _ in 0..20 {
            let middle = f64::midpoint(inside, outside);
            if misfit(middle) <= limit { inside = middle } else { outside = middle }
        }
        inside
    };
    let (low, high) = (end(0.975, -1.0), end(0.975, 1.0));
    let without = |power: f64| Curve::of(sizes, |size| size.powf(power), noise.spread, false).misfit;
    let is_needed = without(lowest(without, [low.min(best), best])) > allowed(0.975);
    if !is_needed {
        let estimate = law.interval.estimate;
        let interval = Interval { estimate, low: low.min(law.interval.low), high: high.max(estimate) };
        return Some(Exponent { interval, ..law });
    }
    let [.., below, top] = sizes else { return None };
    let grown = |values: &[f64]| (mean(values) - curve.base).max(0.0) + 0.5;
    Some(Exponent {
        interval: Interval { estimate: best, low, high },
        error: (high - low) / (2.0 * student_quantile(0.975, noise.repeated)),
        surely_above: end(0.999, -1.0),
        at_the_top: (grown(&top.1) / grown(&below.1)).ln() / (top.0 / below.0).ln(),
        base: curve.base,
        intercept: curve.rise.ln() - best * top.0.ln(),
    })
}

/// Where a function with one valley is lowest between two points.
fn lowest(of: impl Fn(f64) -> f64, [mut low, mut high]: [f64; 2]) -> f64 {
    for _ in 0..30 {
        let [one, other] = [low + (high - low) / 3.0, high - (high - low) / 3.0];
        if of(one) <= of(other) { high = other } else { low = one }
    }
    f64::midpoint(low, high)
}

/// The exponent of a cost without a constant part.
fn power_law(costs: &[Cost]) -> Option<Exponent> {
    let sizes = by_size(costs);
    let freedom = costs.len().checked_sub(2).filter(|freedom| *freedom > 0)? as f64;
    if sizes.len() < 3 || costs.iter().all(|cost| cost.value == 0.0) {
        return None;
    }
    let centre = mean(&costs.iter().map(|cost| cost.size.ln()).collect::<Vec<_>>());
    let rows = costs.iter().map(|cost| (cost.size.ln() - centre, cost.value)).collect::<Vec<_>>();
    let plain = Fit::of(&rows, 0.0);
    let spread = if plain.misfit(&rows, 0.0) > freedom {
        bisect(|spread| plain.misfit(&rows, spread) > freedom)
    } else {
        0.0
    };
    let fit = Fit::of(&rows, spread);
    let error = (fit.variance * (fit.misfit(&rows, spread) / freedom).max(1.0)).sqrt();
    let width = student_quantile(0.975, freedom) * error;
    if !(fit.slope.is_finite() && width.is_finite()) {
        return None;
    }
    let [.., below, top] = &sizes[..] else { return None };
    // Half a sample is added, for sizes without any.
    let at_the_top = ((mean(&top.1) + 0.5) / (mean(&below.1) + 0.5)).ln() / (top.0 / below.0).ln();
    Some(Exponent {
        interval: Interval { estimate: fit.slope, low: fit.slope - width, high: fit.slope + width },
        error,
        surely_above: fit.slope - student_quantile(0.999, freedom) * error,
        at_the_top,
        base: 0.0,
        intercept: fit.level - fit.slope * centre,
    })
}

/// A straight line through the logarithms of means.
#[derive(Debug, Clone, Copy)]
struct Fit {
    level: f64,
    slope: f64,
    /// Of the slope.
    variance: f64,
}

impl Fit {
    /// By iterated weighted least squares.
    fn of(rows: &[(f64, f64)], spread: f64) -> Self {
        let logarithms =
            rows.iter().map(|(size, value)| (*size, (value + 0.5).ln(), 1.0)).collect::<Vec<_>>();
        let mut fit = Self::weighted(&logarithms);
        for _ in 0..50 {
            let row = |(size, value): &(f64, f64)| {
                let expected = fit.expected(*size);
                let step = fit.level + fit.slope * size + (value - expected) / expected;
                (*size, step, expected / (1.0 + spread * expected))
            };
            fit = Self::weighted(&rows.iter().map(row).collect::<Vec<_>>());
        }
        fit
    }

    fn weighted(rows: &[(f64, f64, f64)]) -> Self {
        let sums = rows.iter().copied().collect::<Sums>();
        let (level, slope) = sums.line();
        Self { level, slope, variance: sums.slope_variance() }
    }

    fn expected(&self, size: f64) -> f64 {
        (self.level + self.slope * size).exp()
    }

    /// Pearson's X².
    fn misfit(&self, rows: &[(f64, f64)], spread: f64) -> f64 {
        let part = |(size, value): &(f64, f64)| {
            let expected = self.expected(*size);
            (value - expected).powi(2) / (expected + spread * expected * expected)
        };
        rows.iter().map(part).sum()
    }
}

/// The largest spread, up to 4, that is still too small.
fn bisect(is_too_small: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 4.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if is_too_small(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The values of each size, ordered by size.
fn by_size(costs: &[Cost]) -> Vec<(f64, Vec<f64>)> {
    let mut sorted = costs.to_vec();
    sorted.sort_by(|one, other| one.size.total_cmp(&other.size));
    let groups = sorted.chunk_by(|one, other| one.size.total_cmp(&other.size).is_eq());
    groups.map(|group| (group[0].size, group.iter().map(|cost| cost.value).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const SIZES: [f64; 5] = [1000.0, 2000.0, 4000.0, 8000.0, 16000.0];

    fn costs(values: &[f64]) -> Vec<Cost> {
        let row = |(at, value): (usize, &f64)| Cost { size: SIZES[at / 3], value: *value };
        values.iter().enumerate().map(row).collect()
    }

    fn labels(shapes: Option<Shapes>) -> Vec<&'static str> {
        match shapes {
            Some(Shapes::OneOf(all)) => all.iter().map(|fit| fit.shape.label()).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn finds_a_quadratic_part_of_three_percent() {
        let hidden =
            costs(&[1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 11.0, 8.0, 10.0, 35.0, 41.0, 38.0, 149.0, 155.0, 143.0]);
        let found = power_law(&hidden).unwrap();
        let Interval { estimate, low, high } = found.interval;
        let near = |one: f64, other: f64| (one - other).abs() < 5e-5;
        assert!(
            near(estimate, 1.9759) && near(found.error, 0.0898) && near(low, 1.7818) && near(high, 2.1700),
            "{found:?}"
        );
        assert!(found.is_steep() && (found.at_the_top - 1.96).abs() < 0.05);
        let found = exponent(&hidden).unwrap();
        assert!(found.is_steep() && found.interval.low > 1.6 && found.interval.high < 2.5, "{found:?}");
        let Some(Shapes::OneOf(plausible)) = shapes(&hidden) else { panic!() };
        let [Plausible { shape: Shape::Quadratic, p }] = plausible[..] else { panic!("{plausible:?}") };
        assert!((p - 0.9962).abs() < 5e-5, "{p}");
    }

    #[test]
    fn linear_is_not_steep() {
        let linear = costs(&[
            63.0, 60.0, 66.0, 127.0, 119.0, 131.0, 250.0, 262.0, 241.0, 508.0, 489.0, 530.0, 1011.0, 985.0,
            1040.0,
        ]);
        let found = exponent(&linear).unwrap();
        assert!((found.interval.estimate - 1.0).abs() < 0.03 && !found.is_steep(), "{found:?}");
        assert!((found.cost_at(160_000.0) / 10_000.0 - 1.0).abs() < 0.1);
        assert!(labels(shapes(&linear)).contains(&"n"));
    }

    /// For each shape 100 series: the interval of the exponent covers the true local power, and the true
    /// shape is among the plausible ones.
    #[test]
    fn intervals_and_shapes_cover_the_truth() {
        for (shape, power) in [
            (Shape::Constant, Some(0.0)),
            (Shape::SquareRoot, Some(0.5)),
            (Shape::Linear, Some(1.0)),
            (Shape::Linearithmic, None),
            (Shape::ThreeHalves, Some(1.5)),
            (Shape::Quadratic, Some(2.0)),
            (Shape::Cubic, Some(3.0)),
        ] {
            let (mut held, mut plausible, mut steep) = (0, 0, 0);
            for seed in 0..100 {
                let mut random = Random::new(seed);
                let values = (0..15).map(|at| {
                    let mean = 1000.0 * shape.at(SIZES[at / 3]) / shape.at(SIZES[4])
                        * (1.0 + 0.03 * random.normal());
                    (mean + mean.sqrt() * random.normal()).round().max(0.0)
                });
                let costs = costs(&values.collect::<Vec<_>>());
                let Interval { low, high, .. } = exponent(&costs).unwrap().interval;
                held += u32::from(power.is_some_and(|power| low <= power && power <= high));
                plausible += u32::from(labels(shapes(&costs)).contains(&shape.label()));
                steep += u32::from(exponent(&costs).unwrap().is_steep());
            }
            assert!(power.is_none() || held >= 90, "{shape:?}: {held} of 100");
            assert!(plausible >= 90, "{shape:?}: {plausible} of 100");
            let is_steep = matches!(shape, Shape::Quadratic | Shape::Cubic);
            let is_between = shape == Shape::ThreeHalves;
            assert!(
                is_between || if is_steep { steep >= 95 } else { steep == 0 },
                "{shape:?}: {steep} of 100"
            );
        }
    }

    #[test]
    fn no_growth_is_constant_only() {
        let still = [
            120.0, 118.0, 123.0, 119.0, 125.0, 121.0, 117.0, 122.0, 120.0, 126.0, 124.0, 119.0, 121.0, 118.0,
            125.0,
        ];
        assert_eq!(labels(shapes(&costs(&still))), ["constant"]);
    }

    #[test]
    fn too_few_costs_give_no_result() {
        assert_eq!(exponent(&costs(&[0.0; 15])), None);
        assert_eq!(exponent(&costs(&[1.0; 6])), None);
        assert_eq!(shapes(&costs(&[1.0; 9])), None);
        // A kink fits no shape.
        let kink = [
            10.0, 10.0, 10.0, 20.0, 20.0, 20.0, 40.0, 40.0, 40.0, 8000.0, 8000.0, 8000.0, 8100.0, 8100.0,
            8100.0,
        ];
        assert_eq!(shapes(&costs(&kink)), Some(Shapes::None));
    }

    /// How many series a simulation has.
    const SERIES: u64 = 40;

    /// Series of a known truth at the usual sizes, with 3 % noise between runs and counting noise: the share of those
    /// that `holds`.
    fn share_of(truth: impl Fn(f64) -> f64, holds: impl Fn(&[Cost]) -> bool) -> f64 {
        let held = (0..SERIES).filter(|seed| {
            let mut random = Random::new(*seed);
            let value = |at: usize| {
                let mean = truth(SIZES[at / 3]) * (1.0 + 0.03 * random.normal());
                (mean + mean.sqrt() * random.normal()).round().max(0.0)
            };
            holds(&costs(&(0..15).map(value).collect::<Vec<_>>()))
        });
        held.count() as f64 / SERIES as f64
    }

    #[test]
    fn a_constant_part_is_no_slow_growth() {
        let truth = |size: f64| 400.0 + 1500.0 * (size / 16e3).powi(2);
        let covers = |costs: &[Cost]| {
            let found = exponent(costs).unwrap();
            found.interval.low <= 2.0 && 2.0 <= found.interval.high && found.interval.estimate > 1.6
        };
        assert!(share_of(truth, covers) >= 0.85, "{}", share_of(truth, covers));
        assert!(share_of(truth, |costs| exponent(costs).unwrap().is_steep()) >= 0.9);
        assert!(share_of(truth, |costs| labels(shapes(costs)).contains(&"n^2")) >= 0.9);
        // Without one, linear growth stays linear.
        let linear = |size: f64| 400.0 + 1500.0 * size / 16e3;
        assert!(share_of(linear, |costs| exponent(costs).unwrap().is_steep()) <= 0.02);
    }

    #[test]
    fn powers_between_the_common_ones_are_told_apart() {
        let root = |size: f64| 2000.0 * (size / 16e3).sqrt();
        assert!(share_of(root, |costs| labels(shapes(costs)).first() == Some(&"n")) <= 0.05);
        let between = |size: f64| 4000.0 * (size / 16e3).powf(1.5);
        assert!(share_of(between, |costs| labels(shapes(costs)).first() == Some(&"n^2")) <= 0.05);
    }

    #[test]
    fn a_jump_is_a_cliff_and_not_a_power() {
        let truth = |size: f64| size / 16e3 * if size > 5000.0 { 2000.0 } else { 700.0 };
        let is_cliff = |costs: &[Cost]| {
            matches!(shapes(costs), Some(Shapes::Cliff(cliff))
                if cliff.below == 4000.0 && cliff.above == 8000.0 && (2.3..3.5).contains(&cliff.factor))
        };
        assert!(share_of(truth, is_cliff) >= 0.8, "{}", share_of(truth, is_cliff));
        for smooth in [
            |size: f64| size / 16.0,
            |size: f64| size * size / 128e3,
            |size: f64| 200.0 + size * size / 128e3,
        ] {
            let cliffs = share_of(smooth, |costs| matches!(shapes(costs), Some(Shapes::Cliff(_))));
            assert!(cliffs <= 0.03, "{cliffs}");
        }
    }

    #[test]
    fn projections_hold_the_truth_and_nothing_is_projected_that_does_not_fit() {
        let project = |costs: &[Cost]| projected(costs, &exponent(costs)?, &shapes(costs)?, 160e3);
        for (truth, name) in [
            ((|size| 400.0 + 1500.0 * (size / 16e3f64).powi(2)) as fn(f64) -> f64, "constant + n²"),
            (|size| 2000.0 * (size / 16e3f64).sqrt(), "√n"),
            (|size| 4000.0 * (size / 16e3f64).powf(1.5), "n^1.5"),
            (|size| 0.02 * size * size.ln(), "n log n"),
            (|size| 200.0 * (size / 16e3f64).powi(3), "a small cubic"),
        ] {
            let at = truth(160e3);
            let made = share_of(truth, |costs| project(costs).is_some());
            let held = share_of(truth, |costs| {
                project(costs).is_some_and(|found| found.low <= at && at <= found.high)
            });
            let near = |found: Interval| (0.5..2.0).contains(&(found.estimate / at));
            let near = share_of(truth, |costs| project(costs).is_some_and(near));
            assert!(made >= 0.9 && held >= 0.85 * made && near >= 0.8 * made, "{name}: {made} {held} {near}");
        }
        let cliff = |size: f64| size / 16e3 * if size > 5000.0 { 2000.0 } else { 700.0 };
        assert!(share_of(cliff, |costs| project(costs).is_some()) <= 0.2);
    }
}
