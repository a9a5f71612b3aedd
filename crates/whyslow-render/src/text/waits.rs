//! The table of waits.

use whyslow_analyze::{BlockedWorker, Fact, Percent, WaitRow, WaitTable};
use whyslow_profile::Profile;

use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, label_name, left, number_of, place, push_line, push_wrapped, right,
    styled,
};
use super::remark::remark_lines;
use crate::sanitize::clean;
use crate::units::{Count, duration};

const SHARE: usize = 8;
const NUMBER: usize = 10;
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

/// Renders the places where threads wait, at most `limit` of them.
pub fn waits(
    table: &WaitTable,
    blocked: &[BlockedWorker],
    profile: &Profile,
    limit: usize,
    page: Page,
) -> String {
    let mut out = String::new();
    let share = |part: u64| Percent(part as f64 / table.total_ns.max(1) as f64);
    let intro = format!(
        "threads waited {} in all, {}; each wait is charged to the line of your code that led to it",
        duration(table.total_ns),
        number_of(table.count, "time", "times")
    );
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    if table.rows.is_empty() {
        return out;
    }
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
    out.push_str(&findings(profile, blocked, limit, page));
    out.push('\n');
    out.push_str(&wait_rows(table, profile, limit, page));
    out
}

/// The places with their numbers, at most `limit` of them, below a header.
pub(super) fn wait_rows(table: &WaitTable, profile: &Profile, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let share = |part: u64| Percent(part as f64 / table.total_ns.max(1) as f64);
    // If the columns do not fit, the percentiles go first.
    let mut numbers = COLUMNS.to_vec();
    for spare in ["p50", "p99", "max"] {
        if SHARE + NUMBER * numbers.len() + REASON + 2 * NAME > page.width {
            numbers.retain(|(title, _)| *title != spare);
        }
    }
    let rest = page.width.saturating_sub(SHARE + NUMBER * numbers.len() + 2 + REASON);
    let place_width = (rest * 2 / 5).min(40);
    let shown = &table.rows[..table.rows.len().min(limit)];
    let places = shown.iter().map(|row| match row.file {
        Some(file) => place(&clean(profile.text(file)), row.line, place_width),
        None => String::new(),
    });
    let places: Vec<String> = places.collect();
    let widest = places.iter().map(|place| columns(place)).max().unwrap_or(0);
    let name_width = rest.saturating_sub(widest + 2);
    let titles = numbers.iter().map(|(title, _)| right(title, NUMBER)).collect::<String>();
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
    for ((row, name), place) in shown.iter().zip(&names).zip(&places) {
        let numbers = numbers.iter().map(|(_, number)| right(&number(row), NUMBER)).collect::<String>();
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

/// Remarks about calls that block worker threads.
pub(super) fn findings(profile: &Profile, blocked: &[BlockedWorker], limit: usize, page: Page) -> String {
    let shown = blocked.iter().take(limit);
    shown.map(|row| remark_lines(&row.finding(profile).remark(), page.width)).collect()
}
