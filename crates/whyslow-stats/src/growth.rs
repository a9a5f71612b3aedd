//! How a cost grows with the size of the input.
//!
//! ```text
//! exponent   ln mu = a + b·ln n, counts with variance mu + phi·mu² (negative binomial), phi so that Pearson's X² is as expected
//! shape      mu = a + b·f(n), a, b >= 0, for f = 1, log n, n, n log n, n², n³: plausible where the misfit is no more than run-to-run noise
//! ```
//! Counts of functions are often small. Least squares on logarithms would mistake noise for growth there.

use crate::chance::{fisher_tail, student_quantile};
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
    /// The exponent between the two largest sizes alone. It is larger for a cost with a linear and a
    /// quadratic part.
    pub at_the_top: f64,
    /// The logarithm of the cost at size 1, for predictions.
    intercept: f64,
}

impl Exponent {
    /// The predicted cost at another size.
    pub fn cost_at(&self, size: f64) -> f64 {
        (self.intercept + self.interval.estimate * size.ln()).exp()
    }

    /// Whether it certainly grows faster than n log n.
    pub fn is_steep(&self) -> bool {
        self.surely_above > 1.3
    }
}

/// The exponent of some costs; `None` for fewer than three sizes, or if all costs are 0.
pub fn exponent(costs: &[Cost]) -> Option<Exponent> {
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

/// A shape of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// No growth.
    Constant,
    /// log n
    Logarithmic,
    /// n
    Linear,
    /// n log n
    Linearithmic,
    /// n²
    Quadratic,
    /// n³
    Cubic,
}

impl Shape {
    /// All shapes, slowest growth first.
    pub const ALL: [Self; 6] =
        [Self::Constant, Self::Logarithmic, Self::Linear, Self::Linearithmic, Self::Quadratic, Self::Cubic];

    /// The formula.
    pub fn label(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Logarithmic => "log n",
            Self::Linear => "n",
            Self::Linearithmic => "n log n",
            Self::Quadratic => "n^2",
            Self::Cubic => "n^3",
        }
    }

    fn at(self, size: f64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Logarithmic => size.ln(),
            Self::Linear => size,
            Self::Linearithmic => size * size.ln(),
            Self::Quadratic => size * size,
            Self::Cubic => size * size * size,
        }
    }
}

/// How well a shape fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plausible {
    /// The shape.
    pub shape: Shape,
    /// The probability that a cost of this shape fits this badly.
    pub p: f64,
}

/// The shapes that fit some costs.
#[derive(Debug, Clone, PartialEq)]
pub enum Shapes {
    /// Any of these, best first.
    OneOf(Vec<Plausible>),
    /// No shape fits.
    None,
}

/// Which shapes fit costs that were measured several times at each size; `None` with too few sizes or
/// repetitions.
pub fn shapes(costs: &[Cost]) -> Option<Shapes> {
    const PLAUSIBLE: f64 = 0.05;
    const HOPELESS: f64 = 0.01;
    /// The share of the cost at the largest size that must come from growth.
    const GROWN: f64 = 0.2;
    /// Runs of one program differ by about 2 % in any case.
    const MIN_SPREAD: f64 = 0.02 * 0.02;
    let sizes = by_size(costs);
    let repeated = costs.len() - sizes.len();
    if sizes.len() < 4 || repeated == 0 || costs.iter().all(|cost| cost.value == 0.0) {
        return None;
    }
    let spread = spread_within(&sizes, repeated as f64).max(MIN_SPREAD);
    let fit = |shape: Shape| {
        let parameters = if shape == Shape::Constant { 1 } else { 2 };
        let (misfit, grown) = misfit(&sizes, shape, spread);
        let freedom = (sizes.len() - parameters) as f64;
        let p = fisher_tail(misfit / freedom, [freedom, repeated as f64]);
        (Plausible { shape, p }, grown)
    };
    // A cost that hardly grows is constant, whatever the shape of the small rest.
    let mut all = Shape::ALL.map(fit).to_vec();
    all.retain(|(fit, grown)| fit.shape == Shape::Constant || *grown > GROWN);
    let mut all = all.into_iter().map(|(fit, _)| fit).collect::<Vec<_>>();
    all.sort_by(|one, other| other.p.total_cmp(&one.p));
    if all[0].p < HOPELESS {
        return Some(Shapes::None);
    }
    let plausible = all.into_iter().enumerate().filter(|(rank, fit)| *rank == 0 || fit.p >= PLAUSIBLE);
    Some(Shapes::OneOf(plausible.map(|(_, fit)| fit).collect()))
}

/// The values of each size, ordered by size.
fn by_size(costs: &[Cost]) -> Vec<(f64, Vec<f64>)> {
    let mut sorted = costs.to_vec();
    sorted.sort_by(|one, other| one.size.total_cmp(&other.size));
    let groups = sorted.chunk_by(|one, other| one.size.total_cmp(&other.size).is_eq());
    groups.map(|group| (group[0].size, group.iter().map(|cost| cost.value).collect())).collect()
}

/// How much runs of one size differ beyond counting noise.
fn spread_within(sizes: &[(f64, Vec<f64>)], freedom: f64) -> f64 {
    let misfit = |spread: f64| {
        let of_size = |(_, values): &(f64, Vec<f64>)| {
            let mean = mean(values).max(0.25);
            values.iter().map(|value| (value - mean).powi(2) / (mean + spread * mean * mean)).sum::<f64>()
        };
        sizes.iter().map(of_size).sum::<f64>()
    };
    if misfit(0.0) <= freedom { 0.0 } else { bisect(|spread| misfit(spread) > freedom) }
}

/// The misfit of the means of all sizes to the best a + b·f(n) with a, b >= 0, and the share of b·f(n) at the
/// largest size.
fn misfit(sizes: &[(f64, Vec<f64>)], shape: Shape, spread: f64) -> (f64, f64) {
    const MIN: f64 = 0.05;
    let largest = sizes.iter().map(|(size, _)| shape.at(*size)).fold(f64::MIN_POSITIVE, f64::max);
    let mut rows = sizes
        .iter()
        .map(|(size, values)| {
            let mean = mean(values);
            // The relative value of the shape, the mean, the number of runs, the expected value.
            (shape.at(*size) / largest, mean, values.len() as f64, mean.max(0.3))
        })
        .collect::<Vec<_>>();
    let mut grown = 0.0;
    for _ in 0..25 {
        let point = |(part, mean, runs, expected): &(f64, f64, f64, f64)| {
            (*part, *mean, runs / (expected.max(MIN) * (1.0 + spread * expected)))
        };
        let sums = rows.iter().map(point).collect::<Sums>();
        let (mut base, mut slope) = match shape {
            Shape::Constant => (sums.y / sums.one, 0.0),
            _ => sums.line(),
        };
        if base < 0.0 {
            (base, slope) = (0.0, sums.xy / sums.xx);
        }
        if slope < 0.0 {
            (base, slope) = (sums.y / sums.one, 0.0);
        }
        grown = slope / (base + slope).max(f64::MIN_POSITIVE);
        for (part, _, _, expected) in &mut rows {
            *expected = (base + slope * *part).max(MIN);
        }
    }
    let of_row = |(_, mean, runs, expected): &(f64, f64, f64, f64)| {
        runs * (mean - expected).powi(2) / (expected + spread * expected * expected)
    };
    (rows.iter().map(of_row).sum(), grown)
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
        let found = exponent(&hidden).unwrap();
        let Interval { estimate, low, high } = found.interval;
        let near = |one: f64, other: f64| (one - other).abs() < 5e-5;
        assert!(
            near(estimate, 1.9759) && near(found.error, 0.0898) && near(low, 1.7818) && near(high, 2.1700),
            "{found:?}"
        );
        assert!(found.is_steep() && (found.at_the_top - 1.96).abs() < 0.05);
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

    /// For each shape 200 series: the interval of the exponent covers the true local power, and the true
    /// shape is among the plausible ones.
    #[test]
    fn intervals_and_shapes_cover_the_truth() {
        for (shape, power) in [
            (Shape::Constant, Some(0.0)),
            (Shape::Linear, Some(1.0)),
            (Shape::Linearithmic, None),
            (Shape::Quadratic, Some(2.0)),
            (Shape::Cubic, Some(3.0)),
        ] {
            let (mut held, mut plausible, mut steep) = (0, 0, 0);
            for seed in 0..200 {
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
            assert!(power.is_none() || held >= 180, "{shape:?}: {held} of 200");
            assert!(plausible >= 180, "{shape:?}: {plausible} of 200");
            let is_steep = matches!(shape, Shape::Quadratic | Shape::Cubic);
            assert!(if is_steep { steep >= 190 } else { steep == 0 }, "{shape:?}: {steep} of 200");
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
}
