//! What a row says, in one sentence. Text, pictures and findings share it.

use whyslow_profile::{CausalTarget, PointKind, TargetKind};
use whyslow_words::number_of;

use crate::estimate::{Curve, Row, Verdict};

/// Code with this share of the CPU time is expected to matter, so its share is named where it does not.
const EXPECTED: f64 = 0.05;

/// What a visit of a progress point is called: `per request`, say.
pub fn per_visit(kind: PointKind) -> &'static str {
    match kind {
        PointKind::Throughput => "per visit",
        PointKind::Latency => "from begin to end",
        PointKind::WholeRun => "per run",
    }
}

/// What speeding up a target buys, or that it buys nothing, or what is missing.
pub fn sentence(row: &Row, target: &CausalTarget) -> String {
    let said = verdict(row, target);
    if target.kind == TargetKind::WithCallees { format!("with all that it calls: {said}") } else { said }
}

fn verdict(row: &Row, target: &CausalTarget) -> String {
    match row.verdict {
        Verdict::Effect => bought(&row.curve),
        Verdict::None { beyond } => {
            let beyond = (beyond * 100.0).ceil().max(1.0);
            if target.share < EXPECTED {
                return format!("no effect beyond ±{beyond} %");
            }
            let share = percent(target.share);
            format!(
                "no effect beyond ±{beyond} %: it has {share} % of the CPU time, and nothing waits for it"
            )
        }
        Verdict::Undecided { .. }
            if row.experiments > 0 && row.hits == 0 && target.kind != TargetKind::Placebo =>
        {
            "not enough data: it did not run during its experiments".to_owned()
        }
        Verdict::Undecided { missing } => {
            let missing = number_of(missing as u64, "experiment", "experiments");
            format!("not enough data: {missing} more would decide")
        }
    }
}

/// `25 % faster → 11 % faster (9 to 13 %), 100 % → at most 31 %`
fn bought(curve: &[Curve]) -> String {
    let excludes_zero = |point: &&Curve| point.low > 0.0 || point.high < 0.0;
    let largest = curve.iter().max_by(|a, b| a.effect.abs().total_cmp(&b.effect.abs()));
    let Some(first) = curve.iter().find(excludes_zero).or(largest) else { return "an effect".to_owned() };
    let mut text = format!("{} % faster → {}", percent(first.speedup), with_interval(first));
    if let Some(last) = curve.last().filter(|last| last.speedup > first.speedup) {
        let then = match last.effect > 0.0 {
            true => format!("at most {} %", percent(last.high.min(1.0))),
            false => with_interval(last),
        };
        text.push_str(&format!(", {} % → {then}", percent(last.speedup)));
    }
    text
}

/// `11 % faster (9 to 13 %)`
pub fn with_interval(point: &Curve) -> String {
    let (word, effect, low, high) = match point.effect >= 0.0 {
        true => ("faster", point.effect, point.low, point.high),
        false => ("slower", -point.effect, -point.high, -point.low),
    };
    format!("{} % {word} ({} to {} %)", percent(effect), percent(low), percent(high))
}

/// A whole number of per cent.
fn percent(share: f64) -> String {
    let rounded = (share * 100.0).round();
    // No "-0".
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_profile::{StringId, TargetId};

    fn said(verdict: Verdict, curve: &[(f64, f64, f64, f64)], share: f64, hits: u64) -> String {
        said_of(TargetKind::Line, verdict, curve, share, hits)
    }

    fn said_of(
        kind: TargetKind,
        verdict: Verdict,
        curve: &[(f64, f64, f64, f64)],
        share: f64,
        hits: u64,
    ) -> String {
        let curve = curve.iter();
        let curve =
            curve.map(|&(speedup, effect, low, high)| Curve { speedup, effect, low, high, experiments: 8 });
        let row = Row {
            target: TargetId(0),
            verdict,
            curve: curve.collect(),
            experiments: 8,
            hits,
            method_error: crate::METHOD_ERROR,
        };
        let function = StringId(0);
        let target = CausalTarget { kind, function, file: None, line: 1, share, samples: 9 };
        sentence(&row, &target)
    }

    #[test]
    fn a_row_says_what_a_speed_up_buys() {
        let curve = [(0.25, 0.11, 0.09, 0.13), (0.5, 0.2, 0.17, 0.23), (1.0, 0.27, 0.22, 0.314)];
        let text = said(Verdict::Effect, &curve, 0.3, 9);
        assert_eq!(text, "25 % faster → 11 % faster (9 to 13 %), 100 % → at most 31 %");
        let late = [(0.25, 0.02, -0.01, 0.05), (0.5, 0.08, 0.05, 0.11)];
        assert_eq!(said(Verdict::Effect, &late, 0.3, 9), "50 % faster → 8 % faster (5 to 11 %)");
        let costs = [(0.25, -0.06, -0.09, -0.03), (1.0, -0.12, -0.2, 0.004)];
        let text = said(Verdict::Effect, &costs, 0.3, 9);
        assert_eq!(text, "25 % faster → 6 % slower (3 to 9 %), 100 % → 12 % slower (0 to 20 %)");
    }

    #[test]
    fn a_row_without_an_effect_says_how_large_one_may_be() {
        let none = Verdict::None { beyond: 0.0171 };
        let text = "no effect beyond ±2 %: it has 40 % of the CPU time, and nothing waits for it";
        assert_eq!(said(none, &[], 0.4, 9), text);
        assert_eq!(said(none, &[], 0.01, 9), "no effect beyond ±2 %");
    }

    #[test]
    fn a_function_with_all_that_it_calls_says_so() {
        let curve = [(0.25, 0.11, 0.09, 0.13)];
        let text = said_of(TargetKind::WithCallees, Verdict::Effect, &curve, 0.3, 9);
        assert_eq!(text, "with all that it calls: 25 % faster → 11 % faster (9 to 13 %)");
    }

    #[test]
    fn an_undecided_row_says_what_is_missing() {
        let undecided = Verdict::Undecided { missing: 12 };
        assert_eq!(said(undecided, &[], 0.4, 9), "not enough data: 12 experiments more would decide");
        assert_eq!(said(undecided, &[], 0.4, 0), "not enough data: it did not run during its experiments");
        let placebo = CausalTarget {
            kind: TargetKind::Placebo,
            function: StringId(0),
            file: None,
            line: 0,
            share: 0.0,
            samples: 0,
        };
        let row = Row {
            target: TargetId(0),
            verdict: undecided,
            curve: Vec::new(),
            experiments: 8,
            hits: 0,
            method_error: crate::METHOD_ERROR,
        };
        assert_eq!(
            sentence(&row, &placebo),
            "not enough data: 12 experiments more would decide",
            "it never runs"
        );
    }
}
