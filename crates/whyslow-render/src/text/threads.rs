//! The tables of threads and processes: sums by name, then each of them.

use whyslow_analyze::{NameRow, ThreadRow, Threads};
use whyslow_profile::{Profile, ThreadTimes};
use whyslow_words::Percent;

use super::layout::{DIM, PLAIN, Page, number_of, push_wrapped};
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::{Count, duration};

/// Optional columns give way until a name has this many columns. Linux keeps 15 characters of a thread's
/// name.
const NAME: usize = 12;

/// What ran, if there are several programs: each with its share and its number of processes.
pub fn programs(profile: &Profile, threads: &Threads, page: Page) -> String {
    let notable = threads.notable_programs(profile);
    if notable.is_empty() {
        return String::new();
    }
    let shown = notable.iter().map(|row| {
        let share = Percent(row.value as f64 / threads.total_value.max(1) as f64);
        let many = match row.count {
            1 => String::new(),
            count => format!(" ({})", number_of(count, "process", "processes")),
        };
        format!("{} {share}{many}", clean(&row.name))
    });
    let mut line = format!("programs: {}", shown.collect::<Vec<_>>().join(", "));
    if threads.programs.len() > notable.len() {
        line.push_str(&format!(", and {} more", Count((threads.programs.len() - notable.len()) as u64)));
    }
    let mut out = String::new();
    push_wrapped(&mut out, PLAIN, &line, page.width);
    out
}

/// Renders the sums by program and by thread name, if there are several, then each process and each thread,
/// at most `limit` of each.
pub fn threads(profile: &Profile, threads: &Threads, limit: usize, page: Page) -> String {
    let mut tables = Vec::new();
    if threads.programs.len() != threads.processes.len() {
        tables.push(sums(threads, &threads.programs, limit, page, PROGRAMS));
    }
    if threads.thread_names.len() != threads.rows.len() {
        tables.push(sums(threads, &threads.thread_names, limit, page, THREAD_NAMES));
    }
    if threads.processes.len() > 1 {
        tables.push(process_table(profile, threads, limit, page));
    }
    tables.push(thread_table(profile, threads, limit, page));
    let mut out = tables.iter().map(|table| table.text(page.width)).collect::<Vec<_>>().join("\n");
    let estimated =
        |row: &ThreadRow| profile.threads[row.thread.index()].times.map(|t| t.queued_estimated_ns);
    let estimated_ns: u64 = threads.rows.iter().filter_map(estimated).fold(0, u64::saturating_add);
    if estimated_ns > 0 {
        let about = format!(
            "queued: {} of the total is estimated from the kernel's accounting: the time between wake-up and getting a CPU",
            duration(estimated_ns)
        );
        push_wrapped(&mut out, DIM, &about, page.width);
    }
    out
}

/// The first columns of each table: what was used.
fn used_columns(page: Page) -> Vec<Column> {
    // Heap values are rows of its timeline, not samples.
    let samples = if page.counted { "rows" } else { "samples" };
    vec![
        Column::number("share", "share").gap(0),
        Column::amount("used", "used", page.unit),
        Column::number("samples", samples),
    ]
}

/// The first cells of a row.
fn used(threads: &Threads, value: u64, samples: u64, page: Page) -> Vec<Cell> {
    vec![Cell::part(value, threads.total_value), Cell::amount(value, page.unit), Cell::count(samples)]
}

/// What the rows of sums count, whose name they have, and one and many of them.
type Sums = [&'static str; 4];
const PROGRAMS: Sums = ["processes", "program", "more program", "more programs"];
const THREAD_NAMES: Sums = ["threads", "thread name", "more name", "more names"];

fn sums(threads: &Threads, rows: &[NameRow], limit: usize, page: Page, words: Sums) -> Table {
    let [what, who, one, many] = words;
    let mut columns = used_columns(page);
    columns.extend([Column::number(what, what), Column::rest("name", who, NAME)]);
    let mut table = Table::new(columns).full_names(page.full_names);
    for row in rows.iter().take(limit) {
        let mut cells = used(threads, row.value, row.samples, page);
        cells.extend([Cell::count(row.count), Cell::verbatim(&row.name)]);
        table.push(cells);
    }
    table.limited(rows.len(), limit, one, many)
}

fn process_table(profile: &Profile, threads: &Threads, limit: usize, page: Page) -> Table {
    let mut columns = used_columns(page);
    columns.extend([
        Column::number("threads", "threads"),
        Column::rest("process", "process", NAME),
        Column::number("pid", "pid"),
    ]);
    let mut table = Table::new(columns).full_names(page.full_names);
    for row in threads.processes.iter().take(limit) {
        let process = &profile.processes[row.process.index()];
        let mut cells = used(threads, row.value, row.samples, page);
        cells.extend([
            Cell::count(row.threads),
            Cell::verbatim(profile.text(process.name)),
            Cell::id(process.pid),
        ]);
        table.push(cells);
    }
    table.limited(threads.processes.len(), limit, "more process", "more processes")
}

/// Each thread with its process, at most `limit` of them.
pub(super) fn thread_table(profile: &Profile, threads: &Threads, limit: usize, page: Page) -> Table {
    let shown = || threads.rows.iter().take(limit);
    let timed = shown().any(|row| profile.threads[row.thread.index()].times.is_some());
    let time = |id, title| {
        let column = Column::number(id, title);
        if timed { column } else { column.in_data() }
    };
    let mut columns = used_columns(page);
    columns.extend([
        Column::rest("thread", "thread", NAME),
        Column::number("tid", "tid"),
        Column::words("process", "process").in_data(),
        Column::number("pid", "pid"),
        time("ran_ns", "ran"),
        time("queued_ns", "queued"),
        time("blocked_ns", "blocked"),
        Column::number("start_ns", "start").spare(1),
        Column::number("end_ns", "end").spare(1),
    ]);
    let mut table = Table::new(columns).full_names(page.full_names);
    for row in shown() {
        let thread = &profile.threads[row.thread.index()];
        let process = &profile.processes[thread.process.index()];
        let time = |ns: Option<u64>| ns.map_or(Cell::nothing().shown("-"), Cell::duration);
        let times = |of: fn(&ThreadTimes) -> u64| time(thread.times.as_ref().map(of));
        let mut cells = used(threads, row.value, row.samples, page);
        cells.extend([
            Cell::verbatim(profile.text(thread.name)),
            Cell::id(thread.tid),
            Cell::verbatim(profile.text(process.name)),
            Cell::id(process.pid),
            times(|t| t.ran_ns),
            times(|t| t.queued_ns),
            times(|t| t.blocked_ns),
            Cell::duration(thread.start_ns),
            time(thread.end_ns),
        ]);
        table.push(cells);
    }
    table.limited(threads.rows.len(), limit, "more thread", "more threads")
}
