//! The table of functions.

use whyslow_analyze::heap::is_heap_metric;
use whyslow_analyze::{CallTree, FunctionTable, Label, Share};
use whyslow_profile::Profile;

use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, kind_style, label_name, left, number_of, place, push_line, push_wrapped,
    right, styled,
};
use super::ratios;
use crate::sanitize::clean;
use crate::units::{Percent, value};

const SHARE: usize = 8;
const TIME: usize = 10;
const KIND: usize = 11;

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
    out.push_str(&rows(profile, table, limit, true, page));
    let more = table.rows.len().saturating_sub(limit);
    if more > 0 {
        push_line(
            &mut out,
            &styled(DIM, format!("and {}", number_of(more as u64, "more function", "more functions"))),
        );
    }
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

/// Renders the header and the first rows of a table; with `times`, also the self values.
pub(super) fn rows(
    profile: &Profile,
    table: &FunctionTable,
    limit: usize,
    times: bool,
    page: Page,
) -> String {
    if limit == 0 || table.rows.is_empty() {
        return String::new();
    }
    let time = if times { TIME + columns(&ratios::header(&table.ratios, page)) } else { 0 };
    let rest = page.width.saturating_sub(2 * SHARE + time + 2 + KIND);
    let place_width = if page.width >= 70 { (rest * 2 / 5).min(40) } else { 0 };
    let name_width = rest.saturating_sub(if place_width > 0 { place_width + 2 } else { 0 });
    let shown = &table.rows[..table.rows.len().min(limit)];
    // Names get the room that places do not need, and vice versa.
    let places = shown.iter().map(|row| definition(profile, row.label, place_width)).collect::<Vec<_>>();
    let widest = places.iter().map(|place| columns(place)).max().unwrap_or(0);
    let widest = if widest > 0 { widest.max("where".len()) } else { 0 };
    let name_width = name_width + (place_width - widest.min(place_width));
    let names =
        shown.iter().map(|row| page.fit(&label_name(profile, row.label), name_width)).collect::<Vec<_>>();
    let name_column = names.iter().map(|name| columns(name)).max().unwrap_or(0).max(8);

    let mut out = String::new();
    let mut header = format!("{}{}", right("self", SHARE), right("total", SHARE));
    if times {
        header.push_str(&right("self", TIME));
        header.push_str(&ratios::header(&table.ratios, page));
    }
    header.push_str(&format!("  {}{}  ", left("kind", KIND), left("function", name_column)));
    if widest > 0 {
        header.push_str("where");
    }
    push_line(&mut out, &styled(BOLD, header.trim_end()));
    for ((row, name), place) in shown.iter().zip(&names).zip(&places) {
        let kind = CallTree::kind(profile, row.label);
        let style = kind_style(kind);
        let own = Percent(table.self_share(row).value);
        let total = Percent(table.total_share(row).value);
        let mut line = format!("{own:>SHARE$}{total:>SHARE$}");
        if times {
            line.push_str(&right(&value(row.self_value, page.unit), TIME));
            line.push_str(&ratios::cells(&table.ratios, row.label, page));
        }
        let padding = " ".repeat(name_column.saturating_sub(columns(name)));
        let kind = styled(style, left(kind.label(), KIND));
        let name = styled(style, name);
        line.push_str(&format!("  {kind}{name}"));
        if !place.is_empty() {
            line.push_str(&format!("{padding}  {}", styled(DIM, place)));
        }
        push_line(&mut out, &line);
    }
    out
}

/// The place where a function is defined.
pub(super) fn definition(profile: &Profile, label: Label, width: usize) -> String {
    let Label::Function(id) = label else { return String::new() };
    let function = &profile.functions[id.index()];
    function.file.map_or(String::new(), |file| place(&clean(profile.text(file)), function.line, width))
}
