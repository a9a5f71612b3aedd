//! A comparison of two profiles as text.

use anstyle::{AnsiColor, Style};
use whyslow_analyze::diff::{Change, Diff, DiffRow, Focus, Paths, Place, Total, Verdict, Which};
use whyslow_analyze::{CallTree, Label, Quality, is_start_up};
use whyslow_profile::{CodeKind, Profile, Unit};
use whyslow_words::{Fact, Percent};

use super::layout::{
    BOLD, DIM, Page, columns, cut, flow, kind_style, label_name, left, place, push_line, push_titled, right,
    styled, wrap,
};
use super::quality::headline;
use super::remark::remark_lines;
use super::summary::command_line;
use crate::sanitize::clean;
use crate::units::{Count, value};

/// Default number of rows in the main table, and in the other tables.
const ROWS: usize = 10;
const FEWER_ROWS: usize = 5;
/// Number of undecided rows shown by default: the largest, for which more samples help most.
const UNDECIDED_ROWS: usize = 3;

/// The heading of intervals.
const INTERVAL: &str = "95 %";

/// Two spaces and the widest verdict.
const VERDICT: usize = 11;

/// The contents of the screen.
#[derive(Debug, Clone, Copy)]
pub struct DiffView<'a> {
    /// The comparison.
    pub diff: &'a Diff,
    /// The profile before.
    pub before: DiffFile<'a>,
    /// The profile after.
    pub after: DiffFile<'a>,
    /// Rows of each table; a screenful if `None`.
    pub limit: Option<usize>,
    /// Call paths, if requested.
    pub paths: Option<&'a Paths>,
    /// The functions in focus, with their callers and callees.
    pub focus: Option<&'a Focus>,
}

impl DiffView<'_> {
    /// The basis of the numbers: runs, sampling error, intervals.
    pub(crate) fn worth(&self) -> String {
        let pairs = self.diff.runs;
        match (self.diff.counted, pairs) {
            (true, 1) => {
                "counted exactly; a single run per side cannot show run-to-run noise".to_owned()
            }
            (false, 1) => "± is the sampling error (95 %). A single run per side cannot show run-to-run noise, so there is no \
                 verdict: `whyslow diff --runs 5 'BEFORE' 'AFTER'` gives one"
                .to_owned(),
            (true, _) => format!(
                "numbers are means of {pairs} runs, each counted exactly; numbers that differ between runs have a ratio with its \
                 95 % confidence interval over the pairs of runs. At most 5 % of the rows marked more or less are false positives"
            ),
            (false, _) => format!(
                "numbers are means of {pairs} runs; the ratio has its 95 % confidence interval over the pairs of runs. At most 5 % \
                 of the rows marked more or less are false positives; changes below 0.5 % of the total are not marked"
            ),
        }
    }
}

/// One of two profiles.
#[derive(Debug, Clone, Copy)]
pub struct DiffFile<'a> {
    /// Its file, as the user would type it.
    pub name: &'a str,
    /// The profile.
    pub profile: &'a Profile,
    /// Its quality.
    pub quality: &'a Quality,
    /// The files of the other runs of this side.
    pub more: &'a [String],
}

/// Renders both files, reasons why they may not be comparable, the basis of the numbers, the totals, the rows
/// that changed most, and the functions that only one side has.
pub fn diff(view: &DiffView<'_>, page: Page) -> String {
    let mut out = head(view, page);
    out.push_str(&totals(view.diff, page));
    if let Some(focus) = view.focus {
        out.push_str(&neighbours(view, focus, page));
    }
    out.push_str(&rows(view, page));
    out.push_str(&moves(view, page));
    if let Some(paths) = view.paths {
        out.push_str(&path_table(view, paths, page));
    }
    let only = [Which::Before, Which::After].map(|which| only(view, which, page)).concat();
    if !only.is_empty() {
        out.push('\n');
        out.push_str(&only);
    }
    out
}

/// The name of a total in text: its id with spaces.
pub(super) fn total_name(id: &str) -> String {
    match id {
        "resident-at-most" => "max resident".to_owned(),
        id => clean(id).replace('-', " "),
    }
}

fn head(view: &DiffView<'_>, page: Page) -> String {
    let mut out = String::new();
    for (title, file) in [("before: ", view.before), ("after:  ", view.after)] {
        let command = command_line(&file.profile.meta.command);
        let mut name = clean(file.name);
        if let Some(last) = file.more.last() {
            name = format!("{} runs, {name} to {}", file.more.len() + 1, clean(last)).into();
        }
        let text = if command.is_empty() { name.into_owned() } else { format!("{name}, {command}") };
        let room = page.width.saturating_sub(columns(title));
        push_titled(&mut out, title, BOLD, &[cut(&text, room), headline(file.quality)]);
    }
    for caveat in &view.diff.caveats {
        out.push_str(&remark_lines(&caveat.remark(), page.width));
    }
    let worth = view.worth();
    for line in wrap(&worth, page.width) {
        push_line(&mut out, &styled(DIM, line));
    }
    out.push('\n');
    out
}

fn totals(diff: &Diff, page: Page) -> String {
    let notable = |total: &&Total| {
        let change = &total.change;
        total.what == diff.metric || total.what == "definitely-lost" || change.before.max(change.after) > 0
    };
    let shown = diff.totals.iter().filter(notable).collect::<Vec<_>>();
    let what = |total: &Total| total_name(&total.what);
    let what_width = shown.iter().map(|total| columns(&what(total))).max().unwrap_or(0);
    let sampled = shown.iter().any(|total| total.change.margin.is_some());
    let cells = |relatives: bool| {
        let [error, last] = match diff.runs {
            1 => [if sampled { "±" } else { "" }, ""],
            _ => ["ratio", INTERVAL],
        };
        let header = ["before", "after", "change", error, last].map(str::to_owned);
        let rows = shown.iter().map(|total| {
            let [before, after, change] = numbers(&total.change, total.unit, [true, true]);
            if diff.runs > 1 {
                let [ratio, interval] = ratio_cells(&total.change);
                return [before, after, change, ratio, if relatives { interval } else { String::new() }];
            }
            let relative = if relatives { relative(&total.change) } else { String::new() };
            [before, after, change, margin(&total.change, total.unit), relative]
        });
        aligned(std::iter::once(header).chain(rows).collect())
    };
    let mut lines = cells(true);
    let verdict_width = if sampled && diff.runs > 1 { VERDICT } else { 0 };
    // A narrow page leaves out the relative change.
    if lines.iter().any(|line| what_width + columns(line) + verdict_width > page.width) {
        lines = cells(false);
    }
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(total) = at.checked_sub(1).map(|at| shown[at]) else {
            push_line(&mut out, &styled(BOLD, format!("{}{line}", left("", what_width)).trim_end()));
            continue;
        };
        let words = left(&what(total), what_width);
        let words = if total.what == diff.metric { styled(BOLD, words) } else { words };
        let change = &total.change;
        let verdict = if change.margin.is_some() && diff.runs > 1 {
            format!("  {}", verdict(change.proven()))
        } else {
            String::new()
        };
        push_line(&mut out, &format!("{words}{line}{verdict}"));
    }
    out
}

fn rows(view: &DiffView<'_>, page: Page) -> String {
    let diff = view.diff;
    let metric = clean(&diff.metric);
    if diff.sites {
        let rows = diff.rows.iter().map(|row| (row, row.own)).collect::<Vec<_>>();
        return table(view, &format!("lines by {metric}"), &rows, (ROWS, UNDECIDED_ROWS), page);
    }
    let own = diff.rows.iter().map(|row| (row, row.own)).collect::<Vec<_>>();
    let total = diff.by_total().into_iter().filter_map(|row| Some((row, row.total?)));
    let total = total.filter(|(row, _)| !passes_on(view, row)).collect::<Vec<_>>();
    let mut out = table(view, &format!("functions by self {metric}"), &own, (ROWS, UNDECIDED_ROWS), page);
    let title = format!("functions by total {metric}");
    out.push_str(&table(view, &title, &total, (FEWER_ROWS, 0), page));
    out
}

/// Whether a function only calls others and is not the user's: startup code, and glue between the user's
/// functions.
fn passes_on(view: &DiffView<'_>, row: &DiffRow) -> bool {
    let (profile, name, place) = found(view, row);
    let kind = place.map_or(CodeKind::Unknown, |place| CallTree::kind(profile, place.label));
    let users = matches!(kind, CodeKind::Yours | CodeKind::Dependency);
    is_start_up(&name) || (!users && row.own.before == 0 && row.own.after == 0)
}

/// Renders the rows that changed most: decided ones, then a few undecided ones.
fn table(
    view: &DiffView<'_>,
    title: &str,
    rows: &[(&DiffRow, Change)],
    (usual, undecided): (usize, usize),
    page: Page,
) -> String {
    let changed = rows.iter().filter(|(_, change)| change.difference() != 0).collect::<Vec<_>>();
    let claims = changed.iter().filter(|(_, change)| change.verdict.is_claim()).count();
    let shown = match view.limit {
        Some(limit) => (0..limit.min(changed.len())).collect::<Vec<_>>(),
        // Decided rows come first. However many there are, a few undecided ones follow.
        None => (0..claims.min(usual)).chain((claims..changed.len()).take(undecided)).collect(),
    };
    // Sampled rows with equal values are as undecided as the rest.
    let is_same = |change: &Change| view.diff.counted && change.verdict != Verdict::Undecided;
    let same = rows.iter().filter(|(_, change)| !change.verdict.is_claim() && is_same(change)).count();
    let [far, near] = words_of_change(view.diff);
    let mut notes = [(claims, far), (rows.len() - claims - same, near), (same, "unchanged")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{} {words}", Count(count as u64)))
        .collect::<Vec<_>>()
        .join(", ");
    if notes.is_empty() {
        notes.push_str("none");
    }
    let mut out = String::from("\n");
    push_line(&mut out, &format!("{} {notes}", styled(BOLD, format!("{title}:"))));
    out.push_str(&lines(view, &shown.iter().map(|&at| *changed[at]).collect::<Vec<_>>(), page));
    let more = claims - shown.iter().filter(|at| **at < claims).count();
    if more > 0 {
        push_line(&mut out, &styled(DIM, format!("and {} more {far}: -n 0 shows all", Count(more as u64))));
    }
    out
}

/// Whether only the sampling error is known.
fn is_one_run(diff: &Diff) -> bool {
    diff.runs == 1 && !diff.counted
}

/// Words for rows beyond noise, and for the others.
fn words_of_change(diff: &Diff) -> [&'static str; 2] {
    if is_one_run(diff) { ["beyond the sampling error", "within it"] } else { ["changed", "undecided"] }
}

fn lines(view: &DiffView<'_>, rows: &[(&DiffRow, Change)], page: Page) -> String {
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    let sampled = rows.iter().any(|(_, change)| change.margin.is_some());
    let cells = rows.iter().map(|(row, change)| (*change, [row.before.is_some(), row.after.is_some()]));
    let numbers = number_lines(view.diff, &cells.collect::<Vec<_>>(), sampled);
    let judges = sampled && view.diff.runs > 1;
    let verdict_width = if judges { VERDICT } else { 0 };
    let used = numbers.first().map_or(0, |line| columns(line)) + verdict_width + 2;
    let rest = page.width.saturating_sub(used);
    let place_width = if page.width >= 70 { (rest * 2 / 5).min(40) } else { 0 };
    let places = rows.iter().map(|(row, _)| place_words(view, row, place_width)).collect::<Vec<_>>();
    let widest = places.iter().map(|place| columns(place)).max().unwrap_or(0);
    let name_width = rest.saturating_sub(if widest > 0 { widest + 2 } else { 0 });
    let names = rows.iter().map(|(row, _)| page.fit(&found(view, row).1, name_width)).collect::<Vec<_>>();
    let widest_name = names.iter().map(|name| columns(name)).max().unwrap_or(0);
    let name_column = widest_name.clamp(8, name_width.max(8));
    let places_header = if widest > 0 { "where" } else { "" };
    let header = format!(
        "{}{}  {}  {places_header}",
        numbers[0],
        left("", verdict_width),
        left("function", name_column)
    );
    push_line(&mut out, &styled(BOLD, header.trim_end()));
    for ((((row, change), numbers), name), place) in rows.iter().zip(&numbers[1..]).zip(&names).zip(&places) {
        let word = change.proven().label();
        let padding = " ".repeat(verdict_width.saturating_sub(columns(word) + 2));
        let judged = if judges { format!("  {}{padding}", verdict(change.proven())) } else { String::new() };
        let (profile, _, found) = found(view, row);
        let style = found.map_or(DIM, |found| kind_style(CallTree::kind(profile, found.label)));
        let mut line = format!("{numbers}{judged}  {}", styled(style, name));
        if !place.is_empty() {
            let padding = " ".repeat(name_column.saturating_sub(columns(name)));
            line.push_str(&format!("{padding}  {}", styled(DIM, place)));
        }
        push_line(&mut out, &line);
    }
    out
}

/// The numbers of changes in columns, under a heading. Each change has flags for the sides that have it.
fn number_lines(diff: &Diff, rows: &[(Change, [bool; 2])], sampled: bool) -> Vec<String> {
    let several = diff.runs > 1;
    let [error, interval] = match several {
        true => ["ratio", INTERVAL],
        false => [if sampled { "±" } else { "" }, ""],
    };
    let header = ["before", "after", "change", error, interval].map(str::to_owned);
    let cells = rows.iter().map(|(change, there)| {
        let [before, after, difference] = numbers(change, diff.unit, *there);
        let [error, interval] = match there {
            [true, true] if several => ratio_cells(change),
            [false, _] if several => ["new".to_owned(), String::new()],
            [_, false] if several => ["removed".to_owned(), String::new()],
            _ => [if sampled { margin(change, diff.unit) } else { share(*there, change) }, String::new()],
        };
        [before, after, difference, error, interval]
    });
    aligned(std::iter::once(header).chain(cells).collect())
}

/// Renders changes with one text each as a separate table.
fn texts(view: &DiffView<'_>, heading: &str, rows: &[(Change, String)], page: Page) -> String {
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    let sampled = rows.iter().any(|(change, _)| change.margin.is_some());
    let changes = rows.iter().map(|(change, _)| (*change, [change.before > 0, change.after > 0]));
    let numbers = number_lines(view.diff, &changes.collect::<Vec<_>>(), sampled);
    let judges = sampled && view.diff.runs > 1;
    let verdict_width = if judges { VERDICT } else { 0 };
    let header = format!("{}{}  {heading}", numbers[0], left("", verdict_width));
    push_line(&mut out, &styled(BOLD, header.trim_end()));
    for ((change, text), numbers) in rows.iter().zip(&numbers[1..]) {
        let word = change.proven().label();
        let padding = " ".repeat(verdict_width.saturating_sub(columns(word) + 2));
        let judged = if judges { format!("  {}{padding}", verdict(change.proven())) } else { String::new() };
        let room = page.width.saturating_sub(columns(numbers) + verdict_width + 2);
        push_line(&mut out, &format!("{numbers}{judged}  {}", ending(text, room)));
    }
    out
}

/// The end of a text, cut to fit.
fn ending(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let mut rest = text;
    while columns(rest) + 1 > room {
        let mut letters = rest.chars();
        letters.next();
        rest = letters.as_str();
    }
    format!("…{rest}")
}

/// Renders the paths whose ends changed.
fn path_table(view: &DiffView<'_>, paths: &Paths, page: Page) -> String {
    let nodes = paths.by_own();
    let claims = nodes.iter().filter(|node| paths.own[**node as usize].verdict.is_claim()).count();
    let shown = view.limit.unwrap_or(if claims > 0 { claims.min(ROWS) } else { UNDECIDED_ROWS });
    let row = |node: &u32| {
        let names = paths.names(*node).into_iter().filter(|name| !is_start_up(name));
        let short = names.map(|name| crate::names::short_name(&clean(&name))).collect::<Vec<_>>();
        (paths.own[*node as usize], short.join(" > "))
    };
    let rows = nodes.iter().take(shown).map(row).collect::<Vec<_>>();
    let mut out = String::from("\n");
    let title = format!("call paths by self {}:", clean(&view.diff.metric));
    let words = match claims {
        0 if is_one_run(view.diff) => "none beyond the sampling error".to_owned(),
        0 => "no decided change".to_owned(),
        claims => format!("{} {}", Count(claims as u64), words_of_change(view.diff)[0]),
    };
    push_line(&mut out, &format!("{} {words}", styled(BOLD, title)));
    out.push_str(&texts(view, "path", &rows, page));
    out
}

/// Renders a function between its callers and callees.
fn neighbours(view: &DiffView<'_>, focus: &Focus, page: Page) -> String {
    let mut out = String::from("\n");
    let itself = [(focus.own, "self".to_owned()), (focus.total, "total".to_owned())];
    push_line(&mut out, &styled(BOLD, "function in focus:"));
    out.push_str(&texts(view, "", &itself, page));
    for (title, heading, rows) in
        [("called by:", "caller", &focus.callers), ("calls:", "callee", &focus.callees)]
    {
        let row = |(label, change): &(Label, Change)| {
            (*change, page.fit(&label_name(&focus.profile, *label), page.width / 2))
        };
        let rows = rows.iter().take(view.limit.unwrap_or(FEWER_ROWS)).map(row).collect::<Vec<_>>();
        if !rows.is_empty() {
            push_line(&mut out, &styled(BOLD, title));
            out.push_str(&texts(view, heading, &rows, page));
        }
    }
    out
}

/// Renders the functions that became part of another function, one line each.
fn moves(view: &DiffView<'_>, page: Page) -> String {
    let mut out = String::new();
    for one in &view.diff.moves {
        let name = |[before, after]: [Option<Place>; 2]| match (after, before) {
            (Some(place), _) => label_name(view.after.profile, place.label),
            (None, Some(place)) => label_name(view.before.profile, place.label),
            (None, None) => String::new(),
        };
        let callees =
            one.callees.iter().map(|callee| page.fit(&name(*callee), page.width / 3)).collect::<Vec<_>>();
        let [is, was] =
            if one.swallowed { ["is now part of", "gained"] } else { ["is no longer part of", "lost"] };
        let difference = u64::try_from(one.difference.unsigned_abs()).unwrap_or(u64::MAX);
        let words = format!(
            "{} ({}) {is} {}, which {was} {} self; its total is unchanged",
            callees.join(", "),
            value(one.value, view.diff.unit),
            page.fit(&name(one.caller), page.width / 3),
            value(difference, view.diff.unit),
        );
        if out.is_empty() {
            out.push('\n');
        }
        push_titled(&mut out, "moved: ", BOLD, &wrap(&words, page.width.saturating_sub(7)));
    }
    out
}

/// Right-aligns cells in columns as wide as needed, two spaces apart; empty columns take no room.
fn aligned<const N: usize>(cells: Vec<[String; N]>) -> Vec<String> {
    let mut widths = [0; N];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(if cell.is_empty() { 0 } else { columns(cell) + 2 });
        }
    }
    let line = |row: [String; N]| row.iter().zip(widths).map(|(cell, width)| right(cell, width)).collect();
    cells.into_iter().map(line).collect()
}

/// Renders the functions that only one side has, in a sentence.
fn only(view: &DiffView<'_>, which: Which, page: Page) -> String {
    let functions = view.diff.only(which);
    let decided = functions.iter().filter(|only| only.decided).count();
    if decided == 0 {
        return String::new();
    }
    let profile = match which {
        Which::Before => view.before.profile,
        Which::After => view.after.profile,
    };
    let shown = decided.min(view.limit.unwrap_or(FEWER_ROWS));
    let mut pieces = functions[..shown]
        .iter()
        .map(|only| {
            let name = page.fit(&label_name(profile, only.place.label), page.width / 2);
            format!("{name} {}", value(only.value, view.diff.unit))
        })
        .collect::<Vec<_>>();
    let more = functions.len() - shown;
    if more > 0 {
        let words = if decided > shown || view.diff.counted { "more" } else { "with too few samples" };
        pieces.push(format!("{} {words}", Count(more as u64)));
    }
    let last = pieces.len() - 1;
    let pieces = pieces.into_iter().enumerate().map(|(at, piece)| {
        let piece = if at < last { format!("{piece},") } else { piece };
        let width = columns(&piece);
        (piece, width)
    });
    let title = format!("only {which}: ");
    let mut out = String::new();
    push_titled(&mut out, &title, BOLD, &flow(pieces, " ", page.width.saturating_sub(columns(&title))));
    out
}

/// The profile of a row, and the row's name and place in it. A row in both profiles uses `after`.
pub(super) fn found<'a>(view: &DiffView<'a>, row: &DiffRow) -> (&'a Profile, String, Option<Place>) {
    let (profile, place) = match (row.after, row.before) {
        (Some(place), _) => (view.after.profile, Some(place)),
        (None, place) => (view.before.profile, place),
    };
    (profile, place.map_or(String::new(), |place| label_name(profile, place.label)), place)
}

fn place_words(view: &DiffView<'_>, row: &DiffRow, width: usize) -> String {
    let (profile, _, found) = found(view, row);
    let known = found.and_then(|found| Some((found.file?, found.line)));
    known.map_or(String::new(), |(file, line)| place(&clean(profile.text(file)), line, width))
}

/// Before, after and the difference; a dash for a side without a value.
pub(super) fn numbers(change: &Change, unit: Unit, there: [bool; 2]) -> [String; 3] {
    let number = |number: u64, there: bool| if there { value(number, unit) } else { "-".to_owned() };
    let difference = change.difference();
    let size = u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX);
    let difference = match difference {
        0 => "0".to_owned(),
        1.. => format!("+{}", value(size, unit)),
        _ => format!("-{}", value(size, unit)),
    };
    [number(change.before, there[0]), number(change.after, there[1]), difference]
}

fn margin(change: &Change, unit: Unit) -> String {
    change.margin.map_or(String::new(), |margin| value(margin.ceil() as u64, unit))
}

/// The ratio of after to before with its interval; empty if there are too few samples.
pub(super) fn ratio_cells(change: &Change) -> [String; 2] {
    let number = |ratio: f64| match ratio {
        ratio if ratio < 9.995 => format!("{ratio:.2}"),
        ratio if ratio < 1000.0 => format!("{ratio:.1}"),
        _ => ">1000".to_owned(),
    };
    change.ratio.map_or_else(Default::default, |ratio| {
        let interval = format!("{}..{}", number(ratio.low), number(ratio.high));
        [
            format!("×{}", number(ratio.estimate)),
            if ratio.low < ratio.high { interval } else { String::new() },
        ]
    })
}

/// `-94.9 %` or `×12.3`; empty without a change or without a value before.
pub(super) fn relative(change: &Change) -> String {
    match change.relative() {
        Some(share) if share != 0.0 => {
            let sign = if share < 0.0 { '-' } else { '+' };
            if share >= 9.0 {
                format!("×{:.1}", share + 1.0)
            } else {
                format!("{sign}{}", Percent(share.abs()))
            }
        }
        _ => String::new(),
    }
}

fn share(there: [bool; 2], change: &Change) -> String {
    match there {
        [false, _] => "new".to_owned(),
        [_, false] => "removed".to_owned(),
        _ => relative(change),
    }
}

fn verdict(verdict: Verdict) -> String {
    let style = match verdict {
        Verdict::More => AnsiColor::Red.on_default(),
        Verdict::Less => AnsiColor::Green.on_default(),
        Verdict::Same => Style::new(),
        Verdict::Undecided | Verdict::Moved => DIM,
    };
    styled(style, verdict.label())
}

#[cfg(test)]
mod tests;
