//! The result of `whyslow gate`: as text, Markdown, JSON and JUnit XML.

use std::fmt::Write as _;

use serde::Serialize;
use whyslow_bench::gate::{Applies, Outcome, Row, RuleChange, State};

use super::{amount, change};
use crate::flame::text::push_xml;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table, markdown_text};

/// The name and version of the schema of `whyslow gate`.
pub const GATE_SCHEMA: &str = "whyslow-gate/1";

/// The result of a gate.
#[derive(Debug, Clone, Copy)]
pub struct GateView<'a> {
    /// The name of the base.
    pub base: &'a str,
    /// One row per bench and metric.
    pub rows: &'a [Row],
    /// The overall outcome.
    pub outcome: Outcome,
    /// Files with details about failed rows.
    pub artefacts: &'a [String],
    /// Rules that head changes.
    pub rule_changes: &'a [RuleChange],
}

/// The outcome in words.
pub(crate) fn headline(view: &GateView<'_>) -> String {
    let count = |state: fn(&Row) -> bool| view.rows.iter().filter(|row| state(row)).count();
    let failed = count(|row| row.state.fails());
    let undecided = count(|row| row.state == State::Undecided);
    match view.outcome {
        Outcome::Pass if undecided > 0 => {
            format!(
                "pass, but undecided: {undecided} of {} may have got worse, and the policy lets them pass",
                view.rows.len()
            )
        }
        Outcome::Pass => "pass: nothing got worse".to_owned(),
        Outcome::Regression => format!("regression: {failed} of {} did not pass", view.rows.len()),
        Outcome::Undecided => format!("undecided: {undecided} of {} may have got worse", view.rows.len()),
    }
}

/// The cells of a row: bench, metric, base, head, change, outcome.
fn cells(row: &Row) -> [String; 6] {
    let value = |value: Option<f64>| value.map_or(String::new(), |value| amount(value, row.unit));
    let changed = match row.ratio {
        Some(ratio) if ratio.low < ratio.high && ratio.high.is_finite() => {
            format!("{} ({} to {})", change(ratio.estimate), change(ratio.low), change(ratio.high))
        }
        Some(ratio) => change(ratio.estimate),
        None => String::new(),
    };
    let range = row.range.map_or(String::new(), |[low, high]| {
        format!(" ({} to {})", amount(low, row.unit), amount(high, row.unit))
    });
    let because = row.because.as_ref().map_or(String::new(), |because| format!(": {because}"));
    [
        clean(&row.bench).into_owned(),
        clean(&row.metric).into_owned(),
        value(row.before),
        value(row.after) + &range,
        changed,
        clean(&format!("{}{because}", row.state.label())).into_owned(),
    ]
}

/// What head changes in the rules, in words.
pub(crate) fn rule_words(change: &RuleChange) -> String {
    let value =
        |value: &Option<String>| value.as_deref().map_or("nothing".to_owned(), |value| format!("`{value}`"));
    let of = change.bench.as_ref().map_or(String::new(), |bench| format!(" of {bench}"));
    let applies = match change.applies {
        Applies::Base => "base's applies until head is merged",
        Applies::Head => "head's ran on both sides",
    };
    let (base, head) = (value(&change.base), value(&change.head));
    clean(&format!("head changes the rule {}{of} from {base} to {head}: {applies}", change.rule)).into_owned()
}

const HEADS: [&str; 6] = ["bench", "metric", "base", "head", "change", "verdict"];

/// One row per bench and metric.
pub(crate) fn table(view: &GateView<'_>) -> Table {
    let [bench, metric, base, head, change, verdict] = HEADS;
    let mut columns = vec![Column::words(bench, bench).most(40).gap(0), Column::words(metric, metric)];
    // On a narrow page the verdict matters more than the numbers behind it.
    columns.push(Column::number(base, base).spare(0));
    columns.push(Column::number(head, head).spare(1));
    columns.push(Column::number(change, change).spare(2));
    columns.push(Column::wrapped(verdict, verdict).least(30));
    let mut table = Table::new(columns);
    for row in view.rows {
        let [.., verdict] = cells(row);
        let cells = cells(row).into_iter().take(HEADS.len() - 1).map(Cell::text);
        let verdict = Cell::text(verdict).strong(row.state.fails());
        table.push(cells.chain([verdict]).collect());
    }
    table
}

/// Renders a gate as Markdown for a pull request.
pub fn gate_markdown(view: &GateView<'_>) -> String {
    let mark = match view.outcome {
        Outcome::Pass => "✅",
        Outcome::Regression => "❌",
        Outcome::Undecided => "❔",
    };
    let mut out = format!(
        "### {mark} whyslow gate: {}\n\nCompared with `{}`, interleaved on the same machine; confidence intervals of 95 % or more.\n\n",
        headline(view),
        clean(view.base).replace('`', "'")
    );
    out.push_str(&table(view).markdown());
    for change in view.rule_changes {
        let _ = writeln!(out, "\n{}.", markdown_text(&rule_words(change)));
    }
    if !view.artefacts.is_empty() {
        let _ = writeln!(
            out,
            "\nSee what changed: {}.",
            view.artefacts
                .iter()
                .map(|file| format!("`{}`", clean(file).replace('`', "'")))
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    out
}

/// Renders a gate as JUnit XML for CI systems that show test results.
pub fn gate_junit(view: &GateView<'_>) -> String {
    let failures = view.rows.iter().filter(|row| row.state.fails()).count();
    let skipped = view.rows.iter().filter(|row| row.state == State::Undecided).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"whyslow gate\" tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\">\n",
        view.rows.len()
    );
    for row in view.rows {
        let [bench, metric, before, after, changed, verdict] = cells(row);
        out.push_str("<testcase classname=\"");
        push_xml(&mut out, &bench);
        out.push_str("\" name=\"");
        push_xml(&mut out, if metric.is_empty() { "there" } else { &metric });
        out.push_str("\">");
        let element = match row.state {
            state if state.fails() => Some("failure"),
            State::Undecided => Some("skipped"),
            _ => None,
        };
        if let Some(element) = element {
            let _ = write!(out, "<{element} message=\"");
            push_xml(&mut out, &format!("{verdict} {before} {after} {changed}"));
            out.push_str("\"/>");
        } else if row.because.is_some() {
            out.push_str("<system-out>");
            push_xml(&mut out, &verdict);
            out.push_str("</system-out>");
        }
        out.push_str("</testcase>\n");
    }
    out.push_str("</testsuite></testsuites>\n");
    out
}

#[derive(Serialize)]
struct Gate<'a> {
    schema: &'static str,
    base: &'a str,
    outcome: Outcome,
    rows: Vec<RowJson<'a>>,
    artefacts: &'a [String],
    rule_changes: &'a [RuleChange],
}

#[derive(Serialize)]
struct RowJson<'a> {
    bench: &'a str,
    metric: &'a str,
    base: Option<f64>,
    head: Option<f64>,
    head_low: Option<f64>,
    head_high: Option<f64>,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    state: State,
    because: Option<&'a str>,
}

/// Renders a gate as JSON.
pub fn gate_json(view: &GateView<'_>) -> impl Serialize {
    let row = |row: &Row| RowJson {
        bench: "",
        metric: "",
        base: row.before,
        head: row.after,
        head_low: row.range.map(|[low, _]| low),
        head_high: row.range.map(|[_, high]| high),
        ratio: row.ratio.map(|ratio| ratio.estimate),
        ratio_low: row.ratio.map(|ratio| ratio.low).filter(|low| low.is_finite()),
        ratio_high: row.ratio.map(|ratio| ratio.high).filter(|high| high.is_finite()),
        state: row.state,
        because: None,
    };
    let rows = view.rows.iter().map(|one| RowJson {
        bench: &one.bench,
        metric: &one.metric,
        because: one.because.as_deref(),
        ..row(one)
    });
    Gate {
        schema: GATE_SCHEMA,
        base: view.base,
        outcome: view.outcome,
        rows: rows.collect(),
        artefacts: view.artefacts,
        rule_changes: view.rule_changes,
    }
}

#[cfg(test)]
mod tests {
    use whyslow_bench::run::MetricUnit;
    use whyslow_stats::pairs::Interval;

    use super::*;

    fn rows() -> Vec<Row> {
        let slower = Row {
            bench: "parse <a|b>".to_owned(),
            metric: "cpu-time".to_owned(),
            unit: MetricUnit::Nanoseconds,
            before: Some(1e8),
            after: Some(1.1e8),
            range: None,
            ratio: Some(Interval { estimate: 1.1, low: 1.08, high: 1.12 }),
            state: State::Regression,
            because: None,
        };
        let budget = Row {
            state: State::Pass,
            range: Some([1.05e8, 1.15e8]),
            because: Some("at most 1.00 s".to_owned()),
            before: None,
            ratio: None,
            ..slower.clone()
        };
        vec![slower, budget, Row::alone("old", State::Vanished)]
    }

    #[test]
    fn every_form_has_every_row() {
        let rows = rows();
        let view = GateView {
            base: "main",
            rows: &rows,
            outcome: Outcome::Regression,
            artefacts: &["parse.svg".to_owned()],
            rule_changes: &[RuleChange {
                bench: Some("parse <a|b>".to_owned()),
                rule: "margin",
                base: None,
                head: Some("50%".to_owned()),
                applies: Applies::Base,
            }],
        };
        insta::assert_snapshot!("gate_markdown", gate_markdown(&view));
        let junit = gate_junit(&view);
        assert!(junit.contains("tests=\"3\" failures=\"2\" skipped=\"0\""), "{junit}");
        let mut reader = quick_xml::Reader::from_str(&junit);
        while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
        let json = serde_json::to_value(gate_json(&view)).unwrap();
        assert_eq!((&json["outcome"], &json["rows"][2]["state"]), (&"regression".into(), &"vanished".into()));
        assert_eq!(json["rows"][0]["ratio_high"], 1.12);
        assert_eq!(json["rows"][1]["head_low"], 1.05e8);
        assert_eq!(
            (&json["rule_changes"][0]["rule"], &json["rule_changes"][0]["applies"]),
            (&"margin".into(), &"base".into())
        );
    }

    #[test]
    fn an_accepted_regression_has_its_reason_in_every_form() {
        let accepted =
            Row { state: State::Accepted, because: Some("signatures & more".to_owned()), ..rows().remove(0) };
        let rows = [accepted];
        let view =
            GateView { base: "main", rows: &rows, outcome: Outcome::Pass, artefacts: &[], rule_changes: &[] };
        assert!(
            gate_junit(&view).contains("<system-out>accepted: signatures &amp; more</system-out>"),
            "{}",
            gate_junit(&view)
        );
        assert!(gate_markdown(&view).contains("accepted: signatures & more"));
        assert_eq!(
            serde_json::to_value(gate_json(&view)).unwrap()["rows"][0]["because"],
            "signatures & more"
        );
    }

    #[test]
    fn a_pass_with_undecided_rows_does_not_say_that_nothing_got_worse() {
        let rows = [
            Row { state: State::Undecided, ..rows().remove(0) },
            Row { state: State::Pass, ..rows().remove(0) },
        ];
        let view =
            GateView { base: "main", rows: &rows, outcome: Outcome::Pass, artefacts: &[], rule_changes: &[] };
        assert_eq!(
            headline(&view),
            "pass, but undecided: 1 of 2 may have got worse, and the policy lets them pass"
        );
    }
}
