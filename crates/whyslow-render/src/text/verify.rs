//! The result of `whyslow verify`: one paragraph and one table, for a terminal or as Markdown.

use whyslow_analyze::diff::{Change, DiffRow, Focus, Verdict, Verification};
use whyslow_profile::Unit;
use whyslow_words::Percent;

use super::cells::NAME;
use super::diff::{DiffView, found, number_cells, numbers, ratio_cells, relative, total_name};
use super::layout::{Page, label_name, push_line, wrap};
use super::remark::remark_lines;
use crate::names::short_name;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table, markdown_text};
use crate::units::{times, value};

/// Number of changed rows in the table.
const ROWS: usize = 5;

/// The contents of `whyslow verify`.
#[derive(Debug, Clone, Copy)]
pub struct VerifyView<'a> {
    /// The comparison.
    pub diff: DiffView<'a>,
    /// The conclusions about the change.
    pub verification: &'a Verification,
    /// The target functions of the change.
    pub aim: Option<&'a Focus>,
}

/// The name of the target functions: one name, and how many more there are.
pub(crate) fn aim_name(aim: &Focus) -> String {
    match &aim.names[..] {
        [name] => short_name(&clean(name)),
        [name, more @ ..] => format!("{} and {} more", short_name(&clean(name)), more.len()),
        [] => String::new(),
    }
}

/// Renders the paragraph and the table for a terminal.
pub fn verify(view: &VerifyView<'_>, page: Page) -> String {
    let mut out = String::new();
    for caveat in &view.diff.diff.caveats {
        out.push_str(&remark_lines(&whyslow_words::Fact::remark(caveat), page.width));
    }
    for line in wrap(&summary(view), page.width) {
        push_line(&mut out, &line);
    }
    out.push('\n');
    out + &table(view).text(page.width)
}

/// Renders them as Markdown.
pub fn verify_markdown(view: &VerifyView<'_>) -> String {
    let mut out = String::new();
    push_line(&mut out, &markdown_text(&summary(view)));
    for caveat in &view.diff.diff.caveats {
        out.push_str(&format!("\n> {}\n", markdown_text(&caveat.to_string())));
    }
    out.push('\n');
    out + &table(view).markdown()
}

/// The answer in one paragraph.
pub fn summary(view: &VerifyView<'_>) -> String {
    let VerifyView { verification, .. } = *view;
    let diff = view.diff.diff;
    let whole = &verification.whole;
    let is_time = whole.unit == Unit::Nanoseconds;
    let mut sentences = Vec::new();
    let word = match whole.change.proven() {
        Verdict::Less if is_time => "faster",
        Verdict::Less => "less",
        Verdict::More if is_time => "slower",
        Verdict::More => "more",
        Verdict::Same => "unchanged",
        Verdict::Undecided | Verdict::Moved => "undecided",
    };
    let name = total_name(&whole.what);
    sentences.push(format!("{word}: {name} {}.", change_words(&whole.change, whole.unit)));
    if diff.runs == 1 {
        sentences.push(match diff.counted {
            true => "A single run per side cannot show run-to-run noise.".to_owned(),
            false => "A single run per side cannot show run-to-run noise, so there is no verdict; \
                      `whyslow verify --runs 5 'BEFORE' 'AFTER'` gives one."
                .to_owned(),
        });
    }
    if let Some(focus) = view.aim {
        sentences.extend(aim_words(focus, diff.unit));
    } else if let Some(row) = verification.yours.better.first() {
        sentences.push(format!(
            "The largest saving is in {}: {}.",
            name_of(view, row),
            row_words(row, diff.unit)
        ));
    }
    sentences.extend(renamed_words(view));
    for one in &diff.moves {
        let name = |places: [Option<whyslow_analyze::diff::Place>; 2]| match places {
            [_, Some(place)] => short_name(&label_name(view.diff.after.profile, place.label)),
            [Some(place), None] => short_name(&label_name(view.diff.before.profile, place.label)),
            [None, None] => String::new(),
        };
        let callees = one.callees.iter().map(|callee| name(*callee)).collect::<Vec<_>>().join(", ");
        let is = if one.swallowed { "now part of" } else { "no longer part of" };
        sentences.push(format!(
            "{callees} ({}) {is} {}: moved, not changed.",
            value(one.value, diff.unit),
            name(one.caller)
        ));
    }
    let aimed = |row: &&DiffRow| !is_aim(view, row);
    let worse = verification.yours.worse.iter().filter(aimed).take(ROWS).collect::<Vec<_>>();
    sentences.extend(match &worse[..] {
        [] if diff.counted => Some("Nothing else increased.".to_owned()),
        [] if diff.runs == 1 => None,
        [] => Some("No other regression was found.".to_owned()),
        rows => {
            let words = rows.iter().map(|row| {
                let [.., difference] = numbers(row.yours(), diff.unit, [true; 2]);
                let new = if row.before.is_none() { "new, " } else { "" };
                format!("{} ({new}{difference})", name_of(view, row))
            });
            Some(format!("Worse elsewhere: {}.", words.collect::<Vec<_>>().join(", ")))
        }
    });
    if let Some(hot) = verification.yours.hottest.first() {
        let bound = match hot.at_most() {
            Some(factor) => {
                format!("without it, everything would be at most {} times as fast", times(factor))
            }
            None => "there is nothing else".to_owned(),
        };
        let bound = if is_time { bound } else { bound.replace("times as fast", "times smaller") };
        sentences.push(format!(
            "The hottest function is now {} with {}, {}: {bound}.",
            name_of(view, &hot.row),
            value(hot.row.yours().after, diff.unit),
            Percent(hot.share)
        ));
    }
    let text = sentences.join(" ");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Sentences about the target functions: whether they shrank, and where their time went.
fn aim_words(focus: &Focus, unit: Unit) -> Vec<String> {
    let did = match focus.total.proven() {
        Verdict::Less => "shrank",
        Verdict::More => "grew",
        Verdict::Same => "is unchanged",
        Verdict::Undecided => "is undecided",
        Verdict::Moved => "moved",
    };
    let mut sentences = vec![format!(
        "The target {} {did}: total {}, self {}.",
        aim_name(focus),
        change_words(&focus.total, unit),
        change_words(&focus.own, unit)
    )];
    let changed = focus.callees.iter().filter(|(_, change)| change.proven().is_claim()).take(3);
    let changed = changed.map(|(label, change)| {
        format!(
            "{} ({})",
            short_name(&label_name(&focus.profile, *label)),
            numbers(change, unit, [true; 2])[2]
        )
    });
    let changed = changed.collect::<Vec<_>>();
    if !changed.is_empty() {
        sentences.push(format!("Changed callees: {}.", changed.join(", ")));
    }
    sentences
}

/// Formats a change: `1.20 s → 900 ms, ×0.75 (95 %: 0.72..0.78)`.
fn change_words(change: &Change, unit: Unit) -> String {
    let [before, after, _] = numbers(change, unit, [true, true]);
    let words = format!("{before} → {after}");
    match (change.ratio, relative(change)) {
        (Some(_), _) if change.before > 0 => {
            let [ratio, interval] = ratio_cells(change);
            if interval.is_empty() {
                format!("{words}, {ratio}")
            } else {
                format!("{words}, {ratio} (95 %: {interval})")
            }
        }
        (_, relative) if !relative.is_empty() => format!("{words}, {relative}"),
        _ => words,
    }
}

/// Formats the change of a row: a function that only one side has is gone or new, not a ratio.
fn row_words(row: &DiffRow, unit: Unit) -> String {
    let change = row.yours();
    match (row.before, row.after) {
        (Some(_), None) => format!("gone, it had {}", value(change.before, unit)),
        (None, Some(_)) => format!("new, {}", value(change.after, unit)),
        _ => change_words(change, unit),
    }
}

/// A sentence about functions that have another name now, largest first.
fn renamed_words(view: &VerifyView<'_>) -> Option<String> {
    let mut renamed = view.diff.diff.rows.iter().filter_map(|row| {
        let [old, new] = [(view.diff.before.profile, row.before?), (view.diff.after.profile, row.after?)]
            .map(|(profile, place)| short_name(&label_name(profile, place.label)));
        let value = row.yours().before.max(row.yours().after);
        (value > 0 && is_renamed(&old, &new)).then(|| (value, format!("{old} is now {new}")))
    });
    let mut renamed = renamed.by_ref().collect::<Vec<_>>();
    renamed.sort_by_key(|(value, _)| std::cmp::Reverse(*value));
    let words = renamed.into_iter().take(3).map(|(_, words)| words).collect::<Vec<_>>();
    (!words.is_empty()).then(|| format!("Renamed: {}.", words.join(", ")))
}

/// Whether the last part of a name changed; another crate alone is no other name.
fn is_renamed(old: &str, new: &str) -> bool {
    let last = |name: &str| name.rsplit("::").next().map(str::to_owned);
    last(old) != last(new)
}

fn name_of(view: &VerifyView<'_>, row: &DiffRow) -> String {
    short_name(&found(&view.diff, row).1)
}

fn is_aim(view: &VerifyView<'_>, row: &DiffRow) -> bool {
    view.aim.is_some_and(|aim| aim.names.contains(&found(&view.diff, row).1))
}

/// A smaller share is not hot.
const HOT: f64 = 0.01;

/// The totals, the target, and the functions that changed.
fn table(view: &VerifyView<'_>) -> Table {
    let VerifyView { verification, .. } = *view;
    let diff = view.diff.diff;
    let error = if diff.runs > 1 { "95 %" } else { "±" };
    let mut columns = vec![Column::rest("what", "", NAME).gap(0)];
    columns.extend(["before", "after", "change", "ratio"].map(|title| Column::number(title, title)));
    columns.extend([Column::number("error", error), Column::number("verdict", "verdict")]);
    let mut table = Table::new(columns);
    let mut push = |name: String, change: &Change, unit: Unit, there: [bool; 2]| {
        let [ratio, interval] = match (there, diff.runs) {
            // A few samples of a function that may also have run on the other side.
            ([_, false] | [false, _], _) if !change.verdict.is_claim() => Default::default(),
            ([_, false], _) => ["gone".to_owned(), String::new()],
            ([false, _], _) => ["new".to_owned(), String::new()],
            (_, 1) => {
                let ratio = (change.before > 0).then(|| change.after as f64 / change.before as f64);
                let margin = change.margin.map(|margin| value(margin.ceil() as u64, unit));
                [ratio.map_or_else(String::new, |ratio| format!("×{ratio:.2}")), margin.unwrap_or_default()]
            }
            _ => ratio_cells(change),
        };
        let mut cells = vec![Cell::text(name)];
        cells.extend(number_cells(change, unit, there));
        cells.extend([ratio, interval, change.proven().label().to_owned()].map(Cell::text));
        table.push(cells);
    };
    for total in diff.totals.iter().filter(|total| total.what == diff.metric || total.what == "wall-time") {
        push(total_name(&total.what), &total.change, total.unit, [true; 2]);
    }
    if let Some(focus) = view.aim {
        push(format!("{}, total", aim_name(focus)), &focus.total, diff.unit, [true; 2]);
        push(format!("{}, self", aim_name(focus)), &focus.own, diff.unit, [true; 2]);
    }
    let mut named = Vec::new();
    let yours = &verification.yours;
    let hottest = yours.hottest.iter().filter(|hot| hot.share >= HOT).map(|hot| &hot.row);
    let mut changed = yours.better.iter().chain(&yours.worse).collect::<Vec<_>>();
    changed.sort_by_key(|row| std::cmp::Reverse(row.yours().difference().unsigned_abs()));
    for row in changed.into_iter().take(ROWS).chain(hottest) {
        let name = name_of(view, row);
        if !is_aim(view, row) && !named.contains(&name) {
            push(name.clone(), row.yours(), diff.unit, [row.before.is_some(), row.after.is_some()]);
            named.push(name);
        }
    }
    table
}
