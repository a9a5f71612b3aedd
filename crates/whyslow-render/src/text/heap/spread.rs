//! Sizes, lifetimes and threads.

use whyslow_analyze::heap::{histogram, threads};
use whyslow_profile::{HeapFacts, HistogramOf, Profile, ThreadId};
use whyslow_words::Percent;

use super::HeapView;
use crate::sanitize::clean;
use crate::text::layout::{BOLD, DIM, Page, columns, cut, left, number_of, push_line, right, styled};
use crate::units::{Count, bytes, duration};

const BAR: usize = 40;
const LABEL: usize = 24;
const NUMBER: usize = 14;
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
    push_threads(&mut out, view);
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
    let width = BAR.min(page.width.saturating_sub(LABEL + NUMBER + 12));
    push_line(out, &format!("\n{}", styled(BOLD, format!("{title}:"))));
    for (bar, blocks) in bars.iter().enumerate().skip(first) {
        let power =
            |of: usize| u32::try_from(of).ok().and_then(|of| 1u64.checked_shl(of)).unwrap_or(u64::MAX);
        let label = match bar {
            0 => unit(0),
            bar => format!("{} – {}", unit(power(bar - 1)), unit(power(bar))),
        };
        let length = (u128::from(*blocks) * width as u128).div_ceil(u128::from(most)) as usize;
        let share = Percent(*blocks as f64 / all.max(1) as f64);
        let numbers =
            format!("{}{}{share:>9}", right(&label, LABEL), right(&Count(*blocks).to_string(), NUMBER));
        match length {
            0 => push_line(out, &numbers),
            _ => push_line(out, &format!("{numbers}  {}", styled(DIM, "█".repeat(length)))),
        }
    }
}

fn push_threads(out: &mut String, view: &HeapView<'_>) {
    let rows = threads(view.profile);
    if rows.len() < 2 {
        return;
    }
    let limit = view.limit.unwrap_or(ROWS);
    let names = rows.iter().take(limit).map(|row| thread_name(view.profile, row.thread)).collect::<Vec<_>>();
    let width = names.iter().map(|name| columns(name)).max().unwrap_or(0).max("threads".len());
    let header = format!(
        "{}{:>12}{:>14}{:>12}{:>20}{:>20}",
        left("threads", width),
        "allocated",
        "blocks",
        "at peak",
        "freed by others",
        "freed for others"
    );
    push_line(out, &format!("\n{}", styled(BOLD, header)));
    for (row, name) in rows.iter().zip(&names) {
        push_line(
            out,
            &format!(
                "{}{:>12}{:>14}{:>12}{:>20}{:>20}",
                left(name, width),
                bytes(row.bytes_allocated),
                Count(row.allocations),
                bytes(row.peak_bytes),
                Count(row.freed_elsewhere),
                Count(row.freed_for_others)
            ),
        );
    }
    push_more(out, rows.len(), limit, "more thread", "more threads");
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
    push_more(out, rows.len(), limit, "more pair", "more pairs");
}

fn push_more(out: &mut String, all: usize, limit: usize, one: &str, many: &str) {
    if all > limit {
        push_line(out, &styled(DIM, format!("and {}", number_of((all - limit) as u64, one, many))));
    }
}

fn thread_name(profile: &Profile, thread: ThreadId) -> String {
    let row = &profile.threads[thread.index()];
    format!("{} ({})", cut(&clean(profile.text(row.name)), NAME), row.tid)
}
