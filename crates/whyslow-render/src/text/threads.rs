//! The tables of threads and processes: sums by name, then each of them.

use whyslow_analyze::{NameRow, ThreadRow, Threads};
use whyslow_profile::{Profile, ThreadTimes};
use whyslow_words::Percent;

use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, cut, left, number_of, push_line, push_wrapped, right, styled,
};
use crate::sanitize::clean;
use crate::units::{Count, duration, value};

/// Optional columns give way until a name has this many columns. Linux keeps 15 characters of a thread's
/// name.
const NAME_LEAST: usize = 12;
const GAP: usize = 2;

/// Right-aligned numbers in columns as wide as needed, and one left-aligned column of names that gets the
/// rest of the page.
struct Table {
    heads: Vec<&'static str>,
    /// The column of names.
    name: usize,
    /// Number of columns at the end that a narrow page may leave out.
    optional: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn push(mut self, out: &mut String, page: Page) {
        let widths = |column: usize| {
            let cells = self.rows.iter().map(|row| columns(&row[column]));
            cells.max().unwrap_or(0).max(columns(self.heads[column]))
        };
        let mut widths: Vec<usize> = (0..self.heads.len()).map(widths).collect();
        let room = |widths: &[usize]| {
            let others = widths.iter().sum::<usize>() - widths[self.name] + GAP * (widths.len() - 1);
            page.width.saturating_sub(others)
        };
        if room(&widths) < widths[self.name].min(NAME_LEAST) {
            widths.truncate(widths.len() - self.optional);
        }
        if !page.full_names {
            widths[self.name] = widths[self.name].min(room(&widths).max(columns(self.heads[self.name])));
        }
        let line = |cells: Vec<String>| {
            let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column == self.name { left(&cut(cell, width), width) } else { right(cell, width) }
            });
            padded.collect::<Vec<_>>().join(&" ".repeat(GAP))
        };
        push_line(
            out,
            &styled(BOLD, line(self.heads.iter().map(|&head| head.to_owned()).collect()).trim_end()),
        );
        for row in std::mem::take(&mut self.rows) {
            push_line(out, &line(row));
        }
    }
}

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
    let mut out = String::new();
    // Heap values are rows of its timeline, not samples.
    let samples = if page.counted { "rows" } else { "samples" };
    let used = |part: u64, samples: u64| {
        let share = Percent(part as f64 / threads.total_value.max(1) as f64);
        vec![share.to_string(), value(part, page.unit), Count(samples).to_string()]
    };
    let name = |id| clean(profile.text(id)).into_owned();
    let mut sums = |rows: &[NameRow], of: usize, [what, who, one, many]: [&'static str; 4]| {
        if rows.len() == of {
            return;
        }
        let cells = |row: &NameRow| {
            let mut cells = used(row.value, row.samples);
            cells.extend([Count(row.count).to_string(), clean(&row.name).into_owned()]);
            cells
        };
        let heads = vec!["share", "used", samples, what, who];
        let rows_shown = rows.iter().take(limit).map(cells).collect();
        Table { heads, name: 4, optional: 0, rows: rows_shown }.push(&mut out, page);
        write_more(&mut out, rows.len(), limit, one, many);
        out.push('\n');
    };
    sums(
        &threads.programs,
        threads.processes.len(),
        ["processes", "program", "more program", "more programs"],
    );
    sums(&threads.thread_names, threads.rows.len(), ["threads", "thread name", "more name", "more names"]);
    if threads.processes.len() > 1 {
        let rows = threads.processes.iter().take(limit).map(|row| {
            let process = &profile.processes[row.process.index()];
            let mut cells = used(row.value, row.samples);
            cells.extend([Count(row.threads).to_string(), name(process.name), process.pid.to_string()]);
            cells
        });
        let heads = vec!["share", "used", samples, "threads", "process", "pid"];
        Table { heads, name: 4, optional: 0, rows: rows.collect() }.push(&mut out, page);
        write_more(&mut out, threads.processes.len(), limit, "more process", "more processes");
        out.push('\n');
    }

    let shown = || threads.rows.iter().take(limit);
    let timed = shown().any(|row| profile.threads[row.thread.index()].times.is_some());
    let rows = shown().map(|row| {
        let thread = &profile.threads[row.thread.index()];
        let process = &profile.processes[thread.process.index()];
        let mut cells = used(row.value, row.samples);
        cells.extend([name(thread.name), thread.tid.to_string(), process.pid.to_string()]);
        if timed {
            let times = |of: fn(&ThreadTimes) -> u64| {
                thread.times.as_ref().map_or("-".to_owned(), |times| duration(of(times)))
            };
            cells.extend([times(|t| t.ran_ns), times(|t| t.queued_ns), times(|t| t.blocked_ns)]);
        }
        cells.extend([duration(thread.start_ns), thread.end_ns.map_or("-".to_owned(), duration)]);
        cells
    });
    let mut heads = vec!["share", "used", samples, "thread", "tid", "pid"];
    if timed {
        heads.extend(["ran", "queued", "blocked"]);
    }
    heads.extend(["start", "end"]);
    Table { heads, name: 3, optional: 2, rows: rows.collect() }.push(&mut out, page);
    write_more(&mut out, threads.rows.len(), limit, "more thread", "more threads");
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

fn write_more(out: &mut String, all: usize, limit: usize, one: &str, many: &str) {
    if all > limit {
        push_line(out, &styled(DIM, format!("and {}", number_of((all - limit) as u64, one, many))));
    }
}
