//! A comparison of two profiles as text.

use anstyle::{AnsiColor, Style};
use whyslow_analyze::diff::{Change, Diff, DiffRow, Focus, Paths, Place, Total, Verdict, Which};
use whyslow_analyze::{CallTree, Label, Quality, is_start_up};
use whyslow_profile::{CodeKind, Profile, Unit};
use whyslow_words::{Fact, Percent};

use super::cells::{self, NAME};
use super::layout::{
    BOLD, DIM, Page, columns, cut, flow, kind_style, label_name, push_line, push_titled, styled, wrap,
};
use super::quality::headline;
use super::remark::remark_lines;
use super::summary::command_line;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::{Count, value};

/// Default number of rows in the main table, and in the other tables.
const ROWS: usize = 10;
const FEWER_ROWS: usize = 5;
/// Number of undecided rows shown by default: the largest, for which more samples help most.
const UNDECIDED_ROWS: usize = 3;

/// The heading of intervals.
const INTERVAL: &str = "95 %";

/// The widest verdict.
const VERDICT: usize = 9;

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
    let sampled = shown.iter().any(|total| total.change.margin.is_some());
    let judges = sampled && diff.runs > 1;
    let [error, last] = match diff.runs {
        1 => [if sampled { "±" } else { "" }, ""],
        _ => ["ratio", INTERVAL],
    };
    let mut columns = vec![Column::words("what", "").gap(0)];
    columns.extend(["before", "after", "change"].map(|title| Column::number(title, title)));
    columns.push(Column::number("error", error));
    // A narrow page leaves out the relative change.
    columns.push(Column::number("relative", last).spare(1));
    columns.extend(judges.then(|| Column::words("verdict", "")));
    let mut table = Table::new(columns);
    for total in shown {
        let change = &total.change;
        let what = Cell::text(total_name(&total.what));
        let mut cells = vec![if total.what == diff.metric { what.style(BOLD) } else { what }];
        cells.extend(number_cells(change, total.unit, [true, true]));
        cells.extend(match diff.runs {
            1 => [margin(change, total.unit), relative(change)].map(Cell::text),
            _ => ratio_cells(change).map(Cell::text),
        });
        cells.extend(judges.then(|| match change.margin {
            Some(_) => verdict(change.proven()),
            None => Cell::nothing(),
        }));
        table.push(cells);
    }
    table.text(page.width)
}

fn rows(view: &DiffView<'_>, page: Page) -> String {
    let diff = view.diff;
    let simulated = if diff.simulated { "simulated " } else { "" };
    let metric = format!("{simulated}{}", clean(&diff.metric));
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
    if rows.is_empty() {
        return String::new();
    }
    let numbers = Numbers::of(view.diff, rows.iter().map(|(_, change)| change));
    let mut columns = numbers.columns();
    columns.push(Column::rest("function", "function", NAME));
    columns.push(Column::place("file", "line", "where").from(20));
    let mut table = Table::new(columns).full_names(page.full_names);
    for (row, change) in rows {
        let (profile, name, place) = found(view, row);
        let style = place.map_or(DIM, |place| kind_style(CallTree::kind(profile, place.label)));
        let mut cells = numbers.cells(change, [row.before.is_some(), row.after.is_some()]);
        cells.push(Cell::name(name).style(style));
        let known = place.and_then(|place| Some((place.file?, place.line)));
        let place = known.map_or_else(Cell::nothing, |(file, line)| cells::place(profile, Some(file), line));
        cells.push(place.style(DIM));
        table.push(cells);
    }
    table.text(page.width)
}

/// The numbers of changes in columns: before, after, difference, and how sure it is.
struct Numbers<'a> {
    diff: &'a Diff,
    /// Whether some change is sampled.
    sampled: bool,
}

impl<'a> Numbers<'a> {
    fn of<'b>(diff: &'a Diff, mut changes: impl Iterator<Item = &'b Change>) -> Self {
        Self { diff, sampled: changes.any(|change| change.margin.is_some()) }
    }

    /// Whether each row has a verdict.
    fn judges(&self) -> bool {
        self.sampled && self.diff.runs > 1
    }

    fn columns(&self) -> Vec<Column> {
        let [error, interval] = match self.diff.runs {
            1 => [if self.sampled { "±" } else { "" }, ""],
            _ => ["ratio", INTERVAL],
        };
        let titles = [("before", "before"), ("after", "after"), ("change", "change"), ("error", error)];
        let titles = titles.into_iter().chain([("interval", interval)]);
        let columns = titles.map(|(id, title)| Column::number(id, title));
        columns.chain(self.judges().then(|| Column::words("verdict", "").least(VERDICT))).collect()
    }

    /// The cells of a change, with flags for the sides that have it.
    fn cells(&self, change: &Change, there: [bool; 2]) -> Vec<Cell> {
        let Diff { unit, runs, .. } = *self.diff;
        let [error, interval] = match there {
            [true, true] if runs > 1 => ratio_cells(change),
            [false, _] if runs > 1 => ["new".to_owned(), String::new()],
            [_, false] if runs > 1 => ["removed".to_owned(), String::new()],
            _ => [if self.sampled { margin(change, unit) } else { share(there, change) }, String::new()],
        };
        let mut cells = number_cells(change, unit, there).to_vec();
        cells.extend([error, interval].map(Cell::text));
        cells.extend(self.judges().then(|| verdict(change.proven())));
        cells
    }
}

/// Renders changes with one text each as a separate table.
fn texts(view: &DiffView<'_>, heading: &str, rows: Vec<(Change, Cell)>, page: Page) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let numbers = Numbers::of(view.diff, rows.iter().map(|(change, _)| change));
    let mut columns = numbers.columns();
    columns.push(Column::rest("text", heading, NAME));
    let mut table = Table::new(columns).full_names(page.full_names);
    for (change, text) in rows {
        let mut cells = numbers.cells(&change, [change.before > 0, change.after > 0]);
        cells.push(text);
        table.push(cells);
    }
    table.text(page.width)
}

/// Renders the paths whose ends changed.
fn path_table(view: &DiffView<'_>, paths: &Paths, page: Page) -> String {
    let nodes = paths.by_own();
    let claims = nodes.iter().filter(|node| paths.own[**node as usize].verdict.is_claim()).count();
    let shown = view.limit.unwrap_or(if claims > 0 { claims.min(ROWS) } else { UNDECIDED_ROWS });
    let row = |node: &u32| {
        let names = paths.names(*node).into_iter().filter(|name| !is_start_up(name));
        let short = names.map(|name| crate::names::short_name(&clean(&name))).collect::<Vec<_>>();
        (paths.own[*node as usize], Cell::path(short.join(" > ")))
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
    out.push_str(&texts(view, "path", rows, page));
    out
}

/// Renders a function between its callers and callees.
fn neighbours(view: &DiffView<'_>, focus: &Focus, page: Page) -> String {
    let mut out = String::from("\n");
    let itself = vec![(focus.own, Cell::text("self")), (focus.total, Cell::text("total"))];
    push_line(&mut out, &styled(BOLD, "function in focus:"));
    out.push_str(&texts(view, "", itself, page));
    for (title, heading, rows) in
        [("called by:", "caller", &focus.callers), ("calls:", "callee", &focus.callees)]
    {
        let row =
            |(label, change): &(Label, Change)| (*change, Cell::name(CallTree::name(&focus.profile, *label)));
        let rows = rows.iter().take(view.limit.unwrap_or(FEWER_ROWS)).map(row).collect::<Vec<_>>();
        if !rows.is_empty() {
            push_line(&mut out, &styled(BOLD, title));
            out.push_str(&texts(view, heading, rows, page));
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

/// Before, after and the difference, in cells.
pub(super) fn number_cells(change: &Change, unit: Unit, there: [bool; 2]) -> [Cell; 3] {
    let [before, after, difference] = numbers(change, unit, there);
    let side = |value: u64, text: String, there: bool| match there {
        true => Cell::amount(value, unit).shown(text),
        false => Cell::nothing().shown(text),
    };
    [
        side(change.before, before, there[0]),
        side(change.after, after, there[1]),
        Cell::number(change.difference() as f64, difference),
    ]
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

fn verdict(verdict: Verdict) -> Cell {
    let style = match verdict {
        Verdict::More => AnsiColor::Red.on_default(),
        Verdict::Less => AnsiColor::Green.on_default(),
        Verdict::Same => Style::new(),
        Verdict::Undecided | Verdict::Moved => DIM,
    };
    Cell::text(verdict.label()).style(style)
}

#[cfg(test)]
mod tests;
