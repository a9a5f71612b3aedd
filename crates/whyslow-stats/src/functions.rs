//! Finds which of many functions changed, from a few runs of each side.
//!
//! With five runs the variance of one function is hardly known, but that of all functions together is. So
//! each variance is shrunk towards a trend (limma's moderated t), and never below the variance of sampling
//! itself:
//!
//! ```text
//! d    = ln(B + 1/2) - ln(A + 1/2)          per pair of runs; k pairs, df = k - 1
//! s²   = var(d) / 2,  m = mean count        trend:  tau = D/m + phi,  D >= 1
//! v    = max((d0·s0·tau + df·s²) / (d0 + df), 1/m)
//! t    = mean(d) / sqrt(2v/k)               on d0 + df degrees of freedom
//! ```
//! Of the functions reported as changed, at most 5 % are noise (Benjamini and Hochberg).

use statrs::function::gamma::digamma;

use crate::chance::{student_quantile, student_two_sided};
use crate::line::Sums;
use crate::pairs::Interval;
use crate::{mean, variance};

/// Functions with fewer samples per run are left out: they say nothing and would distort the trend.
pub const MIN_MEAN: f64 = 10.0;
/// With fewer pairs of runs the variances are guesses.
pub const MIN_PAIRS: usize = 3;

/// The result for one function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moderated {
    /// The logarithm of the ratio of after to before, with its 95 % confidence interval.
    pub change: Interval,
    /// The moderated t statistic.
    pub t: f64,
    /// The probability of such a difference without a change.
    pub p: f64,
    /// The share of wrong claims if every function with this q or a smaller one is claimed to have changed.
    pub q: f64,
}

/// The variance model that all functions share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// The sampling part of the trend.
    pub sampling: f64,
    /// The run-to-run part of the trend.
    pub between_runs: f64,
    /// How many degrees of freedom the trend is worth; infinite where the variances scatter no more than by
    /// chance.
    pub freedom: f64,
    /// The ratio of the variances to the trend.
    pub scale: f64,
}

/// Whether a function is compared at all: one side must have enough samples of it.
pub fn is_kept(before: &[f64], after: &[f64]) -> bool {
    mean(before).max(mean(after)) >= MIN_MEAN
}

/// Compares functions by their sample counts in each run, before and after. Run i of one side is paired with
/// run i of the other. `None` for fewer than [`MIN_PAIRS`] runs, or without functions.
pub fn compare(functions: &[(Vec<f64>, Vec<f64>)]) -> Option<(Vec<Moderated>, Prior)> {
    let pairs = functions.first()?.0.len();
    if pairs < MIN_PAIRS
        || functions.iter().any(|(before, after)| before.len() != pairs || after.len() != pairs)
    {
        return None;
    }
    let freedom = (pairs - 1) as f64;
    let differences = functions.iter().map(|(before, after)| {
        let pairs = before.iter().zip(after);
        pairs.map(|(before, after)| (after + 0.5).ln() - (before + 0.5).ln()).collect::<Vec<_>>()
    });
    let differences = differences.collect::<Vec<_>>();
    let spreads = differences.iter().map(|some| variance(some).unwrap_or(0.0) / 2.0).collect::<Vec<_>>();
    // One over the mean count: the variance of sampling alone.
    let chances =
        functions.iter().map(|(before, after)| 2.0 / (mean(before) + mean(after)).max(f64::MIN_POSITIVE));
    let chances = chances.collect::<Vec<_>>();
    let prior = prior(&spreads, &chances, freedom);
    let total_freedom = prior.freedom + freedom;
    let row = |((differences, spread), chance): ((&Vec<f64>, &f64), &f64)| {
        let trend = prior.sampling * chance + prior.between_runs;
        let moderated = if prior.freedom.is_infinite() {
            prior.scale * trend
        } else {
            (prior.freedom * prior.scale * trend + freedom * spread) / total_freedom
        };
        let error = (2.0 * moderated.max(*chance) / pairs as f64).sqrt();
        let estimate = mean(differences);
        let width = student_quantile(0.975, total_freedom);
        let change = Interval { estimate, low: estimate - width * error, high: estimate + width * error };
        let t = estimate / error;
        Moderated { change, t, p: student_two_sided(t, total_freedom), q: 1.0 }
    };
    let mut rows = differences.iter().zip(&spreads).zip(&chances).map(row).collect::<Vec<_>>();
    let rates = false_claims(&rows.iter().map(|row| row.p).collect::<Vec<_>>());
    for (row, q) in rows.iter_mut().zip(rates) {
        row.q = q;
    }
    Some((rows, prior))
}

/// Benjamini and Hochberg's q of each p.
pub fn false_claims(chances: &[f64]) -> Vec<f64> {
    let mut order = (0..chances.len()).collect::<Vec<_>>();
    order.sort_by(|one, other| chances[*one].total_cmp(&chances[*other]));
    let mut rates = vec![1.0; chances.len()];
    let mut least = 1.0f64;
    for (rank, row) in order.into_iter().enumerate().rev() {
        least = least.min(chances[row] * chances.len() as f64 / (rank + 1) as f64);
        rates[row] = least;
    }
    rates
}

/// Fits the trend of the variances, and how far they scatter around it.
fn prior(spreads: &[f64], chances: &[f64], freedom: f64) -> Prior {
    const STEPS: usize = 15;
    const MIN_BETWEEN: f64 = 1e-6;
    let (mut sampling, mut between) = (1.0f64, 1e-3f64);
    for _ in 0..STEPS {
        // Least squares, with less weight for extreme variances.
        let point = |(spread, chance): (&f64, &f64)| {
            let trend = sampling * chance + between;
            (*chance, *spread, (6.0 * trend / spread.max(1e-12)).min(1.0) / (trend * trend))
        };
        let sums = spreads.iter().zip(chances).map(point).collect::<Sums>();
        (between, sampling) = sums.line();
        // If all functions have the same count, the two parts cannot be separated and `sampling` is not a
        // number, which is not below 1.
        if sampling.is_nan() || sampling < 1.0 {
            (sampling, between) = (1.0, (sums.y - sums.x) / sums.one);
        }
        if between.is_nan() || between < MIN_BETWEEN {
            (sampling, between) = ((sums.xy / sums.xx).max(1.0), MIN_BETWEEN);
        }
    }
    let logarithms = spreads.iter().zip(chances).map(|(spread, chance)| {
        let of_trend = (spread / (sampling * chance + between)).max(1e-4);
        of_trend.ln() - digamma(freedom / 2.0) + (freedom / 2.0).ln()
    });
    let logarithms = logarithms.collect::<Vec<_>>();
    let excess = variance(&logarithms).map_or(0.0, |variance| variance - trigamma(freedom / 2.0));
    let centre = mean(&logarithms);
    let (freedom, scale) = if excess > 0.0 {
        let freedom = 2.0 * trigamma_inverse(excess);
        (freedom, (centre + digamma(freedom / 2.0) - (freedom / 2.0).ln()).exp())
    } else {
        (f64::INFINITY, centre.exp())
    };
    Prior { sampling, between_runs: between, freedom, scale }
}

/// The trigamma function and its derivative: the recurrence, up to where the series is exact.
fn trigamma_and_slope(at: f64) -> (f64, f64) {
    let (mut at, mut value, mut slope) = (at, 0.0, 0.0);
    while at < 12.0 {
        value += 1.0 / (at * at);
        slope -= 2.0 / (at * at * at);
        at += 1.0;
    }
    let square = 1.0 / (at * at);
    // 1/x + 1/2x² + 1/6x³ - 1/30x⁵ + 1/42x⁷ - 1/30x⁹ + 5/66x¹¹
    let series = 1.0 / 6.0
        - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square * (1.0 / 30.0 - square * 5.0 / 66.0)));
    value += 1.0 / at + square / 2.0 + square / at * series;
    let steps =
        0.5 - square * (1.0 / 6.0 - square * (1.0 / 6.0 - square * (3.0 / 10.0 - square * 5.0 / 6.0)));
    slope -= square + square / at + square * square * steps;
    (value, slope)
}

fn trigamma(at: f64) -> f64 {
    trigamma_and_slope(at).0
}

/// The inverse of the trigamma function.
fn trigamma_inverse(value: f64) -> f64 {
    let mut at = 0.5 + 1.0 / value;
    for _ in 0..50 {
        let (trigamma, slope) = trigamma_and_slope(at);
        let step = trigamma * (1.0 - trigamma / value) / slope;
        at += step;
        if -step / at < 1e-8 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn near(one: f64, other: f64, share: f64) -> bool {
        (one - other).abs() <= share * other.abs()
    }

    /// Six functions; the third grew by a quarter.
    #[test]
    fn matches_the_reference_values() {
        let before = [
            [1000, 410, 205, 98, 52, 31],
            [1012, 398, 190, 110, 47, 25],
            [985, 402, 214, 92, 58, 36],
            [1021, 421, 199, 101, 44, 29],
        ];
        let after = [
            [1007, 405, 251, 104, 49, 28],
            [996, 417, 240, 95, 55, 33],
            [1015, 396, 262, 107, 50, 27],
            [990, 409, 247, 99, 46, 35],
        ];
        let column =
            |rows: &[[i32; 6]; 4], at: usize| rows.iter().map(|row| f64::from(row[at])).collect::<Vec<_>>();
        let functions = (0..6).map(|at| (column(&before, at), column(&after, at))).collect::<Vec<_>>();
        let (rows, prior) = compare(&functions).unwrap();
        assert!(near(prior.sampling, 1.0, 1e-9) && near(prior.freedom, 3.24083, 1e-5), "{prior:?}");
        assert!(near(rows[2].t, 4.5316, 1e-4) && near(rows[2].q, 0.021_581, 1e-3), "{:?}", rows[2]);
        assert!(rows.iter().enumerate().all(|(at, row)| (row.q <= 0.05) == (at == 2)), "{rows:?}");
        assert!(rows[2].change.low < 1.24f64.ln() && 1.24f64.ln() < rows[2].change.high);
    }

    #[test]
    fn special_functions_match_known_values() {
        assert!(near(trigamma(1.0), std::f64::consts::PI.powi(2) / 6.0, 1e-12));
        assert!(near(trigamma(0.5), std::f64::consts::PI.powi(2) / 2.0, 1e-12));
        assert!(near(trigamma_and_slope(1.0).1, -2.404_113_806_319_188_6, 1e-11));
        assert!(near(trigamma(trigamma_inverse(0.3)), 0.3, 1e-9));
    }

    #[test]
    fn rates_of_false_claims_grow_with_p() {
        assert_eq!(false_claims(&[0.04, 0.01, 0.9]), [0.06, 0.03, 0.9]);
        assert!(false_claims(&[]).is_empty());
    }

    fn poisson(mean: f64, random: &mut Random) -> f64 {
        (mean + mean.sqrt() * random.normal()).round().max(0.0)
    }

    /// Of 300 comparisons of a program with itself, at most 7 % report a changed function. A function that
    /// grew by half is found.
    #[test]
    fn false_claims_are_rare_and_real_changes_are_found() {
        let shares = [300.0, 200.0, 120.0, 90.0, 60.0, 50.0, 40.0, 30.0, 25.0, 20.0, 15.0, 12.0];
        let (mut wrong, mut found, mut held) = (0, 0, 0);
        for seed in 0..300 {
            let mut random = Random::new(seed);
            for grown in [false, true] {
                let functions = shares.map(|share| {
                    let factor = if grown && share == 120.0 { 1.5 } else { 1.0 };
                    let mut runs = |factor: f64| {
                        let run = |_| {
                            let speed = 1.0 + 0.03 * random.normal();
                            poisson(share * factor * speed, &mut random)
                        };
                        (0..6).map(run).collect::<Vec<_>>()
                    };
                    (runs(1.0), runs(factor))
                });
                let (rows, _) = compare(&functions).unwrap();
                match grown {
                    false => wrong += u32::from(rows.iter().any(|row| row.q <= 0.05)),
                    true => {
                        found += u32::from(rows[2].q <= 0.05 && rows[2].change.estimate > 0.0);
                        held += u32::from(
                            rows[2].change.low <= 1.5f64.ln() && 1.5f64.ln() <= rows[2].change.high,
                        );
                    }
                }
            }
        }
        assert!(wrong <= 21, "{wrong} of 300 comparisons have a wrong claim");
        assert!(found >= 280, "found {found} of 300");
        assert!((278..=297).contains(&held), "the interval held {held} of 300");
    }

    #[test]
    fn too_few_runs_give_no_result() {
        assert_eq!(compare(&[(vec![10.0; 2], vec![20.0; 2])]), None);
        assert_eq!(compare(&[]), None);
        // All values equal, without any spread.
        let (rows, _) = compare(&[(vec![10.0; 5], vec![10.0; 5]), (vec![10.0; 5], vec![10.0; 5])]).unwrap();
        assert!(
            rows.iter().all(|row| row.q > 0.05 && row.change.low <= 0.0 && row.change.high >= 0.0),
            "{rows:?}"
        );
    }
}
