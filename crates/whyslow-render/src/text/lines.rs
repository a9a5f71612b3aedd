//! The source of a function with the cost of each line.

use anstyle::AnsiColor;
use whyslow_analyze::{LineRow, Lines};
use whyslow_profile::{Profile, StringId};
use whyslow_words::Percent;

use super::layout::{BOLD, DIM, PLAIN, Page, label_name, place, push_line, push_wrapped, styled};
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::value;

const SHARE: usize = 8;
const LINE: usize = 7;
/// Lines shown around a line with a cost.
const CONTEXT: u32 = 2;

/// Renders the lines of a function; shares are relative to the function's own total.
pub fn lines(profile: &Profile, lines: &Lines, page: Page) -> String {
    let mut out = String::new();
    let name = lines.labels.first().map_or(String::new(), |label| label_name(profile, *label));
    let of_all = |part: u64| Percent(part as f64 / lines.whole_value.max(1) as f64);
    push_line(&mut out, &styled(BOLD, page.fit(&name, page.width)));
    let costs = format!(
        "self {}, total {} ({}); shares below are of the function's total",
        of_all(lines.self_value),
        of_all(lines.total_value),
        value(lines.total_value, page.unit)
    );
    push_wrapped(&mut out, PLAIN, &costs, page.width);
    if lines.rows.iter().all(|row| row.line == 0) {
        out.push('\n');
        let why = "No line numbers: the code was built without debug info.";
        push_wrapped(&mut out, PLAIN, why, page.width);
        let fix = "Put `debug = \"line-tables-only\"` under [profile.release] in Cargo.toml.";
        push_wrapped(&mut out, PLAIN, fix, page.width);
        return out;
    }
    for rows in lines.rows.chunk_by(|a, b| a.file == b.file) {
        out.push('\n');
        out.push_str(&file_table(profile, lines, rows, page).text(page.width));
    }
    out
}

/// The lines of a function that have samples.
pub(super) fn line_table(profile: &Profile, lines: &Lines, page: Page) -> Table {
    let mut table = Table::new(columns("source", page));
    for row in &lines.rows {
        table.push(cells(profile, lines, row.file, row.line, Some(row), page));
    }
    table
}

/// The lines of one file, with the lines around them.
fn file_table(profile: &Profile, lines: &Lines, rows: &[LineRow], page: Page) -> Table {
    let file = rows[0].file;
    let title = file.map_or("unknown file".to_owned(), |file| {
        place(&clean(profile.text(file)), 0, page.width - (2 * SHARE + LINE + 2))
    });
    let mut table = Table::new(columns(&title, page));
    let mut previous = 0;
    for line in lines_to_show(profile, file, rows) {
        if previous > 0 && line > previous + 1 {
            table.push_only("line", Cell::nothing().shown("⋮")).styled(DIM);
        }
        previous = line;
        let row = rows.iter().find(|row| row.line == line);
        let shown = table.push(cells(profile, lines, file, line, row, page));
        match row {
            Some(_) if is_hottest(lines, row) => shown.styled(AnsiColor::Red.on_default().bold()),
            Some(_) => {}
            None => shown.styled(DIM),
        }
    }
    table
}

fn columns(title: &str, page: Page) -> Vec<Column> {
    vec![
        Column::share("self_share", "self"),
        Column::share("total_share", "total"),
        Column::amount("self", "self", page.unit).in_data(),
        Column::amount("total", "total", page.unit).in_data(),
        Column::words("file", "file").in_data(),
        Column::number("line", "line").gap(1).least(LINE - 1),
        Column::words("mark", "").gap(0).for_people(),
        Column::rest("text", title, 0).gap(1),
    ]
}

fn is_hottest(lines: &Lines, row: Option<&LineRow>) -> bool {
    row.is_some() && row == lines.hottest.map(|index| &lines.rows[index])
}

/// A line, with its cost if it has samples.
fn cells(
    profile: &Profile,
    lines: &Lines,
    file: Option<StringId>,
    line: u32,
    row: Option<&LineRow>,
    page: Page,
) -> Vec<Cell> {
    let share = |part: u64| {
        let share = Cell::part(part, lines.total_value);
        if part == 0 { share.shown("") } else { share }
    };
    let (own, total) = row.map_or((0, 0), |row| (row.self_value, row.total_value));
    let text = match file.and_then(|file| profile.sources.get(file, line)) {
        Some(text) => Cell::source(profile.text(text)),
        None if line == 0 => Cell::nothing().shown("(unknown line)"),
        None => Cell::nothing().shown("(source text not in the profile)"),
    };
    vec![
        share(own),
        share(total),
        Cell::amount(own, page.unit),
        Cell::amount(total, page.unit),
        file.map_or_else(Cell::nothing, |file| Cell::verbatim(profile.text(file))),
        if line == 0 { Cell::nothing().shown("?") } else { Cell::id(line) },
        Cell::text(if is_hottest(lines, row) { "▶" } else { " " }),
        text,
    ]
}

/// The lines with samples, and the lines around them that have source text.
fn lines_to_show(profile: &Profile, file: Option<StringId>, rows: &[LineRow]) -> Vec<u32> {
    let mut shown = Vec::new();
    for row in rows {
        let around = row.line.saturating_sub(CONTEXT).max(1)..=row.line.saturating_add(CONTEXT);
        let known = |line: &u32| file.is_some_and(|file| profile.sources.get(file, *line).is_some());
        shown.extend(around.filter(|_| row.line > 0).filter(known));
        shown.push(row.line);
    }
    shown.sort_unstable();
    shown.dedup();
    shown
}
