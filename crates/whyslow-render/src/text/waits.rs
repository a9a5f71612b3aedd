//! The table of waits.

use whyslow_analyze::{Reason, WaitRow, WaitTable};
use whyslow_explain::Finding;
use whyslow_profile::Profile;
use whyslow_words::Percent;

use super::explain::findings_of_view;
use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, label_name, left, number_of, place, push_line, push_wrapped, right,
    styled, wide_enough,
};
use crate::sanitize::clean;
use crate::units::{Count, duration};

const SHARE: usize = 8;
const REASON: usize = 13;
/// The minimum width of a name.
const NAME: usize = 20;

/// Formats a number of a row.
type Number = fn(&WaitRow) -> String;

/// The columns between the share and the reason.
const COLUMNS: [(&str, Number); 5] = [
    ("total", |row| duration(row.total_ns)),
    ("count", |row| Count(row.count).to_string()),
    ("p50", |row| duration(row.p50_ns)),
    ("p99", |row| duration(row.p99_ns)),
    ("max", |row| duration(row.max_ns)),
];

/// Renders the places where threads wait, at most `limit` of them, below what was found about them.
pub fn waits(table: &WaitTable, found: &[Finding], profile: &Profile, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let share = |part: u64| Percent(part as f64 / table.total_ns.max(1) as f64);
    if table.rows.is_empty() {
        push_line(&mut out, "no thread waited here");
        return out;
    }
    let queued = table.rows.iter().filter(|row| row.reason == Reason::Cpu);
    let (queued_ns, queued_count) =
        queued.fold((0, 0), |(ns, count), row| (ns + row.total_ns, count + row.count));
    let blocked_count = table.count - queued_count;
    let blocked_words = format!(
        "threads were blocked {} in all, in {}",
        duration(table.total_ns - queued_ns),
        number_of(blocked_count, "wait", "waits")
    );
    let queued_words =
        format!("queued for a CPU {} ({})", duration(queued_ns), number_of(queued_count, "time", "times"));
    let mut intro = match (blocked_count, queued_count) {
        (_, 0) => blocked_words,
        (0, _) => format!("no thread was blocked; threads {queued_words}"),
        _ => format!("{blocked_words}, and {queued_words}"),
    };
    intro.push_str("; each wait is charged to the line of your code that led to it");
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    let reasons = table
        .reasons
        .iter()
        .map(|(reason, total)| format!("{} {} ({})", reason.word(), duration(*total), share(*total)));
    push_wrapped(
        &mut out,
        PLAIN,
        &format!("reasons: {}", reasons.collect::<Vec<_>>().join(", ")),
        page.width,
    );
    out.push_str(&findings_of_view(profile, found, page));
    out.push('\n');
    out.push_str(&wait_rows(table, profile, limit, page));
    out
}

/// The places with their numbers, at most `limit` of them, below a header.
pub(super) fn wait_rows(table: &WaitTable, profile: &Profile, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let share = |part: u64| Percent(part as f64 / table.total_ns.max(1) as f64);
    let shown = &table.rows[..table.rows.len().min(limit)];
    let mut numbers: Vec<(usize, &str, Vec<String>)> = COLUMNS
        .iter()
        .map(|(title, number)| {
            let cells: Vec<String> = shown.iter().map(number).collect();
            (wide_enough(cells.iter().map(String::as_str).chain([*title]), 0), *title, cells)
        })
        .collect();
    let taken = |numbers: &[(usize, &str, Vec<String>)]| {
        SHARE + numbers.iter().map(|(width, ..)| width).sum::<usize>() + 2 + REASON
    };
    // If the columns do not fit, the longest wait goes first, then the percentiles.
    for spare in ["max", "p50", "p99"] {
        if taken(&numbers) + 2 * NAME > page.width {
            numbers.retain(|(_, title, _)| *title != spare);
        }
    }
    let rest = page.width.saturating_sub(taken(&numbers));
    let place_width = (rest * 2 / 5).min(40);
    let places = shown.iter().map(|row| match row.file {
        Some(file) => place(&clean(profile.text(file)), row.line, place_width),
        None => String::new(),
    });
    let places: Vec<String> = places.collect();
    let widest = places.iter().map(|place| columns(place)).max().unwrap_or(0);
    let name_width = rest.saturating_sub(widest + 2);
    let titles = numbers.iter().map(|(width, title, _)| right(title, *width)).collect::<String>();
    let names: Vec<String> =
        shown.iter().map(|row| page.fit(&label_name(profile, row.label), name_width)).collect();
    let name_column = names.iter().map(|name| columns(name)).max().unwrap_or(0).max("function".len());
    let header = format!(
        "{}{titles}  {}{}  line",
        right("share", SHARE),
        left("reason", REASON),
        left("function", name_column)
    );
    push_line(&mut out, &styled(BOLD, header));
    for (at, ((row, name), place)) in shown.iter().zip(&names).zip(&places).enumerate() {
        let numbers = numbers.iter().map(|(width, _, cells)| right(&cells[at], *width)).collect::<String>();
        let share = right(&share(row.total_ns).to_string(), SHARE);
        let line = format!(
            "{share}{numbers}  {}{}  {place}",
            left(row.reason.word(), REASON),
            left(name, name_column)
        );
        push_line(&mut out, line.trim_end());
    }
    if table.rows.len() > limit {
        let more = number_of((table.rows.len() - limit) as u64, "more place", "more places");
        push_line(&mut out, &styled(DIM, format!("and {more}")));
    }
    out
}
