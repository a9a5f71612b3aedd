//! Two commands in pairs: how large their ratio is, and how sure that is.

use whyslow_stats::pairs::{ALPHA, Interval, Walsh, log_ratios};

/// The ratio of the second to the first of each pair. None if there are too few for an interval.
pub(super) fn ratio(pairs: &[(f64, f64)]) -> Option<Interval> {
    let (first, second) = pairs.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>();
    shift(&log_ratios(&first, &second)?).map(Interval::exp)
}

/// The estimate and the interval of where values lie: of differences between the two of each pair, for example.
pub(super) fn shift(values: &[f64]) -> Option<Interval> {
    Walsh::new(values).interval(ALPHA)
}
