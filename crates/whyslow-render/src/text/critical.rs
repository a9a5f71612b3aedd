//! The critical path as text.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use whyslow_analyze::{CallTree, CriticalPath, Did, PathRow, PathStep, Reason, Site, has_wakers};
use whyslow_profile::{Profile, ThreadId};
use whyslow_words::Percent;

use super::cells::{self, NAME};
use super::layout::{BOLD, DIM, PLAIN, Page, push_line, push_wrapped, styled};
use super::locks::{ThreadGroup, group_name, thread_name};
use crate::table::{Cell, Column, Table};
use crate::units::duration;

/// Maximum number of stretches shown, and the minimum share of each.
const STRETCHES: usize = 20;
const LEAST: f64 = 0.005;

/// Renders the lines of code on the path, at most `limit`, and the threads that it runs through.
pub fn critical_path(path: &CriticalPath, profile: &Profile, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let share = |part: u64| Percent(part as f64 / path.total_ns.max(1) as f64);
    let waited = path.total_ns.saturating_sub(path.ran_ns);
    let ends_in = path
        .ends_in
        .map_or(String::new(), |thread| format!(" to the end of {}", thread_name(profile, thread)));
    let intro = format!(
        "the critical path{ends_in} takes {}: threads ran {} ({}) and waited {}; only changes on this path make the run shorter",
        duration(path.total_ns),
        duration(path.ran_ns),
        share(path.ran_ns),
        duration(waited)
    );
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    if path.unknown_ns > 0 {
        let unknown = duration(path.unknown_ns);
        let text = match has_wakers(profile) {
            true => format!(
                "what ended {unknown} of waits was not recorded; the path stays in the waiting thread there"
            ),
            false => format!(
                "the waker is unknown for {unknown} of waits, so the path may be wrong there: run `whyslow record --wakers` as root"
            ),
        };
        push_wrapped(&mut out, DIM, &text, page.width);
    }
    if path.rows.is_empty() {
        return out;
    }
    out.push('\n');
    out.push_str(&critical_path_table(path, profile, limit, page).text(page.width));
    push_way(&mut out, path, profile, page);
    out
}

/// The lines of code on the path, at most `limit` of them.
pub(super) fn critical_path_table(path: &CriticalPath, profile: &Profile, limit: usize, page: Page) -> Table {
    let mut table = Table::new(vec![
        Column::share("share", "share"),
        Column::number("total_ns", "time").least(8),
        Column::words("state", "state").least(12),
        Column::words("thread", "thread").gap(1).most(28),
        Column::rest("function", "function", NAME),
        Column::place("file", "line", "").from(0),
    ])
    .full_names(page.full_names);
    let rows = rows_of(path, profile);
    for row in rows.iter().take(limit) {
        let [function, place] = match row.site {
            Some(site) => {
                [Cell::name(CallTree::name(profile, site.label)), cells::place(profile, site.file, site.line)]
            }
            None if row.did == Did::Ran => [Cell::nothing().shown("(no sample)"), Cell::nothing()],
            None => [Cell::nothing().shown("(other threads had the CPUs)"), Cell::nothing()],
        };
        table.push(vec![
            Cell::part(row.total_ns, path.total_ns),
            Cell::duration(row.total_ns),
            Cell::text(word(row.did)),
            Cell::verbatim(group_name(profile, &row.threads)),
            function,
            place,
        ]);
    }
    table.limited(rows.len(), limit, "more line", "more lines")
}

/// The part of the path at one line, of threads of one name.
struct Row {
    did: Did,
    site: Option<Site>,
    threads: BTreeSet<ThreadId>,
    total_ns: u64,
}

fn rows_of(path: &CriticalPath, profile: &Profile) -> Vec<Row> {
    let mut rows: Vec<(ThreadGroup<'_>, Row)> = Vec::new();
    for PathRow { did, site, thread, total_ns } in &path.rows {
        let group = ThreadGroup::of(profile, *thread);
        let same = rows.iter_mut().find(|(known, row)| (*known, row.did, row.site) == (group, *did, *site));
        match same {
            Some((_, row)) => {
                row.threads.insert(*thread);
                row.total_ns += total_ns;
            }
            None => {
                let threads = BTreeSet::from([*thread]);
                rows.push((group, Row { did: *did, site: *site, threads, total_ns: *total_ns }));
            }
        }
    }
    let mut rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    rows.sort_by_key(|row| Reverse(row.total_ns));
    rows
}

/// The word for a thread's state on the path.
fn word(did: Did) -> &'static str {
    match did {
        Did::Ran => "ran",
        Did::Waited(reason) => reason.word(),
    }
}

/// A part of the path on one thread.
struct Stretch {
    thread: ThreadId,
    start_ns: u64,
    end_ns: u64,
    ran_ns: u64,
    /// The time per reason.
    waited: Vec<(Reason, u64)>,
}

impl Stretch {
    fn of(step: &PathStep) -> Self {
        let length = step.end_ns - step.start_ns;
        let (ran_ns, waited) = match step.did {
            Did::Ran => (length, Vec::new()),
            Did::Waited(reason) => (0, vec![(reason, length)]),
        };
        Self { thread: step.thread, start_ns: step.start_ns, end_ns: step.end_ns, ran_ns, waited }
    }

    /// Appends a later stretch of the same thread.
    fn extend(&mut self, later: Self) {
        self.end_ns = later.end_ns;
        self.ran_ns += later.ran_ns;
        for (reason, length) in later.waited {
            match self.waited.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, sum)) => *sum += length,
                None => self.waited.push((reason, length)),
            }
        }
    }

    /// `ran 3.00 s, lock 2.00 s, queued 20.0 ms`, without what is too short to matter.
    fn words(&mut self) -> String {
        self.waited.sort_by_key(|(_, length)| Reverse(*length));
        let parts = [("ran", self.ran_ns)]
            .into_iter()
            .chain(self.waited.iter().map(|(reason, length)| (reason.word(), *length)));
        let least = ((self.end_ns - self.start_ns) as f64 * LEAST) as u64;
        let parts = parts
            .filter(|(_, length)| *length > least)
            .map(|(what, length)| format!("{what} {}", duration(length)));
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// Joins neighbours of the same thread.
fn joined(stretches: impl IntoIterator<Item = Stretch>) -> Vec<Stretch> {
    let mut joined: Vec<Stretch> = Vec::new();
    for stretch in stretches {
        match joined.last_mut() {
            Some(last) if last.thread == stretch.thread => last.extend(stretch),
            _ => joined.push(stretch),
        }
    }
    joined
}

fn push_way(out: &mut String, path: &CriticalPath, profile: &Profile, page: Page) {
    let mut stretches = joined(path.steps.iter().map(Stretch::of));
    if stretches.len() < 2 {
        return;
    }
    let least = (path.total_ns as f64 * LEAST) as u64;
    let is_short = |stretch: &Stretch| stretch.end_ns - stretch.start_ns < least;
    let mut left_out = stretches.iter().filter(|stretch| is_short(stretch)).count();
    stretches.retain(|stretch| !is_short(stretch));
    let mut stretches = joined(stretches);
    left_out += stretches.len().saturating_sub(STRETCHES);
    stretches.truncate(STRETCHES);
    out.push('\n');
    push_line(out, &styled(BOLD, "the path in order of time"));
    let mut table = Table::new(vec![
        Column::number("start", "").gap(0).least(13),
        Column::number("length", "").least(10),
        Column::rest("did", "", 0),
    ]);
    for stretch in &mut stretches {
        table.push(vec![
            Cell::text(format!("at {}", duration(stretch.start_ns))),
            Cell::duration(stretch.end_ns - stretch.start_ns),
            Cell::text(format!("{}: {}", thread_name(profile, stretch.thread), stretch.words())),
        ]);
    }
    let (one, many) = ("shorter or later stretch", "shorter or later stretches");
    out.push_str(&table.limited(left_out, 0, one, many).text(page.width));
}
