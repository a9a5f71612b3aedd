//! The CI gate: each number of each bench passes, or says why not.
//!
//! A limit is compared with the whole interval of a number, never with its estimate alone:
//!
//! ```text
//! interval below the limit      it keeps the limit
//! interval above the limit      it exceeds the limit
//! limit within the interval     undecided
//! ```

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
    /// With a budget, the interval of that value.
    pub range: Option<[f64; 2]>,
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

/// A rule of the configuration that head changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleChange {
    /// The bench; `None` for a rule of all benches.
    pub bench: Option<String>,
    /// The key in the file.
    pub rule: &'static str,
    /// Its value in base.
    pub base: Option<String>,
    /// Its value in head.
    pub head: Option<String>,
    /// The side whose value applies.
    pub applies: Applies,
}

/// The side whose rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Applies {
    /// What judges head comes from base: a change must not loosen its own limits.
    Base,
    /// What runs comes from head.
    Head,
}

/// A regression that the configuration accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The largest accepted change, as a share.
    pub up_to: f64,
    /// Why.
    pub reason: String,
}

/// Where an interval is with respect to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Below,
    Around,
    Above,
}

impl Place {
    fn of(interval: Interval, limit: f64) -> Self {
        match interval {
            Interval { high, .. } if high <= limit => Self::Below,
            Interval { low, .. } if low > limit => Self::Above,
            _ => Self::Around,
        }
    }
}

/// Judges the ratio of head to base.
fn judged(ratio: Interval, margin: f64, accepted: Option<&Accepted>) -> (State, Option<String>) {
    let because = || accepted.map(|accepted| accepted.reason.clone());
    let in_accepted =
        accepted.map_or(Place::Above, |accepted| Place::of(ratio, 1.0 + accepted.up_to.max(margin)));
    match (Place::of(ratio, 1.0 + margin), in_accepted) {
        (Place::Below, _) if ratio.high < 1.0 && ratio.estimate < 1.0 - margin => (State::Better, None),
        (Place::Below, _) => (State::Pass, None),
        (_, Place::Below) => (State::Accepted, because()),
        (Place::Above, Place::Above) => (State::Regression, None),
        _ => (State::Undecided, None),
    }
}

/// A number that a budget limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measured {
    /// It is in this interval; exact numbers have one without width.
    Within(Interval),
    /// Too few runs for an interval.
    Roughly(f64),
    /// It could not be measured, so nothing shows that it keeps its budget.
    Not,
}

impl Measured {
    /// An exact number.
    pub fn exactly(value: f64) -> Self {
        Self::Within(Interval { estimate: value, low: value, high: value })
    }
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
        let (state, because) = match (comparison.ratio, comparison.verdict) {
            (Some(ratio), _) => judged(ratio, margin, accepted),
            // One of them is 0.
            (None, Verdict::More) => (State::Regression, None),
            (None, Verdict::Less) => (State::Better, None),
            (None, Verdict::Equivalent) => (State::Pass, None),
            (None, Verdict::Undecided) => (State::Undecided, None),
        };
        let [before, after] = values;
        Self {
            bench: bench.to_owned(),
            metric: comparison.metric.label().to_owned(),
            unit: comparison.metric.unit(),
            before,
            after,
            range: None,
            ratio: comparison.ratio,
            state,
            because,
        }
    }

    /// The row of a budget. Without an interval, the value is not known well enough.
    pub fn budget(bench: &str, metric: &Metric, value: Measured, limit: f64, shown: &str) -> Self {
        let (after, state) = match value {
            Measured::Within(interval) => (
                Some(interval.estimate),
                match Place::of(interval, limit) {
                    Place::Below => State::Pass,
                    Place::Around => State::Undecided,
                    Place::Above => State::OverBudget,
                },
            ),
            Measured::Roughly(value) => (Some(value), State::Undecided),
            Measured::Not => (None, State::OverBudget),
        };
        let range = match value {
            Measured::Within(Interval { low, high, .. }) => {
                Some([low, high]).filter(|[low, high]| low < high)
            }
            _ => None,
        };
        let why = if value == Measured::Not { ", but it cannot be measured here" } else { "" };
        Self {
            bench: bench.to_owned(),
            metric: format!("{} budget", metric.label()),
            unit: metric.unit(),
            before: None,
            after,
            range,
            ratio: None,
            state,
            because: Some(format!("at most {shown}{why}")),
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
            range: None,
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
    fn a_regression_is_beyond_the_margin_with_its_whole_interval() {
        // The intervals are ± 1 %.
        assert_eq!(state(Verdict::More, 1.10, None), State::Regression);
        assert_eq!(state(Verdict::More, 1.025, None), State::Undecided, "it may be 1.5 %");
        assert_eq!(state(Verdict::More, 1.015, None), State::Undecided, "it may be 2.5 %");
        assert_eq!(state(Verdict::More, 1.005, None), State::Pass);
        assert_eq!(
            state(Verdict::Undecided, 1.005, None),
            State::Pass,
            "whatever it is, it is below the margin"
        );
        assert_eq!(state(Verdict::Less, 0.9, None), State::Better);
        assert_eq!(state(Verdict::Less, 0.985, None), State::Pass);
    }

    #[test]
    fn an_accepted_regression_stays_below_its_limit_with_its_whole_interval() {
        assert_eq!(state(Verdict::More, 1.10, Some(0.12)), State::Accepted);
        assert_eq!(state(Verdict::More, 1.10, Some(0.08)), State::Regression);
        assert_eq!(state(Verdict::More, 1.10, Some(0.105)), State::Undecided);
        assert_eq!(state(Verdict::More, 1.025, Some(0.12)), State::Accepted, "it passes or is accepted");
        assert_eq!(state(Verdict::More, 1.005, Some(0.12)), State::Pass);
    }

    #[test]
    fn a_budget_is_compared_with_the_interval() {
        let state = |low: f64, high: f64| {
            let value = Measured::Within(Interval { estimate: f64::midpoint(low, high), low, high });
            Row::budget("a", &Metric::Cpu, value, 10.0, "10 ns").state
        };
        assert_eq!(
            [state(8.0, 9.0), state(9.0, 10.5), state(11.0, 12.0)],
            [State::Pass, State::Undecided, State::OverBudget]
        );
        assert_eq!(Row::budget("a", &Metric::Cpu, Measured::Roughly(1.0), 10.0, "").state, State::Undecided);
        let unknown = Row::budget("a", &Metric::Cpu, Measured::Not, 10.0, "10 ns");
        assert_eq!((unknown.state, unknown.after), (State::OverBudget, None));
        assert_eq!(unknown.because.as_deref(), Some("at most 10 ns, but it cannot be measured here"));
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
    }
}
