//! The CI gate: each number of each bench passes, or says why not.

use serde::Serialize;
use whyslow_stats::pairs::Interval;
use whyslow_stats::verdict::Verdict;

use crate::judge::Comparison;
use crate::run::{Metric, MetricUnit};

/// The result of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is unchanged, or the difference does not matter.
    Pass,
    /// It went down.
    Better,
    /// It went up.
    Regression,
    /// It went up, and the configuration accepts that.
    Accepted,
    /// It is undecided.
    Undecided,
    /// It exceeds the budget.
    OverBudget,
    /// Base has this bench, head does not.
    Vanished,
    /// Head has this bench, base does not: there is no comparison.
    New,
}

impl State {
    /// The words used in text.
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

    /// Whether it fails the gate.
    pub fn fails(self) -> bool {
        matches!(self, Self::Regression | Self::OverBudget | Self::Vanished)
    }
}

/// A number of a bench and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The bench.
    pub bench: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: MetricUnit,
    /// The median of base.
    pub before: Option<f64>,
    /// The median of head; with a budget, the value compared with it.
    pub after: Option<f64>,
    /// Head over base.
    pub ratio: Option<Interval>,
    /// The result.
    pub state: State,
    /// The budget, or why a regression is accepted.
    pub because: Option<String>,
}

/// The result of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The change may be merged.
    Pass,
    /// The change must not be merged.
    Regression,
    /// There is no decision.
    Undecided,
}

/// A regression that the configuration accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The largest accepted change, as a share.
    pub up_to: f64,
    /// Why.
    pub reason: String,
}

impl Row {
    /// The row of a comparison of head with base.
    pub fn of(
        bench: &str,
        comparison: &Comparison,
        values: [Option<f64>; 2],
        margin: f64,
        accepted: Option<&Accepted>,
    ) -> Self {
        let change = comparison.ratio.map(|ratio| ratio.estimate - 1.0);
        let (state, because) = match (comparison.verdict, change) {
            // Certain, but too small to matter.
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

    /// The row of a budget.
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

/// The result of all rows; `undecided_passes` lets undecided rows pass.
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
    fn certain_and_relevant_change_is_a_regression() {
        assert_eq!(state(Verdict::More, 1.10, None), State::Regression);
        assert_eq!(state(Verdict::More, 1.015, None), State::Pass);
        assert_eq!(state(Verdict::More, 1.10, Some(0.12)), State::Accepted);
        assert_eq!(state(Verdict::More, 1.10, Some(0.08)), State::Regression);
        assert_eq!(state(Verdict::Less, 0.9, None), State::Better);
        assert_eq!(state(Verdict::Undecided, 1.5, Some(0.9)), State::Undecided);
    }

    #[test]
    fn one_failure_fails_and_undecided_follows_the_policy() {
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
