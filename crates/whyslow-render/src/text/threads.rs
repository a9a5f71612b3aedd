//! The tables of threads and processes: sums by name, then each of them.

use whyslow_analyze::{NameRow, Percent, Threads};
use whyslow_profile::Profile;

use super::layout::{BOLD, DIM, Page, columns, cut, left, push_line, right, styled};
use crate::sanitize::clean;
use crate::units::{Count, duration, value};

const SHARE: usize = 8;
const NUMBER: usize = 11;
/// Room for a name between the numbers.
const NAME: usize = 24;

/// What the processes of each program and the threads of each name used, where there are several; then each process and
/// each thread, at most `limit` of each.
pub fn threads(profile: &Profile, threads: &Threads, limit: usize, page: Page) -> String {
    let mut out = String::new();
    // Values of the heap are rows of its timeline.
    let samples = if page.counted { "rows" } else { "samples" };
    let share = |part: u64| Percent(part as f64 / threads.total_value.max(1) as f64);
    let name = |id| cut(&clean(profile.text(id)), NAME);
    let mut sums = |rows: &[NameRow], of: usize, [what, who, others]: [&str; 3]| {
        if rows.len() == of {
            return;
        }
        let header =
            format!("{:>SHARE$}{:>NUMBER$}{:>NUMBER$}{what:>NUMBER$}  {who}", "share", "used", samples);
        push_line(&mut out, &styled(BOLD, header));
        for row in rows.iter().take(limit) {
            let (used, samples, count) = (value(row.value, page.unit), Count(row.samples), Count(row.count));
            let name = cut(&clean(&row.name), NAME);
            let share = share(row.value);
            push_line(
                &mut out,
                &format!("{share:>SHARE$}{used:>NUMBER$}{samples:>NUMBER$}{count:>NUMBER$}  {name}"),
            );
        }
        write_more(&mut out, rows.len(), limit, others);
        out.push('\n');
    };
    sums(&threads.programs, threads.processes.len(), ["processes", "program", "programs"]);
    sums(&threads.thread_names, threads.rows.len(), ["threads", "threads called", "names"]);
    if threads.processes.len() > 1 {
        let width =
            threads.processes.iter().map(|row| columns(&name(profile.processes[row.process.index()].name)));
        let width = width.max().unwrap_or(0).max("process".len());
        let header = format!(
            "{:>SHARE$}{:>NUMBER$}{:>NUMBER$}{:>9}  {}{:>9}",
            "share",
            "used",
            samples,
            "threads",
            left("process", width),
            "pid"
        );
        push_line(&mut out, &styled(BOLD, header));
        for row in threads.processes.iter().take(limit) {
            let process = &profile.processes[row.process.index()];
            push_line(
                &mut out,
                &format!(
                    "{:>SHARE$}{:>NUMBER$}{:>NUMBER$}{:>9}  {}{:>9}",
                    share(row.value),
                    value(row.value, page.unit),
                    Count(row.samples),
                    Count(row.threads),
                    left(&name(process.name), width),
                    process.pid
                ),
            );
        }
        write_more(&mut out, threads.processes.len(), limit, "processes");
        out.push('\n');
    }

    let width = threads.rows.iter().map(|row| columns(&name(profile.threads[row.thread.index()].name)));
    let width = width.max().unwrap_or(0).max("thread".len());
    let header = format!(
        "{:>SHARE$}{:>NUMBER$}{:>NUMBER$}  {}{:>9}{:>9}{:>NUMBER$}{:>NUMBER$}",
        "share",
        "used",
        samples,
        left("thread", width),
        "tid",
        "pid",
        "start",
        "end"
    );
    push_line(&mut out, &styled(BOLD, header));
    for row in threads.rows.iter().take(limit) {
        let thread = &profile.threads[row.thread.index()];
        let process = &profile.processes[thread.process.index()];
        push_line(
            &mut out,
            &format!(
                "{:>SHARE$}{:>NUMBER$}{:>NUMBER$}  {}{:>9}{:>9}{:>NUMBER$}{}",
                share(row.value),
                value(row.value, page.unit),
                Count(row.samples),
                left(&name(thread.name), width),
                thread.tid,
                process.pid,
                duration(thread.start_ns),
                right(&thread.end_ns.map_or("-".to_owned(), duration), NUMBER)
            ),
        );
    }
    write_more(&mut out, threads.rows.len(), limit, "threads");
    out
}

fn write_more(out: &mut String, all: usize, limit: usize, what: &str) {
    if all > limit {
        push_line(out, &styled(DIM, format!("and {} more {what}", Count((all - limit) as u64))));
    }
}
