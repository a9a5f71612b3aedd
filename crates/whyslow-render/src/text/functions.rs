//! The table of functions.

use whyslow_analyze::heap::is_heap_metric;
use whyslow_analyze::{CallTree, FunctionTable, Share};
use whyslow_profile::Profile;

use super::cells::{NAME, definition, function, kind, kind_column};
use super::layout::{PLAIN, Page, number_of, push_wrapped};
use super::ratios;
use crate::table::{Cell, Column, Table};

/// Renders the functions of a table in its order, at most `limit` of them.
pub fn functions(profile: &Profile, table: &FunctionTable, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let what = if is_heap_metric(profile, page.metric) {
        Some("self: allocated by the function itself, without its callees")
    } else {
        page.counted.then_some("counted; self: the function itself, without its callees")
    };
    let intro = intro(profile, table.total_value, table.total_samples, what, page);
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    ratios::push_meaning(&mut out, &table.ratios, page);
    out.push('\n');
    out.push_str(&function_table(profile, table, limit, true, page).text(page.width));
    out
}

/// The line above a table: the total, the error of sampled shares, and other notes.
pub(super) fn intro(profile: &Profile, value: u64, samples: u64, what: Option<&str>, page: Page) -> String {
    let mut intro = page.whole(profile, value);
    if !page.counted {
        intro.push_str(&format!(" in {}", number_of(samples, "sample", "samples")));
        if samples > 0 {
            let rough = Share::new(1, 2, samples).margin_95() * 100.0;
            intro.push_str(&format!("; sampling error of a 50 % share: ±{rough:.1} points"));
        }
    }
    what.map_or(intro.clone(), |what| format!("{intro}; {what}"))
}

/// Renders the header and the first rows of a table, without self values.
pub(super) fn rows(profile: &Profile, table: &FunctionTable, limit: usize, page: Page) -> String {
    if limit == 0 || table.rows.is_empty() {
        return String::new();
    }
    function_table(profile, table, limit, false, page).without_more().text(page.width)
}

/// Functions with self and total, at most `limit` of them; with `times`, people also see the self values.
pub(super) fn function_table(
    profile: &Profile,
    functions: &FunctionTable,
    limit: usize,
    times: bool,
    page: Page,
) -> Table {
    let self_value = Column::amount("self", "self", page.unit).least(8);
    let mut columns = vec![
        Column::share("self_share", "self"),
        Column::share("total_share", "total"),
        if times { self_value } else { self_value.in_data() },
        Column::amount("total", "total", page.unit).in_data(),
        Column::number("self_samples", "samples").in_data(),
        Column::number("total_samples", "samples").in_data(),
    ];
    columns.extend(ratios::columns(&functions.ratios, times, page));
    columns.extend([
        kind_column(),
        Column::rest("name", "function", NAME).gap(1),
        Column::place("file", "line", "where"),
    ]);
    let mut table = Table::new(columns).full_names(page.full_names);
    for row in functions.rows.iter().take(limit) {
        let mut cells = vec![
            Cell::share(functions.self_share(row).value),
            Cell::share(functions.total_share(row).value),
            Cell::amount(row.self_value, page.unit),
            Cell::amount(row.total_value, page.unit),
            Cell::count(row.self_samples),
            Cell::count(row.total_samples),
        ];
        cells.extend(ratios::cells(&functions.ratios, row.label));
        cells.extend([
            kind(CallTree::kind(profile, row.label)),
            function(profile, row.label),
            definition(profile, row.label),
        ]);
        table.push(cells);
    }
    table.limited(functions.rows.len(), limit, "more function", "more functions")
}
