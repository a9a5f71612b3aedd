//! The page docs/findings/accuracy.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;

use super::corpus::{NONE_KNOWN, Row};
use super::{Judged, Judgement};
use crate::process;

/// A row for the terminal.
pub(super) fn in_words(row: &Row) -> String {
    let hit = match (&row.hit, row.planted.is_empty()) {
        (_, true) => "nothing planted".to_owned(),
        (None, false) => format!("MISSED {}", row.planted.join(", ")),
        (Some(hit), false) => {
            format!("found {}, claimed {}, real {}", hit.id, times(hit.max_speedup), times(row.gain))
        }
    };
    format!("{}: {hit}; {}", row.name, list(&row.findings))
}

/// Findings with their judgement, in one line.
pub(super) fn list(findings: &[Judged]) -> String {
    let one = |row: &Judged| {
        let word = match row.judgement {
            Judgement::Planted => "planted",
            Judgement::Right => "right",
            Judgement::Wrong => "WRONG",
        };
        let found = &row.found;
        let file = found.file.rsplit('/').next().unwrap_or_default();
        format!(
            "{word} {} {:.0} % {} {file}:{} [{}]",
            found.id,
            found.share * 100.0,
            found.function,
            found.line,
            row.program
        )
    };
    if findings.is_empty() {
        "no findings".to_owned()
    } else {
        findings.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

fn times(number: Option<f64>) -> String {
    match number {
        None => "-".to_owned(),
        Some(number) if number >= 100.0 => format!("{number:.0}"),
        Some(number) => format!("{number:.1}"),
    }
}

/// What is known of a rule.
#[derive(Default)]
struct Score {
    right: u32,
    wrong: u32,
    planted: u32,
    hit: u32,
}

fn percent(part: u32, whole: u32) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.0} %", 100.0 * f64::from(part) / f64::from(whole)) }
}

/// The whole page.
pub(super) fn write(
    rows: &[Row],
    real: &[(&str, Vec<Judged>)],
    skipped: &[&str],
    [before, after]: &[String; 2],
    commit: &str,
) -> Result<String> {
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    let of_corpus = rows.iter().flat_map(|row| &row.findings);
    let findings = || of_corpus.clone().chain(real.iter().flat_map(|(_, findings)| findings));
    for judged in findings() {
        let score = scores.entry(&judged.found.id).or_default();
        match judged.judgement {
            Judgement::Wrong => score.wrong += 1,
            Judgement::Planted | Judgement::Right => score.right += 1,
        }
    }
    for row in rows {
        // Any of several rules may name what is planted; the first is the one that should.
        let Some(first) = row.planted.first().filter(|id| *id != NONE_KNOWN) else { continue };
        let score = scores.entry(row.hit.as_ref().map_or(first, |hit| &hit.id)).or_default();
        score.planted += 1;
        score.hit += u32::from(row.hit.is_some());
    }
    let planted = rows.iter().filter(|row| !row.planted.is_empty()).count() as u32;
    let hits = rows.iter().filter(|row| row.hit.is_some()).count() as u32;
    let (right, wrong) =
        scores.values().fold((0, 0), |sum, score| (sum.0 + score.right, sum.1 + score.wrong));
    let host = process::output(process::command("uname").args(["-srm"]))?;
    let cpu = std::fs::read_to_string("/proc/cpuinfo")?;
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let date = process::output(process::command("date").args(["-u", "+%Y-%m-%d"]))?;
    let mut page = String::new();
    let _ = write!(
        page,
        "# How often findings are right\n\n\
         `cargo xtask findings` writes this page. It records the programs of `lab/corpus` and real programs at {} samples per second.\n\
         Measured on {}, {}, {cpus} CPUs shared with other work (load average {before} at the start, {after} at the end), on {} at commit {}.\n\n\
         - **{} programs with one planted inefficiency**, written as a user would write them: {hits} were found ({}). Each has a half without it, which gives the same answer.\n\
         - **{} programs with nothing planted**, correct and idiomatic, that look like a pattern.\n\
         - **{} real programs.** Their findings were judged by hand. A finding that is not in the list of judgements counts as wrong.\n\
         - **Precision: {}**: {right} of {} findings are right.\n\n",
        super::RATE,
        host.trim(),
        cpu.trim_start_matches([' ', '\t', ':']),
        date.trim(),
        commit,
        planted,
        percent(hits, planted),
        rows.len() as u32 - planted,
        real.len(),
        percent(right, right + wrong),
        right + wrong,
    );
    page.push_str("## By rule\n\nRules that are not listed neither were planted nor were found.\n\n");
    page.push_str("| rule | right | wrong | precision | planted | found | recall |\n|---|---:|---:|---:|---:|---:|---:|\n");
    for (id, score) in &scores {
        let Score { right, wrong, planted, hit } = score;
        let _ = writeln!(
            page,
            "| [{id}]({id}.md) | {right} | {wrong} | {} | {planted} | {hit} | {} |",
            percent(*right, right + wrong),
            percent(*hit, *planted)
        );
    }
    page.push_str(
        "\n## Claimed and real gain\n\n\
         Claimed is the finding's \"at most … times as fast\"; real is the ratio of CPU time between the two halves, or of elapsed time for findings about waiting \
         (medians of three runs in turn; elapsed times include what other programs took). A half may change more than the finding's own lines.\n\n\
         | program | planted | found | share | claimed | real |\n|---|---|---|---:|---:|---:|\n",
    );
    for row in rows.iter().filter(|row| !row.planted.is_empty()) {
        let hit = row.hit.as_ref();
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} |",
            row.name,
            row.planted.first().map_or("", String::as_str),
            hit.map_or("-", |hit| &hit.id),
            hit.map_or("-".to_owned(), |hit| format!("{:.0} %", hit.share * 100.0)),
            times(hit.and_then(|hit| hit.max_speedup)),
            times(row.gain)
        );
    }
    page.push_str("\n## Wrong findings\n\n");
    let mut wrong = findings().filter(|row| row.judgement == Judgement::Wrong).peekable();
    if wrong.peek().is_none() {
        page.push_str("None in this run.\n");
    } else {
        page.push_str("| program | finding | share | at |\n|---|---|---:|---|\n");
    }
    for row in wrong {
        let found = &row.found;
        let file = found.file.rsplit('/').next().unwrap_or_default();
        let _ = writeln!(
            page,
            "| {} | {} | {:.0} % | `{}` {file}:{} |",
            row.program,
            found.id,
            found.share * 100.0,
            found.function.replace('|', "\\|"),
            found.line
        );
    }
    page.push_str("\n## Real programs\n\n| program | findings judged right |\n|---|---|\n");
    for (name, findings) in real {
        let right = findings.iter().filter(|row| row.judgement != Judgement::Wrong);
        let right: Vec<&str> = right.map(|row| row.found.id.as_str()).collect();
        let _ = writeln!(
            page,
            "| {name} | {} |",
            if right.is_empty() { "-".to_owned() } else { right.join(", ") }
        );
    }
    if !skipped.is_empty() {
        let _ = writeln!(page, "\nSkipped, because they could not be installed: {}.", skipped.join(", "));
    }
    Ok(page)
}
