//! Tables for other documents: CSV, Markdown, AsciiDoc, org-mode.

use std::fmt::Write as _;

use whyslow_bench::{Comparison, Metric, Summary};

use super::{BenchView, ratio_words};
use crate::sanitize::clean;

/// Renders one row per command, times in seconds: hyperfine's columns in its order, then whyslow's.
pub fn csv(view: &BenchView<'_>) -> String {
    let names = view.measured.commands.iter().flat_map(|command| &command.contender.parameters);
    let mut parameters: Vec<&str> = Vec::new();
    for parameter in names {
        if !parameters.contains(&parameter.name.as_str()) {
            parameters.push(&parameter.name);
        }
    }
    let mut out = "command,mean,stddev,median,user,system,min,max".to_owned();
    for name in &parameters {
        let _ = write!(out, ",{}", csv_cell(&format!("parameter_{name}")));
    }
    out.push_str(",runs,metric,ratio,ratio_low,ratio_high,verdict\n");
    for command in view.order() {
        let measured = &view.measured.commands[command];
        let seconds = |metric: Metric, of: fn(&Summary) -> f64| {
            view.summary(command, &metric).map_or(String::new(), |summary| (of(summary) / 1e9).to_string())
        };
        let cells = [
            csv_cell(&measured.contender.name),
            seconds(Metric::Wall, |wall| wall.mean),
            seconds(Metric::Wall, |wall| wall.deviation),
            seconds(Metric::Wall, |wall| wall.median),
            seconds(Metric::User, |user| user.mean),
            seconds(Metric::System, |system| system.mean),
            seconds(Metric::Wall, |wall| wall.min),
            seconds(Metric::Wall, |wall| wall.max),
        ];
        out.push_str(&cells.join(","));
        for name in &parameters {
            let value = measured.contender.parameters.iter().find(|parameter| parameter.name == *name);
            let _ = write!(out, ",{}", csv_cell(value.map_or("", |parameter| &parameter.value)));
        }
        let _ = write!(out, ",{}", measured.runs.len());
        match comparison(view, command) {
            Some(comparison) => {
                let _ = write!(out, ",{}", comparison.metric.label());
                let ratio = comparison.ratio.map(|ratio| [ratio.estimate, ratio.low, ratio.high]);
                for end in 0..3 {
                    let _ = match ratio {
                        Some(ratio) if ratio[end].is_finite() => write!(out, ",{}", ratio[end]),
                        _ => write!(out, ","),
                    };
                }
                let _ = writeln!(out, ",{}", comparison.word());
            }
            None => out.push_str(",,,,,\n"),
        }
    }
    out
}

fn comparison<'a>(view: &BenchView<'a>, command: usize) -> Option<&'a Comparison> {
    view.deciding().find(|comparison| comparison.candidate == command)
}

/// Quotes a cell if needed, and prevents spreadsheets from reading it as a formula.
fn csv_cell(text: &str) -> String {
    let text = clean(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    if is_formula || text.contains([',', '"', '\n', '\r', '\'']) {
        let lead = if is_formula { "'" } else { "" };
        return format!("\"{lead}{}\"", text.replace('"', "\"\""));
    }
    text.into_owned()
}

/// The rows for Markdown and AsciiDoc: command, median, range, CPU time, memory, ratio to the baseline.
fn rows(view: &BenchView<'_>) -> Vec<[String; 6]> {
    let row = |command: usize| {
        let of = |metric: Metric| view.summary(command, &metric);
        let shown = |summary: Option<&Summary>, of: fn(&Summary) -> f64| {
            summary.map_or_else(|| "-".to_owned(), |summary| view.amount(of(summary), summary.metric.unit()))
        };
        let ratio = match comparison(view, command) {
            Some(comparison) => format!("{}, {}", ratio_words(comparison), comparison.word()),
            None if view.measured.commands.len() > 1 => "1".to_owned(),
            None => String::new(),
        };
        [
            clean(view.name(command)).into_owned(),
            shown(of(Metric::Wall), |wall| wall.median),
            format!(
                "{} to {}",
                shown(of(Metric::Wall), |wall| wall.min),
                shown(of(Metric::Wall), |wall| wall.max)
            ),
            shown(of(Metric::Cpu), |cpu| cpu.median),
            shown(of(Metric::MaxResident), |memory| memory.median),
            ratio,
        ]
    };
    view.order().into_iter().map(row).collect()
}

fn heads(view: &BenchView<'_>) -> [String; 6] {
    let ratio = format!("{} vs. baseline", view.witness().label());
    ["command", "wall, median", "range", "CPU", "memory", &ratio].map(str::to_owned)
}

/// Renders a Markdown table for a pull request or a README.
pub fn markdown(view: &BenchView<'_>) -> String {
    let mut out = format!("| {} |\n|:---|---:|---:|---:|---:|---:|\n", heads(view).join(" | "));
    for [command, rest @ ..] in rows(view) {
        let _ = writeln!(out, "| {} | {} |", markdown_code(&command), rest.join(" | "));
    }
    out
}

/// Formats any text as Markdown inline code.
pub(super) fn markdown_code(text: &str) -> String {
    let ticks = "`".repeat(text.split(|c| c != '`').map(str::len).max().unwrap_or(0) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{pad}{}{pad}{ticks}", text.replace('|', "\\|"))
}

/// Renders an AsciiDoc table.
pub fn asciidoc(view: &BenchView<'_>) -> String {
    let mut out =
        format!("[cols=\"<,>,>,>,>,>\", options=\"header\"]\n|===\n| {}\n", heads(view).join(" | "));
    for [command, rest @ ..] in rows(view) {
        let _ = writeln!(out, "\n| `+{}+`\n| {}", command.replace('|', "\\|"), rest.join("\n| "));
    }
    out.push_str("|===\n");
    out
}

/// Renders a table for Emacs org-mode.
pub fn orgmode(view: &BenchView<'_>) -> String {
    let mut out = format!("| {} |\n|--+--+--+--+--+--|\n", heads(view).join(" | "));
    for [command, rest @ ..] in rows(view) {
        let _ = writeln!(out, "| ={}= | {} |", command.replace('|', "\\vert{}"), rest.join(" | "));
    }
    out
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
            let rows = rows(view);
            assert!(rows[0][1].starts_with("0.0") && rows[0][1].ends_with(" s"), "{rows:?}");
            assert!(rows[0][5].ends_with("faster") && rows[1][5] == "1", "{rows:?}");
        });
    }

    #[test]
    fn a_cell_is_never_a_formula_and_code_is_always_code() {
        assert_eq!(csv_cell("=1+1"), "\"'=1+1\"");
        assert_eq!(csv_cell("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(markdown_code("a `b` | c"), "``a `b` \\| c``");
    }
}
