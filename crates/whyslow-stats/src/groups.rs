//! Compares two groups of runs that are not paired, such as runs of different days.
//!
//! Hodges and Lehmann's shift: the median of all differences, with the interval of the rank-sum test. The
//! interval covers the noise within each group, but not changes between the groups: a comparison of different
//! days has to widen it.

use crate::chance::normal_quantile;
use crate::median_of_sorted;
use crate::pairs::Interval;

/// An allowance for day-to-day changes of a machine, as the logarithm of a ratio.
pub const BETWEEN_DAYS: f64 = 0.139_762; // ln 1.15

/// The shift of the second group against the first, with its interval; `None` if the groups are too small.
pub fn shift(first: &[f64], second: &[f64], alpha: f64) -> Option<Interval> {
    let mut differences = Vec::with_capacity(first.len() * second.len());
    for value in second {
        differences.extend(first.iter().map(|other| value - other));
    }
    if !differences.iter().all(|difference| difference.is_finite()) {
        return None;
    }
    differences.sort_by(f64::total_cmp);
    let (first, second) = (first.len() as f64, second.len() as f64);
    let deviation = (first * second * (first + second + 1.0) / 12.0).sqrt();
    let outside = (first * second / 2.0 - normal_quantile(1.0 - alpha / 2.0) * deviation).floor();
    let outside = if outside >= 1.0 { outside as usize } else { return None };
    Some(Interval {
        estimate: median_of_sorted(&differences),
        low: differences[outside - 1],
        high: differences[differences.len() - outside],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn interval_covers_the_true_value_as_often_as_claimed() {
        let mut held = 0;
        for seed in 0..1000 {
            let mut random = Random::new(seed);
            let first = (0..10).map(|_| random.normal()).collect::<Vec<_>>();
            let second = (0..14).map(|_| 1.0 + random.normal()).collect::<Vec<_>>();
            let Interval { low, high, .. } = shift(&first, &second, 0.05).unwrap();
            held += u32::from(low <= 1.0 && 1.0 <= high);
        }
        assert!((930..=975).contains(&held), "{held} of 1000");
    }

    #[test]
    fn too_few_values_give_no_interval() {
        assert_eq!(shift(&[1.0; 3], &[2.0; 3], 0.05), None);
        assert_eq!(shift(&[], &[], 0.05), None);
        assert_eq!(shift(&[f64::NEG_INFINITY; 10], &[1.0; 10], 0.05), None);
        assert!((BETWEEN_DAYS - 1.15f64.ln()).abs() < 1e-6);
    }
}
