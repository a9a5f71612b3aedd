//! The table of spans.

use whyslow_analyze::{Percent, SpanTable};

use super::layout::{BOLD, DIM, Page, columns, cut, left, push_line, styled};
use crate::sanitize::clean;
use crate::units::{Count, duration, value};

const SHARE: usize = 8;
const NUMBER: usize = 10;
/// Columns before the name.
const NUMBERS: usize = SHARE + 7 * NUMBER + 2;

/// The spans of each name, at most `limit` names.
pub fn spans(table: &SpanTable, limit: usize, page: Page) -> String {
    let mut out = String::new();
    if table.rows.is_empty() {
        push_line(
            &mut out,
            "no spans: the program marks none (the crate whyslow-mark does), or the filters leave none",
        );
        return out;
    }
    let share = |part: u64| Percent(part as f64 / table.total_value.max(1) as f64);
    let rows = table.rows.iter().take(limit).map(|row| (clean(&row.name), row)).collect::<Vec<_>>();
    let widest = rows.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
    let width = widest.clamp("span".len(), page.width.saturating_sub(NUMBERS).max(24));
    let header = format!(
        "{:>SHARE$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}  span",
        "share", "used", "count", "total", "mean", "p50", "p95", "max"
    );
    push_line(&mut out, &styled(BOLD, header));
    for (name, row) in rows {
        push_line(
            &mut out,
            &format!(
                "{:>SHARE$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}  {}",
                share(row.value),
                value(row.value, page.unit),
                Count(row.count),
                duration(row.total_ns),
                duration(row.mean_ns()),
                duration(row.p50_ns),
                duration(row.p95_ns),
                duration(row.max_ns),
                left(&cut(&name, width), width)
            ),
        );
    }
    if table.rows.len() > limit {
        let more = Count((table.rows.len() - limit) as u64);
        push_line(&mut out, &styled(DIM, format!("and {more} more names")));
    }
    out
}
