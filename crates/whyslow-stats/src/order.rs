//! The median of one group of runs with its confidence interval, from the order of the values alone.
//!
//! ```text
//! interval   [x(c), x(n+1-c)] of the sorted values,   c = how many t have P(B <= t) <= alpha/2;   B = heads of n coins
//! ```
//! It assumes nothing about the distribution of the values.

use crate::median_of_sorted;
use crate::pairs::Interval;

/// The median and the interval that misses the true one with probability `alpha` at most; `None` with too few values.
pub fn median_interval(values: &[f64], alpha: f64) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (mut chance, mut below, mut rank) = (0.5f64.powi(i32::try_from(count).ok()?), 0.0, 0);
    while rank <= count / 2 {
        below += chance;
        if below > alpha / 2.0 + 1e-12 {
            break;
        }
        rank += 1;
        chance *= (count + 1 - rank) as f64 / rank as f64;
    }
    let low = *sorted.get(rank.checked_sub(1)?)?;
    Some(Interval { estimate: median_of_sorted(&sorted), low, high: sorted[count - rank] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::ALPHA;

    /// The ranks of the usual tables of the sign test.
    #[test]
    fn ranks_match_the_sign_test() {
        for (count, rank) in
            [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (30, 10), (60, 22), (200, 86)]
        {
            let values = (1..=count).map(f64::from).rev().collect::<Vec<_>>();
            let interval = median_interval(&values, ALPHA).unwrap();
            assert_eq!(
                (interval.low, interval.high),
                (f64::from(rank), f64::from(count + 1 - rank)),
                "{count}"
            );
            assert!((interval.estimate - f64::from(count + 1) / 2.0).abs() < 1e-9);
        }
    }

    #[test]
    fn five_values_have_no_interval() {
        assert_eq!(median_interval(&[1.0; 5], ALPHA), None);
        assert_eq!(median_interval(&[], ALPHA), None);
    }
}
