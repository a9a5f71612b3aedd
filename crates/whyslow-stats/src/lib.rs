//! The statistics of whyslow. Pure arithmetic: nothing here runs, reads or prints.
//!
//! ```text
//! pairs       two commands in alternating runs: the ratio and its exact confidence interval
//! groups      two groups of runs that are not paired
//! order       one group of runs: the interval of its median
//! verdict     what an interval supports: less, more, equivalent, undecided; how many more pairs it would take
//! interim     checks at fixed points of a series, to stop once it is decided
//! witness     which time decides: wall time or CPU time
//! hygiene     what is odd about a series: outliers, two modes, drift, a coarse clock
//! functions   many functions over a few runs each: moderated statistics
//! growth      how a cost grows with the size of the input
//! line        the straight line through weighted points
//! chance      probability distributions
//! random      the generator behind every order and every simulation
//! ```

pub mod chance;
pub mod functions;
pub mod groups;
pub mod growth;
pub mod hygiene;
pub mod interim;
mod line;
pub mod order;
pub mod pairs;
pub mod random;
pub mod verdict;
pub mod witness;

/// The median of some values; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[length / 2],
        length => f64::midpoint(sorted[length / 2 - 1], sorted[length / 2]),
    }
}

/// Half the width of the 95 % confidence interval of the mean; `None` for fewer than two values.
pub fn margin_of_mean(values: &[f64]) -> Option<f64> {
    let error = (variance(values)? / values.len() as f64).sqrt();
    Some(chance::student_quantile(0.975, values.len() as f64 - 1.0) * error)
}

/// The arithmetic mean; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The sample variance; `None` for fewer than two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let mean = mean(values);
    Some(values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64)
}
