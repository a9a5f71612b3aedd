//! Two commands in pairs: their ratio, and its confidence interval.

use whyslow_stats::pairs::{ALPHA, Interval, Walsh, log_ratios};

/// The ratio of the second to the first of each pair. `None` if there are too few for an interval.
pub(super) fn ratio(pairs: &[(f64, f64)]) -> Option<Interval> {
    let (first, second) = pairs.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>();
    shift(&log_ratios(&first, &second)?).map(Interval::exp)
}

/// The estimated location of values with its interval, for example of the differences within pairs.
pub(super) fn shift(values: &[f64]) -> Option<Interval> {
    Walsh::new(values).interval(ALPHA)
}
