//! What changed between two files' sizes, as text.

use whyslow_analyze::size::{Changed, SizeChange, Sizes};
use whyslow_words::Percent;

use super::layout::{BOLD, DIM, push_line, styled};
use super::size::group_words;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::bytes;

/// The contents of `whyslow size --diff`.
#[derive(Debug, Clone, Copy)]
pub struct SizeChangeView<'a> {
    /// The file before, and after.
    pub files: [&'a str; 2],
    /// What changed.
    pub change: &'a SizeChange,
    /// The file after, which says what functions are grouped by.
    pub sizes: &'a Sizes,
}

/// Rows of crates and functions.
const ROWS: usize = 15;

/// Renders the parts, crates and functions that changed.
pub fn size_change(view: &SizeChangeView<'_>, limit: Option<usize>, width: usize) -> String {
    let mut out = String::new();
    let [before, after] = view.change.total;
    let [old, new] = view.files.map(clean);
    let verdict = match after.cmp(&before) {
        std::cmp::Ordering::Equal => "the same size".to_owned(),
        _ => {
            let share = Percent(before.abs_diff(after) as f64 / before.max(1) as f64);
            let sign = if after > before { "+" } else { "-" };
            format!("{sign}{} ({sign}{share})", bytes(before.abs_diff(after)))
        }
    };
    push_line(&mut out, &format!("{}: {} → {}", styled(BOLD, verdict), bytes(before), bytes(after)));
    push_line(&mut out, &format!("{old} → {new}"));
    let rows = limit.unwrap_or(ROWS);
    let tables = [
        (&view.change.parts, "part of the file", usize::MAX, false),
        (&view.change.groups, group_words(view.sizes).0, rows, false),
        (&view.change.functions, "function or variable", rows, true),
    ];
    for (changed, title, limit, is_functions) in tables {
        if !changed.is_empty() {
            out.push('\n');
            out.push_str(&table(changed, title, limit, is_functions).text(width));
        }
    }
    if view.change.parts.is_empty() && view.change.functions.is_empty() {
        push_line(&mut out, "nothing changed size");
    }
    out
}

fn table(rows: &[Changed], title: &str, limit: usize, is_functions: bool) -> Table {
    let mut columns = vec![
        Column::number("change_bytes", "change").gap(0).least(10),
        Column::number("before_bytes", "before"),
        Column::number("after_bytes", "after"),
    ];
    if is_functions {
        columns.push(Column::number("instances", "instances").spare(1));
    }
    columns.push(if is_functions { Column::rest("name", title, 20) } else { Column::words("name", title) });
    if is_functions {
        columns.push(Column::words("crate", "").most(24).spare(0));
    }
    let mut table = Table::new(columns);
    for row in rows.iter().take(limit) {
        let change = row.change();
        let sign = if change > 0 { "+" } else { "-" };
        let size = |size: u64, absent: &str| match size {
            0 => Cell::text(absent).style(DIM),
            _ => Cell::bytes(size),
        };
        let mut cells = vec![
            Cell::number(change as f64, format!("{sign}{}", bytes(change.unsigned_abs()))).style(BOLD),
            size(row.before, "new"),
            size(row.after, "gone"),
        ];
        if is_functions {
            let [before, after] = row.instances;
            cells.push(match before == after || before == 0 || after == 0 {
                true => Cell::nothing(),
                false => Cell::text(format!("{before} → {after}")),
            });
            cells.push(Cell::name(&row.name));
            cells.push(Cell::verbatim(&row.group).style(DIM));
        } else {
            cells.push(Cell::verbatim(&row.name));
        }
        table.push(cells);
    }
    table.limited(rows.len(), limit, "more row", "more rows")
}
