//! Robust intervals of differences that share baselines.
//!
//! ```text
//! d      = ln(period of an experiment) - mean of ln(period) of the baselines around it
//! centre = Hodges-Lehmann; its ends are those of the signed-rank test, or from the noise of all cells if there
//!          are too few differences
//! shared = sqrt(variance of the mean with shared baselines / without)
//! end    = centre ± hypot(shared * (distance of the end from the centre), spread of the placebo)
//! ```

use whyslow_stats::chance::{normal_quantile, student_quantile};
use whyslow_stats::pairs::{Interval, Walsh, tail_count};
use whyslow_stats::{mean, median};

use crate::observe::Difference;

/// With more differences than these, neighbours are averaged first.
const MOST: usize = 400;
/// Up to here the distribution of the signed-rank statistic is computed exactly.
const EXACT: usize = 120;
/// The median of absolute deviations, as a standard deviation.
pub(crate) const DEVIATION: f64 = 1.4826;
/// Differences of one cell that are further apart than this many standard deviations have an outlier among them.
const OUTLYING: f64 = 4.5;
/// How much less precise a robust centre of few differences is than their mean.
const ROBUST: f64 = 1.1;

/// How differences scatter where nothing changed but the time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Noise {
    /// The standard deviation of a difference around the centre of its cell, over all cells.
    pub(crate) deviation: f64,
    /// Its degrees of freedom.
    pub(crate) freedom: usize,
    /// How far the placebo's centre is from 0.
    pub(crate) placebo: f64,
}

impl Noise {
    /// Of all cells of a point.
    pub(crate) fn of<'a>(cells: impl Iterator<Item = &'a [Difference]>, placebo: &[Difference]) -> Self {
        let mut residuals = Vec::new();
        let mut freedom = 0;
        for cell in cells.filter(|cell| cell.len() > 1) {
            let values = values(cell);
            // The median of three is one of them, and so would be too near.
            let (middle, count) = (mean(&values), values.len() as f64);
            let correction = (count / (count - 1.0)).sqrt();
            residuals.extend(values.iter().map(|value| ((value - middle) * correction).abs()));
            freedom += values.len() - 1;
        }
        let placebo = if placebo.is_empty() { 0.0 } else { centre(&values(placebo)).abs() };
        Self { deviation: DEVIATION * median(&residuals), freedom, placebo }
    }
}

/// The interval of the centre of some differences at a level; `None` if there are too few.
pub(crate) fn interval(cell: &[Difference], alpha: f64, noise: &Noise) -> Option<Interval> {
    let raw = signed_rank(&values(cell), alpha).or_else(|| from_noise(cell, alpha, noise))?;
    let shared = shared(cell);
    let end = |distance: f64| (shared * distance).hypot(noise.placebo);
    Some(Interval {
        estimate: raw.estimate,
        low: raw.estimate - end(raw.estimate - raw.low),
        high: raw.estimate + end(raw.high - raw.estimate),
    })
}

/// The interval of the signed-rank test alone, with shared baselines and the placebo's spread.
pub(crate) fn tested(cell: &[Difference], alpha: f64, noise: &Noise) -> Option<Interval> {
    signed_rank(&values(cell), alpha)?;
    interval(cell, alpha, noise)
}

fn values(cell: &[Difference]) -> Vec<f64> {
    cell.iter().map(|difference| difference.value).collect()
}

/// Differences of which there are at most [`MOST`].
fn thinned(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    while values.len() > MOST {
        values = values.chunks(2).map(mean).collect();
    }
    values
}

fn centre(values: &[f64]) -> f64 {
    Walsh::new(&thinned(values)).estimate()
}

fn signed_rank(values: &[f64], alpha: f64) -> Option<Interval> {
    let values = thinned(values);
    let count = values.len() as f64;
    let rank = if values.len() <= EXACT {
        tail_count(values.len(), alpha)
    } else {
        let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
        (count * (count + 1.0) / 4.0 - normal_quantile(1.0 - alpha / 2.0) * deviation).floor() as usize
    };
    Walsh::new(&values).between(rank)
}

/// From the noise of all cells.
fn from_noise(cell: &[Difference], alpha: f64, noise: &Noise) -> Option<Interval> {
    /// Fewer do not say how much differences scatter.
    const LEAST_FREEDOM: usize = 4;
    if cell.is_empty() || noise.freedom < LEAST_FREEDOM {
        return None;
    }
    let estimate = centre(&values(cell));
    let error = ROBUST * noise.deviation / (cell.len() as f64).sqrt();
    let by = student_quantile(1.0 - alpha / 2.0, noise.freedom as f64) * error;
    let values = values(cell);
    let (least, largest) =
        values.iter().fold((estimate, estimate), |(a, b), value| (a.min(*value), b.max(*value)));
    // One of a few is outlying, and nobody knows which one.
    let apart =
        if largest - least > OUTLYING * noise.deviation { (least, largest) } else { (estimate, estimate) };
    Some(Interval { estimate, low: apart.0 - by, high: apart.1 + by })
}

/// By how much the mean of these differences scatters more because they share baselines.
///
/// ```text
/// alone   n + sum over differences and their baselines of weight²
/// shared  n + sum over baselines of (sum of its weights)²
/// ```
fn shared(cell: &[Difference]) -> f64 {
    let mut weights: Vec<(usize, f64)> = cell.iter().flat_map(Difference::weights).collect();
    let squares = |weights: &[(usize, f64)]| weights.iter().map(|(_, weight)| weight * weight).sum::<f64>();
    let count = cell.len() as f64;
    let alone = count + squares(&weights);
    weights.sort_by_key(|(baseline, _)| *baseline);
    let summed = weights.chunk_by(|a, b| a.0 == b.0);
    let summed = summed.map(|same| same.iter().map(|(_, weight)| weight).sum::<f64>().powi(2)).sum::<f64>();
    if alone > 0.0 { ((count + summed) / alone).sqrt().max(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[f64], baselines: &[[usize; 2]]) -> Vec<Difference> {
        let of = |(value, [before, after]): (&f64, &[usize; 2])| Difference {
            value: *value,
            before: Some(*before),
            after: Some(*after),
        };
        values.iter().zip(baselines).map(of).collect()
    }

    const FAR: [[usize; 2]; 8] = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]];
    const NEXT: [[usize; 2]; 8] = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 8]];
    const VALUES: [f64; 8] = [-0.11, -0.09, -0.10, -0.12, -0.08, -0.10, -0.13, -0.07];

    #[test]
    fn neighbours_that_share_baselines_widen_the_interval() {
        assert!((shared(&cell(&VALUES, &FAR)) - 1.0).abs() < 1e-12);
        // 8 + (2 · ¼ + 7 · 1) = 15.5 against 8 + 16 · ¼ = 12.
        assert!((shared(&cell(&VALUES, &NEXT)) - (15.5f64 / 12.0).sqrt()).abs() < 1e-12);
        let noise = Noise::default();
        let far = interval(&cell(&VALUES, &FAR), 0.05, &noise).unwrap();
        let next = interval(&cell(&VALUES, &NEXT), 0.05, &noise).unwrap();
        assert!((far.estimate + 0.10).abs() < 1e-12 && far.low < -0.1 && far.high > -0.1);
        assert!(next.low < far.low && next.high > far.high);
    }

    #[test]
    fn the_spread_of_the_placebo_widens_the_interval() {
        let noise = Noise { placebo: 0.03, ..Noise::default() };
        let narrow = interval(&cell(&VALUES, &FAR), 0.05, &Noise::default()).unwrap();
        let wide = interval(&cell(&VALUES, &FAR), 0.05, &noise).unwrap();
        let by = (narrow.high - narrow.estimate).hypot(0.03);
        assert!((wide.high - wide.estimate - by).abs() < 1e-12);
    }

    #[test]
    fn few_differences_take_the_noise_of_all_cells() {
        let all = cell(&VALUES, &FAR);
        let noise = Noise::of([all.as_slice()].into_iter(), &[]);
        assert_eq!(noise.freedom, 7);
        let few = interval(&all[..2], 0.05, &noise).unwrap();
        assert!(few.low < -0.1 && few.high > -0.1);
        assert_eq!(tested(&all[..2], 0.05, &noise), None);
        assert_eq!(interval(&all[..2], 0.05, &Noise::default()), None);
        assert_eq!(interval(&[], 0.05, &noise), None);
    }

    #[test]
    fn thousands_of_differences_are_no_problem() {
        let mut random = whyslow_stats::random::Random::new(7);
        let values: Vec<f64> = (0..3000).map(|_| 0.02 * random.normal()).collect();
        let baselines: Vec<_> = (0..3000).map(|at| [2 * at, 2 * at + 1]).collect();
        let found = interval(&cell(&values, &baselines), 0.05, &Noise::default()).unwrap();
        assert!(found.low < 0.0 && found.high > 0.0 && found.high - found.low < 0.003, "{found:?}");
    }
}
