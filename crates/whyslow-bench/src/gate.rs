//! What may be merged: each number of each bench passes, or says why not.

use serde::Serialize;
use whyslow_stats::pairs::Interval;
use whyslow_stats::verdict::Verdict;

use crate::judge::Comparison;
use crate::run::{Metric, MetricUnit};

/// What became of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is as it was, or the difference does not matter.
    Pass,
    /// It is less than it was.
    Better,
    /// It is more than it was.
    Regression,
    /// It is more than it was, and somebody has agreed to that.
    Accepted,
    /// It is not decided.
    Undecided,
    /// It is more than the budget.
    OverBudget,
    /// Base has this bench, and head has not.
    Vanished,
    /// Head has this bench, and base has not: there is nothing to compare with.
    New,
}

impl State {
    /// The words for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Better => "better",
            Self::Regression => "regression",
            Self::Accepted => "accepted",
            Self::Undecided => "undecided",
            Self::OverBudget => "over budget",
            Self::Vanished => "vanished",
            Self::New => "new",
        }
    }

    /// Whether it must not be merged.
    pub fn fails(self) -> bool {
        matches!(self, Self::Regression | Self::OverBudget | Self::Vanished)
    }
}

/// A number of a bench, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The bench.
    pub bench: String,
    /// The number.
    pub metric: String,
    /// What it counts.
    pub unit: MetricUnit,
    /// Of base, the median.
    pub before: Option<f64>,
    /// Of head, the median; with a budget, what is compared with it.
    pub after: Option<f64>,
    /// Head over base.
    pub ratio: Option<Interval>,
    /// What became of it.
    pub state: State,
    /// The budget, or why a regression is accepted.
    pub because: Option<String>,
}

/// What became of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It may be merged.
    Pass,
    /// It must not.
    Regression,
    /// Nobody can say.
    Undecided,
}

/// A regression that somebody has agreed to.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// Up to which change, as a share.
    pub up_to: f64,
    /// Why.
    pub reason: String,
}

impl Row {
    /// Of a comparison of head with base.
    pub fn of(
        bench: &str,
        comparison: &Comparison,
        values: [Option<f64>; 2],
        margin: f64,
        accepted: Option<&Accepted>,
    ) -> Self {
        let change = comparison.ratio.map(|ratio| ratio.estimate - 1.0);
        let (state, because) = match (comparison.verdict, change) {
            // Certain, and too small to matter.
            (Verdict::More, Some(change)) if change <= margin => (State::Pass, None),
            (Verdict::More, change) => match accepted {
                Some(accepted) if change.is_some_and(|change| change <= accepted.up_to) => {
                    (State::Accepted, Some(accepted.reason.clone()))
                }
                _ => (State::Regression, None),
            },
            (Verdict::Less, Some(change)) if -change <= margin => (State::Pass, None),
            (Verdict::Less, _) => (State::Better, None),
            (Verdict::Equivalent, _) => (State::Pass, None),
            (Verdict::Undecided, _) => (State::Undecided, None),
        };
        let [before, after] = values;
        Self {
            bench: bench.to_owned(),
            metric: comparison.metric.label().to_owned(),
            unit: comparison.metric.unit(),
            before,
            after,
            ratio: comparison.ratio,
            state,
            because,
        }
    }

    /// Of a budget.
    pub fn budget(bench: &str, metric: &Metric, value: f64, limit: f64, shown: String) -> Self {
        Self {
            bench: bench.to_owned(),
            metric: format!("{} budget", metric.label()),
            unit: metric.unit(),
            before: None,
            after: Some(value),
            ratio: None,
            state: if value <= limit { State::Pass } else { State::OverBudget },
            because: Some(format!("at most {shown}")),
        }
    }

    /// A bench that only one side has.
    pub fn alone(bench: &str, state: State) -> Self {
        Self {
            bench: bench.to_owned(),
            metric: String::new(),
            unit: MetricUnit::Count,
            before: None,
            after: None,
            ratio: None,
            state,
            because: None,
        }
    }
}

/// What became of all rows; undecided ones may be let through.
pub fn outcome(rows: &[Row], undecided_passes: bool) -> Outcome {
    if rows.iter().any(|row| row.state.fails()) {
        Outcome::Regression
    } else if !undecided_passes && rows.iter().any(|row| row.state == State::Undecided) {
        Outcome::Undecided
    } else {
        Outcome::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(verdict: Verdict, ratio: f64) -> Comparison {
        Comparison {
            baseline: 0,
            candidate: 1,
            metric: Metric::Cpu,
            ratio: Some(Interval { estimate: ratio, low: ratio - 0.01, high: ratio + 0.01 }),
            confidence: 0.95,
            pairs: 20,
            verdict,
            decides: true,
            needed: None,
            differences: Vec::new(),
        }
    }

    fn state(verdict: Verdict, ratio: f64, accepted: Option<f64>) -> State {
        let accepted = accepted.map(|up_to| Accepted { up_to, reason: "it does more".to_owned() });
        Row::of("a", &comparison(verdict, ratio), [None; 2], 0.02, accepted.as_ref()).state
    }

    #[test]
    fn what_matters_and_is_certain_is_a_regression() {
        assert_eq!(state(Verdict::More, 1.10, None), State::Regression);
        assert_eq!(state(Verdict::More, 1.015, None), State::Pass);
        assert_eq!(state(Verdict::More, 1.10, Some(0.12)), State::Accepted);
        assert_eq!(state(Verdict::More, 1.10, Some(0.08)), State::Regression);
        assert_eq!(state(Verdict::Less, 0.9, None), State::Better);
        assert_eq!(state(Verdict::Undecided, 1.5, Some(0.9)), State::Undecided);
    }

    #[test]
    fn one_failure_is_enough_and_undecided_is_a_matter_of_policy() {
        let row = |state| Row::alone("a", state);
        assert_eq!(outcome(&[row(State::Pass), row(State::New), row(State::Accepted)], false), Outcome::Pass);
        assert_eq!(outcome(&[row(State::Pass), row(State::Undecided)], false), Outcome::Undecided);
        assert_eq!(outcome(&[row(State::Pass), row(State::Undecided)], true), Outcome::Pass);
        for failing in [State::Regression, State::OverBudget, State::Vanished] {
            assert_eq!(outcome(&[row(State::Undecided), row(failing)], true), Outcome::Regression);
        }
        assert_eq!(Row::budget("a", &Metric::Wall, 2.0, 1.0, "1 s".to_owned()).state, State::OverBudget);
    }
}
