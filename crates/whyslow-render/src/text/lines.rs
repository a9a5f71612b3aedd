//! The source of a function with the cost of each line.

use anstyle::AnsiColor;
use whyslow_analyze::{LineRow, Lines};
use whyslow_profile::{Profile, StringId};
use whyslow_words::Percent;

use super::layout::{BOLD, DIM, PLAIN, Page, cut, label_name, place, push_line, push_wrapped, styled};
use crate::sanitize::{clean, clean_source};
use crate::units::value;

const SHARE: usize = 8;
const LINE: usize = 7;
/// Lines shown around a line with a cost.
const CONTEXT: u32 = 2;

/// Renders the lines of a function; shares are relative to the function's own total.
pub fn lines(profile: &Profile, lines: &Lines, page: Page) -> String {
    let mut out = String::new();
    let name = lines.labels.first().map_or(String::new(), |label| label_name(profile, *label));
    let of_all = |part: u64| Percent(part as f64 / lines.whole_value.max(1) as f64);
    push_line(&mut out, &styled(BOLD, page.fit(&name, page.width)));
    let costs = format!(
        "self {}, total {} ({}); shares below are of the function's total",
        of_all(lines.self_value),
        of_all(lines.total_value),
        value(lines.total_value, page.unit)
    );
    push_wrapped(&mut out, PLAIN, &costs, page.width);
    if lines.rows.iter().all(|row| row.line == 0) {
        out.push('\n');
        let why = "No line numbers: the code was built without debug info.";
        push_wrapped(&mut out, PLAIN, why, page.width);
        let fix = "Put `debug = \"line-tables-only\"` under [profile.release] in Cargo.toml.";
        push_wrapped(&mut out, PLAIN, fix, page.width);
        return out;
    }
    for rows in lines.rows.chunk_by(|a, b| a.file == b.file) {
        out.push('\n');
        write_file(&mut out, profile, lines, rows, page);
    }
    out
}

fn write_file(out: &mut String, profile: &Profile, lines: &Lines, rows: &[LineRow], page: Page) {
    let file = rows[0].file;
    let header = format!("{:>SHARE$}{:>SHARE$}{:>LINE$}  ", "self", "total", "line");
    let shown = file.map_or("unknown file".to_owned(), |file| {
        place(&clean(profile.text(file)), 0, page.width - header.len())
    });
    push_line(out, &styled(BOLD, format!("{header}{shown}")));
    let hottest = lines.hottest.map(|index| &lines.rows[index]);
    let mut previous = 0;
    for line in lines_to_show(profile, file, rows) {
        if previous > 0 && line > previous + 1 {
            push_line(out, &styled(DIM, format!("{:>width$}", "⋮", width = 2 * SHARE + LINE)));
        }
        previous = line;
        let row = rows.iter().find(|row| row.line == line);
        let share = |part: u64| {
            let share = part as f64 / lines.total_value.max(1) as f64;
            if part == 0 { String::new() } else { Percent(share).to_string() }
        };
        let own = share(row.map_or(0, |row| row.self_value));
        let total = share(row.map_or(0, |row| row.total_value));
        let number = if line == 0 { "?".to_owned() } else { line.to_string() };
        let is_hottest = row.is_some() && row == hottest;
        let mark = if is_hottest { "▶" } else { " " };
        let text = file
            .and_then(|file| profile.sources.get(file, line))
            .map(|text| clean_source(profile.text(text)));
        let text = match (text, line) {
            (Some(text), _) => text,
            (None, 0) => "(unknown line)".to_owned(),
            (None, _) => "(source text not in the profile)".to_owned(),
        };
        let numbers = format!("{own:>SHARE$}{total:>SHARE$}{number:>LINE$}{mark} ");
        let text = cut(&text, page.width.saturating_sub(2 * SHARE + LINE + 2));
        match (is_hottest, row) {
            (true, _) => push_line(
                out,
                &styled(AnsiColor::Red.on_default().bold(), format!("{numbers}{text}").trim_end()),
            ),
            (false, Some(_)) => push_line(out, &format!("{numbers}{text}")),
            (false, None) => push_line(out, &styled(DIM, format!("{numbers}{text}").trim_end())),
        }
    }
}

/// The lines with samples, and the lines around them that have source text.
fn lines_to_show(profile: &Profile, file: Option<StringId>, rows: &[LineRow]) -> Vec<u32> {
    let mut shown = Vec::new();
    for row in rows {
        let around = row.line.saturating_sub(CONTEXT).max(1)..=row.line.saturating_add(CONTEXT);
        let known = |line: &u32| file.is_some_and(|file| profile.sources.get(file, *line).is_some());
        shown.extend(around.filter(|_| row.line > 0).filter(known));
        shown.push(row.line);
    }
    shown.sort_unstable();
    shown.dedup();
    shown
}
