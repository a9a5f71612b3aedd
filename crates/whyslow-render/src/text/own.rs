//! Functions and lines of the user's code, each with the library code it calls.

use whyslow_analyze::{By, CallTree, HotLines, Label, Nearness, OwnRow, OwnTable};
use whyslow_profile::{CodeKind, ModuleKind, Profile, SpecialFrame, bracketed, is_bracketed};

use super::cells::{NAME, definition, kind, kind_column, place};
use super::functions::intro;
use super::layout::{DIM, PLAIN, Page, kind_style, label_name, push_wrapped};
use super::ratios;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};

/// The meaning of `own`.
pub(super) const MEANING: &str = "own: your function plus the libraries it calls";

/// Renders the functions that time is charged to, at most `limit` of them.
pub fn own_functions(profile: &Profile, table: &OwnTable, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let intro = intro(profile, table.total_value, table.total_samples, None, page);
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    push_wrapped(&mut out, DIM, &format!("{MEANING}; see --by self, --by total"), page.width);
    ratios::push_meaning(&mut out, &table.ratios, page);
    out.push('\n');
    out.push_str(&own_table(profile, table, limit, true, page).text(page.width));
    out
}

/// Renders the header and the first rows, without self and the value.
pub(super) fn own_rows(profile: &Profile, table: &OwnTable, limit: usize, page: Page) -> String {
    if limit == 0 || table.rows.is_empty() {
        return String::new();
    }
    own_table(profile, table, limit, false, page).without_more().text(page.width)
}

/// The functions that time is charged to, at most `limit` of them; with `numbers`, people also see self and the
/// value.
pub(super) fn own_table(profile: &Profile, own: &OwnTable, limit: usize, numbers: bool, page: Page) -> Table {
    let rows = &own.rows[..own.rows.len().min(limit)];
    let shown = |column: Column, is_shown: bool| if is_shown { column } else { column.in_data() };
    // The kind column is needed only if some function is not the user's.
    let kinds = rows.iter().any(|row| row.nearness != Nearness::Own);
    let mut columns = vec![
        Column::share("own_share", "own"),
        shown(Column::share("self_share", "self"), numbers),
        shown(Column::amount("own", "own", page.unit).least(8), numbers),
        Column::amount("self", "self", page.unit).in_data(),
        Column::number("own_samples", "samples").in_data(),
        Column::number("self_samples", "samples").in_data(),
    ];
    columns.extend(ratios::columns(&own.ratios, numbers, page));
    columns.extend([
        shown(kind_column(), kinds),
        Column::rest("name", "function", NAME).gap(if kinds { 1 } else { 2 }),
        Column::place("hottest_file", "hottest_line", "hottest line").part(2, 7).from(48),
        Column::share("mostly_in_share", "mostly in").gap(2).heads_next(),
        Column::words("mostly_in", "").gap(1).leftover().least(12),
    ]);
    let mut table = Table::new(columns).full_names(page.full_names);
    let has_lines = rows.iter().any(|row| row.line.is_some());
    for row in rows {
        let code = CallTree::kind(profile, row.label);
        let mut cells = vec![
            Cell::part(row.own_value, own.total_value),
            Cell::part(row.self_value, own.total_value),
            Cell::amount(row.own_value, page.unit),
            Cell::amount(row.self_value, page.unit),
            Cell::count(row.own_samples),
            Cell::count(row.self_samples),
        ];
        cells.extend(ratios::cells(&own.ratios, row.label));
        let (most, most_value) = match row.beneath {
            Some(beneath) if beneath.value > row.self_value => {
                (name_in_crate(profile, beneath.label), beneath.value)
            }
            _ => ("itself".to_owned(), row.self_value),
        };
        cells.extend([
            kind(code),
            Cell::name(name_in_crate(profile, row.label)).style(kind_style(code)),
            hottest_line(profile, row, has_lines).style(DIM),
            Cell::part(most_value, own.total_value),
            Cell::name(most),
        ]);
        table.push(cells);
    }
    table.limited(own.rows.len(), limit, "more function", "more functions")
}

/// A function's name, with its crate if debug info names the function without a path.
pub(super) fn name_in_crate(profile: &Profile, label: Label) -> String {
    let name = label_name(profile, label);
    let crate_name = match label {
        Label::Function(id) if !name.contains("::") => profile.functions[id.index()].crate_name,
        _ => None,
    };
    let kind = CallTree::kind(profile, label);
    match crate_name.map(|id| clean(profile.text(id))) {
        Some(crate_name)
            if matches!(kind, CodeKind::Yours | CodeKind::Dependency)
                && !name.contains(&*crate_name)
                && !is_c(profile, label) =>
        {
            format!("{crate_name}::…::{name}")
        }
        _ => name,
    }
}

/// Whether a function has a plain name, as in C: its library is no path.
fn is_c(profile: &Profile, label: Label) -> bool {
    let Label::Function(id) = label else { return false };
    let function = &profile.functions[id.index()];
    function.raw_name == function.name || profile.text(function.raw_name) == profile.text(function.name)
}

/// The hottest line of a function, its definition if no line is known, or beside lines of other functions the file
/// that it is in: `[libz.so.1]`; `[jit]` for compiled code in memory.
fn hottest_line(profile: &Profile, row: &OwnRow, has_lines: bool) -> Cell {
    match (row.line, row.label) {
        (Some(hottest), _) => place(profile, Some(hottest.file), hottest.line),
        (None, Label::Function(id)) if profile.functions[id.index()].file.is_none() => {
            let module = profile.functions[id.index()].module;
            let module = module.and_then(|row| profile.modules.get(row.index())).filter(|_| has_lines);
            let path = module.map_or("", |module| profile.text(module.path));
            let file = path.rsplit('/').next().unwrap_or(path);
            match module {
                Some(module) if module.kind == ModuleKind::Jit => {
                    Cell::nothing().shown(SpecialFrame::Jit.text())
                }
                Some(_) if !file.is_empty() && !is_bracketed(file) => Cell::nothing().shown(bracketed(file)),
                _ => Cell::nothing(),
            }
        }
        (None, label) => definition(profile, label),
    }
}

/// Renders the most expensive lines of all functions, at most `limit` of them.
pub fn hot_lines(profile: &Profile, lines: &HotLines, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let intro = intro(profile, lines.total_value, lines.total_samples, None, page);
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    let meaning = match lines.by {
        By::Own => "own: your line plus the libraries it calls; see --by self",
        By::SelfValue => "self: the line itself; see --by own",
    };
    push_wrapped(&mut out, DIM, meaning, page.width);
    out.push('\n');
    out.push_str(&hot_line_table(profile, lines, limit, page).text(page.width));
    if lines.rows.iter().all(|row| row.line == 0) {
        out.push('\n');
        let why = "No line numbers: the code was built without debug info.";
        push_wrapped(&mut out, PLAIN, why, page.width);
    }
    out
}

/// The most expensive lines, at most `limit` of them.
pub(super) fn hot_line_table(profile: &Profile, lines: &HotLines, limit: usize, page: Page) -> Table {
    let mut table = Table::new(vec![
        Column::share("own_share", "own"),
        Column::share("self_share", "self"),
        Column::amount("own", "own", page.unit).in_data(),
        Column::amount("self", "self", page.unit).in_data(),
        Column::number("own_samples", "samples").in_data(),
        Column::number("self_samples", "samples").in_data(),
        Column::place("file", "line", "line").part(3, 10).most(usize::MAX).from(0),
        Column::words("function", "function").part(3, 10),
        Column::rest("text", "source", 0),
    ])
    .full_names(page.full_names);
    for row in lines.rows.iter().take(limit) {
        let at = place(profile, row.file, row.line);
        table.push(vec![
            Cell::part(row.own_value, lines.total_value),
            Cell::part(row.self_value, lines.total_value),
            Cell::amount(row.own_value, page.unit),
            Cell::amount(row.self_value, page.unit),
            Cell::count(row.own_samples),
            Cell::count(row.self_samples),
            if row.file.is_some() { at } else { Cell::nothing().shown("?") },
            Cell::name(name_in_crate(profile, row.label))
                .style(kind_style(CallTree::kind(profile, row.label))),
            Cell::source(row.text.map_or("", |text| profile.text(text).trim_start())),
        ]);
    }
    table.limited(lines.rows.len(), limit, "more line", "more lines")
}
