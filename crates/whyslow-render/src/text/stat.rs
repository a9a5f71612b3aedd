//! Counted and available events as text.

use whyslow_analyze::stat::{Interval, Number, NumberUnit, Spread, ThreadRow};
use whyslow_words::{Remark, number_of};

use super::layout::{BOLD, DIM, PLAIN, columns, push_line, right, styled, wrap};
use super::remark::remark_lines;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::{Count, Percent, bytes, duration};

/// The contents of `whyslow stat`.
#[derive(Debug, Clone, Copy)]
pub struct StatView<'a> {
    /// The number of runs.
    pub runs: usize,
    /// The numbers.
    pub spreads: &'a [Spread],
    /// The threads, if there is only one run.
    pub threads: &'a [ThreadRow],
    /// Notes and warnings.
    pub remarks: &'a [Remark],
}

/// Number of threads shown; JSON has all.
const THREADS: usize = 40;
const NARROWEST: usize = 60;

/// Renders the numbers, the threads and the remarks.
pub fn stat(view: &StatView<'_>, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut out = String::new();
    if view.runs > 1 {
        several_runs(&mut out, view, width);
    } else {
        one_run(&mut out, view.spreads, width);
    }
    if !view.threads.is_empty() {
        out.push('\n');
        threads(&mut out, view.threads, width);
    }
    if !view.remarks.is_empty() {
        out.push('\n');
    }
    for remark in view.remarks {
        out.push_str(&remark_lines(remark, width));
    }
    out
}

/// Renders name, number and suggestion.
fn one_run(out: &mut String, spreads: &[Spread], width: usize) {
    let mut table = Table::new(vec![
        Column::words("name", "").gap(0),
        Column::number("value", ""),
        Column::wrapped("suggestion", ""),
    ]);
    for Spread { number, .. } in spreads {
        table.push(vec![
            Cell::text(&number.label),
            Cell::text(shown(number)).style(BOLD),
            Cell::text(suggestion(number)).style(DIM),
        ]);
    }
    out.push_str(&table.text(width));
}

fn label(number: &Number) -> String {
    clean(&number.label).into_owned()
}

/// The suggestion of a number, and its limits: user mode only, counted for part of the time.
fn suggestion(number: &Number) -> String {
    let mut parts = Vec::new();
    if number.unit == NumberUnit::PerThousandInstructions {
        parts.push("per 1,000 instructions".to_owned());
    }
    if number.user_only {
        parts.push("in user mode".to_owned());
    }
    if let Some(share) = number.running_share.filter(|share| *share < 0.995) {
        parts.push(format!("counted for {} of the time and scaled", Percent(share)));
    }
    parts.push(number.suggests.clone());
    parts.join("; ")
}

/// Formats a number with its unit.
fn shown(number: &Number) -> String {
    let value = amount(number.value, &number.unit);
    if number.at_most { format!("≤ {value}") } else { value }
}

fn amount(value: f64, unit: &NumberUnit) -> String {
    let whole = || value.max(0.0).round() as u64;
    match unit {
        NumberUnit::Nanoseconds => duration(whole()),
        NumberUnit::Bytes => bytes(whole()),
        // The mean of several runs has a fraction.
        NumberUnit::Count if value < 10.0 && value.fract() != 0.0 => format!("{value:.1}"),
        NumberUnit::Count => Count(whole()).to_string(),
        NumberUnit::Ratio if value < 0.1 => format!("{value:.3}"),
        NumberUnit::Ratio => format!("{value:.2}"),
        NumberUnit::PerThousandInstructions => format!("{value:.2}"),
        NumberUnit::Share => Percent(value).to_string(),
        NumberUnit::Other(unit) => format!("{value:.3} {}", clean(unit)),
    }
}

/// Renders name, mean, the error of the mean, median, min and max.
fn several_runs(out: &mut String, view: &StatView<'_>, width: usize) {
    let mut columns = vec![Column::words("name", "").gap(0)];
    columns.extend(["mean", "± 95 %", "median", "min", "max"].map(|title| Column::number(title, title)));
    let mut table = Table::new(columns).heading(DIM);
    for spread in view.spreads {
        let of = |value| amount(value, &spread.number.unit);
        let margin = match spread.margin {
            Some(margin) if spread.number.value > 0.0 => Percent(margin / spread.number.value).to_string(),
            Some(_) => "-".to_owned(),
            None => String::new(),
        };
        let mean = shown(&spread.number);
        let row = [mean, margin, of(spread.median), of(spread.min()), of(spread.max())].map(Cell::text);
        table.push([Cell::text(&spread.number.label)].into_iter().chain(row).collect());
    }
    push_line(
        out,
        &format!(
            "{}: the mean of each number and its 95 % confidence interval",
            number_of(view.runs as u64, "run", "runs")
        ),
    );
    out.push('\n');
    out.push_str(&table.text(width));
}

fn threads(out: &mut String, threads: &[ThreadRow], width: usize) {
    let mut columns = vec![Column::rest("thread", "thread", 12).gap(0), Column::number("tid", "tid")];
    let numbers = threads.first().map_or(&[][..], |first| &first.numbers);
    columns.extend(numbers.iter().map(|number| Column::number(&number.name, &label(number))));
    let mut table = Table::new(columns).heading(DIM);
    for thread in threads.iter().take(THREADS) {
        let numbers = thread.numbers.iter().map(|number| Cell::text(shown(number)));
        let names = [Cell::verbatim(&thread.name), Cell::id(thread.tid)];
        table.push(names.into_iter().chain(numbers).collect());
    }
    out.push_str(&table.text(width));
    if threads.len() > THREADS {
        let rest = number_of((threads.len() - THREADS) as u64, "thread", "threads");
        push_line(
            out,
            &styled(DIM, format!("… and {rest} with less CPU time; --format json has all of them")),
        );
    }
}

/// The header of a time series.
pub fn interval_head(interval: &Interval) -> String {
    let mut out = String::new();
    let cells = std::iter::once(right("until", TIME)).chain(interval.numbers.iter().map(|number| {
        let label = label(number);
        right(&label, cell_width(&label))
    }));
    push_line(&mut out, &styled(DIM, cells.collect::<Vec<_>>().join("  ")));
    out
}

/// Renders one interval.
pub fn interval_line(interval: &Interval) -> String {
    let mut out = String::new();
    let until = right(&format!("{:.3} s", interval.end_ns as f64 / 1e9), TIME);
    let cells = std::iter::once(until)
        .chain(interval.numbers.iter().map(|number| right(&shown(number), cell_width(&label(number)))));
    push_line(&mut out, &cells.collect::<Vec<_>>().join("  "));
    out
}

/// Widths of a time and of a number. They are fixed because intervals are printed as they arrive.
const TIME: usize = 10;
fn cell_width(label: &str) -> usize {
    const NUMBER: usize = 9;
    columns(label).max(NUMBER)
}

/// The events of one kind on a machine.
#[derive(Debug, Clone)]
pub struct EventGroup<'a> {
    /// The name of the kind.
    pub title: &'a str,
    /// A remark about all of them, such as why none can be counted.
    pub remark: Option<String>,
    /// A summary in place of the rows, if there are too many.
    pub words: Option<String>,
    /// Name, description, and the obstacle to counting it.
    pub rows: Vec<(String, String, Option<String>)>,
}

/// Renders the events of a machine, by kind.
pub fn events(groups: &[EventGroup<'_>], remarks: &[Remark], width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut out = String::new();
    let names =
        groups.iter().flat_map(|group| &group.rows).map(|(name, ..)| columns(name)).max().unwrap_or(0);
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let remark = group.remark.as_ref().map(|remark| format!(": {}", clean(remark))).unwrap_or_default();
        for (at, line) in wrap(&format!("{}{remark}", group.title), width).iter().enumerate() {
            let style = if at == 0 { BOLD } else { PLAIN };
            push_line(&mut out, &styled(style, line));
        }
        for line in wrap(&clean(group.words.as_deref().unwrap_or_default()), width - 2) {
            push_line(&mut out, &format!("  {}", styled(DIM, line)));
        }
        let mut table = Table::new(vec![
            Column::words("name", "").least(names.min(width / 2)).most(width / 2),
            Column::wrapped("description", ""),
        ]);
        for (name, description, not) in &group.rows {
            let not = not.as_ref().map(|not| format!(" [{not}]")).unwrap_or_default();
            table.push(vec![Cell::verbatim(name), Cell::text(format!("{description}{not}")).style(DIM)]);
        }
        out.push_str(&table.text(width));
    }
    if !remarks.is_empty() {
        out.push('\n');
    }
    for remark in remarks {
        out.push_str(&remark_lines(remark, width));
    }
    out
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::stat::spreads;
    use whyslow_words::About;

    use super::super::tests::plain;
    use super::*;

    fn number(name: &str, unit: NumberUnit, value: f64) -> Number {
        Number {
            name: name.to_owned(),
            label: name.to_owned(),
            unit,
            value,
            at_most: false,
            running_share: None,
            user_only: false,
            suggests: "what it suggests".to_owned(),
        }
    }

    fn run(factor: f64) -> Vec<Number> {
        let wall = number("wall time", NumberUnit::Nanoseconds, 1.234e9 * factor);
        let faults = number("faults\x1b[31m", NumberUnit::Count, 12_345.0);
        let misses = number("branch misses", NumberUnit::PerThousandInstructions, 3.456);
        let scaled = Number { running_share: Some(0.5), user_only: true, ..misses };
        let bound = Number { at_most: true, ..number("max resident", NumberUnit::Bytes, 4096.0) };
        vec![wall, faults, scaled, bound, number("idle", NumberUnit::Share, 0.25)]
    }

    #[test]
    fn one_run_has_a_sentence_for_each_number() {
        let remark = Remark::note("an-id", About::Counters, "something is missing").or("do this");
        let spreads = spreads(&[run(1.0)]);
        let view = StatView { runs: 1, spreads: &spreads, threads: &[], remarks: &[remark] };
        insta::assert_snapshot!(plain(&stat(&view, 80)));
    }

    #[test]
    fn several_runs_have_an_interval() {
        let spreads = spreads(&[run(1.0), run(1.1), run(1.2)]);
        let view = StatView { runs: 3, spreads: &spreads, threads: &[], remarks: &[] };
        insta::assert_snapshot!(plain(&stat(&view, 80)));
    }

    #[test]
    fn events_are_grouped_by_kind_with_their_obstacles() {
        let row = |name: &str, not: Option<&str>| {
            (name.to_owned(), "what it counts".to_owned(), not.map(str::to_owned))
        };
        let groups = [
            EventGroup {
                title: "Hardware",
                remark: Some("none here: this machine has no such counter".to_owned()),
                words: None,
                rows: vec![row("cycles", None)],
            },
            EventGroup {
                title: "Software",
                remark: None,
                words: None,
                rows: vec![row("page-faults", Some("user mode only")), row("task-clock", None)],
            },
            EventGroup {
                title: "Tracepoints",
                remark: None,
                words: Some("sched: 30, irq: 5".to_owned()),
                rows: Vec::new(),
            },
        ];
        let remark = Remark::note("an-id", About::Counters, "something is missing").or("do this");
        insta::assert_snapshot!(plain(&events(&groups, &[remark], 80)));
    }

    #[test]
    fn numbers_of_threads_and_intervals_are_aligned() {
        let rows = [(7, "main", 1e9), (8, "worker\n", 2e6)].map(|(tid, name, ns)| ThreadRow {
            pid: 7,
            tid,
            name: name.to_owned(),
            numbers: vec![
                number("CPU time", NumberUnit::Nanoseconds, ns),
                number("faults", NumberUnit::Count, 1234.0),
            ],
        });
        let view = StatView { runs: 1, spreads: &[], threads: &rows, remarks: &[] };
        let interval = Interval { start_ns: 0, end_ns: 100_200_000, numbers: rows[0].numbers.clone() };
        let text = format!("{}{}{}", stat(&view, 80), interval_head(&interval), interval_line(&interval));
        insta::assert_snapshot!(plain(&text));
    }
}
