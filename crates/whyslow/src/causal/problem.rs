//! What is said where experiments cannot answer.

use std::time::Duration;

use whyslow_words::{duration, number_of};

use super::whole_runs::least_runs;
use crate::failure::Failure;

/// Why experiments cannot answer, found while the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// They take longer than the budget.
    TooLong {
        /// What one run takes.
        run: Duration,
        /// The time for all.
        budget: Duration,
    },
    /// The first run did not end within the budget.
    Endless {
        /// The time for all.
        budget: Duration,
    },
    /// The user allows fewer.
    TooFew {
        /// How many.
        runs: u32,
    },
    /// Nothing that the user names as a target was sampled.
    NotSampled {
        /// What the user names, each with names that are near.
        wanted: Vec<(String, Vec<String>)>,
        /// How many samples there were.
        samples: u64,
    },
}

const WHY: &str = "the program has no progress point, so whole runs are compared";
const POINT: &str = "--progress FUNCTION, a function that runs once per request or item";

impl Problem {
    /// The error that the user sees.
    pub(crate) fn failure(&self) -> Failure {
        let least = least_runs(1);
        match self {
            Self::TooLong { run, budget } => {
                let all = run.saturating_mul(least);
                Failure::new(format!(
                    "{WHY}. One run takes {}: {least} runs, the least for an answer, would take {}. The budget is {}",
                    spoken(*run),
                    spoken(all),
                    spoken(*budget)
                ))
                .next(format!("{POINT}, or --budget {}s", all.as_secs() + 1))
            }
            Self::Endless { budget } => Failure::new(format!(
                "{WHY}, and the first run did not end within the budget of {}",
                spoken(*budget)
            ))
            .next(POINT),
            Self::NotSampled { wanted, samples } => {
                let what: Vec<&str> = wanted.iter().map(|(what, _)| what.as_str()).collect();
                let samples = number_of(*samples, "sample", "samples");
                let failure = Failure::new(format!("{}: none of {samples} is in it", what.join(", ")));
                let near: Vec<&str> = wanted.iter().flat_map(|(_, near)| near).map(String::as_str).collect();
                failure.next(match near[..] {
                    [] => "whyslow PROGRAM lists the functions and lines that take time".to_owned(),
                    _ => near.join(", or "),
                })
            }
            Self::TooFew { runs } => {
                let allowed = number_of(u64::from(*runs), "run", "runs");
                Failure::new(format!("{WHY}. --runs allows {allowed}, and an answer takes at least {least}"))
                    .next(format!("{POINT}, or --runs {least}"))
            }
        }
    }

    /// A line as soon as it is certain that the budget is too small, while the first run goes on.
    pub(crate) fn early(so_far: Duration, budget: Duration) -> String {
        format!(
            "there is no progress point so far. Whole runs would be compared, but a run takes more than {}: {} of them, \
             the least for an answer, do not fit into the budget of {}; try: {POINT}, or a larger --budget",
            spoken(so_far),
            least_runs(1),
            spoken(budget)
        )
    }
}

fn spoken(time: Duration) -> String {
    duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// A warning about names of the user that were not sampled, where others were.
pub(crate) fn not_sampled(what: &str, near: &[String]) -> String {
    match near {
        [] => format!("{what}: no sample is in it, so it is no target"),
        near => format!("{what}: no sample is in it, so it is no target; try: {}", near.join(", or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_runs_too_long_is_told_what_all_runs_would_take() {
        let seconds = Duration::from_secs;
        let problem = Problem::TooLong { run: seconds(41), budget: seconds(60) };
        let text = problem.failure().to_string();
        for part in
            ["One run takes 41.0 s", "32 runs", "21 min 52 s", "--progress FUNCTION", "--budget 1313s"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_name_that_was_not_sampled_is_answered_with_near_ones() {
        let wanted = vec![("--function pasre".to_owned(), vec!["app::parse".to_owned()])];
        let text = Problem::NotSampled { wanted, samples: 900 }.failure().to_string();
        assert_eq!(text, "--function pasre: none of 900 samples is in it; try: app::parse");
    }
}
