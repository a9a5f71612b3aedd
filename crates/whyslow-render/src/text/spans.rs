//! The table of spans.

use whyslow_analyze::{SpanRow, SpanTable};
use whyslow_words::Percent;

use super::layout::{BOLD, DIM, PLAIN, Page, cut, number_of, push_line, push_wrapped, right, styled};
use crate::sanitize::clean;
use crate::units::{Count, duration, value};

const SHARE: usize = 8;
const NUMBER: usize = 10;
/// The minimum width of a name.
const NAME: usize = 20;

/// Formats a number of a row.
type Number = fn(&SpanRow, Page) -> String;

/// The columns between the share and the name.
const COLUMNS: [(&str, Number); 7] = [
    ("used", |row, page| value(row.value, page.unit)),
    ("count", |row, _| Count(row.count).to_string()),
    ("total", |row, _| duration(row.total_ns)),
    ("mean", |row, _| duration(row.mean_ns())),
    ("p50", |row, _| duration(row.p50_ns)),
    ("p95", |row, _| duration(row.p95_ns)),
    ("max", |row, _| duration(row.max_ns)),
];

/// Renders the spans by name, at most `limit` names.
pub fn spans(table: &SpanTable, limit: usize, page: Page) -> String {
    let mut out = String::new();
    if table.rows.is_empty() {
        let none = "no spans: the program has no marks (the crate whyslow-mark adds them), or the filters exclude them";
        push_wrapped(&mut out, PLAIN, none, page.width);
        return out;
    }
    let share = |part: u64| Percent(part as f64 / table.total_value.max(1) as f64);
    let rows = table.rows.iter().take(limit).map(|row| (clean(&row.name), row)).collect::<Vec<_>>();
    // If the columns do not fit, the mean and the percentiles go first.
    let mut columns = COLUMNS.to_vec();
    for spare in ["mean", "p50", "p95", "max"] {
        if SHARE + NUMBER * columns.len() + 2 + NAME > page.width {
            columns.retain(|(title, _)| *title != spare);
        }
    }
    let width = page.width.saturating_sub(SHARE + NUMBER * columns.len() + 2);
    let titles = columns.iter().map(|(title, _)| right(title, NUMBER)).collect::<String>();
    push_line(&mut out, &styled(BOLD, format!("{}{titles}  span", right("share", SHARE))));
    for (name, row) in rows {
        let numbers = columns.iter().map(|(_, number)| right(&number(row, page), NUMBER)).collect::<String>();
        let share = right(&share(row.value).to_string(), SHARE);
        push_line(&mut out, &format!("{share}{numbers}  {}", cut(&name, width)));
    }
    if table.rows.len() > limit {
        let more = number_of((table.rows.len() - limit) as u64, "more name", "more names");
        push_line(&mut out, &styled(DIM, format!("and {more}")));
    }
    out
}
