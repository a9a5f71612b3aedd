//! The table of waits.

use whyslow_analyze::{CallTree, Reason, WaitTable};
use whyslow_explain::Finding;
use whyslow_profile::Profile;
use whyslow_words::Percent;

use super::cells::{NAME, place};
use super::explain::findings_of_view;
use super::layout::{PLAIN, Page, number_of, push_line, push_wrapped};
use crate::table::{Cell, Column, Table};
use crate::units::duration;

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
    wait_table(table, profile, limit, page).text(page.width)
}

/// The places where threads wait, at most `limit` of them.
pub(super) fn wait_table(waits: &WaitTable, profile: &Profile, limit: usize, page: Page) -> Table {
    let mut table = Table::new(vec![
        Column::share("share", "share"),
        Column::number("total_ns", "total"),
        Column::number("count", "count"),
        // If the columns do not fit, the longest wait goes first, then the percentiles.
        Column::number("p50_ns", "p50").spare(2),
        Column::number("p99_ns", "p99").spare(3),
        Column::number("max_ns", "max").spare(1),
        Column::words("reason", "reason").least(12),
        Column::rest("function", "function", NAME).gap(1),
        Column::place("file", "line", "line").from(0),
    ])
    .full_names(page.full_names);
    for row in waits.rows.iter().take(limit) {
        table.push(vec![
            Cell::part(row.total_ns, waits.total_ns),
            Cell::duration(row.total_ns),
            Cell::count(row.count),
            Cell::duration(row.p50_ns),
            Cell::duration(row.p99_ns),
            Cell::duration(row.max_ns),
            Cell::text(row.reason.word()),
            Cell::name(CallTree::name(profile, row.label)),
            place(profile, row.file, row.line),
        ]);
    }
    table.limited(waits.rows.len(), limit, "more place", "more places")
}
