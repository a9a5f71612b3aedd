//! Contended locks as text.

use whyslow_analyze::{LockRow, LockSite, LockTable, Percent, Site};
use whyslow_profile::{Profile, ThreadId};

use super::layout::{
    BOLD, DIM, PLAIN, Page, label_name, left, number_of, place, push_line, push_wrapped, right, styled,
};
use crate::sanitize::clean;
use crate::units::duration;

/// Lines of code shown for each lock.
const SITES: usize = 4;
/// Rows of the graph.
const EDGES: usize = 10;
const WHAT: usize = 13;
const SHARE: usize = 8;

/// Renders the locks, at most `limit`.
pub fn locks(table: &LockTable, profile: &Profile, limit: usize, page: Page) -> String {
    let mut out = String::new();
    if table.rows.is_empty() {
        push_line(&mut out, "no thread waited for a lock; `report FILE waits` shows the other waits");
        return out;
    }
    let intro = format!(
        "threads waited {} for {} in all, {}; parked and idle threads, condition variables and joins are not included",
        duration(table.total_ns),
        number_of(table.rows.len() as u64, "lock", "locks"),
        number_of(table.count, "time", "times")
    );
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    for row in table.rows.iter().take(limit) {
        out.push('\n');
        push_lock(&mut out, row, profile, page);
    }
    if table.rows.len() > limit {
        let more = number_of((table.rows.len() - limit) as u64, "more lock", "more locks");
        push_line(&mut out, &styled(DIM, format!("and {more}")));
    }
    if !table.graph.is_empty() {
        out.push('\n');
        push_line(&mut out, &styled(BOLD, "contention between threads"));
        for edge in table.graph.iter().take(EDGES) {
            let line = format!(
                "{}  {} waited for {}, {}",
                right(&duration(edge.total_ns), SHARE + 2),
                thread_name(profile, edge.waiter),
                thread_name(profile, edge.holder),
                number_of(edge.count, "time", "times")
            );
            push_line(&mut out, &line);
        }
        if table.graph.len() > EDGES {
            let more = number_of((table.graph.len() - EDGES) as u64, "more pair", "more pairs");
            push_line(&mut out, &styled(DIM, format!("and {more} of threads")));
        }
    }
    if table.rows.iter().all(|row| row.holders.is_empty()) {
        out.push('\n');
        let hint =
            "this recording does not show where the locks were held: run `whyslow record --wakers` as root";
        push_wrapped(&mut out, DIM, hint, page.width);
    }
    out
}

fn push_lock(out: &mut String, row: &LockRow, profile: &Profile, page: Page) {
    let address = row.address.map_or(String::new(), |address| format!(" at {address:#x}"));
    let name = row.name.map_or(String::new(), |name| format!(" {}", clean(&name.words(profile))));
    let title =
        format!("{}{name}{address}, first waited for in {}", row.kind, site_words(profile, row.site, page));
    push_wrapped(out, BOLD, &title, page.width);
    let numbers = format!(
        "  {} in {}: mean {}, p50 {}, p99 {}, max {}",
        duration(row.total_ns),
        number_of(row.count, "wait", "waits"),
        duration(row.mean_ns()),
        duration(row.p50_ns),
        duration(row.p99_ns),
        duration(row.max_ns)
    );
    push_line(out, &numbers);
    for (what, sites) in [("waited in", &row.waiters), ("released in", &row.holders)] {
        for (at, site) in sites.iter().take(SITES).enumerate() {
            let what = if at == 0 { what } else { "" };
            let share = Percent(site.total_ns as f64 / row.total_ns.max(1) as f64).to_string();
            let line =
                format!("  {}{}  {}", left(what, WHAT), right(&share, SHARE), of_site(profile, site, page));
            push_line(out, &line);
        }
        if sites.len() > SITES {
            let more = number_of((sites.len() - SITES) as u64, "more line", "more lines");
            push_line(out, &styled(DIM, format!("  {}and {more}", left("", WHAT + SHARE + 2))));
        }
    }
}

fn of_site(profile: &Profile, row: &LockSite, page: Page) -> String {
    let site = site_words(profile, row.site, page);
    match row.thread {
        Some(thread) => format!("{site}, by {}", thread_name(profile, thread)),
        None => site,
    }
}

/// Formats a line of code as `function (file:line)`.
pub(super) fn site_words(profile: &Profile, site: Site, page: Page) -> String {
    let room = page.width.saturating_sub(WHAT + SHARE + 4);
    let name = page.fit(&label_name(profile, site.label), room * 3 / 5);
    match site.file {
        Some(file) => format!("{name} ({})", place(&clean(profile.text(file)), site.line, room * 2 / 5)),
        None => name,
    }
}

/// A thread's name and id: several threads often have the same name.
pub(super) fn thread_name(profile: &Profile, thread: ThreadId) -> String {
    let row = &profile.threads[thread.index()];
    format!("{} ({})", clean(profile.text(row.name)), row.tid)
}
