//! Whole runs as experiments, for programs without a progress point: how many are needed, and how many fit into the budget.

use std::time::Duration;

use whyslow_causal::schedule::least_experiments;

use super::problem::Problem;

/// How many runs decide this many targets at the earliest: the first one finds them.
pub(super) fn least_runs(targets: usize) -> u32 {
    1 + u32::try_from(least_experiments(targets)).unwrap_or(u32::MAX - 1)
}

/// Whether it is certain after this time that too few runs fit into the budget.
pub(crate) fn is_too_long(run: Duration, budget: Duration) -> bool {
    run.saturating_mul(least_runs(1)) > budget
}

/// How many targets, at most so many, can be decided.
pub(crate) fn targets_that_fit(
    run: Duration,
    budget: Duration,
    runs: u32,
    most: usize,
) -> Result<usize, Problem> {
    if least_runs(1) > runs {
        return Err(Problem::TooFew { runs });
    }
    if is_too_long(run, budget) {
        return Err(Problem::TooLong { run, budget });
    }
    let fits = |targets: &usize| {
        let least = least_runs(*targets);
        least <= runs && run.saturating_mul(least) <= budget
    };
    Ok((1..=most).rev().find(fits).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn as_many_targets_are_tried_as_runs_fit() {
        let fit = |run_ms, runs| targets_that_fit(Duration::from_millis(run_ms), seconds(60), runs, 8);
        assert_eq!(fit(1, 1000), Ok(8));
        // 32 runs for one target, 56 for two.
        assert_eq!((fit(1000, 1000), fit(1100, 1000)), (Ok(2), Ok(1)));
        assert_eq!(fit(1, 56), Ok(2));
        assert_eq!(fit(1, 31), Err(Problem::TooFew { runs: 31 }));
        assert_eq!(fit(2000, 1000), Err(Problem::TooLong { run: seconds(2), budget: seconds(60) }));
    }

    #[test]
    fn it_is_certain_early_that_runs_are_too_long() {
        assert!(is_too_long(seconds(2), seconds(60)) && !is_too_long(seconds(1), seconds(60)));
    }
}
