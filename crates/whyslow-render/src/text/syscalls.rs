//! The table of system calls.

use whyslow_analyze::{CallTree, SyscallRow, SyscallTable};
use whyslow_explain::Finding;
use whyslow_profile::{Profile, StringId};
use whyslow_words::Fact;

use super::cells::{NAME, place};
use super::explain::findings_of_view;
use super::layout::{DIM, PLAIN, Page, number_of, push_wrapped};
use super::remark::remark_lines;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::{Count, bytes, duration};

/// Maximum number of files, and of errors, listed per row.
const MOST_NAMED: usize = 3;

/// Renders the lines that make system calls, at most `limit` rows.
pub fn syscalls(
    table: &SyscallTable,
    found: &[Finding],
    profile: &Profile,
    limit: usize,
    page: Page,
) -> String {
    let mut out = String::new();
    let mut intro = format!(
        "{} took {} in all, including waiting",
        number_of(table.all.count, "system call", "system calls"),
        duration(table.all.total_ns)
    );
    if table.waiting_ns > 0 {
        intro.push_str(&format!("; {} of that in calls that only wait", duration(table.waiting_ns)));
    }
    intro.push_str("; each is charged to the line of your code that led to it");
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    if let Some(note) = table.note() {
        out.push_str(&remark_lines(&note.remark(), page.width));
    }
    out.push_str(&findings_of_view(profile, found, page));
    if table.rows.is_empty() {
        return out;
    }
    out.push('\n');
    out.push_str(&syscall_table(table, profile, limit, page).text(page.width));
    out
}

/// The lines that make system calls, at most `limit` of them.
pub(super) fn syscall_table(syscalls: &SyscallTable, profile: &Profile, limit: usize, page: Page) -> Table {
    let mut table = Table::new(vec![
        Column::share("share", "share"),
        Column::number("total_ns", "total"),
        Column::number("count", "calls"),
        Column::number("failed", "failed").in_data(),
        Column::number("bytes", "bytes"),
        // If the columns do not fit, the longest call goes first, then the percentiles.
        Column::number("p50_ns", "p50").spare(2),
        Column::number("p99_ns", "p99").spare(3),
        Column::number("max_ns", "max").spare(1),
        Column::words("call", "call"),
        Column::rest("function", "function", NAME),
        Column::place("file", "line", "line").from(0),
        Column::words("targets", "targets").in_data(),
        Column::words("errors", "errors").in_data(),
    ])
    .full_names(page.full_names)
    .notes_at(1, 0);
    for row in syscalls.rows.iter().take(limit) {
        let bytes = Cell::bytes(row.cost.bytes);
        let cells = vec![
            Cell::part(row.cost.total_ns, syscalls.all.total_ns),
            Cell::duration(row.cost.total_ns),
            Cell::count(row.cost.count),
            Cell::count(row.cost.failed),
            if row.cost.bytes > 0 { bytes } else { bytes.shown("") },
            Cell::duration(row.cost.quantile_ns(50)),
            Cell::duration(row.cost.quantile_ns(99)),
            Cell::duration(row.cost.max_ns),
            Cell::text(profile.text(row.call)),
            Cell::name(CallTree::name(profile, row.label)),
            place(profile, row.file, row.line),
            Cell::verbatim(listed(row.targets.iter().map(|(target, cost)| (*target, cost.count)), profile)),
            Cell::verbatim(listed(row.errors.iter().copied(), profile)),
        ];
        let shown = table.push(cells);
        if let Some(about) = about(row, profile) {
            shown.note(DIM, about);
        }
    }
    table.limited(syscalls.rows.len(), limit, "more place", "more places")
}

/// `3 ENOENT; 1 EINTR`, for data.
fn listed(counts: impl Iterator<Item = (StringId, u64)>, profile: &Profile) -> String {
    counts.map(|(name, count)| format!("{count} {}", profile.text(name))).collect::<Vec<_>>().join("; ")
}

/// The files and errors of a row.
fn about(row: &SyscallRow, profile: &Profile) -> Option<String> {
    let mut parts = Vec::new();
    let named = row.targets.iter().take(MOST_NAMED).map(|(target, cost)| {
        let name = clean(profile.text(*target));
        if row.targets.len() == 1 { name.into_owned() } else { format!("{name} ({})", Count(cost.count)) }
    });
    let named: Vec<String> = named.collect();
    if !named.is_empty() {
        let more = match row.targets.len() - named.len() {
            0 => String::new(),
            more => format!(" and {}", number_of(more as u64, "other", "others")),
        };
        parts.push(format!("on {}{more}", named.join(", ")));
    }
    if row.cost.failed > 0 {
        let errors = row.errors.iter().take(MOST_NAMED);
        let errors: Vec<String> = errors
            .map(|(error, count)| format!("{} {}", Count(*count), clean(profile.text(*error))))
            .collect();
        parts.push(format!("{} failed: {}", Count(row.cost.failed), errors.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The most expensive row, in a sentence.
pub fn costliest_syscall(table: &SyscallTable, profile: &Profile, file: Option<&str>) -> Option<String> {
    let row = table.most_costly(profile)?;
    let call = clean(profile.text(row.call));
    let waited = match table.waiting_ns {
        0 => "mostly".to_owned(),
        waiting_ns => {
            format!("{} of that in calls that only wait, the rest mostly", duration(waiting_ns))
        }
    };
    let mut text = format!(
        "{} took {}, {waited} in {call}: {} in {}",
        number_of(table.all.count, "system call", "system calls"),
        duration(table.all.total_ns),
        duration(row.cost.total_ns),
        number_of(row.cost.count, "call", "calls")
    );
    if let Some(each) = row.cost.bytes_each() {
        text.push_str(&format!(" of {} on average", bytes(each)));
    }
    match &row.targets[..] {
        [] => {}
        [(target, _)] => text.push_str(&format!(" on {}", clean(profile.text(*target)))),
        [(target, _), others @ ..] => text.push_str(&format!(
            " on {} and {}",
            clean(profile.text(*target)),
            number_of(others.len() as u64, "other", "others")
        )),
    }
    text.push_str(&format!(", from {}", clean(&CallTree::name(profile, row.label))));
    if let (Some(file), true) = (row.file, row.line > 0) {
        let path = clean(profile.text(file));
        text.push_str(&format!(" ({}:{})", path.rsplit('/').next().unwrap_or(&path), row.line));
    }
    match file {
        Some(file) => Some(format!("{text}: whyslow report {file} syscalls")),
        None => Some(text),
    }
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::heap::Sites;
    use whyslow_analyze::{Charges, Quality, Selection, testing};
    use whyslow_explain::{Allowed, Question, Topic, findings_about};
    use whyslow_profile::{Lengths, Metric, MetricId, Samples, Syscalls, Unit};

    use super::*;
    use crate::text::tests::plain;

    /// Adds calls of this duration at the line of a sample.
    fn add(
        profile: &mut Profile,
        sample: usize,
        call: &str,
        about: [Option<&str>; 2],
        count: u64,
        bytes: u64,
    ) {
        const LENGTH_NS: u64 = 2_000;
        let mut text = |text: &str| profile.strings.push(text);
        let (call, [file, error]) = (text(call), about.map(|about| about.map(&mut text)));
        let mut lengths = Lengths::default();
        (0..count).for_each(|_| lengths.add(LENGTH_NS));
        let (thread, stack) = (profile.samples[0].thread[sample], profile.samples[0].stack[sample]);
        let (total_ns, max_ns, spread) = (count * LENGTH_NS, LENGTH_NS, 0);
        let row = Syscalls {
            time_ns: 0,
            thread,
            stack,
            call,
            file,
            error,
            count,
            spread,
            total_ns,
            max_ns,
            bytes,
            lengths,
        };
        profile.syscalls.push(row);
    }

    fn profile_with_calls() -> Profile {
        let mut profile = testing::profile(
            "app::log@src/app.rs:3;std::io::write 1\napp::find@src/app.rs:9;std::fs::open 1",
        );
        add(&mut profile, 0, "write", [Some("/tmp/\x1b[31mlog"), None], 10_000, 120_000);
        add(&mut profile, 1, "openat", [None, Some("ENOENT")], 40, 0);
        let name = profile.strings.push(Metric::SYSCALLS);
        profile.metrics.push(Metric::of_name(Metric::SYSCALLS, Unit::Count).renamed(name));
        profile.samples.push(Samples::default());
        profile
    }

    fn table(profile: &Profile) -> SyscallTable {
        SyscallTable::build(profile, &Selection::default(), &Charges::new(profile, true))
    }

    fn found(profile: &Profile) -> Vec<Finding> {
        let (selection, allowed) = (Selection::default(), Allowed::default());
        let file = "app.whyslow";
        let question =
            Question { profile, selection: &selection, only_metric: false, allowed: &allowed, file };
        findings_about(Topic::Syscalls, &question)
    }

    fn shown(profile: &Profile, limit: usize, width: usize) -> String {
        let found = found(profile);
        let text = syscalls(&table(profile), &found, profile, limit, Page::new(profile, MetricId(0), width));
        plain(&text)
    }

    #[test]
    fn calls_have_their_lines_files_errors_and_advice() {
        let text = shown(&profile_with_calls(), 10, 120);
        insta::assert_snapshot!(text, @r"
        10,040 system calls took 20.1 ms in all, including waiting; each is charged to the line of your code that led to it
        finding: unbuffered writes: each small write is a system call [unbuffered-writes]
           100.0 % of CPU time; confidence: medium
           at app::log  src/app.rs:3
             10,000 calls to write, 12 B each on average: with a 4 KiB buffer the same bytes take 30 calls instead of 10,000
           do: wrap the file in a BufWriter, and flush it at the end

           share    total   calls    bytes      p50      p99      max  call    function   line
          99.6 %  20.0 ms  10,000  117 KiB  2.00 µs  2.00 µs  2.00 µs  write   app::log   src/app.rs:3
                  on /tmp/\u{1b}[31mlog
           0.4 %  80.0 µs      40           2.00 µs  2.00 µs  2.00 µs  openat  app::find  src/app.rs:9
                  40 failed: 40 ENOENT
        ");
    }

    #[test]
    fn a_narrow_page_has_no_percentiles_and_a_limit_says_what_it_leaves_out() {
        let text = shown(&profile_with_calls(), 1, 60);
        assert!(!text.contains("p50") && !text.contains("openat") && text.contains("more"), "{text}");
        let without = testing::profile("main 1");
        assert_eq!(shown(&without, 10, 80).lines().count(), 2, "nothing but that there is nothing");
    }

    #[test]
    fn json_has_the_same_numbers() {
        let profile = profile_with_calls();
        let (table, quality, sites) = (table(&profile), Quality::of(&profile), Sites::build(&profile));
        let found = found(&profile);
        let context = crate::json::Context {
            profile: &profile,
            metric: MetricId(0),
            quality: &quality,
            sites: Some(&sites),
            site_limit: 1,
        };
        let json = serde_json::to_value(crate::json::syscalls(&context, &table, &found, 1)).unwrap();
        let [row] = &json["syscalls"].as_array().unwrap()[..] else { panic!("{json}") };
        assert_eq!(
            (&row["call"], &row["count"], &row["bytes"]),
            (&"write".into(), &10_000.into(), &120_000.into())
        );
        assert_eq!((&row["function"], &row["line"]), (&"app::log".into(), &3.into()));
        assert_eq!(row["targets"][0]["name"], "/tmp/\u{1b}[31mlog", "JSON has what the system said");
        assert_eq!(json["syscalls_left_out"], 1);
        assert_eq!(row["remarks"][0]["id"], "unbuffered-writes");
        assert_eq!(row["remarks"], json["findings"], "its line is the one that was found");
    }
}
