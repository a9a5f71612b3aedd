//! The table of spans.

use whyslow_analyze::SpanTable;

use super::cells::NAME;
use super::layout::{PLAIN, Page, push_wrapped};
use crate::table::{Cell, Column, Table};

/// The spans by name, at most `limit` names.
pub(super) fn span_table(spans: &SpanTable, limit: usize, page: Page) -> Table {
    let number = |id, title| Column::number(id, title).least(8);
    let mut table = Table::new(vec![
        Column::share("share", "share"),
        Column::amount("used", "used", page.unit).least(8),
        number("count", "count"),
        number("total_ns", "total"),
        // If the columns do not fit, the mean and the percentiles go first.
        number("mean_ns", "mean").spare(1),
        number("p50_ns", "p50").spare(2),
        number("p95_ns", "p95").spare(3),
        number("max_ns", "max").spare(4),
        Column::rest("name", "span", NAME),
    ]);
    for row in spans.rows.iter().take(limit) {
        table.push(vec![
            Cell::part(row.value, spans.total_value),
            Cell::amount(row.value, page.unit),
            Cell::count(row.count),
            Cell::duration(row.total_ns),
            Cell::duration(row.mean_ns()),
            Cell::duration(row.p50_ns),
            Cell::duration(row.p95_ns),
            Cell::duration(row.max_ns),
            Cell::verbatim(&row.name),
        ]);
    }
    table.full_names(page.full_names).limited(spans.rows.len(), limit, "more name", "more names")
}

/// Renders the spans, or why there are none.
pub fn spans(spans: &SpanTable, limit: usize, page: Page) -> String {
    if !spans.rows.is_empty() {
        return span_table(spans, limit, page).text(page.width);
    }
    let mut out = String::new();
    let none =
        "no spans: the program has no marks (the crate whyslow-mark adds them), or the filters exclude them";
    push_wrapped(&mut out, PLAIN, none, page.width);
    out
}
