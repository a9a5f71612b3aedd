//! Sizes, lifetimes and threads.

use whyslow_analyze::heap::{histogram, threads};
use whyslow_profile::{HeapFacts, HistogramOf, Profile, ThreadId};

use super::HeapView;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::text::layout::{BOLD, DIM, Page, cut, number_of, push_line, styled};
use crate::units::{bytes, duration};

const BAR: usize = 40;
const LABEL: usize = 24;
const NUMBER: usize = 12;
const NAME: usize = 24;
/// Default number of threads and of pairs of threads.
const ROWS: usize = 10;

pub(super) fn spread(view: &HeapView<'_>, facts: &HeapFacts, page: Page) -> String {
    let profile = view.profile;
    let mut out = String::new();
    push_bars(&mut out, "sizes of blocks", &histogram(profile, HistogramOf::Size), bytes, page);
    push_bars(
        &mut out,
        "lifetimes of freed blocks",
        &histogram(profile, HistogramOf::Lifetime),
        duration,
        page,
    );
    push_threads(&mut out, view, page);
    push_transfers(&mut out, view);
    if !facts.allocators.is_empty() {
        let names = facts.allocators.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ");
        push_line(&mut out, &format!("\n{} {names}", styled(BOLD, "allocators:")));
    }
    out
}

/// Renders one bar per power of two, from the first with blocks to the last.
fn push_bars(out: &mut String, title: &str, bars: &[u64], unit: fn(u64) -> String, page: Page) {
    let Some(first) = bars.iter().position(|blocks| *blocks > 0) else { return };
    let all = bars.iter().fold(0u64, |sum, blocks| sum.saturating_add(*blocks));
    let most = bars.iter().copied().max().unwrap_or(1).max(1);
    let width = BAR.min(page.width.saturating_sub(LABEL + NUMBER + 14));
    push_line(out, &format!("\n{}", styled(BOLD, format!("{title}:"))));
    let mut table = Table::new(vec![
        Column::number("size", "").gap(0).least(LABEL),
        Column::number("blocks", "").least(NUMBER),
        Column::share("share", "").gap(2),
        Column::rest("bar", "", 0),
    ]);
    for (bar, blocks) in bars.iter().enumerate().skip(first) {
        let power =
            |of: usize| u32::try_from(of).ok().and_then(|of| 1u64.checked_shl(of)).unwrap_or(u64::MAX);
        let label = match bar {
            0 => unit(0),
            bar => format!("{} – {}", unit(power(bar - 1)), unit(power(bar))),
        };
        let length = (u128::from(*blocks) * width as u128).div_ceil(u128::from(most)) as usize;
        table.push(vec![
            Cell::text(label),
            Cell::count(*blocks),
            Cell::part(*blocks, all),
            Cell::text("█".repeat(length)).style(DIM),
        ]);
    }
    out.push_str(&table.text(page.width));
}

fn push_threads(out: &mut String, view: &HeapView<'_>, page: Page) {
    let rows = threads(view.profile);
    if rows.len() < 2 {
        return;
    }
    let limit = view.limit.unwrap_or(ROWS);
    let mut table = Table::new(vec![
        Column::words("thread", "threads").gap(0),
        Column::number("bytes_allocated", "allocated").least(10),
        Column::number("allocations", "blocks").least(12),
        Column::number("peak_bytes", "at peak").least(10),
        Column::number("freed_elsewhere", "freed by others").least(18).spare(2),
        Column::number("freed_for_others", "freed for others").least(18).spare(1),
    ]);
    for row in rows.iter().take(limit) {
        table.push(vec![
            Cell::verbatim(thread_name(view.profile, row.thread)),
            Cell::bytes(row.bytes_allocated),
            Cell::count(row.allocations),
            Cell::bytes(row.peak_bytes),
            Cell::count(row.freed_elsewhere),
            Cell::count(row.freed_for_others),
        ]);
    }
    let table = table.limited(rows.len(), limit, "more thread", "more threads");
    out.push_str(&format!("\n{}", table.text(page.width)));
}

fn push_transfers(out: &mut String, view: &HeapView<'_>) {
    let profile = view.profile;
    let mut rows = profile.heap.transfers.clone();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes), row.from, row.to));
    push_line(out, &format!("\n{}", styled(BOLD, "freed by another thread:")));
    let limit = view.limit.unwrap_or(ROWS);
    for row in rows.iter().take(limit) {
        let (from, to) = (thread_name(profile, row.from), thread_name(profile, row.to));
        let size = format!("{} in {}", bytes(row.bytes), number_of(row.blocks, "block", "blocks"));
        push_line(out, &format!("  {to} frees memory of {from}: {size}"));
    }
    if rows.len() > limit {
        let more = number_of((rows.len() - limit) as u64, "more pair", "more pairs");
        push_line(out, &styled(DIM, format!("and {more}")));
    }
}

fn thread_name(profile: &Profile, thread: ThreadId) -> String {
    let row = &profile.threads[thread.index()];
    format!("{} ({})", cut(&clean(profile.text(row.name)), NAME), row.tid)
}
