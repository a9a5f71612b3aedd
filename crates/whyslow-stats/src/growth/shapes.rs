//! The shapes of growth: which of them fit, jumps, and predictions from what fits.

use super::{Cost, Exponent, bisect, by_size};
use crate::chance::fisher_tail;
use crate::line::Sums;
use crate::mean;
use crate::pairs::Interval;

/// A shape of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// No growth.
    Constant,
    /// log n
    Logarithmic,
    /// √n
    SquareRoot,
    /// n
    Linear,
    /// n log n
    Linearithmic,
    /// n√n
    ThreeHalves,
    /// n²
    Quadratic,
    /// n³
    Cubic,
}

impl Shape {
    /// All shapes, slowest growth first.
    pub const ALL: [Self; 8] = [
        Self::Constant,
        Self::Logarithmic,
        Self::SquareRoot,
        Self::Linear,
        Self::Linearithmic,
        Self::ThreeHalves,
        Self::Quadratic,
        Self::Cubic,
    ];

    /// The formula.
    pub fn label(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Logarithmic => "log n",
            Self::SquareRoot => "n^0.5",
            Self::Linear => "n",
            Self::Linearithmic => "n log n",
            Self::ThreeHalves => "n^1.5",
            Self::Quadratic => "n^2",
            Self::Cubic => "n^3",
        }
    }

    pub(super) fn at(self, size: f64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Logarithmic => size.ln(),
            Self::SquareRoot => size.sqrt(),
            Self::Linear => size,
            Self::Linearithmic => size * size.ln(),
            Self::ThreeHalves => size * size.sqrt(),
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
    /// None of them, but a constant and the power of the exponent.
    Power,
    /// It jumps at one size.
    Cliff(Cliff),
    /// No shape fits.
    None,
}

/// A jump of the cost between two sizes: a cache that is too small, or a threshold of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cliff {
    /// The last size below it.
    pub below: f64,
    /// The first size above it.
    pub above: f64,
    /// By what factor the cost is larger above it than its shape predicts.
    pub factor: f64,
    /// The shape on both sides.
    pub shape: Shape,
}

/// A shape with a smaller probability is ruled out.
const PLAUSIBLE: f64 = 0.05;
/// If the best has a smaller one, nothing fits.
const HOPELESS: f64 = 0.01;
/// The share of the cost at the largest size that must come from growth.
pub(super) const GROWN: f64 = 0.2;
/// Runs of one program differ by about 2 % in any case.
const MIN_SPREAD: f64 = 0.02 * 0.02;

/// How much runs of one size differ.
pub(super) struct Noise {
    /// The variance relative to the squared mean, beyond counting noise.
    pub spread: f64,
    /// How many runs there are beyond one of each size.
    pub repeated: f64,
}

impl Noise {
    /// `None` with too few sizes or repetitions.
    pub(super) fn of(sizes: &[(f64, Vec<f64>)]) -> Option<Self> {
        let repeated = sizes.iter().map(|(_, values)| values.len() - 1).sum::<usize>() as f64;
        let is_empty = sizes.iter().flat_map(|(_, values)| values).all(|value| *value == 0.0);
        if sizes.len() < 4 || repeated == 0.0 || is_empty {
            return None;
        }
        Some(Self { spread: spread_within(sizes, repeated).max(MIN_SPREAD), repeated })
    }

    /// The probability of a misfit this bad.
    fn p(&self, misfit: f64, freedom: usize) -> f64 {
        fisher_tail(misfit / freedom as f64, [freedom as f64, self.repeated])
    }
}

/// Which shapes fit costs that were measured several times at each size; `None` with too few sizes or
/// repetitions.
pub fn shapes(costs: &[Cost]) -> Option<Shapes> {
    let sizes = by_size(costs);
    let noise = Noise::of(&sizes)?;
    let fit = |shape: Shape| {
        let parameters = if shape == Shape::Constant { 1 } else { 2 };
        let curve = Curve::of_shape(&sizes, shape, noise.spread);
        (Plausible { shape, p: noise.p(curve.misfit, sizes.len() - parameters) }, curve.grown())
    };
    // A cost that hardly grows is constant, whatever the shape of the small rest.
    let mut all = Shape::ALL.map(fit).to_vec();
    all.retain(|(fit, grown)| fit.shape == Shape::Constant || *grown > GROWN);
    let mut all = all.into_iter().map(|(fit, _)| fit).collect::<Vec<_>>();
    all.sort_by(|one, other| other.p.total_cmp(&one.p));
    if all[0].p < HOPELESS {
        return Some(between_shapes(costs, &sizes, &noise));
    }
    let plausible = all.into_iter().enumerate().filter(|(rank, fit)| *rank == 0 || fit.p >= PLAUSIBLE);
    Some(Shapes::OneOf(plausible.map(|(_, fit)| fit).collect()))
}

/// What fits costs that no common shape fits.
fn between_shapes(costs: &[Cost], sizes: &[(f64, Vec<f64>)], noise: &Noise) -> Shapes {
    let power = super::exponent(costs).map(|exponent| {
        let curve = Curve::of(sizes, |size| size.powf(exponent.interval.estimate), noise.spread, true);
        noise.p(curve.misfit, sizes.len() - 3)
    });
    if power.is_some_and(|p| p >= PLAUSIBLE) {
        return Shapes::Power;
    }
    cliff(sizes, noise).map_or(Shapes::None, Shapes::Cliff)
}

/// The jump that explains the costs best, if one does.
fn cliff(sizes: &[(f64, Vec<f64>)], noise: &Noise) -> Option<Cliff> {
    /// A smaller jump is no cliff.
    const LEAST: f64 = 1.25;
    let shapes = Shape::ALL.into_iter().filter(|shape| *shape != Shape::Logarithmic);
    let tried = shapes.flat_map(|shape| (1..sizes.len()).map(move |at| (shape, at)));
    let best = tried
        .map(|(shape, at)| {
            let (below, above) = sizes.split_at(at);
            let [low, high] =
                [below, above].map(|part| Curve::of(part, |size| shape.at(size), noise.spread, false));
            let factor =
                (high.rise / shape.at(above[above.len() - 1].0)) / (low.rise / shape.at(below[at - 1].0));
            let cliff = Cliff { below: below[at - 1].0, above: above[0].0, factor, shape };
            (noise.p(low.misfit + high.misfit, sizes.len() - 3), cliff)
        })
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    let (p, cliff) = best;
    let is_large = cliff.factor.is_finite() && (cliff.factor >= LEAST || cliff.factor <= 1.0 / LEAST);
    (p >= PLAUSIBLE && is_large).then_some(cliff)
}

/// The cost at another size with its interval: from the best shape, the other plausible ones and the interval of the
/// exponent. `None` if nothing fits.
pub fn projected(costs: &[Cost], exponent: &Exponent, shapes: &Shapes, size: f64) -> Option<Interval> {
    let sizes = by_size(costs);
    let noise = Noise::of(&sizes)?;
    let plausible = match shapes {
        Shapes::OneOf(all) => &all[..],
        Shapes::Power => &[],
        Shapes::Cliff(_) | Shapes::None => return None,
    };
    let of_shape = |fit: &Plausible| {
        let top = sizes.last().map_or(1.0, |(top, _)| fit.shape.at(*top));
        let curve = Curve::of_shape(&sizes, fit.shape, noise.spread);
        curve.base + curve.rise * fit.shape.at(size) / top
    };
    let of_power = |power: f64| {
        let top = sizes.last().map_or(1.0, |(top, _)| *top);
        let curve = Curve::of(&sizes, |size| size.powf(power), noise.spread, true);
        curve.base + curve.rise * (size / top).powf(power)
    };
    let estimate = plausible.first().map_or_else(|| exponent.cost_at(size), of_shape);
    let Interval { low, high, .. } = exponent.interval;
    let ends = plausible.iter().map(of_shape).chain([of_power(low.max(0.0)), of_power(high)]);
    let (low, high) = ends.fold((estimate, estimate), |(low, high), value| (low.min(value), high.max(value)));
    Some(Interval { estimate, low, high }).filter(|interval| interval.high.is_finite())
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

/// The best mu = base + rise·f(n)/f(top) with both at least 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    /// The part that does not grow.
    pub base: f64,
    /// The growing part at the largest size.
    pub rise: f64,
    /// Pearson's X² of the means.
    pub misfit: f64,
}

impl Curve {
    pub(super) fn of_shape(sizes: &[(f64, Vec<f64>)], shape: Shape, spread: f64) -> Self {
        match shape {
            Shape::Constant => {
                let flat = Self::of(sizes, |_| 1.0, spread, false);
                Self { base: flat.rise, rise: 0.0, ..flat }
            }
            _ => Self::of(sizes, |size| shape.at(size), spread, true),
        }
    }

    /// With or without a constant part.
    pub(super) fn of(
        sizes: &[(f64, Vec<f64>)],
        f: impl Fn(f64) -> f64,
        spread: f64,
        with_base: bool,
    ) -> Self {
        const MIN: f64 = 0.05;
        let largest = sizes.iter().map(|(size, _)| f(*size)).fold(f64::MIN_POSITIVE, f64::max);
        let mut rows = sizes
            .iter()
            .map(|(size, values)| {
                let mean = mean(values);
                // The relative value of the shape, the mean, the number of runs, the expected value.
                (f(*size) / largest, mean, values.len() as f64, mean.max(0.3))
            })
            .collect::<Vec<_>>();
        let (mut base, mut rise) = (0.0, 0.0);
        for _ in 0..25 {
            let point = |(part, mean, runs, expected): &(f64, f64, f64, f64)| {
                (*part, *mean, runs / (expected.max(MIN) * (1.0 + spread * expected)))
            };
            let sums = rows.iter().map(point).collect::<Sums>();
            (base, rise) = if with_base { sums.line() } else { (0.0, sums.xy / sums.xx) };
            // Not a number: f hardly differs between the sizes.
            if base < 0.0 || base.is_nan() {
                (base, rise) = (0.0, sums.xy / sums.xx);
            }
            if rise < 0.0 {
                (base, rise) = (sums.y / sums.one, 0.0);
            }
            let mut moved = 0.0f64;
            for (part, _, _, expected) in &mut rows {
                let next = (base + rise * *part).max(MIN);
                moved = moved.max((next - *expected).abs() / next);
                *expected = next;
            }
            if moved < 1e-9 {
                break;
            }
        }
        let of_row = |(_, mean, runs, expected): &(f64, f64, f64, f64)| {
            runs * (mean - expected).powi(2) / (expected + spread * expected * expected)
        };
        Self { base, rise, misfit: rows.iter().map(of_row).sum() }
    }

    /// The share of the growing part at the largest size.
    pub(super) fn grown(&self) -> f64 {
        self.rise / (self.base + self.rise).max(f64::MIN_POSITIVE)
    }
}
