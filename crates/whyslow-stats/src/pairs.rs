//! Compares two commands by pairs of runs: an estimate of their ratio, and its confidence interval.
//!
//! The Hodges-Lehmann estimate with the exact interval of the signed-rank test. For the differences d =
//! ln(B/A) of n pairs:
//!
//! ```text
//! Walsh averages   W = sorted (d[i] + d[j]) / 2 for i <= j,   M = n(n+1)/2 of them
//! estimate         their median
//! interval         [W(c), W(M+1-c)],   c = how many t have P(T+ <= t) <= alpha/2;   T+ = sum of k·coin over k = 1..n
//! ```
//! It assumes nothing about the distribution of the noise, and a few extreme runs do not move it. Its only
//! assumption is that the order in each pair was random.

use crate::chance::normal_quantile;
use crate::median_of_sorted;

/// The probability that an interval misses the true value.
pub const ALPHA: f64 = 0.05;

/// An estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Moves both ends outwards by this much.
    #[must_use]
    pub fn widened(self, by: f64) -> Self {
        Self { low: self.low - by, high: self.high + by, ..self }
    }

    /// Moves all three values by this much.
    #[must_use]
    pub fn moved(self, by: f64) -> Self {
        Self { estimate: self.estimate + by, low: self.low + by, high: self.high + by }
    }

    /// Turns an interval of logarithms into one of ratios.
    #[must_use]
    pub fn exp(self) -> Self {
        Self { estimate: self.estimate.exp(), low: self.low.exp(), high: self.high.exp() }
    }
}

/// The logarithm of second over first for each pair; `None` if one of them has no logarithm.
pub fn log_ratios(first: &[f64], second: &[f64]) -> Option<Vec<f64>> {
    let ratio = |(first, second): (&f64, &f64)| {
        let ratio = (second / first).ln();
        ratio.is_finite().then_some(ratio)
    };
    first.iter().zip(second).map(ratio).collect()
}

/// The sorted averages of all pairs of differences, each difference also paired with itself.
#[derive(Debug, Clone)]
pub struct Walsh {
    sorted: Vec<f64>,
    differences: usize,
}

/// Averages below this are 0: ln(a/b) and ln(b/a) add up to a rounding error.
const ROUNDING: f64 = 1e-12;

impl Walsh {
    /// Builds the averages of differences, which must be finite.
    pub fn new(differences: &[f64]) -> Self {
        let count = differences.len();
        let mut sorted = Vec::with_capacity(count * (count + 1) / 2);
        for (at, value) in differences.iter().enumerate() {
            let averages = differences[at..].iter().map(|other| f64::midpoint(*value, *other));
            sorted.extend(averages.map(|average| if average.abs() < ROUNDING { 0.0 } else { average }));
        }
        sorted.sort_by(f64::total_cmp);
        Self { sorted, differences: count }
    }

    /// The Hodges-Lehmann estimate; 0 without differences.
    pub fn estimate(&self) -> f64 {
        median_of_sorted(&self.sorted)
    }

    /// The interval that misses the true value with probability `alpha` at most; `None` with too few
    /// differences.
    pub fn interval(&self, alpha: f64) -> Option<Interval> {
        self.between(tail_count(self.differences, alpha))
    }

    /// The interval from the average of this rank to the one of the same rank from the other end.
    pub fn between(&self, rank: usize) -> Option<Interval> {
        let low = *self.sorted.get(rank.checked_sub(1)?)?;
        Some(Interval { estimate: self.estimate(), low, high: self.sorted[self.sorted.len() - rank] })
    }

    /// The standard error of the estimate, from the middle of the averages; `None` for fewer than four
    /// differences.
    pub fn standard_error(&self) -> Option<f64> {
        let rank = tail_count(self.differences, 0.32);
        let middle = self.between(rank)?;
        Some((middle.high - middle.low) / (2.0 * normal_quantile(1.0 - tail(self.differences, rank))))
    }
}

/// The number c of the interval: how many values of the statistic are in the lower tail. 0 means that there
/// is no interval at this level.
pub fn tail_count(differences: usize, alpha: f64) -> usize {
    let mut below = 0.0;
    let in_tail = |chance: &&f64| {
        below += **chance;
        below <= alpha / 2.0 + 1e-12
    };
    statistic(differences).iter().take_while(in_tail).count()
}

/// The probability that the statistic is below `rank`.
fn tail(differences: usize, rank: usize) -> f64 {
    statistic(differences).iter().take(rank).sum()
}

/// The distribution of the sum of the ranks whose coin shows heads.
fn statistic(differences: usize) -> Vec<f64> {
    let mut chances = vec![0.0; differences * (differences + 1) / 2 + 1];
    chances[0] = 1.0;
    let mut last = 0;
    for rank in 1..=differences {
        last += rank;
        for sum in (0..=last).rev() {
            let without = if sum <= last - rank { chances[sum] } else { 0.0 };
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = f64::midpoint(without, with);
        }
    }
    chances
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const FASTER: [f64; 12] = [
        -0.0521, -0.0387, -0.0610, 0.0124, -0.0455, -0.0298, -0.0733, -0.0412, 0.0051, -0.0349, -0.0566,
        -0.0240,
    ];
    pub(crate) const UNDECIDED: [f64; 12] =
        [0.0081, -0.0312, 0.0204, -0.0155, 0.0377, -0.0023, 0.0149, -0.0268, 0.0312, 0.0060, -0.0101, 0.0225];

    fn assert_near(values: &[f64], alpha: f64, expected: [f64; 3]) {
        let Interval { estimate, low, high } = Walsh::new(values).interval(alpha).unwrap();
        let near = [estimate, low, high].iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9);
        assert!(near, "{estimate} [{low}, {high}]");
    }

    #[test]
    fn interval_matches_the_signed_rank_test() {
        assert_near(&FASTER, ALPHA, [-0.039325, -0.053250, -0.018050]);
        assert_near(&FASTER, 0.025, [-0.039325, -0.0560, -0.0149]);
        assert_near(&FASTER, 0.008, [-0.039325, -0.0588, -0.01125]);
        assert_near(&FASTER[..6], ALPHA, [-0.04095, -0.0610, 0.0124]);
        assert_near(&UNDECIDED, ALPHA, [0.0053, -0.0104, 0.0204]);
        assert_near(&[0.0, 0.0, 0.0, 0.01, -0.01, 0.01, 0.0, 0.0], ALPHA, [0.0, -0.005, 0.005]);
    }

    #[test]
    fn one_extreme_run_hardly_moves_the_estimate() {
        let mut wild = FASTER;
        wild[11] = 0.9;
        assert_near(&wild, ALPHA, [-0.037225, -0.05325, 0.00875]);
    }

    #[test]
    fn tails_are_exact() {
        let at = |alpha: f64, pairs: &[usize]| {
            pairs.iter().map(|pairs| tail_count(*pairs, alpha)).collect::<Vec<_>>()
        };
        assert_eq!(
            at(ALPHA, &[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 30, 40, 60, 200]),
            [0, 1, 3, 4, 6, 9, 11, 14, 18, 22, 26, 30, 53, 138, 265, 649, 8445]
        );
        assert_eq!(
            at(0.008, &[8, 12, 18, 27, 40, 60, 90, 135, 200]),
            [1, 7, 27, 81, 216, 558, 1393, 3388, 7883]
        );
        assert_eq!(
            at(0.004, &[8, 12, 18, 27, 40, 60, 90, 135, 200]),
            [0, 5, 22, 73, 200, 529, 1339, 3287, 7701]
        );
    }

    #[test]
    fn standard_error_matches_a_known_value() {
        assert!((Walsh::new(&UNDECIDED).standard_error().unwrap() - 0.007_497).abs() < 1e-6);
        assert_eq!(tail_count(12, 0.32), 26);
        assert!((normal_quantile(1.0 - tail(12, 26)) - 1.0337).abs() < 1e-4);
        assert_eq!(Walsh::new(&[0.1]).standard_error(), None);
    }

    #[test]
    fn ratio_is_second_over_first() {
        let ratios = log_ratios(&[100.0; 8], &[103.0; 8]).unwrap();
        let interval = Walsh::new(&ratios).interval(ALPHA).unwrap().exp();
        assert!((interval.estimate - 1.03).abs() < 1e-9 && interval.low <= interval.estimate);
        assert_eq!(log_ratios(&[0.0], &[1.0]), None);
        assert_eq!(Walsh::new(&ratios[..5]).interval(ALPHA), None);
        assert_eq!(Walsh::new(&[]).interval(ALPHA), None);
    }
}
