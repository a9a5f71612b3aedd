//! The project's goals: a table per section with a row per goal and program, and their summary at the top of BENCHMARKS.md.

use std::fmt::Write;

/// The head of a table of goals. [`summarise`] recognises the tables by it.
pub(super) const HEAD: &str = "| program | goal | peer | now | met |\n|---|---|---|---|---|\n";

const TITLE: &str = "# Benchmarks\n\n";

/// How a measurement compares with a goal.
pub(super) struct Goal<'a> {
    pub(super) program: &'a str,
    pub(super) goal: &'a str,
    /// The tool that whyslow is compared with; `-` for a goal without one.
    pub(super) peer: &'a str,
    pub(super) now: String,
    pub(super) met: bool,
}

impl Goal<'_> {
    /// Writes a row of the table.
    pub(super) fn write(&self, out: &mut String) {
        let met = if self.met { "yes" } else { "no" };
        let _ = writeln!(out, "| {} | {} | {} | {} | {met} |", self.program, self.goal, self.peer, self.now);
    }
}

/// The document with a summary of all its goals between the title and the first section. A goal that several programs
/// have is one row.
pub(super) fn summarise(document: &str) -> String {
    let body = document.find("\n## ").map_or("", |at| &document[at + 1..]);
    let mut rows: Vec<(&str, &str, Vec<String>, usize)> = Vec::new();
    for [program, goal, peer, now, met] in goals(body) {
        let is_met = usize::from(met == "yes");
        let now = if program == "-" { now.to_owned() } else { format!("{program} {now}") };
        match rows.iter_mut().find(|row| (row.0, row.1) == (goal, peer)) {
            Some(row) => {
                row.2.push(now);
                row.3 += is_met;
            }
            None => rows.push((goal, peer, vec![now], is_met)),
        }
    }
    let mut table = String::from("| goal | peer | now | met |\n|---|---|---|---|\n");
    for (goal, peer, now, met) in rows {
        let met = match (met, now.len()) {
            (met, all) if met == all => "yes".to_owned(),
            (0, _) => "no".to_owned(),
            (met, all) => format!("{met} of {all}"),
        };
        let _ = writeln!(table, "| {goal} | {peer} | {} | {met} |", now.join("; "));
    }
    format!(
        "{TITLE}Each row is a goal of the project, with the last measurement on the machine that its section names. \
         `cargo xtask bench` repeats all of them.\n\n{table}\n{body}"
    )
}

/// The cells of all rows in tables of goals.
fn goals(body: &str) -> impl Iterator<Item = [&str; 5]> {
    let tables = body.split(HEAD).skip(1);
    let rows = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')));
    rows.filter_map(|row| {
        let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
        Some([cells.next()?, cells.next()?, cells.next()?, cells.next()?, cells.next()?])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> String {
        let mut table = String::from(HEAD);
        for (program, now, met) in [("deep", "9 times", true), ("tree", "1 times", false)] {
            Goal { program, goal: "faster", peer: "perf", now: now.to_owned(), met }.write(&mut table);
        }
        Goal { program: "-", goal: "small", peer: "-", now: "1 KB".to_owned(), met: true }.write(&mut table);
        format!("# Benchmarks\n\nold summary\n\n## A\n\n{table}\n## B\n\ntext\n")
    }

    #[test]
    fn goals_of_several_programs_become_one_row() {
        let summary = summarise(&document());
        assert!(summary.contains("| faster | perf | deep 9 times; tree 1 times | 1 of 2 |\n"), "{summary}");
        assert!(summary.contains("| small | - | 1 KB | yes |\n"), "{summary}");
        assert!(!summary.contains("old summary") && summary.ends_with("## B\n\ntext\n"), "{summary}");
    }

    /// `UPDATE_DOCS=1` writes the summary.
    #[test]
    fn the_summary_in_benchmarks_md_is_up_to_date() {
        let path = crate::process::root().join("BENCHMARKS.md");
        let document = std::fs::read_to_string(&path).unwrap();
        let summarised = summarise(&document);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &summarised).unwrap();
        }
        assert!(document == summarised, "BENCHMARKS.md has another summary; UPDATE_DOCS=1 writes it");
    }

    #[test]
    fn a_second_summary_changes_nothing() {
        let once = summarise(&document());
        assert_eq!(summarise(&once), once);
    }
}
