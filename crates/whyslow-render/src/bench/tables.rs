//! Tables for other documents: CSV, Markdown, AsciiDoc, org-mode.

use whyslow_bench::{Comparison, Metric, Summary};

use super::{BenchView, ratio_words};
use crate::table::{Cell, Column, Table};

/// Renders one row per command, times in seconds: hyperfine's columns in its order, then whyslow's.
pub fn csv(view: &BenchView<'_>) -> String {
    let names = view.measured.commands.iter().flat_map(|command| &command.contender.parameters);
    let mut parameters: Vec<&str> = Vec::new();
    for parameter in names {
        if !parameters.contains(&parameter.name.as_str()) {
            parameters.push(&parameter.name);
        }
    }
    let first = ["command", "mean", "stddev", "median", "user", "system", "min", "max"].map(str::to_owned);
    let last = ["runs", "metric", "ratio", "ratio_low", "ratio_high", "verdict"].map(str::to_owned);
    let given = parameters.iter().map(|name| format!("parameter_{name}"));
    let ids = first.into_iter().chain(given).chain(last);
    let mut table = Table::new(ids.map(|id| Column::words(&id, &id)).collect());
    for command in view.order() {
        let measured = &view.measured.commands[command];
        let seconds = |metric: Metric, of: fn(&Summary) -> f64| {
            let summary = view.summary(command, &metric);
            Cell::maybe(summary.map(|summary| Cell::plain(of(summary) / 1e9)))
        };
        let mut cells = vec![
            Cell::verbatim(&measured.contender.name),
            seconds(Metric::Wall, |wall| wall.mean),
            seconds(Metric::Wall, |wall| wall.deviation),
            seconds(Metric::Wall, |wall| wall.median),
            seconds(Metric::User, |user| user.mean),
            seconds(Metric::System, |system| system.mean),
            seconds(Metric::Wall, |wall| wall.min),
            seconds(Metric::Wall, |wall| wall.max),
        ];
        cells.extend(parameters.iter().map(|name| {
            let value = measured.contender.parameters.iter().find(|parameter| parameter.name == *name);
            Cell::maybe(value.map(|parameter| Cell::verbatim(&parameter.value)))
        }));
        cells.push(Cell::count(measured.runs.len() as u64));
        match comparison(view, command) {
            Some(comparison) => {
                let of = comparison.ratio;
                let ends = [of.map(|of| of.estimate), of.map(|of| of.low), of.map(|of| of.high)];
                cells.push(Cell::text(comparison.metric.label()));
                cells.extend(ends.map(|end| Cell::maybe(end.map(Cell::plain))));
                cells.push(Cell::text(comparison.word()));
            }
            None => cells.extend((0..5).map(|_| Cell::nothing())),
        }
        table.push(cells);
    }
    table.csv()
}

fn comparison<'a>(view: &BenchView<'a>, command: usize) -> Option<&'a Comparison> {
    view.deciding().find(|comparison| comparison.candidate == command)
}

/// Command, median, range, CPU time, memory, ratio to the baseline.
fn table(view: &BenchView<'_>) -> Table {
    let ratio = format!("{} vs. baseline", view.witness().label());
    let mut columns = vec![Column::words("command", "command")];
    let titles = ["wall, median", "range", "CPU", "memory", &ratio];
    columns.extend(titles.map(|title| Column::number(title, title)));
    let mut table = Table::new(columns);
    for command in view.order() {
        let of = |metric: Metric| view.summary(command, &metric);
        let shown = |summary: Option<&Summary>, of: fn(&Summary) -> f64| {
            summary.map_or_else(|| "-".to_owned(), |summary| view.amount(of(summary), summary.metric.unit()))
        };
        let ratio = match comparison(view, command) {
            Some(comparison) => format!("{}, {}", ratio_words(comparison), comparison.word()),
            None if view.measured.commands.len() > 1 => "1".to_owned(),
            None => String::new(),
        };
        let wall = of(Metric::Wall);
        let words = [
            shown(wall, |wall| wall.median),
            format!("{} to {}", shown(wall, |wall| wall.min), shown(wall, |wall| wall.max)),
            shown(of(Metric::Cpu), |cpu| cpu.median),
            shown(of(Metric::MaxResident), |memory| memory.median),
            ratio,
        ];
        table.push([Cell::verbatim(view.name(command))].into_iter().chain(words.map(Cell::text)).collect());
    }
    table
}

/// Renders a Markdown table for a pull request or a README.
pub fn markdown(view: &BenchView<'_>) -> String {
    table(view).markdown()
}

/// Renders an AsciiDoc table.
pub fn asciidoc(view: &BenchView<'_>) -> String {
    table(view).asciidoc()
}

/// Renders a table for Emacs org-mode.
pub fn orgmode(view: &BenchView<'_>) -> String {
    table(view).orgmode()
}

#[cfg(test)]
mod tests {
    use super::super::testing::with_view;
    use super::*;

    #[test]
    fn tables_hold_strange_names_and_all_numbers() {
        with_view(&[1e8, 0.9e8], 12, |view| {
            insta::assert_snapshot!("markdown", markdown(view));
            insta::assert_snapshot!("asciidoc", asciidoc(view));
            let org = orgmode(view);
            assert!(
                org.lines().count() == 4
                    && org.lines().all(|line| line.starts_with('|') && line.ends_with('|')),
                "{org}"
            );
            let csv = csv(view);
            let rows = csv.lines().map(|line| line.split(',').count()).collect::<Vec<_>>();
            assert_eq!(rows, [14, 14, 14], "{csv}");
            assert!(csv.ends_with(",faster\n"), "{csv}");
        });
    }

    #[test]
    fn tables_use_the_chosen_unit_and_order() {
        with_view(&[1e8, 0.9e8], 12, |view| {
            let shown =
                super::super::Shown { unit: Some(super::super::TimeUnit::Second), fastest_first: true };
            let view = &BenchView { shown, ..*view };
            let text = markdown(view);
            let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|line| line.split(" | ").collect()).collect();
            assert!(rows[0][1].starts_with("0.0") && rows[0][1].ends_with(" s"), "{text}");
            assert!(rows[0][5].ends_with("faster |") && rows[1][5] == "1 |", "{text}");
        });
    }
}
