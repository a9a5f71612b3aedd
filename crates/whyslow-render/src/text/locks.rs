//! Contended locks as text.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use whyslow_analyze::{CallTree, LockRow, LockSite, LockTable, Site, has_wakers};
use whyslow_profile::{ProcessId, Profile, ThreadId};

use super::cells::{self, NAME};
use super::layout::{BOLD, DIM, PLAIN, Page, label_name, number_of, place, push_line, push_wrapped, styled};
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
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
        out.push_str(&edge_table(&edges_of(table, profile), profile).text(page.width));
    }
    if table.rows.iter().all(|row| row.holders.is_empty()) {
        out.push('\n');
        let hint = match has_wakers(profile) {
            true => "no recorded thread released these locks while another waited",
            false => {
                "this recording does not show where the locks were held: run `whyslow record --wakers` as root"
            }
        };
        push_wrapped(&mut out, DIM, hint, page.width);
    }
    out
}

/// Why a lock has no name.
fn why_unnamed(row: &LockRow) -> Option<&'static str> {
    match (row.name, row.address) {
        (Some(_), _) => None,
        (None, None) => Some("no name: its address is not known, so locks of one line are shown as one"),
        (None, Some(_)) if row.in_module => Some("no name: the symbol table does not have its variable"),
        (None, Some(_)) => Some("no name: it is on the heap or on a stack"),
    }
}

/// How long threads of one name waited for threads of another.
#[derive(Default)]
struct Edge {
    waiters: BTreeSet<ThreadId>,
    holders: BTreeSet<ThreadId>,
    count: u64,
    total_ns: u64,
}

/// The graph of waits between threads of the same names, most time first.
fn edges_of(table: &LockTable, profile: &Profile) -> Vec<Edge> {
    let mut edges: BTreeMap<_, Edge> = BTreeMap::new();
    for row in &table.graph {
        let groups = (ThreadGroup::of(profile, row.waiter), ThreadGroup::of(profile, row.holder));
        let edge = edges.entry(groups).or_default();
        edge.waiters.insert(row.waiter);
        edge.holders.insert(row.holder);
        edge.count += row.count;
        edge.total_ns += row.total_ns;
    }
    let mut edges: Vec<Edge> = edges.into_values().collect();
    edges.sort_by_key(|edge| Reverse(edge.total_ns));
    edges
}

/// Sites of threads of the same name, most time first.
fn sites_of<'a>(profile: &Profile, sites: &'a [LockSite]) -> Vec<(&'a LockSite, BTreeSet<ThreadId>, u64)> {
    let mut rows: Vec<(&LockSite, BTreeSet<ThreadId>, u64)> = Vec::new();
    for site in sites {
        let group = |site: &LockSite| site.thread.map(|thread| ThreadGroup::of(profile, thread));
        let same = rows.iter_mut().find(|(known, ..)| known.site == site.site && group(known) == group(site));
        match same {
            Some((_, threads, total_ns)) => {
                threads.extend(site.thread);
                *total_ns += site.total_ns;
            }
            None => rows.push((site, site.thread.into_iter().collect(), site.total_ns)),
        }
    }
    rows.sort_by_key(|(.., total_ns)| Reverse(*total_ns));
    rows
}

fn push_lock(out: &mut String, row: &LockRow, profile: &Profile, page: Page) {
    let address = row.address.map_or(String::new(), |address| format!(" at {address:#x}"));
    let name = row.name.map_or(String::new(), |name| format!(" {}", clean(&name.words(profile))));
    let title =
        format!("{}{name}{address}, first waited for in {}", row.kind, site_words(profile, row.site, page));
    push_wrapped(out, BOLD, &title, page.width);
    if let Some(why) = why_unnamed(row) {
        push_wrapped(out, DIM, &format!("  {why}"), page.width);
    }
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
    let mut table = Table::new(vec![
        Column::words("what", "").least(WHAT),
        Column::share("share", ""),
        Column::rest("site", "", NAME),
    ]);
    for (what, sites) in [("waited in", &row.waiters), ("released in", &row.holders)] {
        let sites = sites_of(profile, sites);
        for (at, (site, threads, total_ns)) in sites.iter().take(SITES).enumerate() {
            let by = match threads.is_empty() {
                true => String::new(),
                false => format!(", by {}", group_name(profile, threads)),
            };
            table.push(vec![
                Cell::text(what).repeats(at > 0),
                Cell::part(*total_ns, row.total_ns),
                Cell::text(format!("{}{by}", site_words(profile, site.site, page))),
            ]);
        }
        if sites.len() > SITES {
            let more = number_of((sites.len() - SITES) as u64, "more line", "more lines");
            table.push_only("site", Cell::text(format!("and {more}")).style(DIM));
        }
    }
    out.push_str(&table.text(page.width));
}

/// The graph of waits between threads.
fn edge_table(edges: &[Edge], profile: &Profile) -> Table {
    let mut table =
        Table::new(vec![Column::number("total_ns", "").least(SHARE), Column::rest("edge", "", NAME)]);
    for edge in edges.iter().take(EDGES) {
        let words = format!(
            "{} waited for {}, {}",
            group_name(profile, &edge.waiters),
            group_name(profile, &edge.holders),
            number_of(edge.count, "time", "times")
        );
        table.push(vec![Cell::duration(edge.total_ns), Cell::text(words)]);
    }
    table.limited(edges.len(), EDGES, "more pair of threads", "more pairs of threads")
}

/// The locks with their numbers, at most `limit`.
pub(super) fn lock_table(locks: &LockTable, profile: &Profile, limit: usize, page: Page) -> Table {
    let mut table = Table::new(vec![
        Column::number("total_ns", "total"),
        Column::number("count", "waits"),
        Column::number("mean_ns", "mean"),
        Column::number("p50_ns", "p50"),
        Column::number("p99_ns", "p99"),
        Column::number("max_ns", "max"),
        Column::words("kind", "kind"),
        Column::words("lock", "lock"),
        Column::number("address", "address"),
        Column::rest("function", "first waited for in", NAME),
        Column::place("file", "line", "line"),
    ])
    .full_names(page.full_names);
    for row in locks.rows.iter().take(limit) {
        table.push(vec![
            Cell::duration(row.total_ns),
            Cell::count(row.count),
            Cell::duration(row.mean_ns()),
            Cell::duration(row.p50_ns),
            Cell::duration(row.p99_ns),
            Cell::duration(row.max_ns),
            Cell::text(row.kind.to_string()),
            Cell::maybe(row.name.map(|name| Cell::verbatim(name.words(profile)))),
            Cell::maybe(row.address.map(|address| Cell::verbatim(format!("{address:#x}")))),
            Cell::name(CallTree::name(profile, row.site.label)),
            cells::place(profile, row.site.file, row.site.line),
        ]);
    }
    table.limited(locks.rows.len(), limit, "more lock", "more locks")
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

/// Threads of one process whose names differ at most in a trailing number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreadGroup<'a> {
    process: ProcessId,
    name: &'a str,
}

impl<'a> ThreadGroup<'a> {
    pub(super) fn of(profile: &'a Profile, thread: ThreadId) -> Self {
        let row = &profile.threads[thread.index()];
        let name = profile.text(row.name);
        let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        Self { process: row.process, name: if stem.is_empty() { name } else { stem } }
    }
}

/// The name of some threads of one group: that of the only one with its id, or how many there are.
pub(super) fn group_name(profile: &Profile, threads: &BTreeSet<ThreadId>) -> String {
    let name = |thread: &ThreadId| profile.text(profile.threads[thread.index()].name);
    match (threads.first(), threads.last()) {
        (Some(only), Some(last)) if only == last => thread_name(profile, *only),
        (Some(first), Some(_)) => {
            let differ = threads.iter().any(|thread| name(thread) != name(first));
            let group = ThreadGroup::of(profile, *first).name;
            let name = if differ { format!("{}*", clean(group)) } else { clean(name(first)).into_owned() };
            format!("{name} ({} threads)", threads.len())
        }
        _ => String::new(),
    }
}

/// A thread's name and id: several threads often have the same name.
pub(super) fn thread_name(profile: &Profile, thread: ThreadId) -> String {
    let row = &profile.threads[thread.index()];
    format!("{} ({})", clean(profile.text(row.name)), row.tid)
}
